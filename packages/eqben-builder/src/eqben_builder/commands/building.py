"""`eqben build`, `verify`, `convert`, `review` and `apply-votes`: folders of pairs, made, checked and looked at."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eqben_builder.commands.printing import say

if TYPE_CHECKING:
    from eqben_builder.building import Builder
    from eqben_builder.progress import Progress

_SHOWN = 50  # failures that are listed
_EVERY = 30.0  # seconds between lines where the output is no terminal


def build(
    subset: Annotated[str, typer.Argument(help="micro, kubric, sd, ag, gebc or youcook2.")],
    output: Annotated[Path, typer.Argument(help="Folder to write; one that was interrupted is continued.")],
    pairs: Annotated[int | None, typer.Option(min=1, help="Pairs of each aspect; 100, or all of a video set.")] = None,
    aspect: Annotated[
        list[str] | None, typer.Option(help="Aspects to change; every aspect of the subset by default.")
    ] = None,
    workers: Annotated[int, typer.Option(min=0, help="Processes; 0 for one on each core, for sd one.")] = 0,
    seed: Annotated[int | None, typer.Option(min=0, help="The same seed gives the same bytes.")] = None,
    size: Annotated[int | None, typer.Option(min=8, help="Side of the images in pixels.")] = None,
    engine: Annotated[str | None, typer.Option(help="kubric: mitsuba or raster.")] = None,
    meshes: Annotated[Path | None, typer.Option(help="kubric: folder of OBJ or PLY objects.")] = None,
    samples: Annotated[int | None, typer.Option(min=1, help="kubric: paths for each pixel.")] = None,
    no_denoise: Annotated[bool, typer.Option("--no-denoise", help="kubric: leave the noise in.")] = False,
    shape: Annotated[list[str] | None, typer.Option(help="kubric: objects to choose from.")] = None,
    colour: Annotated[list[str] | None, typer.Option(help="kubric: colours to choose from.")] = None,
    material: Annotated[list[str] | None, typer.Option(help="kubric: materials to choose from.")] = None,
    field: Annotated[list[str] | None, typer.Option(help="kubric: attributes that may change.")] = None,
    model: Annotated[str | None, typer.Option(help="sd: a diffusers folder, or a model's name on the hub.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="sd: denoising steps.")] = None,
    device: Annotated[str | None, typer.Option(help="sd: a torch device.")] = None,
    annotations: Annotated[Path | None, typer.Option(help="ag, gebc, youcook2: the data set's annotations.")] = None,
    videos: Annotated[Path | None, typer.Option(help="ag, gebc, youcook2: the folder of videos or frames.")] = None,
    faces: Annotated[str | None, typer.Option(help="youcook2: opencv, none or MODULE:FUNCTION.")] = None,
) -> None:
    """Build pairs that differ in one thing.

    Each pair of images and captions has a certificate.

    A build that was interrupted goes on where it was; the number of workers does not change a byte.
    """
    from eqben_builder.building import build as run
    from eqben_builder.building.builder import BUILDERS, builder_of
    from wary_files.errors import unknown

    if subset not in BUILDERS:
        raise unknown("subset", subset, BUILDERS)
    options = {
        "aspects": aspect, "seed": seed, "size": size, "engine": engine, "meshes": meshes, "samples": samples,
        "denoise": False if no_denoise else None, "shapes": shape, "colours": colour, "materials": material,
        "fields": field, "model": model, "steps": steps, "device": device, "annotations": annotations, "videos": videos,
        "faces": faces,
    }  # fmt: skip
    builder = _builder(
        subset, builder_of(subset), {name: value for name, value in options.items() if value is not None}
    )
    count = 100 if pairs is None and builder.count is None else pairs
    # A diffusion model fills a device, and its own threads use every core.
    processes = workers or (1 if subset == "sd" else os.cpu_count() or 1)
    manifest = run(builder, output, pairs=count, workers=processes, progress=_reporter())
    counts = ", ".join(f"{number} {name}" for name, number in manifest["counts"].items())
    say(f"{manifest['pairs']} pairs in {output} ({counts}), {manifest['bytes'] / 1e6:,.1f} MB")
    for reason, number in manifest["dropped"].items():
        say(f"dropped {number}: {reason}")
    say(f"hash {manifest['hash']}")


def verify(
    folder: Annotated[Path, typer.Argument(help="Folder that `build` wrote.")],
    render: Annotated[int, typer.Option(min=0, help="micro, kubric: make so many pairs again and compare.")] = 0,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of that draw; a new one each time by default.")] = None,
) -> None:
    """Check every hash and certificate again.

    It lists what does not hold; the exit status is then 1.
    """
    from eqben_builder.building import verify as check

    verification = check(folder, render=render, seed=seed)
    for failure in verification.failures[:_SHOWN]:
        say(f"{failure.where}: {failure.check}: {failure.found}")
    if len(verification.failures) > _SHOWN:
        say(f"and {len(verification.failures) - _SHOWN} more")
    say(
        f"{verification.pairs} pairs, {verification.certified} certified again from their sources, "
        f"{len(verification.failures)} failures"
    )
    if verification.failures:
        raise typer.Exit(1)


def _builder(subset: str, make: Callable[..., Builder], options: dict[str, Any]) -> Builder:
    """The subset's builder; an option that it does not take, or needs and does not get, is named."""
    import inspect

    flags = {
        "aspects": "--aspect", "denoise": "--no-denoise", "shapes": "--shape", "colours": "--colour",
        "materials": "--material", "fields": "--field",
    }  # fmt: skip
    parameters = inspect.signature(make).parameters
    for name in options:
        if name not in parameters:
            raise ValueError(f"{flags.get(name, f'--{name}')} is no option of the subset {subset!r}")
    for name, parameter in parameters.items():
        if parameter.default is parameter.empty and name not in options:
            raise ValueError(f"the subset {subset!r} needs {flags.get(name, f'--{name}')}")
    return make(**options)


def _reporter() -> Progress:
    """Says how far a build is and how long the rest takes, on one line of a terminal or every half minute."""
    begun: tuple[int, float] | None = None
    last = time.monotonic()
    terminal = sys.stderr.isatty()

    def report(phase: str, done: int, total: int) -> None:
        nonlocal begun, last
        now = time.monotonic()
        if begun is None:  # what an earlier process had done, and the loading of engines, say nothing of what is left
            begun = done, now
            return
        if terminal or now - last >= _EVERY:
            last = now
            left = (now - begun[1]) * (total - done) / max(1, done - begun[0])
            line = f"{done}/{total} {phase}, {_duration(left)} left"
            typer.echo(f"\r{line:<70}" if terminal else line, err=True, nl=not terminal or done == total)

    return report


def _duration(seconds: float) -> str:
    minutes, rest_s = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest_s:02d} s" if minutes else f"{rest_s} s"


def convert(
    source: Annotated[Path, typer.Argument(help="A build's folder, parquet, EqBen's, Winoground's, VALSE's.")],
    output: Annotated[Path, typer.Argument(help="Folder to write; it must not exist.")],
    form: Annotated[
        str, typer.Option("--format", help="parquet, folder, eqben-flat, -ag, -video or -all.")
    ] = "parquet",
    images: Annotated[Path | None, typer.Option(help="Folder of the images, where it is another.")] = None,
) -> None:
    """Write pairs in another form.

    It reads any known form, one pair at a time.
    """
    from eqben_builder.formats import WRITERS, read_any, write_as
    from wary_files.errors import unknown

    if form not in WRITERS:
        raise unknown("format", form, WRITERS)
    rows = read_any(source, images=images)
    say(f"{form} in {write_as(rows, output, form)}")


def review(
    source: Annotated[Path, typer.Argument(help="A folder or file of pairs, in any form that `convert` reads.")],
    page: Annotated[Path, typer.Argument(help="The HTML file to write.")],
    images: Annotated[Path | None, typer.Option(help="Folder of the images, where it is another.")] = None,
    sample: Annotated[int | None, typer.Option(min=1, help="So many pairs at random, instead of all.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the sample.")] = 0,
    title: Annotated[str, typer.Option(help="Title of the page.")] = "Review of pairs",
) -> None:
    """Write a page for accepting pairs.

    Somebody accepts or rejects pairs by keyboard in this one HTML file, which exports votes as JSON.
    """
    import numpy as np

    from eqben_builder.formats import read_any
    from eqben_builder.pages import write_review_page

    rows = list(read_any(source, images=images))
    if sample is not None and sample < len(rows):
        chosen = sorted(np.random.default_rng(seed).permutation(len(rows))[:sample].tolist())
        rows = [rows[k] for k in chosen]
    say(f"{len(rows)} pairs in {write_review_page(rows, page, title=title)}")


def apply_votes(
    source: Annotated[Path, typer.Argument(help="Folder that was reviewed.")],
    output: Annotated[Path, typer.Argument(help="Folder to write; it must not exist.")],
    votes: Annotated[list[Path], typer.Option(help="A file that the review page exported; may be repeated.")],
    form: Annotated[str, typer.Option("--format", help="folder, parquet or eqben-flat.")] = "folder",
    rule: Annotated[str, typer.Option(help="any: one rejection is enough; majority: more against than for.")] = "any",
    images: Annotated[Path | None, typer.Option(help="Folder of the images, where it is another.")] = None,
    part: Annotated[bool, typer.Option("--part", help="The votes are on a sample of the source.")] = False,
) -> None:
    """Leave out what reviewers rejected.

    What is left out is listed in errata.json.
    """
    from eqben_builder.pages import apply_votes as apply

    if rule not in ("any", "majority"):
        raise ValueError(f"--rule {rule!r} is neither 'any' nor 'majority'")
    review = apply(
        source, votes, output, form=form, rule="any" if rule == "any" else "majority",
        partial=part, images=images,
    )  # fmt: skip
    say(
        f"{review.kept} pairs in {review.output}; {review.rejected} rejected, {review.undecided} undecided, "
        f"{review.disputed} disputed; errata in {review.errata}"
    )
