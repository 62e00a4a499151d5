"""One folder per project: `kb/` the entities, `names/` their name index, `vectors/` and `index/` if any."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

from oven_retrieval.building import add_entities, build_kb_from_file, remove_entities
from oven_retrieval.evidence import name_features
from oven_retrieval.folder import MANIFEST, FolderError
from oven_retrieval.kb import KnowledgeBase
from oven_retrieval.names import (
    NameLinker,
    build_name_index,
    open_name_index,
    read_exceptions,
    update_name_index,
)
from oven_retrieval.names.index import index_phases
from oven_retrieval.progress import Progress, in_stages
from oven_retrieval.ranking import describe
from oven_retrieval.readers import read_entities
from oven_retrieval.refusal import Calibration
from oven_retrieval.tokens import TOKENIZERS
from wary_files.durable import is_held, one_writer, restore, write_file, write_whole
from wary_files.errors import UsageError
from wary_files.json_files import read_json

BLOCK = 8192
UNFINISHED = "unfinished.json"
"""Name of the note of a build's settings, which is in the folder until the build ends."""
PROJECT = "project"
"""Name of the lock of a whole project, in its folder."""
_PATIENCE = 30.0
LONGEST_NAME = 10_000
"""Lines with more characters are no names: they are not linked, and their records say so."""


def build_workspace(
    source: str | Path,
    folder: str | Path,
    *,
    file_format: str | None = None,
    filters: Sequence[str] = (),
    tokenizer: str = "words",
    ngrams: bool = True,
    languages: Sequence[str] | None = None,
    infobox: str | Path | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> NameLinker:
    """Build the knowledge base and the name index of an entity file.

    Progress is reported by phase, each with its number: "entities (1 of 7)".
    """
    folder, progress = Path(folder), in_stages(progress, ("entities", *index_phases(ngrams=ngrams)))
    with _none_left(folder), one_writer(folder / PROJECT):
        kb = build_kb_from_file(
            source,
            folder / "kb",
            file_format=file_format,
            languages=languages,
            infobox=infobox,
            filters=filters,
            overwrite=overwrite,
            progress=progress,
        )
        exceptions = read_exceptions(source) if (Path(source) / "noun.exc").is_file() else None
        return build_name_index(
            kb,
            folder / "names",
            tokenizer=tokenizer,
            ngrams=ngrams,
            exceptions=exceptions,
            overwrite=overwrite,
            progress=progress,
        )


@contextmanager
def _none_left(folder: Path) -> Iterator[None]:
    """Remove the folder again where nothing came of it and it was not there before."""
    before = folder.exists()
    try:
        yield
    except BaseException:
        if not before:
            with suppress(OSError):  # it holds something
                folder.rmdir()
        raise


@contextmanager
def continued_build(folder: str | Path, settings: Mapping[str, Any], *, overwrite: bool) -> Iterator[bool]:
    """Yield whether a build may replace what is there: if it was asked to, or if a killed build has left it.

    A note with the settings is in the folder from the beginning of a build to its end. The same command finds it, and
    continues: entities and names are made again, vectors go on where they were.

    Args:
        folder: of the build.
        settings: whatever the result depends on, as JSON has it.
        overwrite: whether a finished knowledge base is replaced.

    Raises:
        UsageError: a killed build with other settings is there; names them.
    """
    folder = Path(folder)
    note, manifest = folder / UNFINISHED, folder / "kb" / MANIFEST
    left = _noted(note)
    if left is not None and left != settings and not overwrite:
        differing = ", ".join(name for name in settings if left.get(name) != settings[name]) or "settings"
        raise UsageError(
            f"{folder} holds an unfinished build with other {differing}: give --overwrite to replace it, or another "
            "--output"
        )
    if left is None and manifest.exists() and not overwrite:  # the knowledge base's writer refuses it
        yield False
        return
    before, is_new = _stamp(manifest), not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(note, json.dumps(settings).encode())
    try:
        yield overwrite or left == settings
    except BaseException:
        if left is None and _stamp(manifest) == before:  # nothing came of it
            note.unlink(missing_ok=True)
            if is_new:
                with suppress(OSError):  # it holds something
                    folder.rmdir()
        raise
    note.unlink(missing_ok=True)


def _noted(note: Path) -> dict[str, Any] | None:
    """The settings of a build that did not end; None where there is no note that can be read."""
    try:
        content = read_json(note)
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _stamp(file: Path) -> tuple[int, int] | None:
    """What tells a file from another one in its place; None where there is none."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def open_workspace(folder: str | Path, *, typos: bool = False) -> NameLinker:
    """Open the linker of `build_workspace`.

    Where an edit is under way, whose entities the index does not have yet, it waits up to half a minute.
    """
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            linker = open_name_index(Path(folder) / "names", KnowledgeBase(Path(folder) / "kb"))
            linker.typos = typos
            return linker
        except FolderError as error:
            if time.monotonic() > deadline or not is_held(Path(folder) / PROJECT):
                if (Path(folder) / "kb").exists():
                    raise
                raise FolderError(
                    f"{folder}: it holds no knowledge base; `oven build FILE --output {folder}` builds one"
                ) from error
        time.sleep(0.05)


def update_workspace(folder: str | Path, *, rebuild: bool = False, progress: Progress | None = None) -> NameLinker:
    """Bring the name index up to date with the entities.

    What is up to date stays as it is; with `rebuild` the index is built anew whatever state it is in, with the
    tokenizer that it had where that can still be read.
    """
    folder = Path(folder)
    with one_writer(folder / PROJECT):
        restore(folder / "kb")
        kb = KnowledgeBase(folder / "kb", verify=rebuild)
        if rebuild:
            tokenizer = _tokenizer(folder / "names")
            _put_aside(folder / "names")
            return build_name_index(kb, folder / "names", tokenizer=tokenizer, overwrite=True, progress=progress)
        return update_name_index(folder / "names", kb, progress=progress)


def _tokenizer(names: Path) -> str:
    """The tokenizer that a name index, however damaged, says that it has."""
    try:
        tokenizer = str(read_json(names / MANIFEST)["meta"]["tokenizer"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return "words"
    return tokenizer if tokenizer in TOKENIZERS else "words"


def _put_aside(index: Path) -> None:
    """Let a folder that has lost its manifest be one that may be written over."""
    if index.is_dir() and not (index / MANIFEST).is_file():
        write_file(index / MANIFEST, "{}")


def verify_workspace(folder: str | Path) -> list[str]:
    """Compare every byte of a project's folders with the digests that they were written with.

    Returns:
        The folders that were compared.

    Raises:
        FolderError: names the first file that has changed, or the index that was built from other entities.
    """
    folder = Path(folder)
    kb = KnowledgeBase(folder / "kb", verify=True)
    compared = ["kb"]
    if (folder / "names").is_dir():
        open_name_index(folder / "names", kb, verify=True)
        compared.append("names")
    if (folder / "vectors").is_dir():
        from oven_retrieval.vectors import VectorStore, open_index  # loads FAISS

        store = VectorStore(folder / "vectors", kb=kb.hash, verify=True)
        compared.append("vectors")
        if (folder / "index").is_dir():
            open_index(folder / "index", store, verify=True)
            compared.append("index")
    return compared


def add_to_workspace(
    source: str | Path,
    folder: str | Path,
    *,
    file_format: str | None = None,
    filters: Sequence[str] = (),
    progress: Progress | None = None,
) -> NameLinker:
    """Add the entities of a file to a project and bring its indexes up to date, as one operation.

    Arguments and errors as in `build_workspace` and `add_entities`.
    """
    rows = read_entities(source, file_format)
    with one_writer(Path(folder) / PROJECT):
        kb = KnowledgeBase(Path(folder) / "kb")
        add_entities(kb, rows, source=str(source), filters=filters, progress=progress)
        return update_workspace(folder, progress=progress)


def remove_from_workspace(ids: Sequence[str], folder: str | Path) -> NameLinker:
    """Remove entities from a project and bring its indexes up to date; errors as in `remove_entities`."""
    with one_writer(Path(folder) / PROJECT):
        remove_entities(KnowledgeBase(Path(folder) / "kb"), ids)
        return update_workspace(folder)


def link_lines(
    linker: NameLinker,
    lines: Iterable[str],
    k: int = 1,
    *,
    exact_first: bool = True,
    languages: Sequence[str] | None = None,
    calibration: Calibration | None = None,
    drop_weak: bool = False,
) -> Iterator[dict[str, Any]]:
    """Link a stream of names, one per line, in blocks of 8,192; arguments as of `link_blocks`."""
    stream = iter(lines)
    blocks = iter(lambda: list(islice(stream, BLOCK)), [])
    return link_blocks(
        linker,
        blocks,
        k,
        exact_first=exact_first,
        languages=languages,
        calibration=calibration,
        drop_weak=drop_weak,
    )


def link_blocks(
    linker: NameLinker,
    blocks: Iterable[Sequence[str]],
    k: int = 1,
    *,
    exact_first: bool = True,
    languages: Sequence[str] | None = None,
    calibration: Calibration | None = None,
    drop_weak: bool = False,
) -> Iterator[dict[str, Any]]:
    """Link blocks of names: those of a block are answered before the next one is asked for.

    An entity of a record has `weak` where its link is weak (see `NameLinker.weak`); `drop_weak` leaves these out.
    """
    if not len(linker.kb):
        raise ValueError(f"{linker.kb.path}: holds no entity; expected at least one to link names to")
    if k > len(linker.kb):
        raise ValueError(f"k: expected at most {len(linker.kb):,}, the entities of {linker.kb.path}, got {k:,}")
    for lines in blocks:
        block = [line.rstrip("\r\n") for line in lines]
        names = [line if len(line) <= LONGEST_NAME else "" for line in block]
        sure, absent = None, None
        if calibration is not None:
            features = name_features(linker, names)[1]
            sure = calibration.probability(features).tolist()
            absent = (1 - calibration.presence(features)).tolist() if calibration.there else None
        links = linker.link(names, k, exact_first=exact_first, languages=languages)
        weak = linker.weak(names, links)
        for number, (line, record) in enumerate(zip(block, describe(linker.kb.label, names, links), strict=True)):
            _mark_weak(record, weak[number].tolist(), drop_weak)
            if sure is not None and calibration is not None and record["entities"]:
                record["probability"] = round(sure[number], 4)
                if sure[number] < calibration.threshold:
                    record["entities"] = []
                    record["problem"] = f"not in here: the best is right with a probability of {sure[number]:.2f}"
                if absent is not None:
                    record["not in here"] = round(absent[number], 4)
            if not record["entities"] and "problem" not in record:
                record["problem"] = "no name is like it"
                if len(line) > LONGEST_NAME:
                    record["query"] = line[:80] + "…"
                    record["problem"] = f"{len(line):,} characters, expected at most {LONGEST_NAME:,}"
                elif not line.strip():
                    record["problem"] = "empty line"
            yield record


def _mark_weak(record: dict[str, Any], weak: Sequence[bool], drop: bool) -> None:
    """Mark the weak links of a record, or leave them out and say what the best of them was."""
    for entity, is_weak in zip(record["entities"], weak, strict=False):  # of empty places there is no entity
        if is_weak:
            entity["weak"] = True
    strong = [entity for entity in record["entities"] if "weak" not in entity]
    if drop and len(strong) < len(record["entities"]):
        if not strong:
            best = record["entities"][0]
            record["problem"] = f"only weak links: the best is {best['name']!r} ({best['id']})"
        record["entities"] = strong
