"""What goes to a terminal: control characters of names, notes and classes are shown, never obeyed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from gate_runner.errors import printable

_LAYOUT = "\n\t"


class Terminal(Console):
    """A console whose texts are `printable`."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The segments of what is shown."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text, _LAYOUT))


def echo(text: object, *, err: bool = False, nl: bool = True) -> None:
    """Print lines as `printable`."""
    typer.echo(printable(str(text), _LAYOUT), err=err, nl=nl)


def echo_json(value: Any) -> None:
    """Print a value, a record or a list of records as JSON."""
    typer.echo(json.dumps(value, indent=2, allow_nan=False, default=asdict))
