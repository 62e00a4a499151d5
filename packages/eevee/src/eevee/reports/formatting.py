"""Results in words, for a terminal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from eevee.tables.holdout import ORDERED, WHOM
from wary_files.text import number_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from eevee.answers.leaderboard import Ranking
    from eevee.answers.pareto_front import ParetoFront
    from eevee.answers.predicting import Prediction
    from eevee.answers.scorer_choice import Choice
    from eevee.answers.scoring import Judged, Rival, Score
    from eevee.answers.selecting import Selection
    from eevee.items.subset import ItemChoice
    from eevee.tables.checking import Check


NOTHING_OUTSIDE = "nothing: the subset holds every metric that counts"
"""What is printed in place of an error of cells outside a subset."""
QUESTIONS = {"tasks": "other tasks like these", "items": "other test items of these tasks"}


def check_words(findings: Check) -> str:
    """A table's findings."""
    lines = [
        (
            f"{findings.table}: {findings.models} models in {number_of(findings.groups, 'group')}, "
            f"{number_of(findings.benchmarks, 'benchmark')}, "
            f"{number_of(findings.metrics, 'metric')}, {findings.missing:.1%} of the cells missing"
        ),
        f"one principal component explains {findings.first_component:.0%} of the variance",
        _listed("constant metrics (neither predicted nor counted)", findings.constant),
        _listed("of these all zero", findings.all_zero),
        _listed("metrics with fewer than 5 models", findings.unmeasured),
        _listed("models with equal rows", [f"{a} = {b}" for a, b in findings.duplicates]),
        _listed("near-twins", [f"{a} ~ {b} ({d:.2f} sd)" for a, b, d in findings.near_duplicates]),
        _listed("outliers", [f"{m} on {x}: {v:g} ({d:+.0f} sd)" for m, x, v, d in findings.outliers]),
        _listed(
            "in 0 to 1 where the others are in per cent (shares? then times 100)",
            [_on(model, metrics) for model, metrics in findings.shares],
        ),
        _listed(
            "in per cent where the others are in 0 to 1 (shares? then divided by 100)",
            [_on(model, metrics) for model, metrics in findings.percents],
        ),
        _listed(
            "no results, and counted as such (--drop leaves them out)",
            [f"{metric} ({what})" for metric, what in findings.derived],
        ),
        _listed("benchmarks without a cost", findings.without_cost),
        findings.families,
        *(_folds(holdout, folds) for holdout, folds in findings.holdouts.items()),
    ]
    return "\n".join(line for line in lines if line)


def _on(model: str, metrics: Sequence[str]) -> str:
    return f"{model} on {', '.join(metrics[:5])}{' …' * (len(metrics) > 5)}"


def selection_words(chosen: Selection) -> str:
    """A selection, with its rank, its rival and its held-out error."""
    given_ids = chosen.constraints.given
    members = [
        f"  {key:<24} +{rise:.4f} without it{' (given)' if key in given_ids else ''}"
        for key, rise in chosen.importance.items()
    ]
    lines = [
        f"{len(chosen.benchmarks)} of the benchmarks of {chosen.table}, by {chosen.method} with {chosen.scorer}:",
        *members,
        *_headline(chosen),
        _error(chosen),
        _rival(chosen.rival),
        f"searched  {chosen.asked} candidates, {chosen.scored} of them different, in {chosen.seconds:.1f} s",
    ]
    if chosen.cost is not None:
        lines.append(f"cost      {chosen.cost:g}")
    if chosen.nested is not None:
        nested = chosen.nested
        lines += [
            (
                f"all cells {nested.outer:.4f} on those models; inside the folds the search reported "
                f"{nested.inner:.4f}: optimistic by {nested.optimism:.0%}"
            ),
            "chosen in "
            + ", ".join(f"{key} {share:.0%}" for key, share in list(nested.chosen.items())[:12])
            + " of the folds",
        ]
    if chosen.curve:
        points = ", ".join(f"{p.models} models {p.inner:.3f} -> {p.outer:.3f}" for p in chosen.curve)
        lines.append(f"learning  (reported -> held out) {points}")
    lines += [f"warning   {line}" for line in chosen.warnings]
    lines.append("rank models by predictions, not by the subset's mean (eevee predict)")
    return "\n".join(lines)


def choice_words(choice: Choice | None) -> list[str]:
    """What leave-one-out chose, and by how much."""
    if choice is None:
        return []
    compared = ", ".join(f"{name} {error:.4f}" for name, error in choice.errors.items() if name != choice.chosen)
    return [f"scorer    {choice.chosen}, by leave-one-out: {choice.errors[choice.chosen]:.4f} ({compared or 'alone'})"]


def _headline(chosen: Selection) -> list[str]:
    lines = choice_words(chosen.choice)
    nested = chosen.nested
    if nested is None or math.isnan(nested.unmeasured):
        return [*lines, _outside(chosen, "by leave-one-out, on the cells outside the subset")]
    whom = WHOM[nested.holdout]
    worst = nested.per_model[nested.worst][0]
    verdict = "" if nested.better_than_random else ": no better than random"
    return [
        *lines,
        (
            f"held out  {nested.unmeasured:.4f} on the cells outside the subset, of {whom} that the search never saw "
            f"({nested.folds} folds, {nested.method}); median {nested.median:.4f}, worst {worst:.4f} ({nested.worst})"
        ),
        (
            f"          random subsets there: {nested.unmeasured_random:.4f}; the chosen one is better on "
            f"{nested.wins} of {nested.models} models{verdict}"
        ),
        (
            f"          how unlike a model is tells the quarter with the largest errors with an AUC of "
            f"{nested.warning_auc:.2f}"
        ),
    ]


def _outside(judged: Judged, how: str) -> str:
    """The error of the cells that a subset leaves out, if there are any."""
    if math.isnan(judged.unmeasured):
        return f"outside   {NOTHING_OUTSIDE}"
    return f"outside   {judged.unmeasured:.4f} ± {judged.unmeasured_stderr:.4f} {how}"


def score_words(judged: Score) -> str:
    """A given subset's score."""
    left_out = "leave-one-out" if judged.holdout == "model" else "leaving families out"
    return "\n".join(
        [
            f"{len(judged.benchmarks)} of the benchmarks of {judged.table}, with {judged.scorer}:",
            *(f"  {key:<24} {rise:+.4f} without it" for key, rise in judged.importance.items()),
            *choice_words(judged.choice),
            _outside(judged, f"by {left_out}, on unmeasured cells"),
            _error(judged),
            _rival(judged.rival),
            (
                f"ranking   Kendall {judged.prediction_agreement:.2f} with all metrics by held-out prediction, "
                f"{judged.mean_agreement:.2f} by the subset's mean"
            ),
        ]
    )


def board_words(board: Ranking) -> str:
    """A ranking with its ties."""
    width = max(5, *(len(row.model) for row in board.places))
    heads = f"{'model':<{width}}  {'rank':>9}  {'score':>7}  {'Borda':>5}  {'mean rank':>9}  {'strength':>22}  tasks"
    holds = f"all intervals hold at once with probability {board.level:.0%}, on {QUESTIONS[board.question]}"
    lines = [f"{board.name}: {board.decided} of {board.pairs} pairs are decided; {holds}", heads]
    for row in board.places:
        ranks = str(row.first) if row.first == row.last else f"{row.first} to {row.last}"
        strength = f"{row.strength:+.2f} ({row.strength_low:+.2f} to {row.strength_high:+.2f})"
        lines.append(
            f"{row.model:<{width}}  {ranks:>9}  {row.score:>7.3f}  {row.borda:>5.2f}  {row.mean_rank:>9.1f}  "
            f"{strength:>22}  {row.tasks:>5}"
        )
    leaders = board.leaders
    lines.append(f"the best: {leaders[0]}" if len(leaders) == 1 else f"may be the best: {', '.join(leaders)}")
    orders = {
        "Borda": [row.borda for row in board.places],
        "mean rank": [-row.mean_rank for row in board.places],
        "strength": [row.strength for row in board.places],
    }
    other_leaders = [name for name, values in orders.items() if max(values) > values[0] + 1e-12]
    if other_leaders:
        lines.append(f"another one leads by {' and by '.join(other_leaders)}")
    if board.apart:
        lines.append(f"{number_of(board.apart, 'pair shares', 'pairs share')} too few tasks to be compared")
    lines += [f"warning: {line}" for line in board.notes]
    return "\n".join(lines)


def prediction_words(prediction: Prediction) -> str:
    """Predictions of new models."""
    lines = []
    for model, row in prediction.models.items():
        lines.append(f"{model}: rank {row.rank} of {len(prediction.ranking)}, overall {row.overall:+.2f} sd")
        if row.mean is not None:
            lines.append(f"  mean of all {row.mean.value:.4g}  {row.mean.low:.4g} to {row.mean.high:.4g}")
        for metric, cell in row.cells.items():
            span = "given" if cell.given else f"{cell.low:.4g} to {cell.high:.4g}"
            lines.append(f"  {metric:<32} {cell.value:>9.4g}  {span}")
        if row.outside:
            lines.append(f"  warning: outside the range of the table's models: {', '.join(row.outside)}")
        if row.extrapolates:
            how = {
                "above": "what was measured is better than any model's of the table; the intervals are those of better "
                "models that were held out from worse ones, and still may be too narrow",
                "below": "what was measured is worse than any model's of the table; the intervals are those of worse "
                "models that were held out from better ones, and still may be too narrow",
            }
            unlike = f"{row.unlike:.0%} of the table's models are more like the others than this one"
            lines.append(f"  warning: the prediction extrapolates: {how.get(row.beyond, unlike)}")
        if row.missing:
            lines.append(f"  predicted without {', '.join(row.missing)}, which were not given")
    lines += choice_words(prediction.choice)
    whom = {
        "model": "a model like the table's",
        "family": "a model of a new family",
        "date": "a newer model",
        "frontier": "a better model than all of the table",
    }
    lines.append(f"intervals are meant to cover {prediction.level:.0%} of the cells of {whom[prediction.holdout]}")
    lines.append(
        f"the warning told the quarter of held-out models with the largest errors with an AUC of "
        f"{prediction.warning_auc:.2f}"
    )
    lines += prediction.notes
    lines.append("ranking: " + ", ".join(prediction.ranking))
    return "\n".join(lines)


def item_words(choice: ItemChoice) -> str:
    """The chosen items of each benchmark, with their error on held-out models."""
    lines = []
    for key, items in choice.benchmarks.items():
        compared = ", ".join(f"{name} {error:.3g}" for name, error in items.errors.items() if name != items.method)
        learnt = (
            f"{items.error:.3g} on held-out models ({items.models} in all; {compared}), {choice.level:.0%} interval ± "
            f"{items.half:.3g}"
        )
        if items.method == "adaptive":
            kind = f"a bank of {items.total} items for adaptive tests; with as many as the share says, error"
        else:
            share = f"{len(items.items)} of {items.total} items ({len(items.items) / items.total:.1%})"
            kind = f"{share}, by {items.method}; error"
        lines.append(f"{key}: {kind} {learnt}")
    return "\n".join(lines)


def front_words(front: ParetoFront, chosen: Mapping[str, Selection]) -> str:
    """A Pareto front, and tiers where budgets were given."""
    lines = [f"{front.unit:>10}  error            subset"]
    for point in front.points:
        lines.append(f"{point.cost:>10g}  {point.error:.4f} ± {point.stderr:.4f}  {', '.join(point.benchmarks)}")
    for name, tier in chosen.items():
        lines.append(
            f"tier {name}: cost {tier.cost:g} of {tier.constraints.budget:g}, error {tier.error:.4f}, "
            f"{_rank(tier.better_randoms, tier.randoms)}: {', '.join(tier.benchmarks)}"
        )
    return "\n".join(lines)


def _error(result: Judged) -> str:
    error = f"error     {result.error:.4f} ± {result.stderr:.4f} ({result.objective})"
    if math.isnan(result.unmeasured):
        return f"{error}; no other subset is as large"
    compared = _rank(result.better_randoms, result.randoms)
    return f"{error}; {compared} (their mean: {result.random_error:.4f})"


def _rank(better: float, count: int) -> str:
    if better == 0:
        return f"lower than all {count} random subsets"
    return f"{better:.1%} of {count} random subsets are better"


def _rival(rival: Rival) -> str:
    return f"{rival.method} {rival.error:.4f} after {rival.asked} candidates: {', '.join(rival.benchmarks)}"


def _folds(holdout: str, folds: tuple[tuple[int, int], ...] | str) -> str:
    if isinstance(folds, str):
        return f"--holdout {holdout}: not possible: {folds}"
    if holdout in ORDERED:
        return f"--holdout {holdout}: " + ", ".join(f"{held} from {train}" for train, held in folds) + " models before"
    return f"--holdout {holdout}: {len(folds)} folds"


def _listed(label: str, items: tuple[str, ...] | list[str]) -> str:
    shown = ", ".join(items[:12]) + (f" and {len(items) - 12} more" if len(items) > 12 else "")
    return f"{label}: {shown}" if items else ""
