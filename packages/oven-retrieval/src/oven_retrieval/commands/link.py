"""``oven link``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oven_retrieval.commands.options import AsJson, Best, Folder
from oven_retrieval.commands.terminal import echo

if TYPE_CHECKING:
    from oven_retrieval.refusal import Calibration


def link(
    kb: Folder,
    source: Annotated[Path, typer.Argument(help="File with one name per line; - for standard input.")] = Path("-"),
    k: Best = 1,
    engine: Annotated[str, typer.Option(help="pruned, or rank_bm25: the definition, slow.")] = "pruned",
    bm25_only: Annotated[bool, typer.Option(help="Skip the exact steps, as the paper does.")] = False,
    typos: Annotated[
        bool, typer.Option("--typos", help="Also names one or two edits away, before those that are spelled alike.")
    ] = False,
    refuse: Annotated[
        bool, typer.Option("--refuse", help="Say `not in here` as `oven calibrate` has learnt to.")
    ] = False,
    language: Annotated[
        list[str] | None, typer.Option(help="Only names and aliases of this language: en, de, ja… Repeatable.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Map names to entities: exact names and aliases, then case-folded ones, inflections, then BM25."""
    from oven_retrieval.workspace import link_lines, open_workspace

    if typos and bm25_only:
        raise ValueError("link: --bm25-only skips every other step, also --typos; expected one of them")
    linker = open_workspace(kb, engine=engine, typos=typos)
    calibration = _calibration(kb) if refuse else None
    for record in link_lines(
        linker, _lines(source), k, exact_first=not bm25_only, languages=language, calibration=calibration
    ):
        if as_json:
            echo(json.dumps(record, ensure_ascii=False))
            continue
        nothing = {"id": "-", "name": "", "step": f"none: {record.get('problem', '')}", "score": None}
        for entity in record["entities"] or [nothing]:
            score = "" if entity["score"] is None else f"{entity['score']:.3f}"
            query = " ".join(record["query"].split())
            echo("\t".join([query, entity["id"], entity["name"], entity["step"], score]))


def _calibration(kb: Path) -> Calibration:
    from oven_retrieval.commands.calibrate import CALIBRATION
    from oven_retrieval.refusal import Calibration

    if not (kb / CALIBRATION).is_file():
        raise ValueError(f"link --refuse: {kb} has no {CALIBRATION}; expected `oven calibrate` before")
    return Calibration.read(kb / CALIBRATION)


def _lines(source: Path) -> Iterator[str]:
    """Lines of a file or of standard input; one that is not UTF-8 is an error with its number."""
    with sys.stdin.buffer if str(source) == "-" else source.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                yield line.decode("utf-8")
            except UnicodeDecodeError as error:
                where = "standard input" if str(source) == "-" else source
                raise ValueError(f"{where}:{number}: expected UTF-8: {error.reason}") from None
