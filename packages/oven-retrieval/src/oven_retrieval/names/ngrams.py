"""Names under their character trigrams: those that are spelled alike, and those within one or two edits."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import OSA

from oven_retrieval.folder import FolderError
from oven_retrieval.names.places import name_texts
from oven_retrieval.names.plain import folding, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jaxtyping import Float32, Float64, Int32, Int64, UInt16

    from oven_retrieval.folder import Folder
    from oven_retrieval.folder_writer import FolderWriter
    from oven_retrieval.kb import KnowledgeBase
    from oven_retrieval.names.impacts import Scratch

LEAST_LIKENESS = 0.4
"""Of names that are spelled alike; below it they are rather others."""
_BUCKET_BITS, _CHUNK_BITS = 17, 13
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_MOST_POSTINGS = 1 << 17
"""A query's rarest lists are read until they hold so many names together."""
_MOST_COMPARED = 512
"""Of those, so many are looked for in the other lists."""
_PER_EDIT = 4
"""One edit touches at most so many trigrams: a swap of two neighbours lies in four."""


class NearNames(NamedTuple):
    """Names near to one text, best first, [m]: `row` of the entity, whether it is an `alias`, `score`, and the `text`.

    `number` is that of the alias in the knowledge base.

    Example:
        >>> from oven_retrieval import KnowledgeBase
        >>> NgramIndex.of(KnowledgeBase.from_names(["Mandarin duck", "Goose"])).alike("mandarinduck", 1).row.tolist()
        [0]
    """

    row: Int64[np.ndarray, " m"]
    alias: npt.NDArray[np.bool_]
    score: Float64[np.ndarray, " m"]
    text: list[str]
    number: Int64[np.ndarray, " m"]


def allowed_edits(text: str) -> int:
    """How many edits a plain text may be away: 0 below 4 characters, 1 below 8, else 2.

    A text of few different trigrams ("aaaaaaaa") is allowed fewer: (trigrams - 1) / 4.

    Example:
        >>> [allowed_edits(text) for text in ("cat", "duck", "mandarin", "aaaaaaaa")]
        [0, 1, 2, 1]
    """
    by_length = 0 if len(text) < 4 else 1 if len(text) < 8 else 2
    return min(by_length, (len(_distinct_buckets(text)) - 1) // _PER_EDIT)


def edit_distance(first: str, second: str, most: int) -> int:
    """Edits between two texts: a character put in, left out or exchanged, or two neighbours swapped.

    Args:
        first: a text.
        second: a text.
        most: beyond this, `most + 1` is returned at once.

    Example:
        >>> edit_distance("mandarin", "mandrain", 2), edit_distance("duck", "goose", 2)
        (1, 3)

    Source: the restricted distance of Damerau 1964 (no part of a swapped pair is edited again), by rapidfuzz.
    """
    return OSA.distance(first, second, score_cutoff=most)


class NgramColumns(NamedTuple):
    """Arrays of the index; N names, P pairs of a name and a trigram, B = 2**17 buckets that trigrams are hashed to.

    `start` [B+1] where the list of each bucket begins; `post` [P] the names of each, rising; `weight` [N] the idf of
    the name's buckets together; `length` [N] its characters; `origin` [N] its row, or -1 - the number of its alias.
    """

    start: Int64[np.ndarray, " B+1"]
    post: Int32[np.ndarray, " P"]
    weight: Float32[np.ndarray, " N"]
    length: UInt16[np.ndarray, " N"]
    origin: Int32[np.ndarray, " N"]

    def write(self, folder: FolderWriter) -> None:
        """Write the arrays as columns of a folder."""
        for name, values in self._asdict().items():
            folder.array(f"ngram_{name}", values)
        folder.meta["folding"] = folding()


class NgramIndex:
    """The names of a knowledge base under the trigrams of their plain letters (see `plain`).

    Two blanks are thought at each end of a name.

    Args:
        kb: the knowledge base whose names these are; entities that it has lost since are not found.
        columns: of `build_ngrams`, in memory or mapped from disk.

    Numerics:
        About 20 postings of 4 bytes, and 10 bytes more, per name.

    Example:
        >>> from oven_retrieval import KnowledgeBase
        >>> index = NgramIndex.of(KnowledgeBase.from_names(["Mandarin duck", "Golden Gate", "Duck", "Wood duck"]))
        >>> index.alike("Mandarinducks", 2).text, index.within("madnarin dukc").text
        (['Mandarin duck'], ['Mandarin duck'])
    """

    def __init__(self, kb: KnowledgeBase, columns: NgramColumns) -> None:
        self._kb, self._columns = kb, columns
        self._removed = kb.removed if kb.entity_count < len(kb) else None

    @classmethod
    def of(cls, kb: KnowledgeBase) -> NgramIndex:
        """Build the index in memory."""
        return cls(kb, build_ngrams(kb))

    @classmethod
    def read(cls, folder: Folder, kb: KnowledgeBase) -> NgramIndex | None:
        """Map the arrays of a folder; None where it was built without.

        Raises:
            FolderError: it was built with another folding than the one here.
        """
        if "ngram_post" not in folder:
            return None
        if folder.meta["folding"] != folding():
            raise FolderError(
                f"{folder.path}: its n-grams were folded by {folder.meta['folding']!r}, here it is {folding()!r}: "
                "PyICU is installed or not; build it anew (`oven update --rebuild`)"
            )
        return cls(kb, NgramColumns(*(folder.array(f"ngram_{name}") for name in NgramColumns._fields)))

    def __len__(self) -> int:
        return len(self._columns.origin)

    def alike(self, text: str, k: int, least: float = LEAST_LIKENESS) -> NearNames:
        """The k names that share most trigrams with a text, some more where they are as good.

        The score of a name is Dice's coefficient, each trigram weighted by its idf: twice what both have, of what they
        have together.

        Args:
            text: any text.
            k: how many names at least, if there are as many.
            least: score of a name that counts.
        """
        buckets = _distinct_buckets(plain(text))
        start, post = self._columns.start, self._columns.post
        size = start[buckets + 1] - start[buckets]
        idf = _idf(size, len(self))
        whole = float(idf.sum())
        order = np.argsort(-idf, kind="stable")
        order = order[size[order] > 0]
        weights, known = idf[order], float(idf[order].sum())
        lists = [post[start[b] : start[b + 1]] for b in buckets[order].tolist()]
        # A name of this likeness has least / (2 - least) of the text's weight: some of it in the first lists.
        needed = least / (2 - least) * whole
        if not lists or known < needed:
            return self._near(np.zeros(0, np.int64), np.zeros(0))
        enough = int(np.searchsorted(np.cumsum(weights) - known, -needed, side="right")) + 1
        read = min(enough, max(1, int(np.searchsorted(np.cumsum(size[order]), _MOST_POSTINGS, side="right"))))
        names, score = self._scored(lists, weights, read, whole)
        kept = np.flatnonzero(score >= least)
        if len(kept) > k:
            floor = np.partition(score[kept], len(kept) - k)[len(kept) - k]
            kept = kept[score[kept] >= floor - 1e-6]
        return self._near(names[kept], score[kept])

    def _scored(
        self, lists: Sequence[npt.NDArray[np.int32]], weights: npt.NDArray[np.float64], read: int, whole: float
    ) -> tuple[npt.NDArray[np.integer], npt.NDArray[np.float64]]:
        """The names in the first lists, the best of them if they are many, and their likeness."""
        gathered = np.concatenate(lists[:read])
        names, place = np.unique(gathered, return_inverse=True)
        shared = np.bincount(place, np.repeat(weights[:read], [len(names) for names in lists[:read]]))
        if len(names) > _MOST_COMPARED and read < len(lists):
            best = np.sort(np.argpartition(-shared, _MOST_COMPARED)[:_MOST_COMPARED])
            names, shared = names[best], shared[best]
        for other, weight in zip(lists[read:], weights[read:].tolist(), strict=True):
            at = np.minimum(np.searchsorted(other, names), len(other) - 1)
            shared += np.where(other[at] == names, weight, 0.0)
        return names, 2 * shared / (whole + self._columns.weight[names])

    def within(self, text: str) -> NearNames:
        """All names whose plain letters are within the allowed edits of a text (see `allowed_edits`); scores: -edits.

        A text of D different trigrams shares at least D - 4 e of them with any text that is e edits away, so one of its
        4 e + 1 rarest is among them: those lists hold every such name. What shares enough of the others, too, is
        compared character by character. Equal to a look at every name (`tests/test_ngrams.py`).
        """
        asked = plain(text)
        most = allowed_edits(asked) if asked else 0
        none = np.zeros(0, np.int64)
        if not most or not len(self):
            return self._near(none, np.zeros(0))
        start, post, _, length, _ = self._columns
        buckets = _distinct_buckets(asked)
        lists = sorted((post[start[b] : start[b + 1]] for b in buckets.tolist()), key=len)
        rarest = _PER_EDIT * most + 1
        names, hits = np.unique(np.concatenate(lists[:rarest]), return_counts=True)
        near = np.abs(length[names].astype(np.int64) - len(asked)) <= most
        names, missed = names[near], rarest - hits[near]
        for other in lists[rarest:]:
            at = np.minimum(np.searchsorted(other, names), max(len(other) - 1, 0))
            missed = missed + (other[at] != names if len(other) else 1)
            names, missed = names[missed < rarest], missed[missed < rarest]
        found = self._near(names, np.zeros(len(names)))
        edits = np.array([edit_distance(asked, plain(name), most) for name in found.text], np.int64)
        order = np.argsort(edits, kind="stable")[: np.count_nonzero(edits <= most)]
        texts = [found.text[i] for i in order.tolist()]
        return NearNames(found.row[order], found.alias[order], -edits[order], texts, found.number[order])

    def _near(self, names: npt.NDArray[np.integer], score: npt.NDArray[np.float64]) -> NearNames:
        """Names in order: likeness, names before aliases, the greater popularity, the earlier row."""
        kb, origin = self._kb, self._columns.origin[names].astype(np.int64)
        alias = origin < 0
        row = np.where(alias, np.searchsorted(kb.alias_ends, -1 - origin, side="right"), origin)
        kept = np.flatnonzero(~self._removed[row]) if self._removed is not None else np.arange(len(row))
        order = kept[np.lexsort((row[kept], -kb.popularity[row[kept]], alias[kept], -np.round(score[kept], 6)))]
        texts = [kb.aliases[-1 - i] if i < 0 else kb.names[i] for i in origin[order].tolist()]
        return NearNames(row[order], alias[order], score[order], texts, np.where(alias, -1 - origin, -1)[order])


def _idf(documents: Int64[np.ndarray, " b"], names: int) -> Float64[np.ndarray, " b"]:
    weights: Float64[np.ndarray, " b"] = np.log1p(names / (documents + 1.0))
    return weights


def _buckets(texts: Sequence[str]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Bucket of each trigram of each text, two blanks thought at either end, and which text it is of."""
    padded = "".join([f"\x00\x00{text}" for text in texts]) + "\x00\x00"
    points = np.frombuffer(padded.encode("utf-32-le", "surrogatepass"), dtype="<u4").astype(np.uint64)
    keys = points[:-2] << np.uint64(42) | points[1:-1] << np.uint64(21) | points[2:]
    buckets = (keys * _MULTIPLIER >> np.uint64(64 - _BUCKET_BITS)).astype(np.int32)
    return buckets, np.repeat(np.arange(len(texts), dtype=np.int32), [len(text) + 2 for text in texts])


def _distinct_buckets(text: str) -> npt.NDArray[np.int64]:
    return np.unique(_buckets([text])[0]).astype(np.int64)


def _distinct(texts: Iterator[str]) -> Iterator[tuple[list[str], npt.NDArray[np.int32], npt.NDArray[np.int32]]]:
    """Plain texts in chunks, with (bucket, text in the chunk), each pair once, rising."""
    while block := [plain(text) for _, text in zip(range(1 << _CHUNK_BITS), texts, strict=False)]:
        buckets, of = _buckets(block)
        pairs = np.sort(buckets << _CHUNK_BITS | of)
        pairs = pairs[np.flatnonzero(np.diff(pairs, prepend=-1))]
        yield block, pairs >> _CHUNK_BITS, pairs & ((1 << _CHUNK_BITS) - 1)


def build_ngrams(
    kb: KnowledgeBase, *, scratch: Scratch | None = None, names: Callable[[str], Iterator[str]] | None = None
) -> NgramColumns:
    """Index the names and aliases of a knowledge base.

    Args:
        kb: the knowledge base.
        scratch: makes the large array, (name, dtype, length) -> array; None for memory.
        names: gives its names and aliases, a phase's name -> texts; None for `name_texts`.

    Numerics:
        Names are read twice; memory: a chunk of 8,192 names, 10 bytes per name, and 4 per posting where `scratch` is
        None.

    Example:
        >>> from oven_retrieval import KnowledgeBase
        >>> build_ngrams(KnowledgeBase.from_names(["Wood duck", "Goose"])).length.tolist()
        [9, 5]
    """
    read = names or (lambda _phase: name_texts(kb))
    count = np.zeros(1 << _BUCKET_BITS, np.int64)
    lengths = []
    for block, buckets, _ in _distinct(read("trigrams")):
        count += np.bincount(buckets, minlength=len(count))
        lengths.append(np.minimum([len(text) for text in block], 0xFFFF).astype(np.uint16))
    length = np.concatenate(lengths) if lengths else np.zeros(0, np.uint16)
    start = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
    post = (scratch or (lambda _name, dtype, size: np.empty(size, dtype)))("ngram_post", np.int32, int(start[-1]))
    idf, weight, filled, first = _idf(count, len(length)), np.zeros(len(length), np.float32), start[:-1].copy(), 0
    for block, buckets, of in _distinct(read("trigrams again")):
        begins = np.flatnonzero(np.diff(buckets, prepend=-1))
        within = np.arange(len(buckets)) - np.repeat(begins, np.diff(begins, append=len(buckets)))
        post[filled[buckets] + within] = of + first
        filled[buckets[begins]] += np.diff(begins, append=len(buckets))
        weight[first : first + len(block)] = np.bincount(of, idf[buckets], len(block))
        first += len(block)
    live = ~kb.removed
    rows = np.flatnonzero(live)
    aliases = np.flatnonzero(np.repeat(live, np.diff(kb.alias_ends, prepend=0)))
    return NgramColumns(start, post, weight, length, np.concatenate([rows, -1 - aliases]).astype(np.int32))
