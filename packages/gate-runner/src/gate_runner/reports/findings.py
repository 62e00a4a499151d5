"""The first thing a reader sees: what the figures say, in sentences."""

from __future__ import annotations

from statistics import fmean
from typing import Literal, cast

from gate_runner.reports.contents import Contents, Row

_Direction = Literal["higher", "lower"]


def title(contents: Contents) -> str:
    """A heading that names the encoder, or how many there are, or how many runs where two are of one."""
    labels, rows, swept = contents.labels, len(contents.rows), len(contents.swept)
    parts = [_count(rows, "benchmark")] if rows or not swept else []
    parts += [f"{_count(swept, 'data set')} of a sweep"] if swept else []
    kind = "encoders" if len({run.encoder for run in contents.runs}) == len(labels) else "runs"
    return f"{labels[0] if len(labels) == 1 else f'{len(labels)} {kind}'} on {' and '.join(parts)}"


def banner(contents: Contents) -> str:
    """What must be known about stand-ins; empty where there are none."""
    stand_ins, count = contents.stand_ins, len(contents.rows) + len(contents.swept)
    if not stand_ins:
        return ""
    subject = "Every benchmark here" if stand_ins == count else f"{stand_ins} of {count} benchmarks here"
    verb = "is a synthetic stand-in" if stand_ins == count or stand_ins == 1 else "are synthetic stand-ins"
    return (
        f"{subject} {verb}: images made from seeds, named micro/… after the data set whose place they take. Scores on "
        "stand-ins compare encoders on stand-ins; they are not scores on the real data sets."
    )


def findings(contents: Contents, tested: bool) -> list[str]:
    """Sentences, most important first."""
    sentences = _leader(contents, tested) if len(contents.runs) > 1 else _single(contents)
    failures = contents.failures
    if failures:
        where = ", ".join(dict.fromkeys(name for _, name, _ in failures))
        sentences.append(f"{_count(len(failures), 'benchmark run')} failed ({where}); the reasons are below.")
    return sentences


def _leader(contents: Contents, tested: bool) -> list[str]:
    ranked = [row for row in contents.rows if any(cell.rank for cell in row.cells.values())]
    if not contents.mean_ranks:
        return (
            []
            if not contents.rows
            else ["The runs share no benchmark that all of them finished, so there are no mean ranks."]
        )
    order = sorted(contents.mean_ranks, key=lambda name: contents.mean_ranks[name])
    first, second = order[0], order[1]
    means = contents.mean_ranks
    shared = sum(all(name in row.cells and row.cells[name].rank for name in order) for row in contents.rows)
    over = f"over the {_count(shared, 'benchmark')} that every run finished"
    if means[first] == means[second]:
        leader = f"{first} and {second} share the best mean rank, {means[first]:.1f} {over}."
    else:
        leader = f"{first} has the best mean rank, {means[first]:.1f} {over}, before {second} with {means[second]:.1f}."
    close = [row.name for row in ranked if any(cell.near_best for cell in row.cells.values())]
    sentences = [leader]
    if close:
        named = f": {', '.join(close)}" if len(close) <= 6 else ""
        sentences.append(
            f"On {len(close)} of {_count(len(ranked), 'benchmark')} a paired test does not tell the best value from at "
            f"least one other (marked ≈){named}."
        )
    elif tested:
        sentences.append("Wherever two runs can be compared, a paired test tells the best value from all others.")
    return [*sentences, *_places(contents)]


def _places(contents: Contents) -> list[str]:
    """Who is tied, where there are runs and benchmarks enough to say it."""
    from eevee import Benchmark, EeveeError, Metric, ResultTable, rank_models

    rows = [row for row in contents.rows if any(cell.rank for cell in row.cells.values())]
    values = [[_value(row, label) for row in rows] for label in contents.labels]
    metrics = tuple(
        Metric(row.name, row.name, cast(_Direction, next(cell.direction for cell in row.cells.values() if cell.rank)))
        for row in rows
    )
    try:
        table = ResultTable("runs", tuple(contents.labels), metrics, tuple(Benchmark(row.name) for row in rows), values)  # type: ignore[arg-type]  # it makes an array of them
        board = rank_models(table)
    except EeveeError:  # too few runs, or benchmarks that they share
        return []
    places = [
        f"{ranked.model} {ranked.first}" + (f" to {ranked.last}" if ranked.last > ranked.first else "")
        for ranked in board.places
    ]
    ranks = f"Ranks on other benchmarks like these, all with 95 % at once: {', '.join(places)}."
    return [f"{ranks} {board.decided} of {board.pairs} pairs are decided."]


def _value(row: Row, label: str) -> float:
    cell = row.cells.get(label)
    return float("nan") if cell is None or cell.value is None else cell.value


def _single(contents: Contents) -> list[str]:
    (name,) = contents.labels
    rows = [(row, row.cells[name]) for row in contents.rows if row.cells[name].share is not None]
    if not rows:
        return []
    blind = []
    for row, cell in rows:
        assert cell.low is not None
        assert cell.high is not None
        assert cell.chance is not None
        if not (cell.low > cell.chance if row.direction == "higher" else cell.high < cell.chance):
            blind.append(row.name)
    average = fmean(cell.share or 0.0 for _, cell in rows)
    sentences = []
    sentences.append(
        f"On average {name} goes {average:.0%} of the way from chance to a perfect score, over "
        f"{_count(len(rows), 'benchmark')}."
    )
    if blind:
        sentences.append(f"Not above chance, interval and all: {', '.join(blind)}.")
    else:
        sentences.append("Every score is better than chance, interval and all.")
    return sentences


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
