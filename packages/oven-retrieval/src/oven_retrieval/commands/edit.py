"""``oven add``, ``remove`` and ``update``: a knowledge base is written anew with other entities."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oven_retrieval.commands.encoders import Encoders, encoder_name
from oven_retrieval.commands.options import FileFormat, Folder, LeaveOut, NamedEncoder
from oven_retrieval.commands.progress_line import ProgressLine
from oven_retrieval.commands.terminal import echo
from wary_files.text import number_of

if TYPE_CHECKING:
    from oven_retrieval import NameLinker
    from oven_retrieval.encoding import TextEncoder


def add(
    context: typer.Context,
    source: Annotated[Path, typer.Argument(help="Entities to add, in any of the formats of `build`.")],
    kb: Folder,
    file_format: FileFormat = None,
    leave_out: LeaveOut = None,
    encoder: NamedEncoder = None,
) -> None:
    """Add entities without a build.

    The name index follows, with the answers of a build from scratch, and so do the vectors.
    """
    from oven_retrieval.workspace import add_to_workspace

    with ProgressLine() as progress:
        linker = add_to_workspace(source, kb, file_format=file_format, filters=leave_out or (), progress=progress)
    _report(context.obj, linker, kb, encoder)


def remove(
    context: typer.Context,
    kb: Folder,
    ids: Annotated[list[str] | None, typer.Argument(help="Ids of the entities to remove.")] = None,
    ids_from: Annotated[Path | None, typer.Option(help="File with one id per line.")] = None,
    encoder: NamedEncoder = None,
) -> None:
    """Remove entities by id.

    Nothing is removed if one of the ids is not there.
    """
    from oven_retrieval.workspace import remove_from_workspace

    names = list(ids or ())
    if ids_from is not None:
        names += [line.strip() for line in ids_from.read_text(encoding="utf-8-sig").split("\n") if line.strip()]
    if not names:
        raise ValueError("remove: expected ids or --ids-from, got none")
    _report(context.obj, remove_from_workspace(names, kb), kb, encoder)


def update(
    context: typer.Context,
    kb: Folder,
    rebuild: Annotated[
        bool,
        typer.Option("--rebuild", help="Build the name indexes again from the entities, whatever is there."),
    ] = False,
    encoder: NamedEncoder = None,
) -> None:
    """Finish an edit that was interrupted.

    It brings the indexes up to date with the entities.
    """
    from oven_retrieval.workspace import update_workspace

    _report(context.obj, update_workspace(kb, rebuild=rebuild), kb, encoder)


def verify(kb: Folder) -> None:
    """Compare a project's files with their digests."""
    from oven_retrieval.workspace import verify_workspace

    echo(f"{kb}: whole: {', '.join(verify_workspace(kb))}")


def _report(encoders: Encoders, linker: NameLinker, folder: Path, encoder: str | None) -> None:
    echo(f"{number_of(len(linker.kb), 'entity', 'entities')} in {folder}")
    if (folder / "vectors").is_dir():
        from oven_retrieval.encoding import update_vectors

        def make_encoder(name: str) -> TextEncoder:
            return _encoder(encoders, name, folder, encoder)

        index = update_vectors(folder, linker.kb, make_encoder, say=echo)
        echo(f"vectors up to date: {index.plan.factory}")


def _encoder(encoders: Encoders, name: str, folder: Path, chosen: str | None) -> TextEncoder:
    """The encoder that vectors name, or the one that is given, if it still has the weights that made them."""
    spec = chosen or encoders.of_file(name.rpartition("@")[0], folder / "vectors" / "manifest.json")
    model = encoders.load(spec, "cpu")
    if encoder_name(model) != name:
        raise ValueError(f"vectors are of {name}, expected {encoder_name(model)}; encode again with `build`")
    return model
