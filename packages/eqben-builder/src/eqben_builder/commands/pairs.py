"""`eqben convert`, `review` and `apply-votes`: pairs in other forms, looked at, and without what was rejected."""

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
            help="parquet, imagefolder, webdataset, eqben-flat or folder.",
        ),
    ] = "parquet",
    images: Annotated[Path | None, typer.Option(help="Folder of the pictures, where it is another.")] = None,
    validation: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="parquet: share of a validation split; videos are not divided.")
    ] = 0.0,
) -> None:
    """Read pairs from any known form and write them in another, one pair at a time."""
    from eqben_builder.commands.models import unknown
    from eqben_builder.formats import WRITERS, read_any, write_as

    if form not in WRITERS:
        raise unknown("format", form, WRITERS)
    rows = read_any(source, images=images)
    typer.echo(f"{form} in {write_as(rows, output, form, validation=validation)}")


def review(
    source: Annotated[Path, typer.Argument(help="A folder or file of pairs, in any form that `convert` reads.")],
    page: Annotated[Path, typer.Argument(help="The HTML file to write.")],
    images: Annotated[Path | None, typer.Option(help="Folder of the pictures, where it is another.")] = None,
    sample: Annotated[int | None, typer.Option(min=1, help="So many pairs at random, instead of all.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the sample.")] = 0,
    link: Annotated[bool, typer.Option("--link", help="Link to the pictures instead of embedding them.")] = False,
    title: Annotated[str, typer.Option(help="Of the page.")] = "Review of pairs",
) -> None:
    """Write one HTML file in which somebody accepts or rejects pairs by keyboard; it exports votes as JSON."""
    import numpy as np

    from eqben_builder.formats import read_any
    from eqben_builder.pages import write_review_page

    rows = list(read_any(source, images=images))
    if sample is not None and sample < len(rows):
        chosen = sorted(np.random.default_rng(seed).permutation(len(rows))[:sample].tolist())
        rows = [rows[k] for k in chosen]
    typer.echo(f"{len(rows)} pairs in {write_review_page(rows, page, title=title, embed=not link)}")


def apply_votes(
    source: Annotated[Path, typer.Argument(help="What was reviewed.")],
    output: Annotated[Path, typer.Argument(help="Folder to write; it must not exist.")],
    votes: Annotated[list[Path], typer.Option(help="A file that the review page exported; may be repeated.")],
    form: Annotated[
        str, typer.Option("--format", help="folder, parquet, imagefolder, webdataset or eqben-flat.")
    ] = "folder",
    rule: Annotated[str, typer.Option(help="any: one rejection is enough; majority: more against than for.")] = "any",
    drop_undecided: Annotated[
        bool, typer.Option("--drop-undecided", help="Leave out pairs that nobody voted on.")
    ] = False,
    images: Annotated[Path | None, typer.Option(help="Folder of the pictures, where it is another.")] = None,
    part: Annotated[bool, typer.Option("--part", help="The votes are on a sample of the source.")] = False,
) -> None:
    """Leave out what reviewers rejected, and list it in errata.json."""
    from eqben_builder.pages import apply_votes as apply

    if rule not in ("any", "majority"):
        raise ValueError(f"--rule {rule!r} is neither 'any' nor 'majority'")
    found = apply(
        source, votes, output, form=form, rule="any" if rule == "any" else "majority",
        undecided="drop" if drop_undecided else "keep", partial=part, images=images,
    )  # fmt: skip
    typer.echo(
        f"{found.kept} pairs in {found.output}; {found.rejected} rejected, {found.undecided} undecided, "
        f"{found.disputed} disputed; errata in {found.errata}"
    )
