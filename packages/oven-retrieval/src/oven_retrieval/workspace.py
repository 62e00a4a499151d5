"""One folder per project: `kb/` the entities, `names/` their name index, `vectors/` and `index/` if any."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from .kb import KnowledgeBase, build_kb_from_file
from .names import STEPS, Links, NameLinker, build_linker, build_name_index, open_name_index

BLOCK = 8192


def build_workspace(
    source: str | Path,
    folder: str | Path,
    *,
    file_format: str | None = None,
    filters: Sequence[str] = (),
    tokenizer: str = "words",
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
    return build_name_index(kb, folder / "names", tokenizer=tokenizer, overwrite=overwrite)


def open_workspace(folder: str | Path, *, engine: str = "pruned") -> NameLinker:
    """Open the linker of `build_workspace`; another engine than `pruned` is built anew, in memory."""
    kb = KnowledgeBase(Path(folder) / "kb")
    linker = open_name_index(Path(folder) / "names", kb)
    return linker if engine == "pruned" else build_linker(kb, engine=engine, tokenizer=linker.tokenizer)


def describe_links(kb: KnowledgeBase, names: Sequence[str], links: Links) -> Iterator[dict[str, Any]]:
    """One record per name: the query and its entities with id, name, step and BM25 score (None for the exact steps)."""
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

    Example:
        >>> import tempfile, pathlib
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "kb.csv").write_text("id,name,aliases\nQ31,Belgium,Belgie|Belgique\n", encoding="utf-8")
        >>> linker = build_workspace(folder / "kb.csv", folder / "project")
        >>> next(link_lines(linker, ["belgique"]))["entities"]
        [{'id': 'Q31', 'name': 'Belgium', 'step': 'folded alias', 'score': None}]
    """
    stream = iter(lines)
    while block := [line.rstrip("\r\n") for line in islice(stream, BLOCK)]:
        yield from describe_links(linker.kb, block, linker.link(block, k, exact_first=exact_first))
