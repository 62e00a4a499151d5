"""What each command does and prints; each imports what it needs, so that `check` and `items` run without torch."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from eevee.errors import EeveeError
from eevee.tables.holdout import group_twins
from eevee.tables.loading import SHIPPED, join_tables, load_table
from eevee.tables.reading import Layout
from wary_files.errors import UsageError
from wary_files.folders import refuse_over_inputs, require_place
from wary_files.text import printable_json

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from eevee.progress import Progress
    from eevee.scorers.scorer import Scorer
    from eevee.tables.serialization import Recorded
    from eevee.tables.table import ResultTable

AUTO = "auto"


def run(options: argparse.Namespace) -> int:
    """Run the command that was parsed and return its exit code."""
    try:
        refuse_over_inputs(vars(options))
        if options.json and options.json != "-":
            require_place("--json", Path(options.json))
    except UsageError as error:
        raise EeveeError(str(error)) from None
    if options.command in ("items", "rank"):
        return _finish(options, *{"items": _items, "rank": _rank}[options.command](options))
    table = _table(options)
    if options.twins < 0:
        raise EeveeError(f"--twins is {options.twins}; expected 0 or more")
    if options.twins > 0:
        table = group_twins(table, options.twins)
    if options.scaling == AUTO:
        from eevee.answers.scorer_choice import choose_scaling
        from eevee.searching.space import Constraints, Space

        space = Space(table, Constraints(k=min(getattr(options, "k", None) or 8, len(table.benchmarks) - 1)))
        table, scaled = choose_scaling(table, space)
        compared = ", ".join(f"{name} {error:.3f}" for name, error in scaled.errors.items())
        print(f"scaling {scaled.chosen}, by leave-one-out: {compared}", file=sys.stderr)  # noqa: T201
    else:
        table = table.with_scaling(options.scaling)
    return _finish(options, *_COMMANDS[options.command](options, table))


def _table(options: argparse.Namespace) -> ResultTable:
    """The table that is named, the run folders that are, or both."""
    from eevee.tables.runs import table_of_runs

    if options.runs and not options.table:
        own, bounds = table_of_runs(options.runs), _bounds(options.bounds)
        return own if bounds is None else own.with_bounds(bounds)
    table = load_table(
        options.table or "gate",
        direction=options.direction,
        about=options.about,
        models=options.models,
        layout=Layout(listed(options.model_column), options.value, listed(options.drop)),
        bounds=_bounds(options.bounds),
    )
    return table_of_runs(options.runs, table) if options.runs else table


def _finish(options: argparse.Namespace, result: Recorded, words: str) -> int:
    if options.json and options.json != "-":
        result.to_json(options.json)
    print(printable_json(result.to_json() if options.json == "-" else words))  # noqa: T201
    return 0


def subset_ids(text: str, table: ResultTable) -> tuple[str, ...]:
    """Ids from a comma-separated list, a tier of the paper, or the JSON of a result (whose table must be this one)."""
    from eevee.tables.loading import published
    from eevee.tables.serialization import read_result

    if Path(text).is_file():
        return tuple(read_result(text, table)["benchmarks"])
    if text in published().tiers and text not in table.benchmark_ids:
        return published().tiers[text]
    return listed(text)


def listed(text: str) -> tuple[str, ...]:
    """The parts of a comma-separated list."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _scorer(options: argparse.Namespace) -> Scorer | str:
    from eevee.scorers.named import named_scorer

    return AUTO if options.scorer == AUTO else named_scorer(options.scorer, options.objective or "all", options.alpha)


def _bounds(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise EeveeError(f"--bounds: {text!r}; expected LOW,HIGH, such as 0,100") from None
    return low, high


def _progress(options: argparse.Namespace) -> Progress | None:
    if options.quiet or not sys.stderr.isatty():
        return None

    started: dict[str, float] = {}

    def show(phase: str, done: int, total: int) -> None:
        begin = started.setdefault(phase, time.monotonic())
        seconds = (time.monotonic() - begin) / done * (total - done) if done and total else 0.0
        count = f" {done} of {total}, at most {seconds:.0f} s left" if total else f" {done}" if done else ""
        sys.stderr.write(f"\r\x1b[K{phase}{count}")
        sys.stderr.flush()

    return show


def _check(options: argparse.Namespace, table: ResultTable) -> tuple[Recorded, str]:
    from eevee.reports.formatting import check_words
    from eevee.tables.checking import check

    findings = check(table)
    return findings, check_words(findings)


def _select(options: argparse.Namespace, table: ResultTable) -> tuple[Recorded, str]:
    from eevee.answers.selecting import few_models, models_needed, select
    from eevee.reports.formatting import selection_words

    own = options.runs or (options.table or "gate") not in SHIPPED
    line, shown = few_models(table) if own else "", _progress(options)

    def progress(phase: str, done: int, total: int) -> None:
        nonlocal line
        if line:  # said as the search begins, when all options have turned out to be right
            print(f"before the search: {line}", file=sys.stderr)  # noqa: T201
            print(f"before the search: {models_needed(options.k)}", file=sys.stderr)  # noqa: T201
            line = ""
        if shown is not None:
            shown(phase, done, total)

    chosen = select(
        table,
        options.k,
        budget=options.budget,
        include=listed(options.include),
        given=listed(options.given),
        exclude=listed(options.exclude),
        one_per_family=options.one_per_family,
        cover=listed(options.cover),
        method=options.method,
        scorer=_scorer(options),
        objective=options.objective,
        holdout=options.holdout,
        seed=options.seed,
        nested=not options.no_nested,
        progress=progress,
    )
    return chosen, selection_words(chosen)


def _score(options: argparse.Namespace, table: ResultTable) -> tuple[Recorded, str]:
    from eevee.answers.scoring import score
    from eevee.reports.formatting import score_words

    subset = subset_ids(options.subset, table)
    judged = score(
        table,
        subset,
        scorer=_scorer(options),
        objective=options.objective,
        holdout=options.holdout,
        seed=options.seed,
    )
    return judged, score_words(judged)


def _predict(options: argparse.Namespace, table: ResultTable) -> tuple[Recorded, str]:
    from eevee.answers.predicting import predict
    from eevee.reports.formatting import prediction_words
    from eevee.tables.reading import read_scores

    prediction = predict(
        table,
        subset_ids(options.subset, table),
        read_scores(options.scores),
        level=options.level,
        scorer=options.scorer,
        holdout=options.holdout,
        searched=options.nested,
        mean=options.mean,
    )
    return prediction, prediction_words(prediction)


def _pareto(options: argparse.Namespace, table: ResultTable) -> tuple[Recorded, str]:
    from eevee.answers.pareto_front import pareto, tiers
    from eevee.reports.formatting import front_words

    shared = {
        "scorer": _scorer(options),
        "objective": options.objective,
        "holdout": options.holdout,
        "include": listed(options.include),
        "exclude": listed(options.exclude),
        "one_per_family": options.one_per_family,
        "seed": options.seed,
    }
    budgets = {}
    for part in listed(options.tiers):
        name, equals, amount = part.partition("=")
        try:
            budgets[name] = float(amount)
        except ValueError:
            raise EeveeError(f"--tiers: {part!r}; expected NAME=COST, such as small=12") from None
        if not equals or not name:
            raise EeveeError(f"--tiers: {part!r}; expected NAME=COST, such as small=12")
    chosen = tiers(table, budgets, nested=False, **shared) if budgets else {}
    front = pareto(table, largest=options.largest, progress=_progress(options), **shared)
    return front, front_words(front, chosen)


def _items(options: argparse.Namespace) -> tuple[Recorded, str]:
    from eevee.items.reading import read_outcomes
    from eevee.items.selection import choose_items
    from eevee.reports.formatting import item_words

    chosen = choose_items(
        read_outcomes(options.outcomes),
        share=options.share,
        count=options.count,
        method=options.method,
        level=options.level,
        holdout=options.holdout,
        seed=options.seed,
        progress=_progress(options),
    )
    return chosen, item_words(chosen)


def _rank(options: argparse.Namespace) -> tuple[Recorded, str]:
    from eevee.answers.leaderboard import rank_models, rank_outcomes
    from eevee.reports.formatting import board_words

    sources = [Path(source) for source in options.source]
    if any(source.is_dir() or source.suffix in (".npz", ".jbl", ".joblib") for source in sources):
        from eevee.items.reading import read_outcomes

        outcomes = read_outcomes(sources)
        board = rank_outcomes(outcomes, level=options.level, seed=options.seed, progress=_progress(options))
    else:
        tables = [load_table(source, direction=options.direction) for source in options.source]
        table = join_tables(tables)
        board = rank_models(table, level=options.level, seed=options.seed, progress=_progress(options))
    return board, board_words(board)


def _report(options: argparse.Namespace, table: ResultTable) -> tuple[Recorded, str]:
    from eevee.answers.selecting import read_selection, select
    from eevee.items.reading import read_outcomes
    from eevee.reports.report import refuse_others, report
    from eevee.tables.reading import read_scores

    refuse_others(options.output)
    if options.result:
        chosen = read_selection(options.result, table)
    elif options.k is not None:
        chosen = select(table, options.k, seed=options.seed, progress=_progress(options))
    else:
        raise EeveeError("neither --result nor -k is given; expected one of them")
    page = report(
        table,
        chosen,
        options.output,
        largest=options.largest,
        scores=read_scores(options.scores) if options.scores else None,
        outcomes=read_outcomes(options.outcomes) if options.outcomes else None,
    )
    return chosen, str(page)


_COMMANDS: dict[str, Callable[[argparse.Namespace, ResultTable], tuple[Recorded, str]]] = {
    "check": _check,
    "select": _select,
    "score": _score,
    "predict": _predict,
    "pareto": _pareto,
    "report": _report,
}
