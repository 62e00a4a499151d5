"""Exact and case-folded names and aliases, as one sorted table of hashes."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from ..tokens import fold, hash64
from .places import NamePlaces

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..folder import Folder, FolderWriter


def spelled(text: str) -> str:
    """A name as it is spelled: composed characters (NFC), single blanks; case kept."""
    return " ".join((text if text.isascii() else unicodedata.normalize("NFC", text)).split())


class ExactMatches(NamedTuple):
    """All entities that have a queried name; ragged, [m] in order of query, then best first.

    `query` the query's number, `row` the entity, `step` 0 exact name, 1 exact alias, 2 folded name, 3 folded alias.
    """

    query: npt.NDArray[np.int64]
    row: npt.NDArray[np.int64]
    step: npt.NDArray[np.int64]


class ExactTable(NamedTuple):
    """Names under their folded key; arrays of one value per name, sorted by key, then as `NamePlaces.order` has it.

    `key` hash of the folded name; `spelling` hash of the name as spelled; `row` the entity; `alias` whether it is an
    alias; `shouted` whether it has a capital after its first character.

    Example:
        >>> places = NamePlaces(np.array([0, 1, 2]), np.zeros(3, bool), np.array([False, True, False]))
        >>> table = build_exact(["Ball", "BALL", "Sphere"], places, popularity=np.zeros(3))
        >>> found = table.find(["ball", "BALL", "cube"])
        >>> found.query.tolist(), found.row.tolist(), found.step.tolist()
        ([0, 0, 1, 1], [0, 1, 1, 0], [2, 2, 0, 2])
    """

    key: npt.NDArray[np.uint64]
    spelling: npt.NDArray[np.uint64]
    row: npt.NDArray[np.int32]
    alias: npt.NDArray[np.bool_]
    shouted: npt.NDArray[np.bool_]

    def find(self, names: Sequence[str]) -> ExactMatches:
        """All entities of each name, best first: exact before folded, names before aliases, then by their order."""
        keys = hash64([fold(name) for name in names])
        first = np.searchsorted(self.key, keys, side="left")
        size = np.zeros(len(keys), dtype=np.int64)
        maybe = np.flatnonzero(first < len(self.key))
        maybe = maybe[self.key[first[maybe]] == keys[maybe]]
        size[maybe] = np.searchsorted(self.key, keys[maybe], side="right") - first[maybe]
        query = np.repeat(np.arange(len(keys)), size)
        at = np.arange(len(query)) + np.repeat(first - (np.cumsum(size) - size), size)
        spellings = np.zeros(len(keys), dtype=np.uint64)
        spellings[maybe] = hash64([spelled(names[i]) for i in maybe.tolist()])
        step = 2 * (self.spelling[at] != spellings[query]) + self.alias[at]
        order = np.lexsort((at, step, query))
        query, row, step = query[order], self.row[at][order].astype(np.int64), step[order]
        _, once = np.unique(query * (int(self.row.max()) + 1 if len(self.row) else 1) + row, return_index=True)
        once.sort()
        return ExactMatches(query[once], row[once], step[once].astype(np.int64))

    def write(self, folder: FolderWriter) -> None:
        """Write the arrays as columns of a folder."""
        for name, values in self._asdict().items():
            folder.array(f"exact_{name}", values)

    @classmethod
    def read(cls, folder: Folder) -> ExactTable:
        """Map the arrays of a folder."""
        return cls(**{name: folder.array(f"exact_{name}") for name in cls._fields})


def build_exact(
    names: Iterable[str], places: NamePlaces, popularity: npt.NDArray[np.float64], base: ExactTable | None = None
) -> ExactTable:
    """Hash and sort names.

    Args:
        names: one text per place.
        places: where they belong.
        popularity: of each row of the knowledge base.
        base: a table whose names are to be in the new one too.
    """
    keys, spellings = [], []
    block: list[str] = []

    def flush() -> None:
        keys.append(hash64([fold(name) for name in block]))
        spellings.append(hash64([spelled(name) for name in block]))
        block.clear()

    for name in names:
        block.append(name)
        if len(block) == 1 << 16:
            flush()
    flush()
    if base is not None:
        keys.append(np.asarray(base.key))
        spellings.append(np.asarray(base.spelling))
        before = NamePlaces(base.row.astype(np.int64), base.alias, base.shouted)
        places = NamePlaces(*(np.concatenate(columns) for columns in zip(places, before, strict=True)))
    key, spelling = np.concatenate(keys), np.concatenate(spellings)
    order = places.order(popularity, key)
    placed = places.take(order)
    return ExactTable(key[order], spelling[order], placed.row.astype(np.int32), placed.alias, placed.shouted)
