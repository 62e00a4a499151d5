"""Names in shards: indexed with the statistics of all names, and merged by what orders them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from oven_retrieval.folder import Folder
from oven_retrieval.kb import KnowledgeBase
from oven_retrieval.names import STEPS, Impacts, NameLinker, PrunedIndex
from oven_retrieval.names.exact import ExactTable, spelled
from oven_retrieval.names.impacts import Statistics, unpack
from oven_retrieval.names.index import KIND
from oven_retrieval.names.linker import check_tokenizer
from oven_retrieval.names.occurrences import count_tokens
from oven_retrieval.names.places import is_shouted, name_texts
from oven_retrieval.names.pruned import runs
from oven_retrieval.ranking import Ranking
from oven_retrieval.tokens import fold, hash64

if TYPE_CHECKING:
    from jaxtyping import Bool, Float64

Int = npt.NDArray[np.int64]
_BM25 = STEPS.index("bm25")


def name_statistics(kb: KnowledgeBase, tokenizer: str) -> Statistics:
    """What the names of one shard add to the statistics of all."""
    tokenize = check_tokenizer(tokenizer)
    return Statistics.of(count_tokens(tokenize(name) for name in name_texts(kb)))


class ShardLinks(NamedTuple):
    """A shard's `Ranking` with what decides between equals of different shards, each [q, k].

    `alias`, `shouted` of the best name of each entity; `other_form` whether that name, spelled as asked, has other code
    points; `popularity` of the entity.
    """

    rows: Int
    kinds: Int
    scores: Float64[np.ndarray, "q k"]
    alias: Bool[np.ndarray, "q k"]
    other_form: Bool[np.ndarray, "q k"]
    shouted: Bool[np.ndarray, "q k"]
    popularity: Float64[np.ndarray, "q k"]


def merge_links(parts: Sequence[ShardLinks], k: int) -> Ranking:
    """The k best of all shards, in `NameLinker`'s order."""
    rows, kinds, scores, alias, other_form, shouted, popularity = (
        np.concatenate(column, axis=1) for column in zip(*parts, strict=True)
    )
    none = rows < 0
    order = np.lexsort(
        (
            np.where(none, np.iinfo(np.int64).max, rows),
            -popularity,
            shouted,
            alias,
            other_form,
            -np.nan_to_num(scores),
            np.where(none, len(STEPS), kinds),
        ),
        axis=1,
    )[:, :k]
    return Ranking(rows, scores, kinds).ordered(order)


class ShardNames:
    """The names of one shard."""

    def __init__(self, folder: Path, kb: KnowledgeBase, first: int) -> None:
        stored = Folder(folder / "names", KIND)
        self._kb, self._first = kb, first
        self._impacts = Impacts.read(stored)
        length = stored.array("occurrences_length").astype(np.int64)
        self._heads, self._length = np.cumsum(length + 1) - length - 1, length
        self._engine = PrunedIndex(self._impacts)
        self.linker = NameLinker(kb, ExactTable.read(stored), self._engine, stored.meta["tokenizer"])
        self._tokenize = check_tokenizer(stored.meta["tokenizer"])

    def link(self, names: Sequence[str], k: int, *, exact_first: bool = True) -> ShardLinks:
        """The shard's k best entities for each name, with the rows of the whole."""
        links = self.linker.link(names, k, exact_first=exact_first)
        alias, shouted = np.zeros(links.rows.shape, np.bool_), np.zeros(links.rows.shape, np.bool_)
        popularity, other_form = np.zeros(links.rows.shape), np.zeros(links.rows.shape, np.bool_)
        is_linked = links.rows >= 0
        popularity[is_linked] = self._kb.popularity[links.rows[is_linked]]
        exact = is_linked & (links.kinds < _BM25)
        for query, column in zip(*(part.tolist() for part in np.nonzero(exact)), strict=True):
            step, row = int(links.kinds[query, column]), int(links.rows[query, column])
            alias[query, column] = bool(step % 2)
            key = spelled if step < 2 else fold
            entity_names = (
                [self._kb.aliases[i] for i in self._kb.alias_rows(row)] if step % 2 else [self._kb.names[row]]
            )
            query_key = key(names[query])
            alike = [name for name in entity_names if key(name) == query_key]
            other_form[query, column] = step < 2 and names[query] not in alike
            shouted[query, column] = all(
                is_shouted(name) for name in alike if other_form[query, column] or step > 1 or name == names[query]
            )
        self._decide_bm25(names, links, alias, shouted)
        return ShardLinks(
            np.where(is_linked, links.rows + self._first, -1),
            links.kinds,
            links.scores,
            alias,
            other_form,
            shouted,
            popularity,
        )

    def _decide_bm25(
        self, names: Sequence[str], links: Ranking, alias: npt.NDArray[np.bool_], shouted: npt.NDArray[np.bool_]
    ) -> None:
        """Which name of its entity made each of BM25's answers: of those with its score, the first in order."""
        query, column = np.nonzero(links.kinds == _BM25)
        if not len(query):
            return
        row = links.rows[query, column]
        starts = np.where(row > 0, self._kb.alias_ends[np.maximum(row - 1, 0)], 0)
        count = self._kb.alias_ends[row] - starts
        hit = np.concatenate([np.arange(len(row)), np.repeat(np.arange(len(row)), count)])
        name = np.concatenate([row, len(self._kb) + runs(starts, count)])
        scores = self._name_scores(names, query[hit], name)
        best = np.abs(scores - links.scores[query, column][hit]) <= 0
        is_alias = np.arange(len(hit)) >= len(row)
        texts = [
            self._kb.names[int(n)] if not a else self._kb.aliases[int(n) - len(self._kb)]
            for n, a in zip(name[best], is_alias[best], strict=True)
        ]
        loud = np.array([is_shouted(text) for text in texts], dtype=np.bool_)
        order = np.lexsort((loud, is_alias[best], hit[best]))
        hits, once = np.unique(hit[best][order], return_index=True)
        chosen = order[once]
        alias[query[hits], column[hits]] = is_alias[best][chosen]
        shouted[query[hits], column[hits]] = loud[chosen]

    def _name_scores(self, names: Sequence[str], query: Int, name: Int) -> npt.NDArray[np.float64]:
        """BM25 of pairs of a query and a name of the index, as the engine has it: sums of its impacts."""
        queries, query_index = np.unique(query, return_inverse=True)
        token_hash = self._impacts.token_hash
        vocabulary = max(1, len(token_hash))
        tokens = [self._tokenize(names[i]) for i in queries.tolist()]
        hashes = hash64([token for query in tokens for token in query])
        of = np.repeat(np.arange(len(tokens)), [len(query) for query in tokens])
        token = np.minimum(np.searchsorted(token_hash, hashes), vocabulary - 1)
        is_known = token_hash[token] == hashes
        query_tokens, weight = np.unique(of[is_known] * vocabulary + token[is_known], return_counts=True)
        length = self._length[name]
        pair = np.repeat(np.arange(len(name)), length)
        cell = runs(self._heads[name] + 1, length)
        held, impact = unpack(np.ascontiguousarray(self._impacts.records[cell]))
        name_tokens = query_index[pair] * vocabulary + held
        at = np.minimum(np.searchsorted(query_tokens, name_tokens), len(query_tokens) - 1)
        is_shared = query_tokens[at] == name_tokens
        added = np.where(is_shared, impact.view(np.float32).astype(np.float64) * weight[at], 0.0)
        return np.bincount(pair, weights=added, minlength=len(name)).astype(np.float64)
