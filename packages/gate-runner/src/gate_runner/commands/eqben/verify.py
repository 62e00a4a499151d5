"""``gate-runner eqben verify``: check a folder of pairs from what is on the disk."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_SHOWN = 50


def verify(
    folder: Annotated[Path, typer.Argument(help="What `eqben build` wrote.")],
    render: Annotated[int, typer.Option(min=0, help="micro, kubric: make so many pairs anew and compare.")] = 0,
    seed: Annotated[int | None, typer.Option(min=0, help="Of that draw; another one each time.")] = None,
) -> None:
    """Make every hash and certificate again, and list what does not hold; the exit status is then 1."""
    from eqben_builder.build import verify as check

    found = check(folder, render=render, seed=seed)
    for failure in found.failures[:_SHOWN]:
        typer.echo(f"{failure.where}: {failure.check}: {failure.found}")
    if len(found.failures) > _SHOWN:
        typer.echo(f"and {len(found.failures) - _SHOWN} more")
    typer.echo(
        f"{found.pairs} pairs, {found.certified} certified again from their sources, {len(found.failures)} failures"
    )
    if found.failures:
        raise typer.Exit(1)
