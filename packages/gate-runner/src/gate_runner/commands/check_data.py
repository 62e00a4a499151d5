"""``gate-runner check-data``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gate_runner.commands.options import AsJson


def check_data(
    root: Annotated[Path, typer.Argument(help="The folder of data sets' original files.")],
    names: Annotated[list[str] | None, typer.Argument(help="Packs and benchmarks; all of GATE by default.")] = None,
    deep: Annotated[bool, typer.Option("--deep", help="Decode and compare every picture, not a sample.")] = False,
    near: Annotated[
        int | None,
        typer.Option(
            help="Decode every picture and list those of one split that nearly repeat one of another: at most so many "
            "of 64 bits of a perceptual hash differ (4 for copies).",
            min=0,
            max=32,
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """Say which data sets are there, whether they are whole, and whether their splits overlap."""
    from gate_data import check_data as look
    from gate_runner.benchmarks import resolve
    from gate_runner.near_duplicates import near_duplicates

    asked = {each.id: each.originals for each in resolve(names or ["full"]) if "local" in each.sources}
    alike = None if near is None else (lambda pictures: map(str, near_duplicates(pictures, near)))
    found = look(asked, root, deep, alike)
    if json:
        import json as standard
        from dataclasses import asdict

        typer.echo(standard.dumps([asdict(one) for one in found], indent=2))
    else:
        for one in found:
            counts = " ".join(f"{count:,}" for count in one.counts) if one.counts else "-"
            typer.echo(f"{one.benchmark:<12}  {one.state:<10}  {counts:<18}  {'; '.join(one.problems[:3])}".rstrip())
            if one.near:
                typer.echo(f"{'':<12}  {len(one.near)} near-duplicates across splits: {'; '.join(one.near[:3])}")
            elif near is not None and one.counts:
                typer.echo(f"{'':<12}  no near-duplicates across splits")
            if one.state == "incomplete" and one.expected:
                typer.echo(f"{'':<12}  {'expected':<10}  {' '.join(f'{count:,}' for count in one.expected)}")
    if any(one.state == "wrong" for one in found):
        raise typer.Exit(1)
