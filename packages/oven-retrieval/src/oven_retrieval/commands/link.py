"""``oven link`` and ``oven calibrate``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oven_retrieval.commands.options import AsJson, Best, Folder
from oven_retrieval.commands.terminal import echo

if TYPE_CHECKING:
    from oven_retrieval.refusal import Calibration


CALIBRATION = "calibration.json"


def link(
    kb: Folder,
    source: Annotated[Path, typer.Argument(help="File with one name per line; - for standard input.")] = Path("-"),
    k: Best = 1,
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
    drop_weak: Annotated[
        bool, typer.Option("--drop-weak", help="Leave out links that are written less than half alike.")
    ] = False,
    also: Annotated[
        Path | None, typer.Option(help="File of further entities, added for this run without a build.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Map names to entities by spelling, then likeness.

    Each line is one name. The steps are exact names and aliases, case-folded ones, inflections, character trigrams
    if a word is in no name or a letter not English, BM25. A tab-separated line holds the query, the entity's id and
    name, the step, the score, and "weak" if the link is by trigrams or BM25 and the name is written less than half
    alike. If nothing is like it: no id, no name, "none", and why.
    """
    from oven_retrieval.workspace import link_blocks, open_workspace

    if typos and bm25_only:
        raise ValueError("link: --bm25-only skips every other step, also --typos; expected one of them")
    linker = open_workspace(kb, typos=typos)
    calibration = _calibration(kb, linker.kb.hash) if refuse else None
    if also is not None:
        from oven_retrieval.names import extend_linker
        from oven_retrieval.readers import read_entities

        linker = extend_linker(linker, read_entities(also))
    if str(source) != "-" and not source.exists():
        raise ValueError(f"{source}: no such file; expected one name per line, or - for standard input")
    for record in link_blocks(
        linker,
        _blocks(source),
        k,
        exact_first=not bm25_only,
        languages=language,
        calibration=calibration,
        drop_weak=drop_weak,
    ):
        if as_json:
            echo(json.dumps(record, ensure_ascii=False))
            continue
        query = " ".join(record["query"].split())
        for entity in record["entities"]:
            score = _written(entity["step"], entity["score"])
            weak = ["weak"] if entity.get("weak") else []
            identity, name = (" ".join(entity[field].split()) for field in ("id", "name"))
            echo("\t".join([query, identity, name, entity["step"], score, *weak]))
        if not record["entities"]:
            echo("\t".join([query, "", "", "none", "", record["problem"]]))


def _written(step: str, score: float | None) -> str:
    """A score in text: the number of edits of a typo, of which it is the negative, and three digits of others."""
    from oven_retrieval.names.linker import TYPO

    if score is None:
        return ""
    if step == TYPO:
        return f"{-score:.0f} edit{'s' * (score != -1)}"
    return f"{score:.3f}"


def _calibration(kb: Path, entities: str) -> Calibration:
    """The calibration of a project, and a word where it was learnt on other entities than there are now."""
    from oven_retrieval.refusal import Calibration

    if not (kb / CALIBRATION).is_file():
        raise ValueError(f"link --refuse: {kb} has no {CALIBRATION}; expected `oven calibrate` before")
    calibration = Calibration.read(kb / CALIBRATION)
    if calibration.kb != entities:
        echo(f"{kb / CALIBRATION} was learnt on other entities than {kb} holds now: calibrate again", err=True)
    return calibration


_CHUNK = 1 << 18


def _blocks(source: Path) -> Iterator[list[str]]:
    """Lines of a file or of standard input, as many as have come; one that is not UTF-8 is an error with its number."""
    where = "standard input" if str(source) == "-" else str(source)
    number, begun = 0, bytearray()
    opened: Any = sys.stdin.buffer if str(source) == "-" else source.open("rb")
    with opened as file:
        while chunk := file.read1(_CHUNK):  # does not wait for more than there is
            begun += chunk
            whole = begun.rfind(b"\n") + 1
            if whole:
                yield _decoded(bytes(begun[: whole - 1]).split(b"\n"), where, number)
                number += begun.count(b"\n", 0, whole)
                del begun[:whole]
        if begun:
            yield _decoded([bytes(begun)], where, number)


def _decoded(lines: list[bytes], where: str, before: int) -> list[str]:
    texts = []
    for number, line in enumerate(lines, start=before + 1):
        try:
            texts.append(line.decode("utf-8-sig" if number == 1 else "utf-8"))
        except UnicodeDecodeError as error:
            raise ValueError(f"{where}:{number}: expected UTF-8: {error.reason}") from None
    return texts


def calibrate(
    labelled: Annotated[Path, typer.Argument(help="JSONL: name, and entity_id or null where it is not in here.")],
    kb: Folder,
    precision: Annotated[float, typer.Option(help="Wanted share of right answers among those that are given.")] = 0.95,
    seed: Annotated[int, typer.Option(help="Seed of the parts to fit, choose and test on.")] = 0,
) -> None:
    """Learn from labelled names when to refuse.

    `link --refuse` then says that an entity is not in the knowledge base.
    """
    from oven_retrieval.refusal import calibrate_names
    from oven_retrieval.text_files import json_objects
    from oven_retrieval.workspace import open_workspace

    names: list[str] = []
    ids: list[str | None] = []
    for number, record in json_objects(labelled):
        name, entity = record.get("name"), record.get("entity_id")
        if not isinstance(name, str) or not (entity is None or isinstance(entity, str)):
            raise ValueError(
                f"{labelled}:{number}: expected a name and an entity_id (a text or null), got {record!r:.80}"
            )
        names.append(name)
        ids.append(entity)
    linker = open_workspace(kb)
    model, report = calibrate_names(linker, names, ids, precision, seed=seed)
    replace(model, kb=linker.kb.hash).write(kb / CALIBRATION)
    auroc = ""
    if report.auroc == report.auroc:
        auroc = f"; AUROC {report.auroc:.3f} for being in here, {report.trivial_auroc:.3f} by spelling alone"
    interval = f"{report.precision_low:.1%} to {report.precision_high:.1%}"
    answered = f"{report.coverage:.1%} answered, {report.precision:.1%} of these right ({interval})"
    echo(f"on {report.queries:,} names of other entities: {answered}{auroc}")
    echo("of the surest names    right    95 % interval")
    for point in report.curve:
        echo(f"{point.coverage:20.0%} {point.precision:8.1%}    {point.low:.1%} to {point.high:.1%}")
