"""The table of scores for papers and spreadsheets: Markdown, CSV, LaTeX."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gate_runner.charts.table import LATEX
from gate_runner.files import csv_text
from gate_runner.reports.contents import Cell, Contents, Row, chance_of, overviews
from gate_runner.reports.pictures import made_again
from gate_runner.reports.scores import number, shown_metric
from gate_runner.runs.results import Result
from gate_runner.runs.stored import StoredRun

_MARKDOWN = frozenset("\\`*_[]()~|!")


def as_markdown(contents: Contents) -> str:
    """A Markdown table: value and interval, the best of each row bold; then task types' tables over all their results.

    Args:
        contents: of the report.

    Returns:
        Lines, with a remark on stand-ins where there are any.

    Example:
        >>> from gate_runner.runs.stored import read_runs
        >>> print(as_markdown(gather(read_runs([Path("runs/a")]))))  # doctest: +SKIP
    """

    def shown(cell: Cell | None) -> str:
        text = _text(cell, "–")
        return f"**{text}**" if _is_best(cell) else text

    lines = (
        [
            f"| benchmark | metric | chance | {' | '.join(markdown(name) for name in contents.labels)} |",
            f"|---|---|---|{'---|' * len(contents.runs)}",
        ]
        if contents.rows
        else []
    )
    for row in contents.rows:
        cells = " | ".join(shown(row.cells.get(name)) for name in contents.labels)
        lines.append(f"| {markdown(row.name)} | {markdown(shown_metric(row))} | {_chance(row)} | {cells} |")
    more = "".join(table.as_markdown() for table in overviews(contents.runs))
    return "\n".join(lines) + "\n" + (f"\n{_remark(contents)}\n" if contents.stand_ins else "") + more


def hardest_as_markdown(contents: Contents, count: int, data_root: Path | None = None) -> str:
    """The samples on which the runs do worst, as a Markdown table: what they are, and what was predicted.

    Args:
        contents: of the report.
        count: samples for each benchmark, at most.
        data_root: folder of original files, for benchmarks that read them.

    Returns:
        A heading and a table, or why there is none, for each benchmark.

    Example:
        >>> hardest_as_markdown(Contents((), (), {}, {}), 4)
        ''
    """
    parts = []
    for row in contents.rows:
        again, reason = made_again(contents, row, data_root)
        samples, reason = again.hardest(count) if again else ([], reason)
        lines = [f"## Hardest of {markdown(row.name)}", ""]
        if reason:
            lines.append(f"None shown: {markdown(reason)}.")
        else:
            lines += ["| test sample | what it is | predicted | outcome |", "|---|---|---|---|"]
            for sample in samples:
                texts = (sample.truth, sample.predicted or "not kept", sample.verdict)
                lines.append(f"| {sample.index} | {' | '.join(map(markdown, texts))} |")
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def markdown(text: str) -> str:
    r"""Text as a cell of a Markdown table.

    Example:
        >>> markdown("a|b <c>")
        'a\\|b &lt;c>'
    """
    marked = "".join(f"\\{sign}" if sign in _MARKDOWN else sign for sign in " ".join(text.split()))
    return marked.replace("&", "&amp;").replace("<", "&lt;")


def as_csv(contents: Contents) -> str:
    """A row per benchmark and run, every figure unrounded.

    Args:
        contents: of the report.

    Returns:
        CSV text whose first line names the columns. A text that a spreadsheet would take for a formula gets a quote
        in front.

    Example:
        >>> as_csv(Contents((), (), {}, {})).split(",")[0]
        'run'
    """
    if contents.swept and not contents.rows:
        return "\n".join(table.as_csv() for table in overviews(contents.runs))
    heads = (
        "run", "benchmark", "task", "source", "note", "metric", "direction", "value", "low", "high", "chance",
        "rank", "near_best", "seeds", "samples", "seconds", "joules", "failed",
    )  # fmt: skip
    rows = [
        [
            name, row.name, row.task, row.source, row.note, row.metric, row.direction, cell.value, cell.low,
            cell.high, cell.chance, cell.rank, int(cell.near_best), len(cell.by_seed), row.samples,
            cell.seconds.get("total"), cell.joules, cell.reason,
        ]
        for row in contents.rows
        for name, cell in row.cells.items()
    ]  # fmt: skip
    return csv_text(heads, rows)


def classes_as_csv(contents: Contents) -> str:
    """A row per class of each classification, run and seed, every figure unrounded.

    Args:
        contents: of the report.

    Returns:
        CSV text: samples of the class and predicted ones, precision, recall and F1, each with its interval.

    Example:
        >>> classes_as_csv(Contents((), (), {}, {})).split(",")[:4]
        ['run', 'benchmark', 'seed', 'class']
    """
    names = ("precision", "recall", "f1")
    rows = [
        [
            *(run.label, result.name, result.seed, row["class"], row["support"], row["predicted"]),
            *(end for name in names for end in row[name] or ("", "", "")),
        ]
        for run, result, classes in _by_class(contents)
        for row in classes.get("rows", ())
    ]
    figures = [f"{name}{end}" for name in names for end in ("", "_low", "_high")]
    return csv_text(["run", "benchmark", "seed", "class", "support", "predicted", *figures], rows)


def confusions_as_csv(contents: Contents) -> str:
    r"""A row per class and class that it was taken for, of each classification, run and seed, the most frequent first.

    Args:
        contents: of the report.

    Returns:
        CSV text; right answers are not among the rows.

    Example:
        >>> confusions_as_csv(Contents((), (), {}, {}))
        'run,benchmark,seed,class,taken_for,samples\n'
    """
    rows = [
        [run.label, result.name, result.seed, *confused]
        for run, result, classes in _by_class(contents)
        for confused in classes.get("confused", ())
    ]
    return csv_text(["run", "benchmark", "seed", "class", "taken_for", "samples"], rows)


def _by_class(contents: Contents) -> list[tuple[StoredRun, Result, Mapping[str, Any]]]:
    """Every result that has classes, with what is known of them."""
    results = [(run, result) for run in contents.runs for result in run.results]
    return [(run, result, classes) for run, result in results if (classes := result.training.get("by_class"))]


def as_latex(contents: Contents) -> str:
    """A ``tabular`` for the package booktabs, the best of each row bold; then task types' tables over their results.

    Args:
        contents: of the report.

    Returns:
        LaTeX source.

    Example:
        >>> from gate_runner.runs.stored import read_runs
        >>> print(as_latex(gather(read_runs([Path("runs/a")]))))  # doctest: +SKIP
    """

    def shown(cell: Cell | None) -> str:
        if cell is None or cell.value is None or cell.low is None or cell.high is None:
            return _text(cell, "--")
        value = number(cell.value)
        value = rf"\textbf{{{value}}}" if _is_best(cell) else value
        near = r"$^{\approx}$" if cell.near_best else ""
        return rf"{value}{near} {{\scriptsize [{number(cell.low)}, {number(cell.high)}]}}"

    heads = " & ".join(name.translate(LATEX) for name in contents.labels)
    lines = [
        rf"\begin{{tabular}}{{llr{'l' * len(contents.runs)}}}",
        r"\toprule",
        rf"benchmark & metric & chance & {heads} \\",
        r"\midrule",
    ]
    for row in contents.rows:
        arrow = "" if not row.metric else r" $\uparrow$" if row.direction == "higher" else r" $\downarrow$"
        cells = " & ".join(shown(row.cells.get(name)) for name in contents.labels)
        lines.append(
            rf"{row.name.translate(LATEX)} & {row.metric.translate(LATEX)}{arrow} & {_chance(row)} & {cells} \\"
        )
    lines = [*lines, r"\bottomrule", r"\end{tabular}"] if contents.rows else []
    more = "".join(f"\n{table.as_latex()}" for table in overviews(contents.runs))
    return "\n".join(lines) + "\n" + (f"% {_remark(contents)}\n" if contents.stand_ins else "") + more


def _text(cell: Cell | None, dash: str) -> str:
    if cell is None:
        return "not run"
    if cell.value is None or cell.low is None or cell.high is None:
        return "failed"
    return f"{number(cell.value)} ({number(cell.low)}{dash}{number(cell.high)}){' ≈' if cell.near_best else ''}"


def _is_best(cell: Cell | None) -> bool:
    return cell is not None and cell.rank == 1


def _chance(row: Row) -> str:
    chance = chance_of(row)
    return "" if chance is None else number(chance)


def _remark(contents: Contents) -> str:
    return "micro/: synthetic stand-ins, not scores on the real data sets" if contents.stand_ins else ""
