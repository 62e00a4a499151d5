"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Folder = Annotated[Path, typer.Option("--kb", help="Folder written by `oven build`.")]
Best = Annotated[int, typer.Option("-k", min=1, help="Entities per query.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object per query.")]
FileFormat = Annotated[
    str | None,
    typer.Option("--format", help="wiki6m, jsonl, csv, names (a line each), wordnet, wikidata; else found out."),
]
LeaveOut = Annotated[
    list[str] | None, typer.Option(help="Pages to leave out: disambiguation, redirects, media. Repeatable.")
]
NamedEncoder = Annotated[
    str | None, typer.Option("--encoder", help="Spec of the encoder, where the folder names code or a hub.")
]


def check_best(k: int, entities: int) -> None:
    """Refuse more answers than there are entities."""
    if k > entities:
        raise ValueError(f"-k {k}: expected at most {entities:,}, the number of entities")
