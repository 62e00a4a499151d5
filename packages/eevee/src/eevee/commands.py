"""What each command does and prints; imported only once the arguments are read."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from eevee.checking import check
from eevee.errors import EeveeError
from eevee.executors import open_map
from eevee.front import pareto, tiers
from eevee.gate import published
from eevee.mlp import MlpScorer
from eevee.predicting import predict
from eevee.reading import load_table, read_scores
from eevee.record import read_result
from eevee.reporting import report
from eevee.ridge import RidgeScorer
from eevee.scoring import score
from eevee.selecting import read_selection, select
from eevee.twins import group_twins
from eevee.words import check_words, front_words, prediction_words, score_words, selection_words

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from eevee.evaluation import Scorer
    from eevee.record import Recorded
    from eevee.table import ResultTable


def run(options: argparse.Namespace) -> int:
    """Run the command that was parsed and return its exit code."""
    if options.threads is not None:
        import torch

        if options.threads < 1:
            raise EeveeError(f"--threads is {options.threads}; expected at least 1")
        torch.set_num_threads(options.threads)
    table = load_table(options.table, direction=options.direction, about=options.about)
    if options.twins < 0:
        raise EeveeError(f"--twins is {options.twins}; expected 0 or more")
    if options.twins > 0:
        table = group_twins(table, options.twins)
    result, words = _COMMANDS[options.command](options, table)
    if options.json and options.json != "-":
        result.to_json(options.json)
    print(result.to_json() if options.json == "-" else words)  # noqa: T201
    return 0


def subset_ids(text: str, table: ResultTable) -> tuple[str, ...]:
    """Ids from a comma-separated list, a tier of the paper, or the JSON of a result (whose table must be this one)."""
    if Path(text).is_file():
        return tuple(read_result(text, table)["benchmarks"])
    if text in published().tiers and text not in table.benchmark_ids:
        return published().tiers[text]
    return listed(text)


def listed(text: str) -> tuple[str, ...]:
    """The parts of a comma-separated list."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _scorer(options: argparse.Namespace) -> Scorer:
    if options.scorer == "ridge":
        return RidgeScorer(alpha=options.alpha, objective=options.objective)
    return MlpScorer(objective=options.objective, splits=options.splits, seed=options.seed, device=options.device)


def _progress(options: argparse.Namespace) -> Callable[[str], None] | None:
    if options.quiet or not sys.stderr.isatty():
        return None

    def show(line: str) -> None:
        sys.stderr.write(f"\r\x1b[K{line}")
        sys.stderr.flush()

    return show


def _check(options: argparse.Namespace, table: ResultTable) -> tuple[Recorded, str]:
    found = check(table)
    return found, check_words(found)


def _select(options: argparse.Namespace, table: ResultTable) -> tuple[Recorded, str]:
    with open_map(options.executor) as map_function:
        chosen = select(
            table,
            options.k,
            budget=options.budget,
            include=listed(options.include),
            exclude=listed(options.exclude),
            one_per_family=options.one_per_family,
            cover=listed(options.cover),
            method=options.method,
            scorer=_scorer(options),
            seed=options.seed,
            generations=options.generations,
            nested=not options.no_nested,
            map_function=map_function,
            journal=Path(options.journal) if options.journal else None,
            progress=_progress(options),
        )
    return chosen, selection_words(chosen)


def _score(options: argparse.Namespace, table: ResultTable) -> tuple[Recorded, str]:
    judged = score(table, subset_ids(options.subset, table), scorer=_scorer(options), seed=options.seed)
    return judged, score_words(judged)


def _predict(options: argparse.Namespace, table: ResultTable) -> tuple[Recorded, str]:
    prediction = predict(
        table,
        subset_ids(options.subset, table),
        read_scores(options.scores),
        level=options.level,
        alpha=options.alpha,
    )
    return prediction, prediction_words(prediction)


def _pareto(options: argparse.Namespace, table: ResultTable) -> tuple[Recorded, str]:
    shared = {
        "scorer": _scorer(options),
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


def _report(options: argparse.Namespace, table: ResultTable) -> tuple[Recorded, str]:
    if options.result:
        chosen = read_selection(options.result, table)
    elif options.k is not None:
        chosen = select(table, options.k, seed=options.seed, progress=_progress(options))
    else:
        raise EeveeError("neither --result nor -k is given; expected one of them")
    written = report(
        table,
        chosen,
        options.output,
        largest=options.largest,
        radars=[listed(group) for group in options.radar],
        like=options.like,
        scores=read_scores(options.scores) if options.scores else None,
        progress=_progress(options),
    )
    return written, f"{options.output}/{written.page} and {len(written.pictures)} pictures"


_COMMANDS: dict[str, Callable[[argparse.Namespace, ResultTable], tuple[Recorded, str]]] = {
    "check": _check,
    "select": _select,
    "score": _score,
    "predict": _predict,
    "pareto": _pareto,
    "report": _report,
}
