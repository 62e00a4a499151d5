"""Options that several commands share, besides the settings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

RunFolder = Annotated[Path | None, typer.Option("--output", help="Run folder; runs/ENCODER by default.")]
_FILES = "Settings, output"
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.", rich_help_panel=_FILES)]
Setting = Annotated[
    list[str] | None,
    typer.Option(
        "--setting",
        metavar="NAME=VALUE",
        help="Any other setting, e.g. wise_ft=0.5; gate-runner ls settings has them.",
        rich_help_panel=_FILES,
    ),
]
