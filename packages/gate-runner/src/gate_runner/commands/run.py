"""``gate-runner run``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer


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
) -> None:
    """Score an encoder. The same command again continues, and computes nothing twice."""
    from gate_runner.benchmarks import resolve

    benchmarks = resolve(names)
    from gate_runner.encoders.spec import parse_spec

    parse_spec(encoder)
    from rich.console import Console

    from gate_runner.runs.display import BarDisplay, PlainDisplay
    from gate_runner.runs.execute import RunRequest
    from gate_runner.runs.execute import run as execute

    console = Console(highlight=False, soft_wrap=True)
    display = BarDisplay(console) if console.is_terminal else PlainDisplay(console)
    request = RunRequest(
        benchmarks=benchmarks,
        encoder=encoder,
        output=output or Path("runs") / folder_name(encoder, limit),
        source=source,
        data_root=data_root,
        limit=limit,
        batch_size=batch_size,
        device=_device(device),
        seeds=tuple(dict.fromkeys(seed or [0])),
    )
    try:
        results = execute(request, display)
    finally:
        if isinstance(display, BarDisplay):
            display.close()
    if any(result.status == "failed" for result in results):
        raise typer.Exit(1)


def folder_name(encoder: str, limit: int | None) -> str:
    """A folder's name from a spec.

    Example:
        >>> folder_name("open_clip:ViT-B-32/laion2b", 100)
        'open_clip-ViT-B-32-laion2b-limit100'
    """
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", encoder).strip("-.")
    return name if limit is None else f"{name}-limit{limit}"


def _device(asked: str) -> str:
    if asked != "auto":
        return asked
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"
