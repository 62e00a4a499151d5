"""The knowledge base: entities in memory-mapped columns."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from oven_retrieval.entity import Entity
from oven_retrieval.folder import Folder, FolderError, check_row
from oven_retrieval.tokens import hash64

if TYPE_CHECKING:
    from pathlib import Path

    from jaxtyping import Float64, Int32, Int64

    from oven_retrieval.names import NameLinker

KIND = "oven-knowledge-base"
_OF_ENTITIES = (
    "id.ends", "id.sums", "name.ends", "name.sums", "description.ends", "image.ends", "alias_ends", "category",
    "language", "popularity", "id_hash", "id_row",
)  # fmt: skip
"""Columns with one number for each entity."""


class LinkedEntity(NamedTuple):
    """An entity that a name was linked to: by which of `STEPS`, with which score, and whether the link is weak.

    Scores are described by `NameLinker.link`, weak links by `NameLinker.weak`.
    """

    id: str
    name: str
    step: str
    score: float
    weak: bool = False


class KnowledgeBase(Sequence[Entity]):
    """Entities in memory-mapped columns; `kb[row]` builds one record. A row is an entity's number in every index.

    Args:
        path: folder written by `build_kb`.
        verify: compare every byte with the manifest's hashes (reads the whole folder).

    Raises:
        FolderError: names the file that is missing, cut short or changed.

    Numerics:
        Opening costs a manifest and no data: columns are mapped, and pages that nobody reads are not loaded. What was
        opened stays as it was, whatever takes its place on disk. Pickling keeps the path and the hash, no columns.

    Example:
        >>> import tempfile, pathlib
        >>> from oven_retrieval import build_kb
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "kb"
        >>> _ = build_kb([Entity("Q1", "Gift", language="de"), Entity("Q2", "Goose", popularity=7)], path)
        >>> kb = KnowledgeBase(path, verify=True)
        >>> len(kb), kb[1].name, kb.rows(["Q2", "Q9"]).tolist(), kb.languages
        (2, 'Goose', [1, -1], ['de'])
    """

    is_extended = False
    """Whether it holds entities that are in memory alone, see `extended`."""

    def __init__(self, path: str | Path, *, verify: bool = False) -> None:
        folder = self._folder = _open(path, verify)
        self.path, self.hash, self.meta = folder.path, folder.hash, folder.meta
        self.ids, self.names, self.aliases = folder.texts("id"), folder.texts("name"), folder.texts("alias")
        self.descriptions, self.images = folder.texts("description"), folder.texts("image")
        count = self.meta["count"]
        self._is_temporary = False
        if not isinstance(count, int) or count != len(self.ids):
            raise FolderError(f"{path}: the manifest counts {count!r:.40} entities, there are {len(self.ids)} ids")
        folder.check_alike(*_OF_ENTITIES, count=count)
        folder.check_alike("alias.ends", "alias_language")

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
        if isinstance(names, bytes | Set | Mapping) or getattr(names, "ndim", 1) != 1:
            raise TypeError(f"names: expected a list of texts, got a {type(names).__name__} {names!r:.40}")
        folder = tempfile.mkdtemp(prefix="oven-")
        try:
            entities = (Entity(str(number), name) for number, name in enumerate(names))
            kb = build_kb(entities, f"{folder}/kb", source="names")
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        weakref.finalize(kb, shutil.rmtree, folder, ignore_errors=True)
        kb._is_temporary = True
        return kb

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the path, so that another process maps the same columns; of temporary ones a copy."""
        if not self._is_temporary:
            return _again, (KnowledgeBase, self._folder.place, self.hash)
        return _blank, (KnowledgeBase,), {name: value for name, value in vars(self).items() if name != "_linker"}

    @cached_property
    def _linker(self) -> NameLinker:
        from oven_retrieval.names import build_linker  # which builds on this module

        return build_linker(self)

    def link(self, name: str, k: int = 1, *, allowed: npt.ArrayLike | None = None) -> list[LinkedEntity]:
        """The k best entities for a name, best first; none where nothing is like it.

        The names are indexed in memory when this is first called; `build_name_index` keeps an index on disk. `allowed`
        says of each entity whether it may be answered.

        Example:
            >>> kb = KnowledgeBase.from_names(["Wood duck", "Goose"])
            >>> kb.link("goose")
            [LinkedEntity(id='1', name='Goose', step='folded name', score=nan, weak=False)]
            >>> [link.name for link in kb.link("a moose in the woods") if not link.weak]
            []
        """
        if not isinstance(name, str):
            raise TypeError(f"name: expected one text, got {name!r:.40}; `retrieve` takes many")
        from oven_retrieval.names import STEPS

        links = self._linker.link([name], k, allowed=allowed)
        weak = self._linker.weak([name], links)
        columns = (column[0].tolist() for column in (links.rows, links.kinds, links.scores, weak))
        return [
            LinkedEntity(self.ids[row], self.names[row], STEPS[step], score, is_weak)
            for row, step, score, is_weak in zip(*columns, strict=True)
            if row >= 0
        ]

    def extended(self, rows: Iterable[Any]) -> KnowledgeBase:
        """The same knowledge base with more entities, in memory and without a build; see `extend_linker`.

        Example:
            >>> kb = KnowledgeBase.from_names(["Wood duck", "Goose"]).extended([Entity("Q7", "Teal")])
            >>> len(kb), kb.link("teal")[0].id
            (3, 'Q7')
        """
        from oven_retrieval.names import extend_linker  # which builds on this module

        return extend_linker(self._linker, rows).kb

    def retrieve(
        self, queries: Sequence[str], k: int = 10, *, allowed: npt.ArrayLike | None = None
    ) -> tuple[Int64[np.ndarray, "q k"], Float64[np.ndarray, "q k"]]:
        """Return the rows of the k best entities of each query, and their scores; beyond these, the row is -1.

        Scores are comparable within a step only (see `NameLinker.link`, which gives the steps, too): NaN for names
        that are spelled as ours, minus the edits for typos, BM25's. `allowed` says of each entity whether it may be
        answered.

        Example:
            >>> kb = KnowledgeBase.from_names(["Wood duck", "Goose"])
            >>> kb.retrieve(["goose", "mandarin duck"], k=1)[0].tolist()
            [[1], [0]]
        """
        links = self._linker.link(queries, k, allowed=allowed)
        return links.rows, links.scores

    @property
    def alias_ends(self) -> Int64[np.ndarray, " rows"]:
        """Where the aliases of each row end in `aliases`."""
        return self._folder.array("alias_ends")

    @property
    def popularity(self) -> Float64[np.ndarray, " rows"]:
        """Popularity of each row."""
        return self._folder.array("popularity")

    @cached_property
    def categories(self) -> list[str]:
        """The categories that occur."""
        return list(self._folder.texts("categories"))

    @property
    def category_codes(self) -> Int32[np.ndarray, " rows"]:
        """Category of each row, as its place in `categories`."""
        return self._folder.array("category")

    @cached_property
    def language_sets(self) -> list[str]:
        """The sets of languages that names belong to, each as in `Entity.language`; the first is empty."""
        return list(self._folder.texts("languages")) if "languages.ends" in self._folder else [""]

    @cached_property
    def languages(self) -> list[str]:
        """Tags of the languages that names and aliases belong to, in the order of the alphabet."""
        return sorted({tag for tags in self.language_sets for tag in tags.split()})

    @property
    def language_codes(self) -> Int32[np.ndarray, " rows"]:
        """Languages of each row's name, as a place in `language_sets`."""
        return self._language_column("language", len(self))

    @property
    def alias_language_codes(self) -> Int32[np.ndarray, " aliases"]:
        """Languages of each of `aliases`, as a place in `language_sets`."""
        return self._language_column("alias_language", len(self.aliases))

    def _language_column(self, name: str, count: int) -> npt.NDArray[np.int32]:
        return self._folder.array(name) if name in self._folder else np.zeros(count, np.int32)  # no name has a tag

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> Entity:  # type: ignore[override]  # slices are not offered
        row = check_row(index, len(self))
        aliases = self.alias_rows(row)
        language, alias_languages = "", ()
        if self.languages:
            sets = self.language_sets
            language = sets[self.language_codes[row]]
            spoken = tuple(sets[code] for code in self.alias_language_codes[aliases.start : aliases.stop].tolist())
            alias_languages = spoken if any(spoken) else ()
        return Entity(
            id=self.ids[row],
            name=self.names[row],
            aliases=tuple(self.aliases[i] for i in aliases),
            language=language,
            alias_languages=alias_languages,
            description=self.descriptions[row],
            category=self.categories[self.category_codes[row]],
            image=self.images[row] or None,
            popularity=float(self.popularity[row]),
        )

    def __iter__(self) -> Iterator[Entity]:
        return (self[row] for row in range(len(self)))

    def label(self, row: int) -> tuple[str, str]:
        """Id and name of a row, for records that are shown."""
        return self.ids[row], self.names[row]

    def alias_rows(self, row: int) -> range:
        """Which of `aliases` belong to the entity in this row."""
        return range(int(self.alias_ends[row - 1]) if row else 0, int(self.alias_ends[row]))

    def rows(self, ids: Sequence[str]) -> Int64[np.ndarray, " q"]:
        """Rows of the entities with these ids; -1 where there is none."""
        hashes, sorted_hashes, row = hash64(ids), self._folder.array("id_hash"), self._folder.array("id_row")
        if not len(row):
            return np.full(len(hashes), -1, dtype=np.int64)
        at = np.minimum(np.searchsorted(sorted_hashes, hashes), len(row) - 1)
        return np.where(sorted_hashes[at] == hashes, row[at], -1)


def _blank(kind: type[KnowledgeBase]) -> KnowledgeBase:
    return kind.__new__(kind)


def _again(kind: Any, path: Path, content: str) -> Any:
    """Open what was pickled by its path, or say that something else has taken its place."""
    opened = kind(path)
    if opened.hash != content:
        raise FolderError(
            f"{path}: {opened.hash[:12]}…, expected {content[:12]}…: it was written again after it was pickled; open it"
        )
    return opened


def _open(path: str | Path, verify: bool) -> Folder:
    """The folder with all its columns mapped: another may take its place while it is read."""
    while True:
        folder = Folder(path, KIND, verify=verify)
        if (folder.location / "edits.json").exists():
            raise FolderError(
                f"{path}: entities were added or removed by oven-retrieval 0.1, which this version does not read; "
                "run its `oven compact` first, or build the knowledge base again"
            )
        try:
            folder.map_all()
        except (FolderError, FileNotFoundError):
            if folder.is_current():
                raise
        else:
            return folder
