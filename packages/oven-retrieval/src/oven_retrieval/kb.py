"""The knowledge base: entities in memory-mapped columns, and what was added and removed since they were built."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from oven_retrieval.entity import Entity
from oven_retrieval.folder import Folder, FolderError, JoinedTexts, Texts
from oven_retrieval.kb_edits import KIND, Edits, entities_in, read_edits
from oven_retrieval.tokens import hash64

if TYPE_CHECKING:
    from pathlib import Path

    from jaxtyping import Bool, Float64, Int32, Int64, UInt64

    from oven_retrieval.names import NameLinker

_MAPPED_AT_ONCE = 16
"""Folders of which every column is mapped when the knowledge base is opened: each column takes a file handle."""
Label = Callable[[int], tuple[str, str]]
"""Id and name of a row."""


class LinkedEntity(NamedTuple):
    """An entity that a name was linked to: by which of `STEPS`, and with which score (see `NameLinker.link`).

    Example:
        >>> KnowledgeBase.from_names(["Goose"]).link("geese flying")
        []
    """

    id: str
    name: str
    step: str
    score: float


class KnowledgeBase(Sequence[Entity]):
    """Entities in memory-mapped columns; `kb[row]` builds one record.

    A row is an entity's number in every index. Added entities get the rows after the last one, and a removed one
    leaves its row empty, so that an index need not be numbered anew: `len(kb)` counts rows, `kb.entity_count`
    entities, and iterating passes over the empty rows. `compact` closes the gaps.

    Args:
        path: folder written by `build_kb`.
        verify: compare every byte with the manifest's hashes (reads the whole folder).

    Raises:
        FolderError: names the file that is missing, cut short or changed.

    Numerics:
        Opening costs a manifest and no data: columns are mapped, and pages that nobody reads are not loaded. What was
        opened stays as it was, whatever takes its place on disk. With added entities, the columns of numbers are read
        into memory when they are first used.

    Example:
        >>> import tempfile, pathlib
        >>> from oven_retrieval import build_kb
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "kb"
        >>> _ = build_kb([Entity("Q1", "Gift", language="de"), Entity("Q2", "Goose", popularity=7)], path)
        >>> kb = KnowledgeBase(path, verify=True)
        >>> len(kb), kb[1].name, kb.rows(["Q2", "Q9"]).tolist(), kb.languages
        (2, 'Goose', [1, -1], ['de'])
    """

    def __init__(self, path: str | Path, *, verify: bool = False) -> None:
        self.base, self.edits = _open(path, verify)
        self.path = self.base.path
        self.hash = self.edits.versions[-1].hash
        self.meta = self.base.meta
        self._parts = [self.base, *self.edits.added()]
        self._firsts = np.cumsum([0, *(entities_in(part) for part in self._parts)])
        self._removed_rows = self.edits.removed()
        if len(self._removed_rows) and self._removed_rows[-1] >= len(self):
            raise FolderError(f"{self.path}: row {self._removed_rows[-1]} is removed, expected one of {len(self)}")
        self.ids, self.names, self.descriptions, self.images = (
            self._texts("id"),
            self._texts("name"),
            self._texts("description"),
            self._texts("image"),
        )
        self.aliases = self._texts("alias")

    @classmethod
    def from_names(cls, names: Iterable[str]) -> KnowledgeBase:
        """A knowledge base of plain names, whose ids are their places: "0", "1", and so on.

        Its columns lie in a temporary folder, which goes with the object.

        Raises:
            ValueError: a name that is empty.

        Example:
            >>> kb = KnowledgeBase.from_names(["Wood duck", "Goose"])
            >>> kb.link("the wood ducks")[0].name
            'Wood duck'
        """
        from oven_retrieval.building import build_kb  # which builds on this module

        if isinstance(names, str):
            raise TypeError(f"names: expected texts, got one text {names[:40]!r}")
        folder = tempfile.mkdtemp(prefix="oven-")
        try:
            entities = (Entity(str(number), name) for number, name in enumerate(names))
            kb = build_kb(entities, f"{folder}/kb", source="names")
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        weakref.finalize(kb, shutil.rmtree, folder, ignore_errors=True)
        return kb

    @cached_property
    def _linker(self) -> NameLinker:
        from oven_retrieval.names import build_linker  # which builds on this module

        return build_linker(self)

    def link(self, name: str, k: int = 1) -> list[LinkedEntity]:
        """The k best entities for a name, best first; none where nothing is like it.

        The names are indexed in memory when this is first called; `build_name_index` keeps an index on disk.

        Example:
            >>> kb = KnowledgeBase.from_names(["Wood duck", "Goose"])
            >>> kb.link("goose")
            [LinkedEntity(id='1', name='Goose', step='folded name', score=nan)]
        """
        if not isinstance(name, str):
            raise TypeError(f"name: expected one text, got {name!r:.40}; `retrieve` takes many")
        from oven_retrieval.names import STEPS

        links = self._linker.link([name], k)
        return [
            LinkedEntity(self.ids[row], self.names[row], STEPS[step], score)
            for row, step, score in zip(
                links.rows[0].tolist(), links.kinds[0].tolist(), links.scores[0].tolist(), strict=True
            )
            if row >= 0
        ]

    def retrieve(
        self, queries: Sequence[str], k: int = 10
    ) -> tuple[Int64[np.ndarray, "q k"], Float64[np.ndarray, "q k"]]:
        """The rows of the k best entities of each query, -1 where there are no more, and their scores.

        Scores are comparable within a step only (see `NameLinker.link`, which gives the steps, too): NaN for names
        that are spelled as ours, minus the edits for typos, BM25's.

        Example:
            >>> kb = KnowledgeBase.from_names(["Wood duck", "Goose"])
            >>> kb.retrieve(["goose", "mandarin duck"], k=1)[0].tolist()
            [[1], [0]]
        """
        links = self._linker.link(queries, k)
        return links.rows, links.scores

    def _texts(self, name: str) -> Texts:
        texts = [part.texts(name) for part in self._parts]
        return texts[0] if len(texts) == 1 else JoinedTexts(texts)

    def _numbers(self, columns: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
        return columns[0] if len(columns) == 1 else np.concatenate(columns)

    @cached_property
    def alias_ends(self) -> Int64[np.ndarray, " rows"]:
        """Where the aliases of each row end in `aliases`."""
        ends, columns = 0, []
        for part in self._parts:
            column = part.array("alias_ends")
            columns.append(column + ends if ends else column)
            ends += int(column[-1]) if len(column) else 0
        return self._numbers(columns)

    @cached_property
    def popularity(self) -> Float64[np.ndarray, " rows"]:
        """Popularity of each row."""
        return self._numbers([part.array("popularity") for part in self._parts])

    @cached_property
    def _categories(self) -> tuple[list[str], npt.NDArray[np.int32]]:
        numbers: dict[str, int] = {}
        columns = []
        for part in self._parts:
            own = [numbers.setdefault(name, len(numbers)) for name in part.texts("categories")]
            codes = part.array("category")
            columns.append(codes if own == list(range(len(own))) else np.array(own, dtype=np.int32)[codes])
        return list(numbers), self._numbers(columns)

    @property
    def categories(self) -> list[str]:
        """The categories that occur."""
        return self._categories[0]

    @property
    def category_codes(self) -> Int32[np.ndarray, " rows"]:
        """Category of each row, as its place in `categories`."""
        return self._categories[1]

    @cached_property
    def _languages(self) -> tuple[list[str], npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """What `language_sets`, `language_codes` and `alias_language_codes` give."""
        numbers: dict[str, int] = {"": 0}
        columns: tuple[list[npt.NDArray[np.int32]], list[npt.NDArray[np.int32]]] = ([], [])
        for part in self._parts:
            if "languages.ends" not in part:  # no name has a tag, or written by an earlier version
                counts = (entities_in(part), len(part.texts("alias")))
                for column, count in zip(columns, counts, strict=True):
                    column.append(np.zeros(count, np.int32))
                continue
            own = np.array([numbers.setdefault(tags, len(numbers)) for tags in part.texts("languages")], np.int32)
            for column, name in zip(columns, ("language", "alias_language"), strict=True):
                column.append(own[part.array(name)])
        return list(numbers), self._numbers(columns[0]), self._numbers(columns[1])

    @cached_property
    def languages(self) -> list[str]:
        """Tags of the languages that names and aliases belong to, in the order of the alphabet."""
        if not any("languages.ends" in part for part in self._parts):
            return []
        return sorted({tag for tags in self._languages[0] for tag in tags.split()})

    @property
    def language_sets(self) -> list[str]:
        """The sets of languages that names belong to, each as in `Entity.language`; the first is empty."""
        return self._languages[0]

    @property
    def language_codes(self) -> Int32[np.ndarray, " rows"]:
        """Languages of each row's name, as a place in `language_sets`."""
        return self._languages[1]

    @property
    def alias_language_codes(self) -> Int32[np.ndarray, " aliases"]:
        """Languages of each of `aliases`, as a place in `language_sets`."""
        return self._languages[2]

    @property
    def removed(self) -> Bool[np.ndarray, " rows"]:
        """Whether each row is empty because its entity was removed, [rows]; a new array each time."""
        mask = np.zeros(len(self), dtype=np.bool_)
        mask[self._removed_rows] = True
        return mask

    @property
    def entity_count(self) -> int:
        """How many entities there are: rows that are not empty."""
        return len(self) - len(self._removed_rows)

    def live_rows(self) -> Int64[np.ndarray, " live"]:
        """Rows that hold an entity, rising."""
        return np.flatnonzero(~self.removed)

    def __len__(self) -> int:
        return int(self._firsts[-1])

    def __getitem__(self, index: int) -> Entity:  # type: ignore[override]  # slices are not offered
        row = range(len(self))[index]
        if self._is_removed(row):
            raise LookupError(f"row {row}: its entity {self.ids[row]!r} was removed")
        language, alias_languages = "", ()
        if self.languages:
            sets = self.language_sets
            language = sets[self.language_codes[row]]
            spoken = tuple(sets[self.alias_language_codes[i]] for i in self.alias_rows(row))
            alias_languages = spoken if any(spoken) else ()
        return Entity(
            id=self.ids[row],
            name=self.names[row],
            aliases=tuple(self.aliases[i] for i in self.alias_rows(row)),
            language=language,
            alias_languages=alias_languages,
            description=self.descriptions[row],
            category=self.categories[self.category_codes[row]],
            image=self.images[row] or None,
            popularity=float(self.popularity[row]),
        )

    def __iter__(self) -> Iterator[Entity]:
        return (self[row] for row in self.live_rows().tolist())

    def _is_removed(self, row: int) -> bool:
        at = int(np.searchsorted(self._removed_rows, row))
        return at < len(self._removed_rows) and int(self._removed_rows[at]) == row

    def label(self, row: int) -> tuple[str, str]:
        """Id and name of a row, for records that are shown."""
        return self.ids[row], self.names[row]

    def alias_rows(self, row: int) -> range:
        """Which of `aliases` belong to the entity in this row."""
        return range(int(self.alias_ends[row - 1]) if row else 0, int(self.alias_ends[row]))

    def rows(self, ids: Sequence[str]) -> Int64[np.ndarray, " q"]:
        """Rows of the entities with these ids; -1 where there is none (any more)."""
        return self.rows_of_hashes(hash64(ids))

    def rows_of_hashes(self, hashes: UInt64[np.ndarray, " q"]) -> Int64[np.ndarray, " q"]:
        """As `rows`, for ids that were hashed with `hash64`."""
        rows = np.full(len(hashes), -1, dtype=np.int64)
        removed = self.removed if len(self._removed_rows) else None
        for part, first in zip(self._parts, self._firsts.tolist(), strict=False):
            sorted_hashes, row = part.array("id_hash"), part.array("id_row")
            if not len(row):
                continue
            at = np.minimum(np.searchsorted(sorted_hashes, hashes), len(row) - 1)
            matches = np.where(sorted_hashes[at] == hashes, row[at] + first, -1)
            if removed is not None:
                matches[(matches >= 0) & removed[matches]] = -1
            rows = np.where(matches >= 0, matches, rows)
        return rows

    def has_image(self) -> Bool[np.ndarray, " rows"]:
        """Whether each entity has an image, shape [rows]."""
        lengths = [np.diff(part.array("image.ends"), prepend=0) for part in self._parts]
        pictured: npt.NDArray[np.bool_] = (self._numbers(lengths) > 0) & ~self.removed
        return pictured

    def former_rows(self, version: str) -> Int64[np.ndarray, " rows"] | None:
        """Where each row was in an earlier version of this knowledge base, for an index that was built from it.

        Args:
            version: hash of that version; this one's is allowed.

        Returns:
            [rows] its row then, -1 for rows that are new since; new rows come after all others. None where that
            version is not known: a `compact` remembers the versions since the one before it.
        """
        for earlier in self.edits.versions:
            if earlier.hash == version:
                rows = np.arange(len(self))
                return np.where(rows < earlier.rows, rows, -1)
        before = self.meta.get("former", {}).get(version)
        if before is None:
            return None
        former = np.full(len(self), -1, dtype=np.int64)
        column = self.base.array("former_row")
        former[: len(column)] = np.where(column < before, column, -1)
        return former


def _open(path: str | Path, verify: bool) -> tuple[Folder, Edits]:
    """The built entities and their edits, of one moment: a `compact` may take their place while they are read."""
    while True:
        base = Folder(path, KIND, verify=verify)
        try:
            edits = read_edits(base, verify=verify)
            folders = [base, *(folder for _, folder in edits.folders)]
            for folder in folders[:_MAPPED_AT_ONCE]:
                folder.map_all()
        except (FolderError, FileNotFoundError):
            if base.is_current():
                raise
        else:
            if base.is_current():
                return base, edits
