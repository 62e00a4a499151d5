"""Options that several commands share, besides the settings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

RunFolder = Annotated[Path | None, typer.Option("--output", help="Run folder; runs/ENCODER by default.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.", rich_help_panel="Settings, output")]
