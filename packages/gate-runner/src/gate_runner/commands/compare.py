"""``gate-runner compare``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from gate_runner.commands.options import AsJson, Runs
from gate_runner.terminal import echo_json

if TYPE_CHECKING:
    from rich.table import Table

    from gate_runner.comparison import Comparison


def compare(
    runs: Runs,
    only: Annotated[list[str] | None, typer.Option(help="A benchmark to compare; may be given several times.")] = None,
    all_pairs: Annotated[bool, typer.Option("--all-pairs", help="Compare every run with every other.")] = False,
    alpha: Annotated[float, typer.Option(help="Family-wise error over all benchmarks and pairs.")] = 0.05,
    resamples: Annotated[int, typer.Option(help="Bootstrap resamples per benchmark.")] = 2000,
    permutations: Annotated[int, typer.Option(help="Permutations per benchmark, at first.")] = 9_999,
    json: AsJson = False,
) -> None:
    """Say which differences between runs hold: paired tests on the same samples, corrected for their number."""
    from gate_runner.comparison import compare as compared

    comparison = compared(
        *runs,
        only=only or (),
        all_pairs=all_pairs,
        alpha=alpha,
        resamples=resamples,
        permutations=permutations,
    )
    if json:
        echo_json(comparison)
        return
    from rich.markup import escape

    from gate_runner.runs.display import Terminal

    console = Terminal(highlight=False)
    table, needed = fitted(comparison, console.width if console.is_terminal else None)
    console.width = max(console.width, needed)
    console.print(table)
    for run, name, reason in comparison.left_out:
        console.print(escape(f"not compared: {name}, {reason} in {run}"), soft_wrap=True)
    console.print()
    for sentence in comparison.sentences:
        console.print(escape(sentence), soft_wrap=True)


_DISPENSABLE = ("effect", "p", "metric", "first", "95 % CI")
"""Columns that a narrow terminal does without, in this order; JSON and a pipe have them all."""


def fitted(comparison: Comparison, width: int | None) -> tuple[Table, int]:
    """A comparison for so many characters in a line."""
    from gate_runner.runs.display import Terminal

    unbounded = Terminal(width=10_000)
    for count in range(len(_DISPENSABLE) + 1):
        table = comparison_table(comparison, without=_DISPENSABLE[:count])
        needed = unbounded.measure(table).maximum
        if width is None or needed <= width:
            break
    return table, needed


def comparison_table(comparison: Comparison, without: Sequence[str] = ()) -> Table:
    """Values, difference with interval, effect size and p values of every contrast."""
    from rich.markup import escape
    from rich.table import Table

    pairs = {(contrast.first, contrast.second) for contrast in comparison.contrasts}
    headers = ("benchmark", "metric", "first", "second", "difference", "95 % CI", "effect", "p", "p Holm", "verdict")
    table = Table(box=None, pad_edge=False, padding=(0, 1), collapse_padding=True, header_style="bold")
    for header in headers:
        if header not in without:
            words = header in ("benchmark", "metric", "verdict")
            table.add_column(header, justify="left" if words else "right", no_wrap=True)
    previous: tuple[str, str] | None = None
    for contrast in comparison.contrasts:
        if len(pairs) > 1 and (contrast.first, contrast.second) != previous:
            previous = (contrast.first, contrast.second)
            table.add_row(f"[bold]{escape(contrast.second)}[/bold] against {escape(contrast.first)}")
        test = contrast.test
        cells = (
            escape(contrast.name),
            f"{contrast.metric} {'↑' if contrast.direction == 'higher' else '↓'}",
            f"{test.first:.3f}",
            f"{test.second:.3f}",
            f"{test.difference:+.3f}",
            f"{test.low:+.3f} to {test.high:+.3f}",
            "–" if test.effect is None else f"{test.effect:+.2f}",
            _p(test.p),
            _p(contrast.p_adjusted),
            contrast.verdict,
        )
        table.add_row(*(cell for header, cell in zip(headers, cells, strict=True) if header not in without))
    return table


def _p(value: float) -> str:
    return "<0.001" if value < 0.001 else f"{value:.3f}"
