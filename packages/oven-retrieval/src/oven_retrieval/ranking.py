"""The best entities of each query: what every search here answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jaxtyping import Float, Int64

    from oven_retrieval.kb import KnowledgeBase

    Score = Callable[[int, Int64[np.ndarray, " k"]], Float[np.ndarray, " k"]]


_NONE = np.zeros((0, 0), np.int64)


@dataclass(slots=True, eq=False)
class Ranking:
    """The best entities of each query, best first; it unpacks into rows and scores, as answers of FAISS do.

    A query that nothing answers has the row -1, which is no entity: `ids()` and `names()` give None for it, `steps()`
    gives "none".

    Args:
        rows: of the knowledge base or of the vectors, -1 beyond what there is.
        scores: inner products and BM25's are -inf beyond what there is; those of `link` NaN there and for exact names,
            minus the edits of a typo, the likeness (0 to 1) of n-grams; those of generated names log-probabilities.
        kinds: how `link` came to each, an index into `STEPS`, -1 where there is none; empty for other searches.
        texts: what a generative model wrote for each, [q] lists; empty for other searches.
        kb: the knowledge base that the rows are of, where the search knows it.

    Example:
        >>> rows, scores = Ranking(np.array([[4, 2]]), np.array([[0.9, 0.5]]))
        >>> rows[:, 0].tolist()
        [4]
    """

    rows: Int64[np.ndarray, "q k"]
    scores: Float[np.ndarray, "q k"]
    kinds: Int64[np.ndarray, "q k"] = field(default_factory=lambda: _NONE)
    texts: Sequence[Sequence[str]] = ()
    kb: KnowledgeBase | None = field(default=None, repr=False)

    def ids(self, kb: KnowledgeBase | None = None) -> list[list[str | None]]:
        """Return the id of each entity by query and rank; None where there is none.

        Args:
            kb: the knowledge base, for a search that does not know it (of vectors alone).

        Raises:
            ValueError: neither the search nor the caller says which knowledge base.

        Example:
            >>> from oven_retrieval import KnowledgeBase, build_linker
            >>> links = build_linker(KnowledgeBase.from_names(["Wood", "Duck"])).link(["duck", "qqqq zzzz"])
            >>> links.ids(), links.names(), links.steps()
            ([['1'], [None]], [['Duck'], [None]], [['folded name'], ['none']])
        """
        return self._texts("ids", kb)

    def names(self, kb: KnowledgeBase | None = None) -> list[list[str | None]]:
        """Return the name of each entity by query and rank; arguments and errors as of `ids`."""
        return self._texts("names", kb)

    def steps(self) -> list[list[str]]:
        """Return which of `STEPS` led `link` to each entity, by query and rank; "none" where there is none.

        Raises:
            ValueError: the search was not `link`.
        """
        from oven_retrieval.names import STEPS

        if self.kinds.shape != self.rows.shape:
            raise ValueError("steps: only answers of `link` have them")
        return [[STEPS[kind] for kind in kinds] for kinds in self.kinds.tolist()]

    def _texts(self, column: str, kb: KnowledgeBase | None) -> list[list[str | None]]:
        kb = self.kb if kb is None else kb
        if kb is None:
            raise ValueError(f"{column}: this search does not know its knowledge base; expected {column}(kb)")
        texts = getattr(kb, column)
        return [[texts[row] if row >= 0 else None for row in rows] for rows in self.rows.tolist()]

    def __iter__(self) -> Iterator[npt.NDArray[Any]]:
        """Rows, then scores."""
        yield self.rows
        yield self.scores

    @classmethod
    def empty(cls, queries: int, k: int, score: float = -np.inf, dtype: npt.DTypeLike = np.float64) -> Ranking:
        """Places for the entities of some queries."""
        rows, scores = np.empty((queries, k), np.int64), np.empty((queries, k), dtype)
        rows.fill(-1)
        scores.fill(score)
        return cls(rows, scores)

    def ordered(self, order: Int64[np.ndarray, "q k"]) -> Ranking:
        """The places of each query that are told, in their order."""
        kinds = np.take_along_axis(self.kinds, order, 1) if self.kinds.size else self.kinds
        rows, scores = (np.take_along_axis(values, order, 1) for values in self)
        return Ranking(rows, scores, kinds, kb=self.kb)

    def numbered(self, rows: Int64[np.ndarray, " n"]) -> Ranking:
        """The same entities by other numbers: `rows` says that of each."""
        return Ranking(np.where(self.rows < 0, -1, rows[self.rows]), self.scores, self.kinds, kb=self.kb)


def check_k(k: int) -> int:
    """Return k, or say what is wrong with it."""
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise ValueError(f"k: expected an integer of at least 1, got {k!r}")
    return int(k)


def joined(parts: Sequence[Ranking], axis: int = 0) -> Ranking:
    """Rankings of several lots of queries, or with axis 1 several of the same ones side by side."""
    columns = zip(*((part.rows, part.scores, part.kinds) for part in parts), strict=True)
    rows, scores, kinds = (np.concatenate(column, axis=axis) for column in columns)
    return Ranking(rows, scores, kinds, kb=parts[0].kb)


def describe(label: Callable[[int], tuple[str, str]], queries: Sequence[str], answers: Ranking) -> list[dict[str, Any]]:
    """One record per query: the query and its entities with id, name, step where `link` took one, and score, if any."""
    from oven_retrieval.names import STEPS

    kinds = answers.kinds if answers.kinds.size else np.full(answers.rows.shape, -1)
    records = []
    for query, *columns in zip(queries, answers.rows, kinds, answers.scores, strict=True):
        entities = []
        for row, kind, score in zip(*(column.tolist() for column in columns), strict=True):
            if row >= 0:
                entity = dict(zip(("id", "name"), label(row), strict=True))
                step = {"step": STEPS[kind]} if kind >= 0 else {}
                entities.append(entity | step | {"score": None if np.isnan(score) else round(score, 4)})
        records.append({"query": query, "entities": entities})
    return records


def rerank(ranking: Ranking, score: Score, k: int | None = None) -> Ranking:
    """Order each query's answers by any function of yours: a cross-encoder, popularity, a language model.

    Args:
        ranking: of any search, more per query than are wanted in the end.
        score: called with a query's number and its rows, [k] without empty places; greater is better, NaN is refused.
        k: how many are kept, at most as many as there are; None for all.

    Returns:
        Rows and their new scores, best first; of equal ones the one that came first before.

    Raises:
        ValueError: another number of scores than rows, or NaN; the query is named. A k below 1.

    Example:
        >>> neighbours = Ranking(np.array([[7, 3, -1]]), np.array([[0.9, 0.8, -np.inf]], np.float32))
        >>> again = rerank(neighbours, lambda query, rows: -rows.astype(float))
        >>> again.rows.tolist(), again.scores.tolist()
        ([[3, 7, -1]], [[-3.0, -7.0, -inf]])
    """
    count = ranking.rows.shape[1] if k is None else min(check_k(k), ranking.rows.shape[1])
    rows, scores = Ranking.empty(len(ranking.rows), count, dtype=np.float32)
    for query, best_rows in enumerate(ranking.rows):
        candidates = best_rows[best_rows >= 0]
        if not len(candidates):
            continue
        new = np.asarray(score(query, candidates), dtype=np.float64)
        if new.shape != candidates.shape or np.isnan(new).any():
            raise ValueError(f"score: query {query}: expected {len(candidates)} numbers, got {new!r:.120}")
        order = np.argsort(-new, kind="stable")[:count]
        rows[query, : len(order)], scores[query, : len(order)] = candidates[order], new[order]
    return Ranking(rows, scores, kb=ranking.kb)
