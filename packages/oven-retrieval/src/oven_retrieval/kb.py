"""The knowledge base: entities on disk, streamed in and memory-mapped out."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .entity import Entity
from .filters import FILTERS
from .folder import Folder, FolderWriter, Texts
from .readers import Row, read_entities
from .tokens import hash64

if TYPE_CHECKING:
    from pathlib import Path

KIND = "oven-knowledge-base"
_PROGRESS_EVERY = 100_000


class KnowledgeBase(Sequence[Entity]):
    """Entities in memory-mapped columns; `kb[row]` builds one record.

    Args:
        path: folder written by `build_kb`.
        verify: compare every byte with the manifest's hashes (reads the whole folder).

    Raises:
        FolderError: names the file that is missing, cut short or changed.

    Numerics:
        Opening costs a manifest and no data: columns are mapped when they are used, and pages that nobody reads are
        not loaded.
    """

    def __init__(self, path: str | Path, *, verify: bool = False) -> None:
        self._folder = Folder(path, KIND, verify=verify)
        self.path = self._folder.path
        self.hash = self._folder.hash
        self.meta = self._folder.meta
        texts = self._folder.texts
        self.ids, self.names, self.descriptions, self.images = (
            texts("id"),
            texts("name"),
            texts("description"),
            texts("image"),
        )
        self.aliases: Texts = texts("alias")
        self.categories = list(texts("categories"))
        self.alias_ends: npt.NDArray[np.int64] = self._folder.array("alias_ends")
        self.category_codes: npt.NDArray[np.int32] = self._folder.array("category")
        self.popularity: npt.NDArray[np.float64] = self._folder.array("popularity")
        self._id_hash: npt.NDArray[np.uint64] = self._folder.array("id_hash")
        self._id_row: npt.NDArray[np.int64] = self._folder.array("id_row")

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> Entity:  # type: ignore[override]  # slices are not offered
        row = range(len(self))[index]
        return Entity(
            id=self.ids[row],
            name=self.names[row],
            aliases=tuple(self.aliases[i] for i in self.alias_rows(row)),
            description=self.descriptions[row],
            category=self.categories[self.category_codes[row]],
            image=self.images[row] or None,
            popularity=float(self.popularity[row]),
        )

    def alias_rows(self, row: int) -> range:
        """Which of `aliases` belong to the entity in this row."""
        return range(int(self.alias_ends[row - 1]) if row else 0, int(self.alias_ends[row]))

    def rows(self, ids: Sequence[str]) -> npt.NDArray[np.int64]:
        """Rows of the entities with these ids; -1 where there is none."""
        hashes = hash64(ids)
        if not len(self):
            return np.full(len(hashes), -1, dtype=np.int64)
        at = np.minimum(np.searchsorted(self._id_hash, hashes), len(self) - 1)
        return np.where(self._id_hash[at] == hashes, self._id_row[at], -1)

    def has_image(self) -> npt.NDArray[np.bool_]:
        """Whether each entity has an image, shape [n]."""
        ends = self._folder.array("image.ends")
        return np.diff(ends, prepend=0) > 0


def build_kb(
    rows: Iterable[Row | Entity],
    path: str | Path,
    *,
    source: str = "entities",
    filters: Sequence[str] = (),
    overwrite: bool = False,
    progress: Callable[[int], None] | None = None,
) -> KnowledgeBase:
    """Write entities to a folder, one at a time, and open it.

    Args:
        rows: entities, or what the readers yield.
        path: the new folder.
        source: where they come from; shown in error messages and kept in the manifest.
        filters: names of pages to leave out, of `disambiguation`, `redirects`, `media`.
        overwrite: replace a knowledge base that is there.
        progress: called with the number of entities after each 100,000.

    Raises:
        ValueError: an id that occurs twice (both lines), or a filter that does not exist.
        FileExistsError: names the folder that is in the way.

    Numerics:
        Memory grows by 16 bytes per entity for the check of duplicate ids; the records themselves are never held.

    Example:
        >>> import tempfile, pathlib
        >>> folder = pathlib.Path(tempfile.mkdtemp()) / "kb"
        >>> kb = build_kb([Entity("Q31", "Belgium"), Entity("Q183", "Germany", aliases=("Deutschland",))], folder)
        >>> len(kb), kb[1].aliases, kb.rows(["Q183", "Q0"]).tolist()
        (2, ('Deutschland',), [1, -1])
    """
    unknown = [name for name in filters if name not in FILTERS]
    if unknown:
        raise ValueError(f"filters: expected some of {sorted(FILTERS)}, got {unknown}")
    left_out = dict.fromkeys(filters, 0)
    with FolderWriter(path, KIND, overwrite=overwrite) as folder:
        columns = _Columns(folder)
        for line, entity, content in _numbered(rows):
            reason = next((name for name in filters if FILTERS[name](entity, content)), None)
            if reason is not None:
                left_out[reason] += 1
                continue
            columns.append(line, entity)
            if progress is not None and len(columns) % _PROGRESS_EVERY == 0:
                progress(len(columns))
        columns.finish(source)
        folder.meta = {"source": source, "count": len(columns), "left_out": left_out}
    return KnowledgeBase(path)


def build_kb_from_file(
    source: str | Path, path: str | Path, *, file_format: str | None = None, **options: Any
) -> KnowledgeBase:
    """Build a knowledge base from an entity file; the options are those of `build_kb`."""
    return build_kb(read_entities(source, file_format), path, source=str(source), **options)


def _numbered(rows: Iterable[Row | Entity]) -> Iterator[Row]:
    for number, row in enumerate(rows, start=1):
        if isinstance(row, Entity):
            yield number, row, ""
        else:
            yield row


class _Columns:
    """The columns of a knowledge base that is being written."""

    def __init__(self, folder: FolderWriter) -> None:
        self._folder = folder
        self._texts = {name: folder.texts(name) for name in ("id", "name", "description", "image")}
        self._aliases = folder.texts("alias")
        self._alias_ends, self._codes, self._popularity = array("q"), array("i"), array("d")
        self._categories: dict[str, int] = {}
        self._lines, self._hashes = array("q"), array("Q")
        self._alias_count = 0

    def __len__(self) -> int:
        return len(self._lines)

    def append(self, line: int, entity: Entity) -> None:
        """Add one entity."""
        for name, column in self._texts.items():
            column.append(getattr(entity, name) or "")
        for alias in entity.aliases:
            self._aliases.append(alias)
        self._alias_count += len(entity.aliases)
        self._alias_ends.append(self._alias_count)
        self._codes.append(self._categories.setdefault(entity.category, len(self._categories)))
        self._popularity.append(entity.popularity)
        self._lines.append(line)
        self._hashes.append(int(hash64([entity.id])[0]))

    def finish(self, source: str) -> None:
        """Check that ids are unique and write what depends on all entities."""
        hashes = np.frombuffer(self._hashes, dtype=np.uint64) if len(self) else np.zeros(0, np.uint64)
        order = np.argsort(hashes, kind="stable")
        same = np.flatnonzero(hashes[order][1:] == hashes[order][:-1])
        if len(same):
            first, second = (self._lines[int(order[same[0] + i])] for i in (0, 1))
            raise ValueError(
                f"{source}:{second}: id: already used on line {first}; expected each id once ({len(same)} are not)"
            )
        categories = self._folder.texts("categories")
        for category in self._categories:
            categories.append(category)
        self._folder.array("alias_ends", np.asarray(self._alias_ends, dtype=np.int64))
        self._folder.array("category", np.asarray(self._codes, dtype=np.int32))
        self._folder.array("popularity", np.asarray(self._popularity, dtype=np.float64))
        self._folder.array("id_hash", hashes[order])
        self._folder.array("id_row", order.astype(np.int64))
