"""Names within one or two edits of a text: complete, by the rarest of its trigrams."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import OSA

from oven_retrieval.folder import Folder, FolderError, Texts
from oven_retrieval.folder_writer import FolderWriter
from oven_retrieval.names.places import name_texts
from oven_retrieval.tokens import fold, hash64, words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from jaxtyping import Int32, UInt64

    from oven_retrieval.kb import KnowledgeBase

KIND = "oven-typo-index"
_CHUNK = 1 << 15
_COLUMNS = ("length", "key", "start", "post", "word")
_PER_EDIT = 4
"""One edit touches at most so many trigrams: a swap of two neighbours lies in four."""

Int = npt.NDArray[np.int64]


class Typos(NamedTuple):
    """Near names of queries; ragged, [m] in order of query, then fewest edits.

    `query` the query's number; `text` the folded name; `edits` how many edits lie between them.
    """

    query: Int
    text: list[str]
    edits: Int


def allowed_edits(text: str) -> int:
    """How many edits a folded text may be away: 0 below 4 characters, 1 below 8, else 2.

    A text of few different trigrams ("aaaaaaaa") is allowed fewer: (trigrams - 1) / 4.

    Example:
        >>> [allowed_edits(text) for text in ("cat", "duck", "mandarin", "aaaaaaaa")]
        [0, 1, 2, 1]
    """
    by_length = 0 if len(text) < 4 else 1 if len(text) < 8 else 2
    return min(by_length, (len(set(_trigrams([text])[0].tolist())) - 1) // _PER_EDIT)


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


class TypoIndex:
    """Distinct folded names under their trigrams.

    A text of D different trigrams (two blanks are thought at each end) shares at least D - 4 e of them with any text
    that is e edits away, so one of its 4 e + 1 rarest is among them: those lists, cut to names of fitting length,
    hold every such name. What also shares enough of the others is compared character by character.

    Args:
        texts: [T] distinct, ordered by length, then by code points.
        length: [T] int32, characters of each.
        key: [V] int64, the trigrams, rising: three code points of 21 bits.
        start: [V+1] where the list of each begins.
        post: [P] int32, the texts of each trigram, rising.
        word: [W] uint64, hashes of the words of all texts, rising: the dictionary.

    Numerics:
        Complete and without chance: equal to a look at every name (`tests/test_typos.py`).

    Example:
        >>> index = build_typos(["Mandarin duck", "Golden Gate", "Duck", "Wood duck"])
        >>> index.find(["Madnarin dukc", "dock", "golden gate", "cat"]).text
        ['mandarin duck', 'duck', 'golden gate']
    """

    def __init__(
        self,
        texts: Sequence[str],
        length: Int32[np.ndarray, " T"],
        key: Int,
        start: Int,
        post: Int32[np.ndarray, " P"],
        word: UInt64[np.ndarray, " W"],
    ) -> None:
        self._texts, self._length, self._key, self._start, self._post = texts, length, key, start, post
        self._word = word

    def __len__(self) -> int:
        return len(self._texts)

    def knows(self, texts: Sequence[str]) -> bool:
        """Whether one of these words is in a name."""
        keys = hash64(texts)
        at = np.minimum(np.searchsorted(self._word, keys), max(len(self._word) - 1, 0))
        return bool(len(self._word)) and bool((self._word[at] == keys).any())

    def is_typo(self, text: str, name: str) -> bool:
        """Whether a folded text is a misspelling of a folded name: all words agree but some that are no words at all.

        A text that only splits or joins a name's words is one; "the boat" is none of "the boot" where boats are known.

        Example:
            >>> index = build_typos(["the boot", "a boat", "goldfinch"])
            >>> index.is_typo("the boat", "the boot"), index.is_typo("the boqt", "the boot")
            (False, True)
            >>> index.is_typo("gold finch", "goldfinch"), index.is_typo("the bopt", "a boat")
            (True, False)
        """
        asked, meant = words(text), words(name)
        while asked and meant and asked[0] == meant[0]:
            del asked[0], meant[0]
        while asked and meant and asked[-1] == meant[-1]:
            del asked[-1], meant[-1]
        if "".join(asked) == "".join(meant):
            return True
        return bool(asked) and bool(meant) and not self.knows(asked)

    def find(self, names: Sequence[str]) -> Typos:
        """All names within the allowed edits of each text (see `allowed_edits`), equal ones among them."""
        queries, texts, edits = [], [], []
        for number, name in enumerate(names):
            folded = fold(name)
            for text, distance in self._near(folded, allowed_edits(folded)) if folded else ():
                queries.append(number)
                texts.append(text)
                edits.append(distance)
        return Typos(np.array(queries, dtype=np.int64), texts, np.array(edits, dtype=np.int64))

    def _near(self, text: str, most: int) -> list[tuple[str, int]]:
        if not most or not len(self._key):
            return []
        trigrams = np.unique(_trigrams([text])[0])
        at = np.minimum(np.searchsorted(self._key, trigrams), len(self._key) - 1)
        known = self._key[at] == trigrams
        low, high = np.searchsorted(self._length, [len(text) - most, len(text) + most + 1]).tolist()
        lists = []
        for place in at[known].tolist():
            names = self._post[self._start[place] : self._start[place + 1]]
            first, last = np.searchsorted(names, [low, high])
            lists.append(names[first:last])
        lists.sort(key=len)
        # Of trigrams that no name has, none can be shared: they are the rarest.
        may_miss = _PER_EDIT * most
        absent = len(trigrams) - len(lists)
        rarest = max(0, may_miss + 1 - absent)
        if not rarest or not lists:
            return []
        candidates, hits = np.unique(np.concatenate(lists[:rarest]), return_counts=True)
        missed = absent + min(rarest, len(lists)) - hits
        for names in lists[rarest:]:
            place = np.minimum(np.searchsorted(names, candidates), len(names) - 1)
            missed += names[place] != candidates
            kept = missed <= may_miss
            candidates, missed = candidates[kept], missed[kept]
        found = []
        for candidate in candidates[missed <= may_miss].tolist():
            distance = edit_distance(text, self._texts[candidate], most)
            if distance <= most:
                found.append((self._texts[candidate], distance))
        return sorted(found, key=lambda pair: pair[1])


def _trigrams(texts: Sequence[str]) -> tuple[Int, Int]:
    """Trigrams of each text with two blanks at either end, as numbers, and which text each is of."""
    padded = "".join([f"\x00\x00{text}" for text in texts]) + "\x00\x00"
    points = np.frombuffer(padded.encode("utf-32-le", "surrogatepass"), dtype="<u4").astype(np.int64)
    keys = points[:-2] << 42 | points[1:-1] << 21 | points[2:]
    return keys, np.repeat(np.arange(len(texts)), [len(text) + 2 for text in texts])


def _distinct(texts: Sequence[str]) -> Iterator[tuple[Int, Int]]:
    """In chunks: (trigram, text), each pair once, rising by trigram, then text."""
    for first in range(0, len(texts), _CHUNK):
        keys, of = _trigrams(texts[first : first + _CHUNK])
        order = np.lexsort((of, keys))
        keys, of = keys[order], of[order]
        new = np.ones(len(keys), dtype=np.bool_)
        new[1:] = (keys[1:] != keys[:-1]) | (of[1:] != of[:-1])
        yield keys[new], of[new] + first


def build_typos(names: Iterable[str]) -> TypoIndex:
    """Index names in memory; they are folded, and equal ones kept once.

    Numerics: memory: the distinct names as Python texts, 4 bytes per trigram (about 20 per name), and a chunk.

    Example:
        >>> found = build_typos(["Mandarin duck", "Goose"]).find(["mandarn duck", "moose"])
        >>> list(zip(found.query.tolist(), found.text, found.edits.tolist(), strict=True))
        [(0, 'mandarin duck', 1), (1, 'goose', 1)]
    """
    texts = sorted({folded for name in names if (folded := fold(name))}, key=lambda text: (len(text), text))
    key, count = np.zeros(0, np.int64), np.zeros(0, np.int64)
    for keys, _ in _distinct(texts):
        here, times = np.unique(keys, return_counts=True)
        merged, number = np.unique(np.concatenate([key, here]), return_inverse=True)
        key, count = merged, np.bincount(number, np.concatenate([count, times]), len(merged)).astype(np.int64)
    start = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
    post = np.empty(int(start[-1]), dtype=np.int32)
    filled = start[:-1].copy()
    for keys, of in _distinct(texts):
        code = np.searchsorted(key, keys)
        post[filled[code] + np.arange(len(code)) - np.searchsorted(code, code)] = of
        filled += np.bincount(code, minlength=len(key))
    dictionary = np.unique(hash64({word for text in texts for word in words(text)}))
    return TypoIndex(texts, np.array([len(text) for text in texts], dtype=np.int32), key, start, post, dictionary)


def write_typo_index(kb: KnowledgeBase, path: str | Path, *, overwrite: bool = False) -> TypoIndex:
    """Index the names and aliases of a knowledge base into a folder, and open it.

    Raises:
        FileExistsError: names the folder that is in the way.

    Example:
        >>> from oven_retrieval import Entity, build_kb
        >>> import tempfile, pathlib
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> kb = build_kb([Entity("Q1", "Wood duck", aliases=("Aix",)), Entity("Q2", "Goose")], folder / "kb")
        >>> write_typo_index(kb, folder / "typos").find(["wod duck"]).text
        ['wood duck']
    """
    with FolderWriter(path, KIND, overwrite=overwrite) as folder:
        index = build_typos(name_texts(kb))
        texts = folder.texts("text")
        for text in index._texts:
            texts.append(text)
        for name in _COLUMNS:
            folder.array(name, getattr(index, f"_{name}"))
        folder.meta = {"kb": kb.hash}
    return open_typo_index(path, kb)


def open_typo_index(path: str | Path, kb: KnowledgeBase, *, verify: bool = False) -> TypoIndex:
    """Open an index of `write_typo_index`.

    Raises:
        FolderError: there is none, it is damaged, or it was built from other entities.

    Example:
        >>> from oven_retrieval import Entity, build_kb
        >>> import tempfile, pathlib
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> kb = build_kb([Entity("Q1", "Wood duck", aliases=("Aix",)), Entity("Q2", "Goose")], folder / "kb")
        >>> _ = write_typo_index(kb, folder / "typos")
        >>> open_typo_index(folder / "typos", kb).find(["gooze"]).text
        ['goose']
    """
    folder = Folder(path, KIND, verify=verify)
    if folder.meta["kb"] != kb.hash:
        raise FolderError(
            f"{folder.path}: built from the entities {folder.meta['kb'][:12]}…, "
            f"expected those of {kb.path}, {kb.hash[:12]}…; build it again (`oven update --rebuild`)"
        )
    texts: Texts = folder.texts("text")
    return TypoIndex(texts, *(folder.array(name) for name in _COLUMNS))
