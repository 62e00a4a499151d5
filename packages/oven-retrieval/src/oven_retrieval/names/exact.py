"""Exact and case-folded names and aliases, as one sorted table of hashes."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from ..tokens import fold, hash64

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..folder import Folder, FolderWriter


def spelled(text: str) -> str:
    """A name as it is spelled: composed characters (NFC), single blanks; case kept."""
    return " ".join((text if text.isascii() else unicodedata.normalize("NFC", text)).split())


class ExactMatches(NamedTuple):
    """All entities that have a queried name; ragged, [m] in order of query, then best first.

    `query` the query's number, `row` the entity, `step` 0 exact name, 1 folded name, 2 exact alias, 3 folded alias.
    """

    query: npt.NDArray[np.int64]
    row: npt.NDArray[np.int64]
    step: npt.NDArray[np.int64]


class ExactTable(NamedTuple):
    """Names under their folded key; arrays of one value per name, sorted by key, then by preference.

    `key` hash of the folded name; `spelling` hash of the name as spelled; `row` the entity; `alias` whether it is an
    alias.

    Example:
        >>> table = build_exact(["Ball", "BALL", "Sphere"], np.array([0, 1, 2]), np.zeros(3, bool), np.array([0, 1, 2]))
        >>> found = table.find(["ball", "BALL", "cube"])
        >>> found.query.tolist(), found.row.tolist(), found.step.tolist()
        ([0, 0, 1, 1], [0, 1, 1, 0], [1, 1, 0, 1])
    """

    key: npt.NDArray[np.uint64]
    spelling: npt.NDArray[np.uint64]
    row: npt.NDArray[np.int32]
    alias: npt.NDArray[np.bool_]

    def find(self, names: Sequence[str]) -> ExactMatches:
        """All entities of each name, best first: exact before folded, names before aliases, then by preference."""
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
        step = 2 * self.alias[at] + (self.spelling[at] != spellings[query])
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
    names: Iterable[str],
    rows: npt.NDArray[np.int64],
    alias: npt.NDArray[np.bool_],
    preference: npt.NDArray[np.int64],
) -> ExactTable:
    """Hash and sort names; `rows`, `alias` and `preference` have one value per name."""
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
    key, spelling = np.concatenate(keys), np.concatenate(spellings)
    order = np.lexsort((preference, key))
    return ExactTable(key[order], spelling[order], rows[order].astype(np.int32), alias[order])
