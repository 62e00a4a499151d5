"""Entities are written to a folder, which is written anew when some are added or removed."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from operator import length_hint
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from oven_retrieval.entity import Entity
from oven_retrieval.folder_writer import FolderWriter
from oven_retrieval.kb import KIND, KnowledgeBase
from oven_retrieval.tokens import hash64
from wary_files.durable import one_writer, restore

if TYPE_CHECKING:
    from oven_retrieval.progress import Progress
    from oven_retrieval.readers import Row
    from oven_retrieval.wikidata import WikidataDump

_PROGRESS_EVERY = 100_000


def build_kb(
    rows: Iterable[Row | Entity | str | Mapping[str, Any]],
    path: str | Path,
    *,
    source: str = "entities",
    filters: Sequence[str] = (),
    overwrite: bool = False,
    progress: Progress | None = None,
) -> KnowledgeBase:
    """Write entities to a folder, one at a time, and open it.

    Args:
        rows: entities, plain names (their places are the ids), dictionaries with the fields of a JSON line, or what
            the readers yield.
        path: the new folder.
        source: where they come from; shown in error messages and kept in the manifest.
        filters: names of pages to leave out, of `disambiguation`, `redirects`, `media`.
        overwrite: replace a knowledge base that is there.
        progress: called with `entities`, how many are written, and how many there will be as far as is known.

    Raises:
        ValueError: an id that occurs twice (both lines), a dictionary without id or name, or a filter that does not
            exist.
        TypeError: a row that is nothing of this.
        FileExistsError: names the folder that is in the way.

    Numerics:
        Memory grows by 16 bytes per entity for the check of duplicate ids; the records themselves are never held.

    Example:
        >>> import tempfile, pathlib
        >>> folder = pathlib.Path(tempfile.mkdtemp()) / "kb"
        >>> kb = build_kb([Entity("Q31", "Belgium"), Entity("Q183", "Germany", aliases=("Deutschland",))], folder)
        >>> len(kb), kb[1].aliases, kb.rows(["Q183", "Q0"]).tolist()
        (2, ('Deutschland',), [1, -1])
        >>> kb = build_kb(["Duck", {"id": "Q7", "name": "Goose"}], folder, overwrite=True)
        >>> [(entity.id, entity.name) for entity in kb]
        [('0', 'Duck'), ('Q7', 'Goose')]
    """
    return _built(rows, path, source, filters, overwrite=overwrite, progress=progress)


def _built(
    rows: Iterable[Row | Entity | str | Mapping[str, Any]],
    path: str | Path,
    source: str,
    filters: Sequence[str],
    *,
    overwrite: bool,
    progress: Progress | None,
    needed: bool = False,
) -> KnowledgeBase:
    """See `build_kb`; where entities are ``needed``, none is an error, and what was there stays."""
    tests = _tests_of(filters)
    with FolderWriter(path, KIND, overwrite=overwrite) as folder:
        _write(folder, rows, source, tests, progress)
        if needed and not folder.meta["count"]:
            left_out = sum(folder.meta["left_out"].values())
            why = f"all {left_out:,} are left out" if left_out else "it is empty"
            raise ValueError(f"{source}: no entity: {why}; expected at least one")
    return KnowledgeBase(path)


def add_entities(
    kb: KnowledgeBase,
    rows: Iterable[Row | Entity | str | Mapping[str, Any]],
    *,
    source: str = "entities",
    filters: Sequence[str] = (),
    progress: Progress | None = None,
) -> KnowledgeBase:
    """Write a knowledge base anew with more entities in the rows after the last one, in its place, and open it.

    Args:
        kb: the knowledge base; the object that is given stays as it is.
        rows: as in `build_kb`, like the three that follow.
        source: where they come from.
        filters: names of pages to leave out.
        progress: called with `entities`, how many are written, and how many there will be as far as is known.

    Raises:
        ValueError: an id that occurs twice, or is in the knowledge base (remove it first to replace an entity).
        FolderError: another process is writing; it is named.

    Numerics:
        Costs what building costs. A kill before the new folder takes the old one's place leaves the old state.

    Example:
        >>> import tempfile, pathlib
        >>> kb = build_kb([Entity("Q31", "Belgium")], pathlib.Path(tempfile.mkdtemp()) / "kb")
        >>> more = add_entities(kb, [Entity("Q183", "Germany")])
        >>> fewer = remove_entities(more, ["Q31"])
        >>> [entity.name for entity in fewer], fewer.rows(["Q31", "Q183"]).tolist()
        (['Germany'], [-1, 0])
    """
    tests = _tests_of(filters)
    with one_writer(kb.path):
        kb = _now(kb)
        with FolderWriter(kb.path, KIND, overwrite=True) as folder:
            _write(folder, rows, source, tests, progress, kb)
        return KnowledgeBase(kb.path)


def remove_entities(kb: KnowledgeBase, ids: Sequence[str]) -> KnowledgeBase:
    """Write a knowledge base anew without some entities, in its place, and open it; later ones get lower rows.

    Args:
        kb: the knowledge base; the object that is given stays as it is.
        ids: of the entities, each at least once.

    Raises:
        ValueError: an id that no entity has; nothing is removed then.
        FolderError: another process is writing; it is named.

    Example:
        >>> import tempfile, pathlib
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> kb = build_kb([Entity("Q1", "Wood duck", aliases=("Aix",)), Entity("Q2", "Goose")], folder / "kb")
        >>> [entity.id for entity in remove_entities(kb, ["Q1"])]
        ['Q2']
    """
    if isinstance(ids, str):
        raise TypeError(f"ids: expected a list of texts, got one text {ids[:40]!r}")
    with one_writer(kb.path):
        kb = _now(kb)
        rows = kb.rows(ids)
        unknown = [name for name, row in zip(ids, rows, strict=True) if row < 0]
        if unknown:
            raise ValueError(f"ids: {len(unknown)} of {len(ids)} are not in {kb.path}: {unknown[:5]}")
        if not len(rows):
            return kb
        removed = set(rows.tolist())
        remaining = (kb[row] for row in range(len(kb)) if row not in removed)
        with FolderWriter(kb.path, KIND, overwrite=True) as folder:
            _write(folder, remaining, str(kb.meta["source"]), {}, None)
            folder.meta = {**kb.meta, "count": folder.meta["count"]}
        return KnowledgeBase(kb.path)


def _now(kb: KnowledgeBase) -> KnowledgeBase:
    """The knowledge base as it lies there now, and as it was written: its copy gets digests of its own.

    Raises:
        ValueError: entities were added in memory alone, which would be lost.
    """
    if kb.is_extended:
        raise ValueError(f"{kb.path}: entities were added in memory alone; open it again, and add them to it here")
    restore(kb.path)
    return KnowledgeBase(kb.path, verify=True)


def _tests_of(filters: Sequence[str]) -> dict[str, Callable[[Entity, str], bool]]:
    """What leaves pages out, by name."""
    if not filters:
        return {}
    from oven_retrieval.filters import FILTERS

    unknown = [name for name in filters if name not in FILTERS]
    if unknown:
        raise ValueError(f"filters: expected some of {sorted(FILTERS)}, got {unknown}")
    return {name: FILTERS[name] for name in filters}


def _write(
    folder: FolderWriter,
    rows: Iterable[Row | Entity | str | Mapping[str, Any]],
    source: str,
    tests: Mapping[str, Callable[[Entity, str], bool]],
    progress: Progress | None,
    before: KnowledgeBase | None = None,
) -> None:
    """Write the entities of a knowledge base, if any, and then those that no filter leaves out."""
    left_out = dict.fromkeys(tests, 0)
    columns = _Columns(folder)
    for entity in before or ():
        columns.append(0, entity)
    first = len(columns)
    for line, entity, content in numbered_rows(rows, source, first):
        reason = next((name for name, is_left_out in tests.items() if is_left_out(entity, content)), None)
        if reason is not None:
            left_out[reason] += 1
            continue
        columns.append(line, entity)
        if progress is not None and len(columns) % _PROGRESS_EVERY == 0:
            progress("entities", len(columns), _expected(rows, len(columns) - first) + first)
    columns.finish(source, before)
    if progress is not None:
        progress("entities", len(columns), len(columns))
    folder.meta = {"source": source, "left_out": left_out} if before is None else dict(before.meta)
    folder.meta["count"] = len(columns)
    if hasattr(rows, "added"):
        folder.meta["infobox_images"] = rows.added
    if hasattr(rows, "without_label"):
        dump = cast("WikidataDump", rows)
        if not len(columns):
            raise ValueError(f"{source}: no entity has a label in {', '.join(dump.languages)}")
        left_out["without a label"] = dump.without_label
        folder.meta |= {"cut": dump.cut, "languages": {tag: dump.found[tag] for tag in dump.languages}}


def build_kb_from_file(
    source: str | Path,
    path: str | Path,
    *,
    file_format: str | None = None,
    languages: Sequence[str] | None = None,
    infobox: str | Path | None = None,
    filters: Sequence[str] = (),
    overwrite: bool = False,
    progress: Progress | None = None,
) -> KnowledgeBase:
    r"""Build a knowledge base from an entity file: arguments and errors as in `read_entities` and `build_kb`.

    ``infobox`` is Wikipedia's dump of articles: entities without an image get that of their article's infobox.

    Raises:
        ValueError: the file has no entity, or none that the filters keep; see also `build_kb`.

    Example:
        >>> import tempfile, pathlib
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "kb.csv").write_text("id,name\nQ31,Belgium\n", encoding="utf-8")
        >>> build_kb_from_file(folder / "kb.csv", folder / "kb")[0].name
        'Belgium'
    """
    from oven_retrieval.readers import read_entities

    rows = read_entities(source, file_format, languages=languages)
    if infobox is not None:
        from oven_retrieval.infobox import Illustrated, infobox_images

        rows = Illustrated(rows, infobox_images(infobox))
    return _built(rows, path, str(source), filters, overwrite=overwrite, progress=progress, needed=True)


def _expected(rows: object, done: int) -> int:
    """How many entities there will be: by the share of a file that was read, by a length, or no more than are done."""
    share = rows.share() if hasattr(rows, "share") else 0.0
    return max(round(done / share) if share else length_hint(rows), done)


def numbered_rows(rows: Iterable[Row | Entity | str | Mapping[str, Any]], source: str, first: int) -> Iterator[Row]:
    """Rows as the readers yield them; plain names get their places as ids, from `first` on."""
    from oven_retrieval.readers import entity_of  # with the readers of files, which few need

    if isinstance(rows, str | bytes | Set | Mapping) or getattr(rows, "ndim", 1) != 1:
        raise TypeError(f"rows: expected many entities or names, got one {type(rows).__name__} {rows!r:.60}")
    for number, row in enumerate(rows, start=1):
        if isinstance(row, Entity):
            yield number, row, ""
        elif isinstance(row, str | Mapping):
            try:
                yield number, Entity(str(first + number - 1), row) if isinstance(row, str) else entity_of(row), ""
            except ValueError as error:
                raise ValueError(f"{source}:{number}: {error}") from None
        elif isinstance(row, tuple) and len(row) == 3 and isinstance(row[1], Entity):
            yield row
        else:
            raise TypeError(f"{source}:{number}: expected an Entity, a name or a dictionary, got {row!r:.60}")


class _Columns:
    """The columns of a knowledge base that is being written."""

    def __init__(self, folder: FolderWriter) -> None:
        self._folder = folder
        shown = ("id", "name")  # what answers are made of
        self._texts = {
            name: folder.texts(name, summed=name in shown) for name in ("id", "name", "description", "image")
        }
        self._aliases = folder.texts("alias")
        self._alias_ends, self._codes, self._popularity = array("q"), array("i"), array("d")
        self._categories: dict[str, int] = {}
        self._languages: dict[str, int] = {"": 0}
        self._spoken, self._alias_spoken = array("i"), array("i")
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
        if entity.language or entity.alias_languages or len(self._languages) > 1:
            self._note_languages(entity)
        self._alias_count += len(entity.aliases)
        self._alias_ends.append(self._alias_count)
        self._codes.append(self._categories.setdefault(entity.category, len(self._categories)))
        self._popularity.append(entity.popularity)
        self._lines.append(line)
        self._hashes.append(int(hash64([entity.id])[0]))

    def _note_languages(self, entity: Entity) -> None:
        """Keep the names' languages; those of names that came before the first with a tag are unknown."""
        self._spoken.extend([0] * (len(self) - len(self._spoken)))
        self._alias_spoken.extend([0] * (self._alias_count - len(self._alias_spoken)))
        number = self._languages
        self._spoken.append(number.setdefault(entity.language, len(number)))
        alias_tags = entity.alias_languages or ("",) * len(entity.aliases)
        self._alias_spoken.extend([number.setdefault(tags, len(number)) for tags in alias_tags])

    def finish(self, source: str, before: KnowledgeBase | None) -> None:
        """Check that ids are unique and write what depends on all entities."""
        hashes = np.frombuffer(self._hashes, dtype=np.uint64) if len(self) else np.zeros(0, np.uint64)
        order = np.argsort(hashes, kind="stable")
        same = np.flatnonzero(hashes[order][1:] == hashes[order][:-1])
        if len(same):
            row, repeated = order[same[0] : same[0] + 2].tolist()
            line, counted = self._lines[repeated], f"({len(same)} are not)"
            if before is not None and row < len(before):
                raise ValueError(
                    f"{source}:{line}: id: {before.ids[row]!r} is in {before.path} already; expected new ids {counted}"
                )
            raise ValueError(
                f"{source}:{line}: id: already used on line {self._lines[row]}; expected each id once {counted}"
            )
        categories = self._folder.texts("categories")
        for category in self._categories:
            categories.append(category)
        if len(self._languages) > 1:
            languages = self._folder.texts("languages")
            for tags in self._languages:
                languages.append(tags)
            self._folder.array("language", np.asarray(self._spoken, dtype=np.int32))
            self._folder.array("alias_language", np.asarray(self._alias_spoken, dtype=np.int32))
        self._folder.array("alias_ends", np.asarray(self._alias_ends, dtype=np.int64))
        self._folder.array("category", np.asarray(self._codes, dtype=np.int32))
        self._folder.array("popularity", np.asarray(self._popularity, dtype=np.float64))
        self._folder.array("id_hash", hashes[order])
        self._folder.array("id_row", order.astype(np.int64))
