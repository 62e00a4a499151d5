"""``gate-runner submission``: ELEVATER's zips of predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gate_runner.terminal import echo

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Zip = Annotated[Path, typer.Argument(metavar="ZIP", help="A zip with all_predictions.json, or one data set's .json.")]


@app.command(name="write")
def write_zip(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A grid's folder, filled with --predictions.")],
    path: Annotated[Path, typer.Argument(metavar="ZIP", help="To be written.")],
    model: Annotated[str, typer.Option(help="Name of the model.")],
    shots: Annotated[str, typer.Option(help="0, 5, …, or full.")] = "5",
    tune: Annotated[str, typer.Option(help="frozen or full.")] = "frozen",
    init: Annotated[str, typer.Option(help="random or language.")] = "language",
    projection: Annotated[str, typer.Option(help="1p or 2p.")] = "2p",
    knowledge: Annotated[str, typer.Option(help="none, a source, or auto.")] = "none",
) -> None:
    """Write one way to adapt, out of a grid, as ELEVATER takes it."""
    from gate_runner.axes import FULL
    from gate_runner.submission import entries_of, write_submission

    number = FULL if shots == "full" else int(shots)
    entries = entries_of(
        run, model=model, shots=number, tune=tune, init=init, projection=projection, knowledge=knowledge
    )
    write_submission(entries, path)
    echo(f"wrote {path}: {len(entries)} data sets")


@app.command()
def check(
    path: Zip,
    whole: Annotated[bool, typer.Option("--whole/--part", help="Whether all 20 data sets must be there.")] = True,
) -> None:
    """Say whether ELEVATER would take a zip."""
    from gate_runner.submission import read_submission

    for entry in read_submission(path, whole=whole):
        seeds, images, classes = entry.predictions.shape
        echo(f"{entry.dataset}: {seeds} seeds, {images:,} images, {classes} classes")


@app.command()
def score(
    path: Zip,
    data_root: Annotated[Path, typer.Option(help="Folder with the data sets' files, best ELEVATER's own copies.")],
    whole: Annotated[bool, typer.Option("--whole/--part", help="Whether all 20 data sets must be there.")] = False,
) -> None:
    """Score a zip against the data sets' own labels."""
    from gate_runner.benchmarks import BENCHMARKS, DataRequest
    from gate_runner.submission import read_submission, score_entry

    means = []
    for entry in read_submission(path, whole=whole):
        data = BENCHMARKS[entry.dataset].load_undivided("local", DataRequest(data_root, None, 8))
        scored = score_entry(entry, data.test.targets.numpy(), data.classes)
        means.append(scored)
        echo(f"{scored.dataset}: {scored.metric} {100 * scored.mean:.2f} over {len(scored.values)} seeds")
        if scored.warning:
            echo(f"  {scored.warning}", err=True)
    echo(f"mean of {len(means)}: {100 * sum(scored_set.mean for scored_set in means) / len(means):.2f}")
