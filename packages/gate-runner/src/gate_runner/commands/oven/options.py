"""Options that several commands share, and an encoder's name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from gate_runner.encoders.encoder import Encoder

Folder = Annotated[Path, typer.Option("--kb", help="Folder written by `gate-runner oven build`.")]
Best = Annotated[int, typer.Option("-k", min=1, help="Entities per query.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object per query.")]
FileFormat = Annotated[
    str | None,
    typer.Option("--format", help="wiki6m, jsonl, csv, wordnet, wordnet-files, wikidata; else found out."),
]
LeaveOut = Annotated[
    list[str] | None, typer.Option(help="Pages to leave out: disambiguation, redirects, media. Repeatable.")
]
NamedEncoder = Annotated[
    str | None, typer.Option("--encoder", help="Spec of the encoder, where the folder names code or a hub.")
]


def encoder_name(model: Encoder) -> str:
    """The encoder's name with its weights: features of other weights are refused."""
    return f"{model.spec}@{(model.fingerprint() or 'unknown')[:12]}"


def check_best(k: int, entities: int) -> None:
    """Refuse more answers than there are entities.

    Args:
        k: entities per query.
        entities: how many there are.

    Raises:
        UsageError: both numbers.
    """
    from gate_runner.errors import UsageError

    if k > entities:
        raise UsageError(f"-k {k}: expected at most {entities:,}, the number of entities")
