"""`report`: every picture of a selection as PNG and SVG, and one HTML page."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eevee.answers.front import pareto
from eevee.answers.judging import error_against_k, predictiveness
from eevee.answers.leaderboard import rank_models, rank_outcomes
from eevee.answers.predicting import predict
from eevee.answers.scoring import score
from eevee.errors import EeveeError
from eevee.items.choosing import choose_items
from eevee.showing.page import Section, build_page
from eevee.showing.pictures import (
    draw_bars,
    draw_error_against_k,
    draw_front,
    draw_learning,
    draw_nested,
    draw_places,
    draw_prediction,
    draw_radar,
    draw_ranking,
    leading_models,
    render,
    task_profile,
)
from eevee.showing.words import QUESTIONS, check_words, item_words
from eevee.tables.checking import check
from eevee.tables.record import Recorded, write_bytes, write_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from eevee.answers.leaderboard import Board
    from eevee.answers.predicting import Prediction
    from eevee.answers.selecting import Selection
    from eevee.items.outcomes import Outcomes
    from eevee.progress import Progress
    from eevee.tables.table import ResultTable


@dataclass(frozen=True)
class Report(Recorded):
    """What was written: the page and the pictures, by name.

    Example:
        >>> Report("3f2a", "index.html", ("held_out.svg",)).page
        'index.html'
    """

    data_hash: str
    page: str
    pictures: tuple[str, ...]


def report(
    table: ResultTable,
    selection: Selection,
    output: str | Path,
    *,
    largest: int = 12,
    radars: Sequence[Sequence[str]] = (),
    like: str | None = None,
    scores: Mapping[str, Mapping[str, float]] | None = None,
    outcomes: Mapping[str, Outcomes] | None = None,
    progress: Progress | None = None,
) -> Report:
    """Write one page about a table: its flaws, a selection and how far to trust it, ranks, items, and new models.

    Args:
        table: the table that the selection belongs to.
        selection: what `select` returned.
        output: folder; created where it is missing. Files in it with the same names are replaced.
        largest: largest k of the error against k and of the Pareto front.
        radars: groups of models, a radar each; by default the best four and the worst one.
        like: metric or benchmark that the heatmap is sorted by, see `eevee.showing.pictures.draw_ranking`.
        scores: new models' scores on the subset, to be predicted, see `eevee.predict`.
        outcomes: of models on single items, see `eevee.read_outcomes`: their ranks on other items, and the items that
            tell their scores, are on the page as well.
        progress: called for each picture.

    Raises:
        EeveeError: the selection belongs to another table.
        MissingExtraError: matplotlib is not installed.

    Example:
        >>> import tempfile
        >>> from eevee import load_table, select
        >>> table = load_table("gate")
        >>> chosen = select(table, 2, method="greedy", nested=False, randoms=20)
        >>> written = report(table, chosen, tempfile.mkdtemp(), largest=2)
        >>> written.page
        'index.html'
    """
    if selection.data_hash != table.hash:
        raise EeveeError(
            f"the selection was made from another table (hash {selection.data_hash[:12]}; {table.name} has "
            f"{table.hash[:12]})"
        )
    prediction = predict(table, selection.benchmarks, scores) if scores else None
    folder = Path(output)
    names: list[str] = []

    def picture(name: str, figure: Any) -> bytes:
        if progress is not None:
            progress(f"drawing {name}", len(names) // 2, 0)
        for kind in ("png", "svg"):
            path = folder / f"{name}.{kind}"
            write_bytes(path, render(figure, kind))
            names.append(path.name)
        return (folder / f"{name}.svg").read_bytes()

    sections = [
        Section(
            "The table",
            "What misleads a search or a reader, and what each way of holding out models would hold out.",
            header=("", ""),
            rows=tuple((name, text) for name, _, text in map(_halves, check_words(check(table)).splitlines())),
        ),
        *_chosen(table, selection, picture),
        *_honest(selection, picture),
        *_landscape(table, selection, largest, picture),
        *_models(table, selection, radars, like, picture),
        *_ranked("tasks", rank_models(table, seed=selection.seed), picture),
    ]
    if outcomes:
        sections += _ranked("items", rank_outcomes(outcomes, seed=selection.seed), picture)
        lines = item_words(choose_items(outcomes, seed=selection.seed)).splitlines()
        sections.append(
            Section(
                "Test items that tell a score",
                "A twentieth of the items of each benchmark, drawn with known chances. The error is that of models "
                "that took no part, beside that of a plain mean of as many random items.",
                rows=tuple(tuple(line.split(": ", 1)) for line in lines),
                header=("benchmark", "items"),
            )
        )
    if prediction is not None:
        sections += _predicted(table, prediction, picture)
    lead = (
        f"{len(selection.benchmarks)} of {len(table.benchmarks)} benchmarks, chosen from the results of "
        f"{len(table.models)} models "
        f"by {selection.method} with the {selection.scorer} meta-model (objective: {selection.objective})."
    )
    footer = f"table {table.name}, sha256 {table.hash}, seed {selection.seed}"
    write_text(
        folder / "index.html", build_page(f"{table.name}: which benchmarks tell the rest", lead, sections, footer)
    )
    selection.to_json(folder / "selection.json")
    return Report(table.hash, "index.html", tuple(names))


def _halves(line: str) -> tuple[str, str, str]:
    return line.partition(": ")


def _chosen(table: ResultTable, selection: Selection, picture: Callable[[str, Any], bytes]) -> list[Section]:
    rows = tuple(
        (key, next(b.task for b in table.benchmarks if b.id == key), f"{rise:+.4f}")
        for key, rise in selection.importance.items()
    )
    percentile = (
        f"lower than all of {selection.randoms} random subsets"
        if selection.better_randoms == 0
        else f"{selection.better_randoms:.1%} of {selection.randoms} random subsets are better"
    )
    figures = (
        *_headline(selection),
        ("all cells, reported by the search", f"{selection.error:.4f} ± {selection.stderr:.4f}", percentile),
        ("mean random subset", f"{selection.random_error:.4f}", ""),
        (selection.rival.method, f"{selection.rival.error:.4f}", ", ".join(selection.rival.benchmarks)),
    )
    return [
        Section(
            "What to know first",
            warnings=selection.warnings,
            header=("", "error", ""),
            rows=figures,
            note="Errors are mean squared errors in standard deviations of the models: 1 is predicting the mean.",
        ),
        Section(
            "The subset",
            "A bar is the rise of the error when that benchmark alone is left out: the longer, the less the others "
            "stand in for it.",
            header=("benchmark", "task", "error without it"),
            rows=rows,
            svg=picture(
                "importance", draw_bars(selection.importance, "rise of the error when it is left out", digits=4)
            ),
            alt="bars: importance of each member",
        ),
    ]


def _headline(selection: Selection) -> tuple[tuple[str, str, str], ...]:
    nested = selection.nested
    inside = f"{selection.unmeasured:.4f} ± {selection.unmeasured_stderr:.4f}"
    rows = [("unmeasured cells, leave-one-out inside the search", inside, "")]
    if nested is not None:
        worst = nested.per_model[nested.worst][0]
        verdict = "" if nested.better_than_random else ": no better than random"
        note = (
            f"median {nested.median:.4f}, worst {worst:.4f} ({nested.worst}); random subsets "
            f"{nested.unmeasured_random:.4f}{verdict}"
        )
        rows.insert(
            0,
            (
                "unmeasured cells of held-out models",
                f"{nested.unmeasured:.4f}",
                note,
            ),
        )
    return tuple(rows)


def _honest(selection: Selection, picture: Callable[[str, Any], bytes]) -> list[Section]:
    sections = []
    if selection.nested is not None:
        nested = selection.nested
        sections.append(
            Section(
                "On models that the search never saw",
                f"Reported inside {nested.inner:.4f}, held out {nested.outer:.4f}: optimistic by "
                f"{nested.optimism:.0%}. Random "
                f"subsets have {nested.random:.4f} there; the chosen one is better on {nested.wins} of "
                f"{nested.models} models.",
                svg=picture("held_out", draw_nested(nested)),
                alt="for each held-out model the error of the selected and of random subsets",
                note=f"{nested.folds} folds, each a search of its own ({nested.method}).",
            )
        )
        sections.append(
            Section(
                "How often each benchmark is chosen",
                f"Two folds share {nested.overlap:.0%} of their members on average: a benchmark that few folds chose "
                "could as well be another.",
                svg=picture("chosen", draw_bars(nested.chosen, "share of folds that chose it", digits=2)),
                alt="bars: share of folds that chose each benchmark",
            )
        )
    if selection.curve:
        sections.append(
            Section(
                "How many models are needed",
                "Where the two lines still approach each other, more models in the table would make the choice better; "
                "where they have met, more would not.",
                svg=picture("learning", draw_learning(selection.curve)),
                alt="lines: reported and held-out error against the number of models",
            )
        )
    return sections


def _landscape(
    table: ResultTable, selection: Selection, largest: int, picture: Callable[[str, Any], bytes]
) -> list[Section]:
    scorer = selection.settings
    sizes = range(1, min(largest, len(table.benchmarks)) + 1)
    errors = error_against_k(table, sizes, scorer=scorer, method="greedy-swap", seed=selection.seed)
    front = pareto(table, largest=largest, scorer=scorer, seed=selection.seed)
    return [
        Section(
            "Each benchmark alone",
            "How far the whole table is from what one benchmark alone predicts of it; 1 is predicting the mean.",
            svg=picture("single", draw_bars(predictiveness(table, scorer=scorer), "error when it is the only one")),
            alt="bars: error of each benchmark alone",
        ),
        Section(
            "Error against size",
            "Where the boxes flatten, one benchmark more tells little that the others do not.",
            svg=picture("error_against_k", draw_error_against_k(errors)),
            alt="boxes: errors of the best candidates at each size",
            note="The best candidates that greedy + swap met at each size, 50 at most.",
        ),
        Section(
            "Error against cost",
            "No subset that was met is both cheaper and better than one of these.",
            header=(front.unit, "error", "subset"),
            rows=tuple(
                (f"{p.cost:g}", f"{p.error:.4f} ± {p.stderr:.4f}", ", ".join(p.benchmarks)) for p in front.points
            ),
            svg=picture("front", draw_front(front)),
            alt="steps: Pareto front of error against cost",
        ),
    ]


def _models(
    table: ResultTable,
    selection: Selection,
    radars: Sequence[Sequence[str]],
    like: str | None,
    picture: Callable[[str, Any], bytes],
) -> list[Section]:
    judged = score(table, selection.benchmarks, scorer=selection.settings, seed=selection.seed, randoms=1)
    sections = [
        Section(
            "Ranks of the models on the subset",
            "A row that changes its colour is a model whose place depends on what is measured.",
            svg=picture("ranking", draw_ranking(table, selection.benchmarks, like=like)),
            alt="heatmap: rank of each model on each metric of the subset",
            note=f"Kendall's tau with the ranking by all metrics: {judged.prediction_agreement:.2f} by held-out "
            f"prediction, {judged.mean_agreement:.2f} by the mean over the subset. Rank by predictions.",
        )
    ]
    if len(task_profile(table)[0]) >= 3:
        for number, models in enumerate(radars or [leading_models(table)], start=1):
            sections.append(
                Section(
                    f"Models by task{f' ({number})' if len(radars) > 1 else ''}",
                    "The best models and the worst one, or those that were asked for, on each task.",
                    svg=picture(f"radar_{number}", draw_radar(table, models)),
                    alt=f"radar of {', '.join(models)}",
                    note="Mean of each task's metrics: 0 is the worst model of the table, 100 the best.",
                )
            )
    return sections


def _predicted(table: ResultTable, prediction: Prediction, picture: Callable[[str, Any], bytes]) -> list[Section]:
    sections = []
    for number, (model, row) in enumerate(prediction.models.items(), start=1):
        flags = []
        if row.outside:
            flags.append(f"outside the range of the table's models: {', '.join(row.outside)}")
        if row.extrapolates:
            flags.append(
                "no model of the table has a combination of scores this far out; the intervals may be too narrow"
            )
        if row.missing:
            flags.append(f"predicted without {', '.join(row.missing)}, which were not given")
        slug = re.sub(r"[^A-Za-z0-9]+", "-", model).strip("-")[:40] or "model"
        sections.append(
            Section(
                f"Predicted: {model}",
                f"Rank {row.rank} of {len(prediction.ranking)}; intervals are meant to cover "
                f"{prediction.level:.0%} of the cells. The warning of unlike models told the quarter of held-out "
                f"models with the largest errors with an AUC of {prediction.warning_auc:.2f} (.5 is chance).",
                warnings=tuple(flags),
                svg=picture(f"predicted_{number}_{slug}", draw_prediction(table, row)),
                alt=f"predicted metrics of {model} with intervals",
            )
        )
    return sections


def _ranked(name: str, board: Board, picture: Callable[[str, Any], bytes]) -> list[Section]:
    """Every model's place with its interval, and who may be the best."""
    return [
        Section(
            f"Ranks on other {name}",
            f"{board.decided} of {board.pairs} pairs of models are decided; all intervals hold at once with "
            f"probability {board.level:.0%}, on {QUESTIONS[board.question]}. "
            f"May be the best: {', '.join(board.leaders)}.",
            header=("model", "rank", "score", "Borda", "mean rank", "tasks"),
            rows=tuple(
                (
                    place.model,
                    str(place.first) if place.first == place.last else f"{place.first} to {place.last}",
                    f"{place.score:.3f}",
                    f"{place.borda:.2f}",
                    f"{place.mean_rank:.1f}",
                    str(place.tasks),
                )
                for place in board.places
            ),
            svg=picture(f"ranks_{name}", draw_places(board)),
            alt="lines: the ranks that each model may have",
            note="Models whose lines overlap may be tied."
            + (f" {board.apart} pairs share too few tasks to be compared." if board.apart else ""),
        )
    ]
