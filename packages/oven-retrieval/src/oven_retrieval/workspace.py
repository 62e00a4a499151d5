"""One folder per project: `kb/` the entities, `names/` their name index, `typos/`, `vectors/` and `index/` if any."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from .building import add_entities, build_kb_from_file, compact, remove_entities
from .kb import KnowledgeBase
from .names import (
    STEPS,
    Links,
    NameLinker,
    build_linker,
    build_name_index,
    open_name_index,
    open_typo_index,
    update_name_index,
    write_typo_index,
)
from .readers import read_entities

BLOCK = 8192
LONGEST_NAME = 10_000
"""Lines with more characters are no names: they are not linked, and their records say so."""


def build_workspace(
    source: str | Path,
    folder: str | Path,
    *,
    file_format: str | None = None,
    filters: Sequence[str] = (),
    tokenizer: str = "words",
    typos: bool = False,
    overwrite: bool = False,
    progress: Callable[[int], None] | None = None,
) -> NameLinker:
    """Build the knowledge base and the name index of an entity file.

    Args:
        source: Wiki6M jsonl, JSONL, CSV or WordNet nouns, `.gz` too.
        folder: where `kb/` and `names/` are written.
        file_format: `wiki6m`, `jsonl`, `csv` or `wordnet`; None finds out.
        filters: pages to leave out, of `disambiguation`, `redirects`, `media`.
        tokenizer: `words` or `whitespace`.
        typos: also write `typos/`, for names that are misspelt.
        overwrite: replace what is there.
        progress: called with the number of entities after each 100,000.

    Raises:
        EntityFileError: file, line and field of a row that cannot be read.
        FileExistsError: names the folder that is in the way.
    """
    folder = Path(folder)
    kb = build_kb_from_file(
        source, folder / "kb", file_format=file_format, filters=filters, overwrite=overwrite, progress=progress
    )
    linker = build_name_index(kb, folder / "names", tokenizer=tokenizer, overwrite=overwrite)
    if typos:
        linker.typos = write_typo_index(kb, folder / "typos", overwrite=overwrite)
    return linker


def open_workspace(folder: str | Path, *, engine: str = "pruned", typos: bool = False) -> NameLinker:
    """Open the linker of `build_workspace`; another engine than `pruned` is built anew, in memory.

    Args:
        folder: the project folder.
        engine: `pruned`, `rank_bm25` or `bm25s`.
        typos: with the typo step, which needs `typos/`.

    Raises:
        FolderError: a part is missing, damaged, or of other entities.
    """
    kb = KnowledgeBase(Path(folder) / "kb")
    linker = open_name_index(Path(folder) / "names", kb)
    if engine != "pruned":
        linker = build_linker(kb, engine=engine, tokenizer=linker.tokenizer)
    if typos:
        linker.typos = open_typo_index(Path(folder) / "typos", kb)
    return linker


def update_workspace(folder: str | Path) -> NameLinker:
    """Bring the name index, and the typo index if there is one, up to date with the entities.

    After every edit this is what makes the entities findable. It may be called again at any time: what is up to date
    stays as it is.
    """
    folder = Path(folder)
    kb = KnowledgeBase(folder / "kb")
    linker = update_name_index(folder / "names", kb)
    if (folder / "typos").is_dir():
        linker.typos = write_typo_index(kb, folder / "typos", overwrite=True)
    return linker


def add_to_workspace(
    source: str | Path,
    folder: str | Path,
    *,
    file_format: str | None = None,
    filters: Sequence[str] = (),
    progress: Callable[[int], None] | None = None,
) -> NameLinker:
    """Add the entities of a file to a project and bring its indexes up to date.

    Arguments and errors as in `build_workspace` and `add_entities`.
    """
    rows = read_entities(source, file_format)
    kb = KnowledgeBase(Path(folder) / "kb")
    add_entities(kb, rows, source=str(source), filters=filters, progress=progress)
    return update_workspace(folder)


def remove_from_workspace(ids: Sequence[str], folder: str | Path) -> NameLinker:
    """Remove entities from a project and bring its indexes up to date; errors as in `remove_entities`."""
    remove_entities(KnowledgeBase(Path(folder) / "kb"), ids)
    return update_workspace(folder)


def compact_workspace(folder: str | Path) -> NameLinker:
    """Close the gaps that removed entities have left, and bring the indexes up to date."""
    compact(KnowledgeBase(Path(folder) / "kb"))
    return update_workspace(folder)


def describe_links(kb: KnowledgeBase, names: Sequence[str], links: Links) -> Iterator[dict[str, Any]]:
    """One record per name: the query and its entities with id, name, step and score (None for the exact steps).

    The score is BM25's, or minus the number of edits for a typo.
    """
    for name, rows, steps, scores in zip(names, links.rows, links.steps, links.scores, strict=True):
        yield {
            "query": name,
            "entities": [
                {
                    "id": kb.ids[row],
                    "name": kb.names[row],
                    "step": STEPS[step],
                    "score": None if np.isnan(score) else round(float(score), 4),
                }
                for row, step, score in zip(rows.tolist(), steps.tolist(), scores.tolist(), strict=True)
                if row >= 0
            ],
        }


def link_lines(
    linker: NameLinker, lines: Iterable[str], k: int = 1, *, exact_first: bool = True
) -> Iterator[dict[str, Any]]:
    r"""Link a stream of names, one per line, in blocks of 8,192.

    Args:
        linker: of a project.
        lines: of any length; blank ones, and those above `LONGEST_NAME` characters, are answered without an entity.
        k: entities per name, at most as many as there are.
        exact_first: False for BM25 alone.

    Returns:
        One record per line, as `describe_links` makes them; one without an entity says why in `problem`. The query of
        a line that is too long is its start.

    Raises:
        ValueError: k and the number of entities.

    Example:
        >>> import tempfile, pathlib
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "kb.csv").write_text("id,name,aliases\nQ31,Belgium,Belgie|Belgique\n", encoding="utf-8")
        >>> linker = build_workspace(folder / "kb.csv", folder / "project")
        >>> next(link_lines(linker, ["belgique"]))["entities"]
        [{'id': 'Q31', 'name': 'Belgium', 'step': 'folded alias', 'score': None}]
        >>> [record["problem"] for record in link_lines(linker, ["", "zzz"])]
        ['empty line', 'no name shares a word with it']
    """
    if k > linker.kb.entity_count:
        raise ValueError(f"k: expected at most {linker.kb.entity_count:,}, the entities of {linker.kb.path}, got {k:,}")
    stream = iter(lines)
    while block := [line.rstrip("\r\n") for line in islice(stream, BLOCK)]:
        asked = [line if len(line) <= LONGEST_NAME else "" for line in block]
        for line, record in zip(
            block, describe_links(linker.kb, asked, linker.link(asked, k, exact_first=exact_first)), strict=True
        ):
            if not record["entities"]:
                record["problem"] = "no name shares a word with it"
                if len(line) > LONGEST_NAME:
                    record["query"] = line[:80] + "…"
                    record["problem"] = f"{len(line):,} characters, expected at most {LONGEST_NAME:,}"
                elif not line.strip():
                    record["problem"] = "empty line"
            yield record
