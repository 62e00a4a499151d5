"""Commands that look at data: new, check-data."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gate_data.readers.source import described
from gate_runner.commands.options import AsJson
from gate_runner.errors import UsageError
from gate_runner.terminal import echo, echo_json
from wary_files.text import number_of

if TYPE_CHECKING:
    from rich.status import Status

    from gate_data.checking import Found
    from gate_data.near_splits import NearSplits
    from gate_data.original_files import Originals


def new(
    folder: Annotated[Path | None, typer.Argument(help="A folder of your own data.")] = None,
    table: Annotated[
        Path | None, typer.Option(help="The table or COCO file that counts, where the folder holds several.")
    ] = None,
    target: Annotated[
        str, typer.Option(metavar="COLUMN", help="A table's column to be predicted, if not called label or the like.")
    ] = "",
    task: Annotated[
        str, typer.Option(metavar="TASK", help="Another task of the same samples, e.g. zero-shot-retrieval.")
    ] = "",
    output: Annotated[Path | None, typer.Option(help="File to write; FOLDER/benchmark.toml by default.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be written, and write nothing.")] = False,
    schema: Annotated[bool, typer.Option("--schema", help="Print the file's JSON schema, for editors.")] = False,
    fetch: Annotated[
        str | None,
        typer.Option(metavar="wds/NAME", help="A set of CLIP_benchmark on the hub, fetched into the folder first."),
    ] = None,
) -> None:
    """Make a benchmark of a folder of your own.

    It looks at the folder, says what it could be, and writes the file that runs it as a benchmark.
    """
    if schema:
        from gate_runner.benchmarks.own import schema as make

        echo(json.dumps(make(), indent=2))
        return
    if folder is None:
        raise UsageError("name a folder of your own data (or ask for --schema)")
    if fetch is not None:
        from gate_data.hub.shards import fetch_shards, repository_of

        if folder.exists() and not folder.is_dir():
            raise UsageError(f"{folder} is a file; expected a folder that {fetch} comes into")
        if dry_run:
            echo(f"{repository_of(fetch)} on the hub would be fetched into {folder}; what it holds is known afterwards")
            echo("nothing was fetched or written")
            return
        fetch_shards(fetch, folder)
    from gate_data.own import benchmark_text
    from gate_runner.benchmarks.own import TEXT_TASKS, looked_at, write_own
    from vision_features.encoders.spec import usual_encoder

    path = output or (folder if folder.is_dir() else folder.parent) / "benchmark.toml"
    values, sentences = looked_at(folder, path, table, target, task)
    for sentence in sentences:
        echo(sentence)
    if dry_run:
        echo(f"\n{benchmark_text(values)}\nnothing was written; without --dry-run this goes into {path}")
        return
    write_own(values, path)
    echo(f"wrote {path}")
    encoder, reason = usual_encoder(texts=values["benchmark"]["task"] in TEXT_TASKS)
    echo(f"run it with: gate-runner run {path} --encoder {encoder}")
    echo(reason)


def check_data(
    root: Annotated[
        Path,
        typer.Argument(help="The folder of data sets' original files; or your own folder, table or benchmark.toml."),
    ],
    names: Annotated[list[str] | None, typer.Argument(help="Packs and benchmarks; all of GATE by default.")] = None,
    deep: Annotated[bool, typer.Option("--deep", help="Decode and compare every image, not a sample.")] = False,
    near: Annotated[
        bool, typer.Option("--near", help="Near copies among the images: resized, cropped, mirrored, brighter.")
    ] = False,
    page: Annotated[Path | None, typer.Option(help="With --near, an HTML file of the groups' images.")] = None,
    encoder: Annotated[
        str | None, typer.Option(help="With --near, an encoder whose features compare images, too.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Check data sets: present, whole, no overlap.

    It says which are there, whether they are whole, and whether their splits overlap.
    """
    from gate_data import check_data as check
    from gate_data.own import originals_from, summary
    from gate_runner.benchmarks import resolve
    from gate_runner.errors import DataError
    from gate_runner.runs.folder import refuse_in_run
    from vision_features.heads.embedding import own_of

    for flag, given in (("--page", page), ("--encoder", encoder)):
        if given is not None and not near:
            raise UsageError(f"{flag} is of near copies: give --near, too")
    if page is not None:
        refuse_in_run(page)
    file = root / "benchmark.toml" if names is None and (root / "benchmark.toml").is_file() else root
    own, lines, own_fault = None, list[str](), ""
    originals: dict[str, Originals[Any]]
    if not file.is_file():
        chosen = resolve(names or ["full"])
        originals = {benchmark.id: benchmark.originals for benchmark in chosen if "local" in benchmark.sources}
        if not originals:
            named = ", ".join(benchmark.id for benchmark in chosen)
            raise UsageError(f"{named}: no original files are read; a file of your own is given in place of the folder")
        reports = check(originals, root, deep)
    if file.is_file() or (names is None and all(report.state == "missing" for report in reports)):
        try:  # a folder of none of these sets may be one's own
            own, folder, remarks = own_of(file)
        except DataError as error:
            if file.is_file():
                raise
            own_fault = str(error)
        else:
            lines = list(remarks)
            originals, root = {own.benchmark.id: originals_from(own, folder / "benchmark.toml")}, folder
            reports = check(originals, root, deep)
    if own is not None and reports[0].counts:
        lines += summary(own, root)
    copies = _near(originals, reports, root, page, encoder) if near else {}
    if own_fault:
        for sentence in _unrecognised(root, own_fault, reports):
            echo(sentence, err=True)
    if json:
        rows = [asdict(report) for report in reports]
        echo_json(
            [{**row, "near": _listed(copies[name])} if (name := row["benchmark"]) in copies else row for row in rows]
        )
    elif not own_fault:
        for line in lines:
            echo(line)
        for report in reports:
            counts = " ".join(f"{count:,}" for count in report.counts) if report.counts else "-"
            problems = "; ".join(report.problems[:3])
            echo(f"{report.benchmark:<12}  {report.state:<10}  {counts:<18}  {problems}".rstrip())
            if report.state == "incomplete" and report.expected:
                echo(f"{'':<12}  {'expected':<10}  {' '.join(f'{count:,}' for count in report.expected)}")
        for name, near_of_set in copies.items():
            for sentence in near_sentences(name, near_of_set):
                echo(sentence)
        if page is not None:
            echo(f"wrote {page}")
    if own_fault or any(report.state == "wrong" for report in reports):
        raise typer.Exit(1)


def _unrecognised(root: Path, own_fault: str, reports: Sequence[Found]) -> Iterator[str]:
    """Say in two lines what was looked for in a folder, and how it becomes a benchmark."""
    first = reports[0].benchmark
    yield (
        f"{root} holds the original files of none of GATE's {len(reports)} data sets; "
        f"gate-runner check-data {root} {first} prints which files {first} needs"
    )
    yield (
        f"it is not a folder of your own data: {own_fault}; expected a folder of images for each class, or a table of "
        f"files and labels: gate-runner new {root} makes a benchmark of it"
    )


_GROUPS = 5
"""Groups of near copies that the terminal shows."""


def _near(
    originals: Mapping[str, Originals[Any]],
    reports: Sequence[Found],
    root: Path,
    page: Path | None,
    spec: str | None,
) -> dict[str, NearSplits]:
    """Near copies of each data set whose images are files, by its name; and the page of them, if requested."""
    from gate_data.near_splits import near_in_splits
    from gate_runner.runs.display import Terminal

    console, copies = Terminal(stderr=True), {}
    likeness = None
    if spec is not None:
        from vision_features.encoders import load_encoder
        from vision_features.encoders.loading import device_for
        from vision_features.near_likeness import likeness_by

        likeness = likeness_by(load_encoder(spec, device=device_for("auto")))
    for report in reports:
        files = originals[report.benchmark]
        parts = None if report.counts is None or files.parts is None else files.parts(files.find(root))
        if parts is None:
            continue
        splits = parts.splits(files.form.share, files.form.grouped)
        with console.status(f"{report.benchmark}: reading images") as status:

            def show(done: int, total: int, name: str = report.benchmark, status: Status = status) -> None:
                if not done % 100:
                    status.update(f"{name}: {done:,} of {total:,} images read")

            copies[report.benchmark] = near_in_splits(splits, show, likeness)
    if not copies:
        raise UsageError(f"--near compares images that are files, and none of {', '.join(originals)} are there")
    if page is not None:
        from gate_runner.reports.near import near_page
        from wary_files.folders import write

        write(page, near_page(copies).encode())
    return copies


def near_sentences(name: str, copies: NearSplits) -> Iterator[str]:
    """Say how many groups of near copies there are, and show the first that are in several splits."""
    crossing = copies.crossing
    yield (
        f"{name}: {number_of(copies.compared, 'image')} compared, "
        f"{number_of(len(copies.groups), 'group')} of near copies, {len(crossing):,} of them in several splits "
        f"({number_of(len(copies.leaked), 'test image')})"
    )
    for group in [*crossing, *(group for group in copies.groups if group not in crossing)][:_GROUPS]:
        yield "  " + ", ".join(f"{described(source)} ({split})" for split, source in group)
    if len(copies.groups) > _GROUPS:
        yield f"  … {len(copies.groups) - _GROUPS:,} more: --page FILE shows them as images"
    if copies.leaked:
        images = number_of(len(copies.copied), "image")
        yield f"  run --setting drop_near=true leaves {images} out of training and validation"
    if copies.unreadable:
        count = len(copies.unreadable)
        yield f"  {count:,} not compared (unreadable, or of one colour), such as {described(copies.unreadable[0])}"


def _listed(copies: NearSplits) -> dict[str, Any]:
    """As JSON has it."""
    groups = [[{"split": split, "file": described(source)} for split, source in group] for group in copies.groups]
    return {
        "compared": copies.compared,
        "groups": groups,
        "test_images": sorted(map(described, copies.leaked)),
        "not_compared": [described(source) for source in copies.unreadable],
    }
