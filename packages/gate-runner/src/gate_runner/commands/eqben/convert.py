"""``gate-runner eqben convert``: pairs from one form into another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def convert(
    source: Annotated[
        Path, typer.Argument(help="A build's folder, parquet, ImageFolder, tar shards, EqBen's, Winoground's, VALSE's.")
    ],
    output: Annotated[Path, typer.Argument(help="Folder to write; it must not exist.")],
    form: Annotated[
        str,
        typer.Option(
            "--format",
            help="parquet, imagefolder, webdataset, eqben-ag, eqben-video, eqben-flat, eqben-all or folder.",
        ),
    ] = "parquet",
    images: Annotated[Path | None, typer.Option(help="Folder of the pictures, where it is another.")] = None,
    validation: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="parquet: share of a validation split; videos are not divided.")
    ] = 0.0,
) -> None:
    """Read pairs from any known form and write them in another, one pair at a time."""
    from eqben_builder.formats import WRITERS, read_any, write_as
    from gate_runner.errors import unknown

    if form not in WRITERS:
        raise unknown("format", form, WRITERS)
    rows = read_any(source, images=images)
    typer.echo(f"{form} in {write_as(rows, output, form, validation=validation)}")
