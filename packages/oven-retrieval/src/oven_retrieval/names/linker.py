"""Names to entities: exact and folded names first, aliases, then BM25."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from oven_retrieval.names.exact import ExactTable
from oven_retrieval.names.hits import NameEngine, check_k
from oven_retrieval.names.loose import Inflections
from oven_retrieval.names.places import wanted_languages
from oven_retrieval.names.typos import TypoIndex
from oven_retrieval.tokens import TOKENIZERS, fold, hash64

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Bool, Float64, Int64, UInt32

    from oven_retrieval.kb import KnowledgeBase

STEPS = (
    "exact name", "exact alias", "folded name", "folded alias", "inflected name", "inflected alias", "typo", "bm25",
)  # fmt: skip
_INFLECTED, _BM25 = STEPS.index("inflected name"), STEPS.index("bm25")
_ONE_BY_ONE = 8
"""So many names are linked one by one, which is quicker."""
_BLOCK = 65536


class Links(NamedTuple):
    """Entities of each name, best first, [q, k].

    `rows` -1 where there is none; `steps` index into `STEPS`, -1 where there is none; `scores` BM25's, minus the
    number of edits for a typo, NaN for the exact steps.

    Example:
        >>> links = Links(np.array([[4, -1]]), np.array([[2, -1]]), np.full((1, 2), np.nan))
        >>> [STEPS[step] for step in links.steps[0] if step >= 0]
        ['folded name']
    """

    rows: Int64[np.ndarray, "q k"]
    steps: Int64[np.ndarray, "q k"]
    scores: Float64[np.ndarray, "q k"]


class _Wanted(NamedTuple):
    """Which names count, `keys` of their languages and `names` of the engine, None for all; which steps are taken."""

    keys: UInt32[np.ndarray, " w"] | None = None
    names: Bool[np.ndarray, " n"] | None = None
    exact_first: bool = True
    guesses: bool = True


class NameLinker:
    """Map names to the entities of a knowledge base.

    Order of the answers, which is total:

    1. the step: exact name, exact alias, folded name (case, width, spacing), folded alias; English inflections of a
       name, of an alias (see `forms`); with a typo index, names one or two edits away that no word of the
       knowledge base is lost for (see `TypoIndex.is_typo`); BM25;
    2. among exact names the very same characters, among inflections the fewer changes, among typos the fewer edits,
       and among BM25's the greater score;
    3. names before aliases;
    4. sentence case (no capital after the first character) before other spellings (not among typos);
    5. the greater popularity;
    6. the earlier row of the knowledge base.

    Args:
        kb: the knowledge base.
        exact: its table of names.
        engine: its BM25 engine.
        tokenizer: name in `TOKENIZERS` that the engine was built with.
        typos: its typo index; None leaves that step out.
        inflections: that step; None leaves it out.
        name_language: `language_key` of each name of the engine; None where no name has one.

    Example:
        >>> import tempfile, pathlib
        >>> from oven_retrieval import Entity, build_kb, build_linker
        >>> entities = [Entity("Q1", "Wood Wood"), Entity("Q2", "WOOD"), Entity("Q3", "Wood"), Entity("Q4", "Duck")]
        >>> kb = build_kb(entities, pathlib.Path(tempfile.mkdtemp()) / "kb")
        >>> links = build_linker(kb).link(["wood", "a fine DUCK.", "?"], k=2)
        >>> [[kb.ids[row] if row >= 0 else None for row in rows] for rows in links.rows]
        [['Q3', 'Q2'], ['Q4', None], [None, None]]
        >>> STEPS[links.steps[0, 0]], STEPS[links.steps[1, 0]]
        ('folded name', 'bm25')
    """

    def __init__(
        self,
        kb: KnowledgeBase,
        exact: ExactTable,
        engine: NameEngine,
        tokenizer: str,
        typos: TypoIndex | None = None,
        inflections: Inflections | None = None,
        name_language: UInt32[np.ndarray, " n"] | None = None,
    ) -> None:
        self._name_language = name_language
        self._spoken: tuple[tuple[str, ...], tuple[UInt32[np.ndarray, " w"], Bool[np.ndarray, " n"]]] | None = None
        self.kb, self.exact, self.engine, self.tokenizer, self.typos = kb, exact, engine, tokenizer, typos
        self.inflections = inflections
        self.tokenize: Callable[[str], list[str]] = TOKENIZERS[tokenizer]

    def link(
        self,
        names: Sequence[str],
        k: int = 1,
        *,
        exact_first: bool = True,
        guesses: bool = True,
        languages: Sequence[str] | None = None,
    ) -> Links:
        """The k best entities for each name.

        Args:
            names: any texts; an empty one, or one without a known token, gets no entity.
            k: how many per name, at least 1; places beyond what is found are -1.
            exact_first: False for BM25 alone, as in the paper: no exact steps and no typos.
            guesses: False to stop before typos and BM25: only names as they are asked, folded or inflected.
            languages: only names and aliases with one of these tags, or with `mul`, count; BM25's statistics stay those
                of all names.

        Returns:
            Rows, steps and scores, each [q, k].

        Raises:
            ValueError: a language that no name belongs to.
        """
        if isinstance(names, str):
            raise TypeError(f"names: expected a list of texts, got one text {names[:40]!r}")
        keys, allowed = self._wanted(languages)
        wanted = _Wanted(keys, allowed, exact_first, guesses)
        check_k(k)
        if len(names) <= _ONE_BY_ONE:
            return self._link_few(names, k, wanted)
        parts = [self._link_block(names[i : i + _BLOCK], k, wanted) for i in range(0, len(names), _BLOCK)]
        return Links(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def candidates(self, name: str) -> Int64[np.ndarray, " c"]:
        """Rows of all entities that have this name or alias, exact or folded, in the order of the class."""
        return self.exact.find([name]).row

    def _wanted(
        self, languages: Sequence[str] | None
    ) -> tuple[UInt32[np.ndarray, " w"] | None, Bool[np.ndarray, " n"] | None]:
        """Keys of the languages that count and which names of the engine do; what was asked for last is kept."""
        if languages is None:
            return None, None
        given = tuple(languages)
        if self._spoken is None or self._spoken[0] != given:
            keys = wanted_languages(self.kb, languages)
            assert keys is not None
            allowed = np.isin(np.zeros(0, np.uint32) if self._name_language is None else self._name_language, keys)
            self._spoken = given, (keys, allowed)
        return self._spoken[1]

    def _link_few(self, names: Sequence[str], k: int, wanted: _Wanted) -> Links:
        """What `_link_block` answers, in less time for few names: most need one look and one search."""
        links = _no_links(len(names), k)
        for number, name in enumerate(names):
            found: list[tuple[int, int]] = []
            if wanted.exact_first:
                folded = fold(name)
                key = hash64((folded,))[0]
                found = self.exact.find_one(name, key, wanted.keys)
                for place, (row, step) in enumerate(found[:k]):
                    links.rows[number, place], links.steps[number, place] = row, step
                if len(found) < k and (
                    self.typos is not None or (self.inflections is not None and self.inflections.has(folded, key))
                ):
                    for column, whole in zip(links, self._link_block([name], k, wanted), strict=True):
                        column[number] = whole[0]
                    continue
            if len(found) < k and wanted.guesses:
                hits = self.engine.search((self.tokenize(name),), k, wanted.names)
                if hits.rows[0, 0] < 0:
                    continue
                if len(names) == 1 and not found and hits.rows[0, k - 1] >= 0:  # all k by BM25
                    links.steps.fill(_BM25)
                    return Links(hits.rows, links.steps, hits.scores)
                steps = np.full(hits.rows.shape, _BM25)
                _append(links, np.array([number]), np.array([len(found)]), hits.rows, hits.scores, steps)
        return links

    def _link_block(self, names: Sequence[str], k: int, wanted: _Wanted) -> Links:
        links = _no_links(len(names), k)
        filled = np.zeros(len(names), dtype=np.int64)
        if wanted.exact_first:
            found = self.exact.find(names, wanted.keys)
            place = np.arange(len(found.query)) - np.searchsorted(found.query, found.query)
            kept = place < k
            links.rows[found.query[kept], place[kept]] = found.row[kept]
            links.steps[found.query[kept], place[kept]] = found.step[kept]
            filled = np.bincount(found.query[kept], minlength=len(names))
            open_ = np.flatnonzero(filled < k)
            if self.inflections is not None and len(open_):
                loose = self.inflections.find([names[i] for i in open_.tolist()], wanted.keys)
                rows, steps = _beside(loose.query, loose.row, loose.alias + _INFLECTED, len(open_))
                _append(links, open_, filled[open_], rows, np.full(rows.shape, np.nan), steps)
                filled = np.count_nonzero(links.rows >= 0, axis=1)
            if self.typos is not None and wanted.guesses:
                open_ = np.flatnonzero(filled < k)
                rows, edits = self._typos([names[i] for i in open_.tolist()], k, wanted)
                _append(links, open_, filled[open_], rows, -edits, np.full(rows.shape, STEPS.index("typo")))
                filled = np.count_nonzero(links.rows >= 0, axis=1)
        open_ = np.flatnonzero(filled < k)
        if len(open_) and wanted.guesses:
            hits = self.engine.search([self.tokenize(names[i]) for i in open_.tolist()], k, wanted.names)
            _append(links, open_, filled[open_], hits.rows, hits.scores, np.full(hits.rows.shape, _BM25))
        return links

    def _typos(
        self, names: Sequence[str], k: int, wanted: _Wanted
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """The k entities with the nearest names, [q, k], and the edits; -1 and infinity where there are fewer."""
        rows, edits = np.full((len(names), k), -1, np.int64), np.full((len(names), k), np.inf)
        if self.typos is None or not len(names):
            return rows, edits
        near = self.typos.find(names)
        folded = [fold(name) for name in names]
        is_typo = [self.typos.is_typo(folded[i], text) for i, text in zip(near.query.tolist(), near.text, strict=True)]
        found = self.exact.find(
            [text if meant else "" for text, meant in zip(near.text, is_typo, strict=True)], wanted.keys
        )
        query, distance = near.query[found.query], near.edits[found.query]
        order = np.lexsort((found.row, -self.kb.popularity[found.row], found.step % 2, distance, query))
        query, row, distance = query[order], found.row[order], distance[order]
        _, once = np.unique(query * len(self.kb) + row, return_index=True)
        once.sort()
        query, row, distance = query[once], row[once], distance[once]
        place = np.arange(len(query)) - np.searchsorted(query, query)
        kept = place < k
        rows[query[kept], place[kept]], edits[query[kept], place[kept]] = row[kept], distance[kept]
        return rows, edits


def _append(
    links: Links,
    queries: npt.NDArray[np.int64],
    filled: npt.NDArray[np.int64],
    rows: npt.NDArray[np.int64],
    scores: npt.NDArray[np.float64],
    steps: npt.NDArray[np.int64],
) -> None:
    """Put entities behind those of the steps before, each entity once."""
    new = (rows >= 0) & ~np.any(rows[:, :, None] == links.rows[queries][:, None, :], axis=2)
    place = filled[:, None] + np.cumsum(new, axis=1) - 1
    new &= place < links.rows.shape[1]
    at, column = np.nonzero(new)
    target = (queries[at], place[at, column])
    links.rows[target], links.scores[target] = rows[at, column], scores[at, column]
    links.steps[target] = steps[at, column]


def _beside(
    query: npt.NDArray[np.int64], row: npt.NDArray[np.int64], step: npt.NDArray[np.int64], queries: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Ragged answers as a matrix, -1 where a query has fewer."""
    place = np.arange(len(query)) - np.searchsorted(query, query)
    shape = (queries, int(place.max(initial=-1)) + 1)
    rows, steps = np.full(shape, -1, np.int64), np.full(shape, -1, np.int64)
    rows[query, place], steps[query, place] = row, step
    return rows, steps


def _no_links(queries: int, k: int) -> Links:
    shape = (queries, k)
    links = Links(np.empty(shape, np.int64), np.empty(shape, np.int64), np.empty(shape))
    links.rows.fill(-1)
    links.steps.fill(-1)
    links.scores.fill(np.nan)
    return links


def check_tokenizer(tokenizer: str) -> Callable[[str], list[str]]:
    """The tokenizer of this name, or say which there are."""
    if tokenizer not in TOKENIZERS:
        raise ValueError(f"tokenizer: expected one of {sorted(TOKENIZERS)}, got {tokenizer!r}")
    return TOKENIZERS[tokenizer]
