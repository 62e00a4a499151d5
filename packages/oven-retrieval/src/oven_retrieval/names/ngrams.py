"""Names under their character trigrams: those that are spelled alike, and those within one or two edits."""

from __future__ import annotations

from functools import cached_property
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import OSA

from oven_retrieval.folder import FolderError
from oven_retrieval.names.exact import first_of_each
from oven_retrieval.names.impacts import BUCKET_BITS, DAMAGED, check_starts
from oven_retrieval.names.loops import loops_for, read_only
from oven_retrieval.names.places import name_texts, spoken_in
from oven_retrieval.names.pruned import of_parts
from oven_retrieval.tokens import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jaxtyping import Bool, Float32, Float64, Int32, Int64, UInt16, UInt32

    from oven_retrieval.folder import Folder
    from oven_retrieval.folder_writer import FolderWriter
    from oven_retrieval.kb import KnowledgeBase
    from oven_retrieval.names.impacts import Scratch

    Entities = tuple[Int64[np.ndarray, "q k"], Float64[np.ndarray, "q k"]]

LEAST_LIKENESS = 0.4
"""Of names that are spelled alike; below it they are rather others."""
_FOLDING = "tables 2"
"""What `plain` goes by: an index is asked by the folding that it was built with."""
_VERSION = 2
"""Of the columns: since 2, names are numbered by rising weight."""
_BLOCK = 1 << 13
_SPARE = 4
"""So many times k names are looked at, since entities have several."""
_PER_EDIT = 4
"""One edit touches at most so many trigrams: a swap of two neighbours lies in four."""


class NearNames(NamedTuple):
    """Names near to one text, best first, [m]: `row` of the entity, whether it is an `alias`, `score`, and the `text`.

    `number` is that of the alias in the knowledge base.
    """

    row: Int64[np.ndarray, " m"]
    alias: npt.NDArray[np.bool_]
    score: Float64[np.ndarray, " m"]
    text: list[str]
    number: Int64[np.ndarray, " m"]


def allowed_edits(text: str) -> int:
    """How many edits a plain text may be away: 0 below 4 characters, 1 below 8, else 2.

    A text of few different trigrams ("aaaaaaaa") is allowed fewer: (trigrams - 1) / 4.
    """
    by_length = 0 if len(text) < 4 else 1 if len(text) < 8 else 2
    return min(by_length, (len(distinct_buckets(text)) - 1) // _PER_EDIT)


def edit_distance(first: str, second: str, most: int) -> int:
    """Edits between two texts: a character put in, left out or exchanged, or two neighbours swapped.

    Source: the restricted distance of Damerau 1964 (no part of a swapped pair is edited again), by rapidfuzz.
    """
    return OSA.distance(first, second, score_cutoff=most)


class NgramColumns(NamedTuple):
    """Arrays of the index; N names, P pairs of a name and a trigram, B = 2**17 buckets that trigrams are hashed to.

    Names are numbered by rising weight. `start` [B+1] where the list of each bucket begins; `post` [P] the names of
    each, rising; `weight` [N] the idf of the name's buckets together; `length` [N] its characters; `origin` [N] its
    row, or -1 - the number of its alias.
    """

    start: Int64[np.ndarray, " B+1"]
    post: Int32[np.ndarray, " P"]
    weight: Float32[np.ndarray, " N"]
    length: UInt16[np.ndarray, " N"]
    origin: Int32[np.ndarray, " N"]

    def write(self, folder: FolderWriter) -> None:
        """Write the arrays as columns of a folder."""
        folder.table("ngram", self)
        folder.meta |= {"folding": _FOLDING, "ngrams": _VERSION}


class NgramIndex:
    """The names of a knowledge base under the trigrams of their plain letters (see `plain`).

    Two blanks are thought at each end of a name.

    Numerics:
        About 20 postings of 4 bytes, and 10 bytes more, per name.
    """

    def __init__(self, kb: KnowledgeBase, columns: NgramColumns, idf: Float64[np.ndarray, " b"] | None = None) -> None:
        self._kb, self._columns, self._idf = kb, columns, idf

    @classmethod
    def of(cls, kb: KnowledgeBase) -> NgramIndex:
        """Build the index in memory."""
        return cls(kb, build_ngrams(kb))

    @classmethod
    def read(cls, folder: Folder, kb: KnowledgeBase) -> NgramIndex | None:
        """Map the arrays of a folder; None where it was built without."""
        if "ngram_post" not in folder:
            return None
        if folder.meta.get("ngrams") != _VERSION:
            raise FolderError(
                f"{folder.path}: its n-grams are of version {folder.meta.get('ngrams', 1)}, expected {_VERSION}; "
                "build it again (`oven update --rebuild`)"
            )
        if folder.meta["folding"] != _FOLDING:
            raise FolderError(
                f"{folder.path}: its n-grams were folded by {folder.meta['folding']!r}, here it is {_FOLDING!r}; "
                "build it again (`oven update --rebuild`)"
            )
        return cls(kb, folder.table("ngram", NgramColumns))

    def __len__(self) -> int:
        return len(self._columns.origin)

    def alike(self, text: str, k: int, least: float = LEAST_LIKENESS) -> NearNames:
        """The k names that share most trigrams with a text, some more where they are as good.

        The score of a name is Dice's coefficient, each trigram weighted by its idf: twice what both have, of what they
        have together.
        """
        numbers, scores, _ = self._most_alike([plain(text)], k, least)
        return self._near(numbers, scores)

    def entities(
        self,
        texts: Sequence[str],
        k: int,
        keys: UInt32[np.ndarray, " w"] | None = None,
        allowed: Bool[np.ndarray, " rows"] | None = None,
    ) -> Entities:
        """The k entities whose names share most trigrams with each text.

        Of names in languages with these `keys`, and of `allowed` entities, if given: more names are looked at until
        there are k, or no other is alike.
        """
        letters = [plain(text) for text in texts]
        count = 1 if k == 1 and keys is None and allowed is None else _SPARE * k
        rows, likeness, looked = self._entities(letters, k, count, keys, allowed)
        while keys is not None or allowed is not None:
            short = np.flatnonzero((rows[:, -1] < 0) & (looked >= count))
            if not len(short):
                break
            count *= _SPARE
            rows[short], likeness[short], looked[short] = self._entities(
                [letters[i] for i in short.tolist()], k, count, keys, allowed
            )
        return rows, likeness

    def _entities(
        self,
        texts: Sequence[str],
        k: int,
        count: int,
        keys: UInt32[np.ndarray, " w"] | None,
        allowed: Bool[np.ndarray, " rows"] | None,
    ) -> tuple[Int64[np.ndarray, "t k"], Float64[np.ndarray, "t k"], Int64[np.ndarray, " t"]]:
        """The same among the `count` names most alike plain texts; and how many these are of each."""
        numbers, scores, ends = self._most_alike(texts, count, LEAST_LIKENESS)
        looked = np.diff(ends, prepend=0)
        rows, likeness = np.empty((len(texts), k), np.int64), np.empty((len(texts), k))
        rows.fill(-1)
        likeness.fill(np.nan)
        if not len(numbers):
            return rows, likeness, looked
        if len(numbers) == 1 and keys is None and allowed is None:
            first = int(ends.searchsorted(1))
            rows[first, 0], likeness[first, 0] = self.row_of(int(numbers[0])), scores[0]
            return rows, likeness, looked
        query = np.repeat(np.arange(len(texts)), looked)
        order, row, *_ = self._order(numbers, scores, query, keys)
        if allowed is not None:
            order = order[allowed[row[order]]]
        query, row, score = query[order], row[order], scores[order]
        once = first_of_each(query, row)
        query = query[once]
        rank = np.arange(len(query)) - np.searchsorted(query, query)
        query, rank, once = query[rank < k], rank[rank < k], once[rank < k]
        rows[query, rank], likeness[query, rank] = row[once], score[once]
        return rows, likeness, looked

    def _most_alike(
        self, texts: Sequence[str], k: int, least: float
    ) -> tuple[Int32[np.ndarray, " m"], Float64[np.ndarray, " m"], Int64[np.ndarray, " t"]]:
        """Numbers of the names nearest to each plain text, their likenesses, and where those of each text end."""
        loops = loops_for(len(texts))
        nearest: Any = loops.most_alike
        arrays = self.arrays
        parts = of_parts(lambda points, ends: nearest(points, ends, *arrays, k, least), *code_points(texts))
        if any(len(ends) and ends[0] == loops.DAMAGE for _, _, ends in parts):
            raise FolderError(DAMAGED)
        if len(parts) == 1:
            return parts[0]  # type: ignore[no-any-return]
        first = accumulate((len(numbers) for numbers, *_ in parts), initial=0)
        ends = np.concatenate([ends + before for (_, _, ends), before in zip(parts, first, strict=False)])
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts]), ends

    @cached_property
    def arrays(self) -> tuple[npt.NDArray[Any], ...]:
        """The index as the loops take it."""
        start, post, weight, length, origin = self._columns
        types = ((start, np.int64), (post, np.int32), (weight, np.float32), (length, np.uint16), (origin, np.int32))
        if (
            any(values.ndim != 1 or values.dtype != kind for values, kind in types)
            or len(start) != (1 << BUCKET_BITS) + 1
            or not len(weight) == len(length) == len(origin)
        ):
            raise FolderError(DAMAGED)
        check_starts(start, len(post))
        idf = _idf(np.diff(start), len(self)) if self._idf is None else self._idf
        return tuple(read_only(column) for column in (start, post, weight, idf))

    def first_row(self, number: int, tied: int) -> int:
        """The row of a name, or of one as good, -1 for none, in the order of `entities`."""
        row = self.row_of(number)
        if tied < 0:
            return row
        tied_row, popularity, origin = self.row_of(tied), self._kb.popularity, self._columns.origin
        ranks = [(bool(origin[i] < 0), -float(popularity[r]), r) for i, r in ((number, row), (tied, tied_row))]
        return min(ranks)[2]

    def row_of(self, number: int) -> int:
        """The row of a name of the index."""
        origin = int(self._columns.origin[number])
        return origin if origin >= 0 else int(self._kb.alias_ends.searchsorted(-1 - origin, side="right"))

    def within(self, text: str) -> NearNames:
        """All names whose plain letters are within the allowed edits of a text (see `allowed_edits`); scores: -edits.

        A text of D different trigrams shares at least D - 4 e of them with any text that is e edits away, so one of its
        4 e + 1 rarest is among them: those lists hold every such name. What shares enough of the others, too, is
        compared character by character. Equal to a look at every name (`tests/test_ngrams.py`).
        """
        letters = plain(text)
        most = allowed_edits(letters) if letters else 0
        none = np.zeros(0, np.int64)
        if not most or not len(self):
            return self._near(none, np.zeros(0))
        start, post, _, length, _ = self._columns
        buckets = distinct_buckets(letters)
        lists = sorted((post[start[b] : start[b + 1]] for b in buckets.tolist()), key=len)
        rarest = _PER_EDIT * most + 1
        names, hits = np.unique(np.concatenate(lists[:rarest]), return_counts=True)
        if len(names) and not 0 <= names[0] <= names[-1] < len(length):
            raise FolderError(DAMAGED)
        near = np.abs(length[names].astype(np.int64) - len(letters)) <= most
        names, missed = names[near], rarest - hits[near]
        for names_of_bucket in lists[rarest:]:
            at = np.minimum(np.searchsorted(names_of_bucket, names), max(len(names_of_bucket) - 1, 0))
            missed = missed + (names_of_bucket[at] != names if len(names_of_bucket) else 1)
            names, missed = names[missed < rarest], missed[missed < rarest]
        candidates = self._near(names, np.zeros(len(names)))
        edits = np.array([edit_distance(letters, plain(name), most) for name in candidates.text], np.int64)
        order = np.argsort(edits, kind="stable")[: np.count_nonzero(edits <= most)]
        texts = [candidates.text[i] for i in order.tolist()]
        return NearNames(candidates.row[order], candidates.alias[order], -edits[order], texts, candidates.number[order])

    def _near(self, names: npt.NDArray[np.integer], score: npt.NDArray[np.float64]) -> NearNames:
        """Names in order, with their texts."""
        kb = self._kb
        order, row, alias, number = self._order(names, score, np.zeros(len(names), np.int64))
        texts = [kb.aliases[number[i]] if alias[i] else kb.names[row[i]] for i in order.tolist()]
        return NearNames(row[order], alias[order], score[order], texts, number[order])

    def _order(
        self,
        names: npt.NDArray[np.integer],
        score: Float64[np.ndarray, " m"],
        query: Int64[np.ndarray, " m"],
        keys: UInt32[np.ndarray, " w"] | None = None,
    ) -> tuple[Int64[np.ndarray, " n"], Int64[np.ndarray, " m"], Bool[np.ndarray, " m"], Int64[np.ndarray, " m"]]:
        """Those that count in order: query, likeness, names before aliases, the greater popularity, the earlier row.

        Beside the order: row of each name, whether it is an alias, and the alias's number.
        """
        kb = self._kb
        row, alias, number = self._place(self._columns.origin[names])
        order = np.arange(len(row)) if keys is None else np.flatnonzero(spoken_in(kb, row, number, keys))
        keys_of = (row, -kb.popularity[row], alias, -np.round(score, 6), query)
        return order[np.lexsort([key[order] for key in keys_of])], row, alias, number

    def _place(
        self, origin: Int32[np.ndarray, " m"]
    ) -> tuple[Int64[np.ndarray, " m"], Bool[np.ndarray, " m"], Int64[np.ndarray, " m"]]:
        """Rows of names, whether they are aliases, and the aliases' numbers, -1 for names."""
        alias = origin < 0
        row, number = origin.astype(np.int64), np.where(alias, -1 - origin.astype(np.int64), -1)
        if alias.any():
            row[alias] = np.searchsorted(self._kb.alias_ends, number[alias], side="right")
        return row, alias, number


def _idf(documents: Int64[np.ndarray, " b"], names: int) -> Float64[np.ndarray, " b"]:
    """Weights of buckets, in steps of 1/1024: sums of float32 are then exact up to 16,384, in any order."""
    weights: Float64[np.ndarray, " b"] = np.round(np.log1p(names / (documents + 1.0)) * 1024) / 1024
    return weights


def code_points(texts: Sequence[str]) -> tuple[npt.NDArray[np.uint32], Int64[np.ndarray, " t"]]:
    """The characters of all texts as numbers, and where each text ends."""
    points = np.frombuffer(bytearray("".join(texts).encode("utf-32-le", "surrogatepass")), "<u4")
    return points, np.array(list(accumulate(map(len, texts))), np.int64)


def distinct_buckets(text: str) -> npt.NDArray[np.int64]:
    """Buckets of the different trigrams of a plain text, rising."""
    buckets_of = loops_for().buckets_of
    buckets = np.empty(len(text) + 2, np.int32)
    return buckets[: buckets_of(*code_points([text])[:1], 0, len(text), buckets)].astype(np.int64)


def _blocks(texts: Iterator[str]) -> Iterator[tuple[npt.NDArray[np.uint32], Int64[np.ndarray, " t"]]]:
    """Code points of plain texts, and their ends, some thousand at a time."""
    while block := [plain(text) for text in islice(texts, _BLOCK)]:
        yield code_points(block)


def build_ngrams(
    kb: KnowledgeBase,
    *,
    scratch: Scratch | None = None,
    names: Callable[[str], Iterator[str]] | None = None,
    idf: Float64[np.ndarray, " b"] | None = None,
) -> NgramColumns:
    """Index the names and aliases of a knowledge base; `idf` are weights of buckets among other names.

    Numerics:
        Names are read twice; memory: a chunk of 8,192 names, 22 bytes per name, and 4 per posting where `scratch` is
        None.
    """
    loops = loops_for()
    read = names or (lambda _phase: name_texts(kb))
    count = np.zeros((1 << BUCKET_BITS), np.int64)
    sizes = []
    for points, ends in _blocks(read("trigrams")):
        loops.count_buckets(points, ends, count)
        sizes.append(np.minimum(np.diff(ends, prepend=0), 0xFFFF).astype(np.uint16))
    length = np.concatenate(sizes) if sizes else np.zeros(0, np.uint16)
    start = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
    idf, weight = _idf(count, len(length)) if idf is None else idf, np.zeros(len(length), np.float32)
    post = (scratch or (lambda _name, dtype, size: np.empty(size, dtype)))("ngram_post", np.int32, int(start[-1]))
    free, first = start[:-1].copy(), 0
    for points, ends in _blocks(read("trigrams again")):
        loops.weigh(points, ends, idf, weight[first : first + len(ends)])
        loops.fill_postings(points, ends, first, free, post)
        first += len(ends)
    order = np.argsort(weight, kind="stable").astype(np.int32)
    number = np.empty(len(order), np.int32)
    number[order] = np.arange(len(order), dtype=np.int32)
    loops.renumber(start, post, number)
    origin = np.concatenate([np.arange(len(kb)), -1 - np.arange(len(kb.aliases))]).astype(np.int32)
    return NgramColumns(start, post, weight[order], length[order], origin[order])
