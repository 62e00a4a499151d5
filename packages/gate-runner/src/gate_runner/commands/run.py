"""``gate-runner run``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from gate_runner.errors import UsageError


def run(
    names: Annotated[
        list[str], typer.Argument(metavar="PACK|BENCHMARK...", help="What to run; see 'gate-runner ls packs'.")
    ],
    encoder: Annotated[str, typer.Option(help="Spec of the encoder; see 'gate-runner ls encoders'.")] = "micro-clip",
    data_root: Annotated[Path | None, typer.Option(help="Folder with data sets' original files.")] = None,
    source: Annotated[str | None, typer.Option(help="local, built-in or micro; by default the first possible.")] = None,
    output: Annotated[Path | None, typer.Option(help="Run folder; runs/ENCODER by default.")] = None,
    limit: Annotated[int | None, typer.Option(help="At most so many samples in each split.")] = None,
    batch_size: Annotated[int, typer.Option(help="Images per call of the encoder.")] = 128,
    device: Annotated[
        str, typer.Option(help="A torch device; 'auto' takes the first GPU where there is one.")
    ] = "auto",
    seed: Annotated[
        list[int] | None, typer.Option(help="Seed of heads and batches; may be given several times.")
    ] = None,
    workers: Annotated[int, typer.Option(help="Benchmarks at the same time on CPUs; on GPUs, one for each.")] = 1,
    isolate: Annotated[
        str,
        typer.Option(help="none: this process; worker: one that is replaced when it dies; benchmark: a new one each."),
    ] = "worker",
    time_limit: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Stop a benchmark after, e.g., 20m; it counts as failed.")
    ] = None,
    retries: Annotated[int, typer.Option(help="How often to try again what failed, from where it stopped.")] = 0,
    recompute: Annotated[bool, typer.Option("--recompute", help="Compute damaged or edited results again.")] = False,
    executor: Annotated[str, typer.Option(help="local, ray, slurm or a plug-in.")] = "local",
    ray_address: Annotated[
        str | None, typer.Option(help="A Ray cluster's address; with --executor ray. One is started here by default.")
    ] = None,
    executor_option: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="For the executor; may be given several times.")
    ] = None,
    tracker: Annotated[
        list[str] | None, typer.Option(help="tensorboard or wandb (extras); may be given several times.")
    ] = None,
) -> None:
    """Score an encoder. The same command again continues, and computes nothing twice."""
    from gate_runner.runs.request import resolve_for_run

    benchmarks = resolve_for_run(names, encoder)
    from gate_runner.trackers import make_trackers

    trackers = make_trackers(tracker or [])
    options = options_in(executor_option or [])
    if ray_address is not None:
        if executor != "ray":
            raise UsageError(f"--ray-address goes with --executor ray, not {executor}")
        options["address"] = ray_address
    from rich.console import Console

    from gate_runner.runs import RunRequest
    from gate_runner.runs import run as execute
    from gate_runner.runs.display import BarDisplay, PlainDisplay
    from gate_runner.runs.naming import folder_name

    console = Console(highlight=False, soft_wrap=True)
    display = BarDisplay(console, workers) if console.is_terminal else PlainDisplay(console, workers)
    request = RunRequest(
        benchmarks=benchmarks,
        encoder=encoder,
        output=output or Path("runs") / folder_name(encoder, limit),
        source=source,
        data_root=data_root,
        limit=limit,
        batch_size=batch_size,
        device=device,
        seeds=tuple(dict.fromkeys(seed or [0])),
        isolate=isolate,  # type: ignore[arg-type]  # the request says which there are
        time_limit=None if time_limit is None else seconds_in(time_limit),
        retries=retries,
        workers=workers,
        recompute=recompute,
        executor=executor,
        executor_options=options,
    )
    try:
        results = execute(request, display, trackers)
    finally:
        display.close()
    if any(result.status == "failed" for result in results):
        raise typer.Exit(1)


def seconds_in(text: str) -> float:
    """A duration in seconds.

    Args:
        text: a number with ``s``, ``m``, ``h`` or ``d`` behind it; without one, seconds.

    Returns:
        Seconds, > 0.

    Raises:
        UsageError: it is none; the message shows it.

    Example:
        >>> seconds_in("20m"), seconds_in("1.5h"), seconds_in("45")
        (1200.0, 5400.0, 45.0)
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhd]?)", text.strip())
    if found is None or float(found[1]) == 0:
        raise UsageError(f"{text!r} is no duration; expected a number with s, m, h or d, e.g. 20m")
    return float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}[found[2]]


def options_in(texts: list[str]) -> dict[str, str]:
    """Options as a mapping.

    Args:
        texts: each ``KEY=VALUE``.

    Returns:
        Keys and values.

    Raises:
        UsageError: one of them has no ``=``, or no key; the message shows it.

    Example:
        >>> options_in(["partition=gpu", "constraint=a=b"])
        {'partition': 'gpu', 'constraint': 'a=b'}
    """
    for text in texts:
        if not text.partition("=")[0] or "=" not in text:
            raise UsageError(f"executor option {text!r}: expected KEY=VALUE")
    return {key: value for key, _, value in (text.partition("=") for text in texts)}
