"""``gate-runner run``."""

from __future__ import annotations

from typing import Annotated, Unpack

import typer

from gate_runner.commands.options import EncoderSpec, Names, RunFolder
from gate_runner.errors import UsageError
from gate_runner.options import Options
from gate_runner.settings import Settings
from gate_runner.signatures import as_command


@as_command
def run(
    names: Names,
    encoder: EncoderSpec = "micro-clip",
    output: RunFolder = None,
    ray_address: Annotated[
        str | None, typer.Option(help="A Ray cluster's address; with --executor ray. One is started here by default.")
    ] = None,
    tracker: Annotated[
        list[str] | None, typer.Option(help="tensorboard or wandb (extras); may be given several times.")
    ] = None,
    **options: Unpack[Options],
) -> None:
    """Score an encoder. The same command again continues, and computes nothing twice."""
    from gate_runner.runs.request import make_request

    settings = Settings().changed(**options)
    if ray_address is not None:
        if settings.executor != "ray":
            raise UsageError(f"--ray-address goes with --executor ray, not {settings.executor}")
        settings = settings.changed(executor_options={**settings.executor_options, "address": ray_address})
    request = make_request(names, encoder, output=output, settings=settings)
    from gate_runner.trackers import make_trackers

    trackers = make_trackers(tracker or [])
    from rich.console import Console

    from gate_runner.executors import run as execute
    from gate_runner.runs.display import BarDisplay, PlainDisplay

    console = Console(highlight=False, soft_wrap=True)
    workers = settings.workers
    display = BarDisplay(console, workers) if console.is_terminal else PlainDisplay(console, workers)
    try:
        results = execute(request, display, trackers)
    finally:
        display.close()
    if any(result.status == "failed" for result in results):
        raise typer.Exit(1)
