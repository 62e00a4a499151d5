"""``gate-runner env``: versions, hardware and extras, for reports of problems."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from gate_runner.terminal import echo


def env(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print versions, hardware and which extras are there; nothing that identifies a person."""
    from gate_runner.environment import described, environment

    entries = environment()
    echo(json.dumps(entries, indent=1) if as_json else "\n".join(described(entries)))
