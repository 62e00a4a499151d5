"""Options that several commands share, besides the settings of `gate_runner.options`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Names = Annotated[
    list[str], typer.Argument(metavar="PACK|BENCHMARK...", help="What to run; see 'gate-runner ls packs'.")
]
SomeNames = Annotated[
    list[str] | None, typer.Argument(metavar="PACK|BENCHMARK...", help="What to run; see 'gate-runner ls packs'.")
]
EncoderSpec = Annotated[str, typer.Option("--encoder", help="Spec of the encoder; see 'gate-runner ls encoders'.")]
RunFolder = Annotated[Path | None, typer.Option("--output", help="Run folder; runs/ENCODER by default.")]
Runs = Annotated[
    list[Path], typer.Argument(metavar="RUN", help="Run folders; the first is what others are compared with.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
