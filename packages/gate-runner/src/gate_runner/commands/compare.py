"""``gate-runner compare``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gate_runner.commands.options import AsJson, Runs

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
    from gate_runner.comparison import compare_runs
    from gate_runner.runs.stored import read_runs

    found = compare_runs(
        read_runs(runs),
        only=only or (),
        all_pairs=all_pairs,
        alpha=alpha,
        resamples=resamples,
        permutations=permutations,
    )
    if json:
        import json as standard
        from dataclasses import asdict

        typer.echo(standard.dumps(asdict(found), indent=2, allow_nan=False))
        return
    from rich.console import Console
    from rich.markup import escape

    console = Console(highlight=False)
    console.print(comparison_table(found))
    for run, name, reason in found.left_out:
        console.print(escape(f"not compared: {name}, {reason} in {run}"), soft_wrap=True)
    console.print()
    for sentence in found.sentences:
        console.print(escape(sentence), soft_wrap=True)


def comparison_table(found: Comparison) -> Table:
    """Values, difference with interval, effect size and p values of every contrast.

    Args:
        found: the comparison.

    Returns:
        A table for any rich console.
    """
    from rich.markup import escape
    from rich.table import Table

    pairs = {(one.first, one.second) for one in found.contrasts}
    table = Table(box=None, pad_edge=False, padding=(0, 1), collapse_padding=True, header_style="bold")
    table.add_column("benchmark", overflow="fold")
    table.add_column("metric", no_wrap=True)
    for column in ("first", "second", "difference", "95 % CI", "effect", "p", "p Holm"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    previous: tuple[str, str] | None = None
    for one in found.contrasts:
        if len(pairs) > 1 and (one.first, one.second) != previous:
            previous = (one.first, one.second)
            table.add_row(f"[bold]{escape(one.second)}[/bold] against {escape(one.first)}")
        test = one.test
        table.add_row(
            escape(one.name),
            f"{one.metric} {'↑' if one.direction == 'higher' else '↓'}",
            f"{test.first:.3f}",
            f"{test.second:.3f}",
            f"{test.difference:+.3f}",
            f"{test.low:+.3f} to {test.high:+.3f}",
            "–" if test.effect is None else f"{test.effect:+.2f}",
            _p(test.p),
            _p(one.p_adjusted),
            one.verdict,
        )
    return table


def _p(value: float) -> str:
    return "<0.001" if value < 0.001 else f"{value:.3f}"
