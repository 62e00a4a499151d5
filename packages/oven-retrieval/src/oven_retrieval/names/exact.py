"""Exact and case-folded names and aliases, as one sorted table of hashes."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from oven_retrieval.folder import FolderError
from oven_retrieval.names.places import NamePlaces, runs, taken
from oven_retrieval.tokens import fold, hash64

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jaxtyping import Bool, Float64, Int32, Int64, UInt32, UInt64

    from oven_retrieval.folder import Folder


def spelled(text: str) -> str:
    """A name as it is spelled: composed characters (NFC), single blanks; case kept."""
    return " ".join((text if text.isascii() else unicodedata.normalize("NFC", text)).split())


def form_of(text: str) -> int:
    """What is left of a name that `spelled` does not keep: 0 for nothing, else 32 bits of its hash.

    Names that look alike may be written in other code points; who asks with one's very own gets it first.
    """
    return 0 if text == spelled(text) else int(hash64([text])[0]) >> 32 | 1


class ExactMatches(NamedTuple):
    """All entities that have a queried name; ragged, [m] in order of query, then best first.

    `query` the query's number, `row` the entity, `step` 0 exact name, 1 exact alias, 2 folded name, 3 folded alias.
    """

    query: Int64[np.ndarray, " m"]
    row: Int64[np.ndarray, " m"]
    step: Int64[np.ndarray, " m"]


class ExactTable(NamedTuple):
    """Names under their folded key; arrays of one value per name, sorted by key, then as `NamePlaces.order` has it.

    `key` hash of the folded name; `spelling` hash of the name as spelled; `form` see `form_of`;
    `row` the entity; `alias` whether it is an alias;
    `shouted` whether it has a capital after its first character; `language` as in `NamePlaces`.
    """

    key: UInt64[np.ndarray, " n"]
    spelling: UInt64[np.ndarray, " n"]
    form: UInt32[np.ndarray, " n"]
    row: Int32[np.ndarray, " n"]
    alias: Bool[np.ndarray, " n"]
    shouted: Bool[np.ndarray, " n"]
    language: UInt32[np.ndarray, " n"] | None = None

    def find(
        self,
        names: Sequence[str],
        wanted: UInt32[np.ndarray, " w"] | None = None,
        keys: UInt64[np.ndarray, " q"] | None = None,
    ) -> ExactMatches:
        """All entities of each name, best first: exact before folded, names before aliases, then by their order."""
        query, at, step, other_form = self.places(names, wanted, keys)
        order = np.lexsort((at, other_form, step, query))
        query, row, step = query[order], self.row[at][order].astype(np.int64), step[order]
        once = first_of_each(query, row)
        return ExactMatches(query[once], row[once], step[once].astype(np.int64))

    def places(
        self,
        names: Sequence[str],
        wanted: UInt32[np.ndarray, " w"] | None = None,
        keys: UInt64[np.ndarray, " q"] | None = None,
    ) -> tuple[Int64[np.ndarray, " m"], Int64[np.ndarray, " m"], Int64[np.ndarray, " m"], Bool[np.ndarray, " m"]]:
        """Each name's places in the table: query, place, step, and whether its code points are others."""
        if keys is None:
            keys = hash64([fold(name) for name in names])
        query, at = places_of(self.key, keys)
        held = np.flatnonzero(np.bincount(query, minlength=len(keys)))
        if wanted is not None:
            spoken = is_wanted(self.language, at, wanted)
            query, at = query[spoken], at[spoken]
        spellings = np.zeros(len(keys), dtype=np.uint64)
        spellings[held] = hash64([spelled(names[i]) for i in held.tolist()])
        step = 2 * (self.spelling[at] != spellings[query]) + self.alias[at]
        forms = np.zeros(len(keys), dtype=np.uint32)
        forms[held] = [form_of(names[i]) for i in held.tolist()]
        return query, at, step, (self.form[at] != forms[query]) & (step < 2)

    def between(
        self, first: int, last: int, name: str, folded: str, wanted: UInt32[np.ndarray, " w"] | None = None
    ) -> list[tuple[int, int]]:
        """Entity and step of those in these places that have this name, as `find` orders them."""
        composed = spelled(name)
        spelling = self.key[first] if composed == folded else hash64([composed])[0]
        form = 0 if composed == name else form_of(name)
        matches = []
        for number in range(first, last):
            if wanted is not None and not (self.language is not None and self.language[number] in wanted):
                continue
            step = 2 * int(self.spelling[number] != spelling) + int(self.alias[number])
            matches.append((step, step < 2 and int(self.form[number]) != form, number, int(self.row[number])))
        rows: dict[int, int] = {}
        for step, _, _, row in sorted(matches):
            rows.setdefault(row, step)
        return list(rows.items())

    @classmethod
    def read(cls, folder: Folder) -> ExactTable:
        """Map the arrays of a folder."""
        if "exact_form" not in folder:
            raise FolderError(f"{folder.path}: of an earlier version; build it again (`oven update --rebuild`)")
        table: ExactTable = folder.table("exact", cls)
        return table


def places_of(
    table: UInt64[np.ndarray, " n"], keys: UInt64[np.ndarray, " q"]
) -> tuple[Int64[np.ndarray, " m"], Int64[np.ndarray, " m"]]:
    """Which of the keys a sorted table holds, key by key: the key's number, and each place of the table that has it."""
    first = np.searchsorted(table, keys)
    held = np.flatnonzero(first < len(table))
    held = held[table[first[held]] == keys[held]]
    size = np.searchsorted(table, keys[held], side="right") - first[held]
    return np.repeat(held, size), runs(first[held], size)


def first_of_each(query: Int64[np.ndarray, " m"], row: Int64[np.ndarray, " m"]) -> Int64[np.ndarray, " u"]:
    """Which matches are the first of their query with their row, rising."""
    return np.sort(np.unique(query * (int(row.max(initial=0)) + 1) + row, return_index=True)[1])


def is_wanted(
    language: UInt32[np.ndarray, " n"] | None, at: Int64[np.ndarray, " m"], keys: UInt32[np.ndarray, " w"]
) -> Bool[np.ndarray, " m"]:
    """Whether the names in some places belong to languages with one of these `language_key`s."""
    return np.zeros(len(at), np.bool_) if language is None else np.isin(language[at], keys)


def build_exact(names: Iterable[str], places: NamePlaces, popularity: Float64[np.ndarray, " rows"]) -> ExactTable:
    """Hash and sort names, one text per place."""
    keys, spellings, forms = [], [], []
    block: list[str] = []

    def flush() -> None:
        keys.append(hash64([fold(name) for name in block]))
        spellings.append(hash64([spelled(name) for name in block]))
        forms.append(np.array([form_of(name) for name in block], dtype=np.uint32))
        block.clear()

    for name in names:
        block.append(name)
        if len(block) == 1 << 16:
            flush()
    flush()
    key, spelling, form = np.concatenate(keys), np.concatenate(spellings), np.concatenate(forms)
    order = places.order(popularity, key)
    placed = taken(places, order)
    return ExactTable(
        key[order],
        spelling[order],
        form[order],
        placed.row.astype(np.int32),
        placed.alias,
        placed.shouted,
        placed.language,
    )
