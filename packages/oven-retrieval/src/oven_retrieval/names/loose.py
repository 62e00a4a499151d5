"""Names under their inflected forms, so that a plural finds its singular and the other way round."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from oven_retrieval.names.exact import ExactTable, is_wanted
from oven_retrieval.names.inflection import DIACRITICS, Exceptions, forms
from oven_retrieval.names.places import NamePlaces, joined_languages
from oven_retrieval.names.pruned import compiled_loops
from oven_retrieval.tokens import fold, hash64

if TYPE_CHECKING:
    from jaxtyping import Bool, Float64, Int32, Int64, UInt8, UInt32, UInt64

    from oven_retrieval.folder import Folder
    from oven_retrieval.folder_writer import FolderWriter


class LooseMatches(NamedTuple):
    """Entities whose names are inflections of queries; ragged, [m] in order of query, then best first."""

    query: Int64[np.ndarray, " m"]
    row: Int64[np.ndarray, " m"]
    alias: Bool[np.ndarray, " m"]


class LooseTable(NamedTuple):
    """One value per form of a name, sorted by key.

    `key` hash of the form; `row` the entity; `alias`, `shouted`, `language` as in `NamePlaces`; `changes` as `forms`
    counts them.

    Example:
        >>> places = NamePlaces(np.arange(2), np.zeros(2, bool), np.zeros(2, bool))
        >>> table = build_loose(["The ducks", "Goose"], places)
        >>> table.row.tolist(), sorted(table.changes.tolist())
        ([0, 0, 0], [1, 1, 2])
    """

    key: UInt64[np.ndarray, " n"]
    row: Int32[np.ndarray, " n"]
    alias: Bool[np.ndarray, " n"]
    shouted: Bool[np.ndarray, " n"]
    changes: UInt8[np.ndarray, " n"]
    language: UInt32[np.ndarray, " n"] | None = None

    def write(self, folder: FolderWriter) -> None:
        """Write the arrays as columns of a folder."""
        for name, values in self._asdict().items():
            if values is not None:
                folder.array(f"loose_{name}", values)

    def take(self, chosen: Bool[np.ndarray, " n"] | Int64[np.ndarray, " m"]) -> LooseTable:
        """Some of the forms."""
        return LooseTable(*(None if column is None else column[chosen] for column in self))  # type: ignore[arg-type]  # in order

    @classmethod
    def read(cls, folder: Folder) -> LooseTable | None:
        """Map the arrays of a folder; None where it was built without."""
        if "loose_key" not in folder:
            return None
        return cls(**{name: folder.array(f"loose_{name}") for name in cls._fields if f"loose_{name}" in folder})


class Inflections:
    """The step between folded names and typos.

    A name and a query meet where one of the query's forms is one of the name's; of those that do: names before
    aliases, fewer changes, sentence case, the greater popularity, the earlier row.

    Args:
        exact: the names as they are.
        loose: their other forms.
        popularity: of each row.
        exceptions: irregular plurals beside the rules.
        diacritics: whether marks may be left out.

    Example:
        >>> places = NamePlaces(np.arange(3), np.zeros(3, bool), np.zeros(3, bool))
        >>> names = ["Duck", "News", "The Golden Wolves"]
        >>> table = build_loose(names, places)
        >>> from oven_retrieval.names.exact import build_exact
        >>> step = Inflections(build_exact(names, places, np.zeros(3)), table, np.zeros(3))
        >>> step.find(["ducks", "new", "golden wolf", "the duck's"]).row.tolist()
        [0, 2, 0]
    """

    def __init__(
        self,
        exact: ExactTable,
        loose: LooseTable,
        popularity: Float64[np.ndarray, " rows"],
        exceptions: Exceptions | None = None,
        *,
        diacritics: bool = False,
    ) -> None:
        self._exact, self._loose, self._popularity = exact, loose, popularity
        self.exceptions: Mapping[str, Sequence[str]] = exceptions or {}
        self.diacritics = diacritics

    @property
    def keys(self) -> UInt64[np.ndarray, " n"]:
        """Hashes of all other forms of names, rising."""
        return self._loose.key

    def has_form_of(self, folded: str) -> bool:
        """Whether some form of a folded text, beside itself, is a name or a form of one."""
        other_forms = forms(folded, self.exceptions)
        if not other_forms:
            return False
        holds = compiled_loops().holds
        return any(holds(self._loose.key, key) or holds(self._exact.key, key) for key in hash64(other_forms))

    def find(
        self,
        names: Sequence[str],
        wanted: UInt32[np.ndarray, " w"] | None = None,
        folded: tuple[Sequence[str], UInt64[np.ndarray, " q"]] | None = None,
    ) -> LooseMatches:
        """All entities of which each text is an inflection; `wanted` as in `ExactTable.find`.

        `folded` are the folded texts and their hashes, where they are known.
        """
        texts = [fold(name) for name in names] if folded is None else folded[0]
        own = hash64(texts) if folded is None else folded[1]
        query, other_forms, changes = list(range(len(texts))), [], [0] * len(texts)
        for number, text in enumerate(texts):
            for form, count in forms(text, self.exceptions).items():
                query.append(number)
                other_forms.append(form)
                changes.append(count)
        keys = np.concatenate([own, hash64(other_forms)])
        cost, of = np.array(changes, np.int64), np.array(query, np.int64)
        exact, loose = self._exact, self._loose
        # The text itself has been looked for among the names as they are.
        first = _Matches.of(exact.key, keys, np.flatnonzero(cost > 0))
        second = _Matches.of(loose.key, keys, np.arange(len(keys)))
        if wanted is not None:
            first, second = (
                _Matches(*(column[is_wanted(table.language, matches.at, wanted)] for column in matches))
                for matches, table in ((first, exact), (second, loose))
            )
        more = np.concatenate([np.zeros(len(first.at), np.int64), loose.changes[second.at].astype(np.int64)])
        key_index = np.concatenate([first.key_index, second.key_index])
        total = cost[key_index] + more
        row = np.concatenate([exact.row[first.at], loose.row[second.at]]).astype(np.int64)
        alias = np.concatenate([exact.alias[first.at], loose.alias[second.at]])
        shouted = np.concatenate([exact.shouted[first.at], loose.shouted[second.at]])
        order = np.lexsort((row, -self._popularity[row], shouted, total, alias, of[key_index]))
        if not self.diacritics:
            order = order[total[order] < DIACRITICS]
        match_query, row, alias = of[key_index][order], row[order], alias[order]
        _, once = np.unique(match_query * (int(row.max(initial=0)) + 1) + row, return_index=True)
        once.sort()
        return LooseMatches(match_query[once], row[once], alias[once])


class _Matches(NamedTuple):
    """Places of a sorted table that hold some of the keys."""

    key_index: npt.NDArray[np.int64]
    at: npt.NDArray[np.int64]

    @classmethod
    def of(cls, table: npt.NDArray[np.uint64], keys: npt.NDArray[np.uint64], chosen: npt.NDArray[np.int64]) -> _Matches:
        first = table.searchsorted(keys[chosen])
        held = np.flatnonzero(first < len(table))
        held = held[table[first[held]] == keys[chosen[held]]]
        size = table.searchsorted(keys[chosen[held]], "right") - first[held]
        ends = np.cumsum(size)
        at = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(first[held] - (ends - size), size)
        return cls(np.repeat(chosen[held], size), at)


def build_loose(
    names: Iterable[str], places: NamePlaces, exceptions: Exceptions | None = None, base: LooseTable | None = None
) -> LooseTable:
    """Hash and sort the other forms of names.

    Args:
        names: one text per place.
        places: where they belong.
        exceptions: irregular plurals.
        base: a table whose names are to be in the new one too.

    Example:
        >>> places = NamePlaces(np.arange(1), np.zeros(1, bool), np.zeros(1, bool))
        >>> bool((build_loose(["Wolves"], places).key == hash64(["wolf"])).any())
        True
    """
    keys: list[npt.NDArray[np.uint64]] = []
    owners: list[npt.NDArray[np.int64]] = []
    counts: list[npt.NDArray[np.uint8]] = []
    texts: list[str] = []
    of: list[int] = []
    changes: list[int] = []

    def flush() -> None:
        keys.append(hash64(texts))
        owners.append(np.array(of, np.int64))
        counts.append(np.array(changes, np.uint8))
        for block in (texts, of, changes):
            block.clear()

    for number, name in enumerate(names):
        for text, count in forms(fold(name), exceptions).items():
            texts.append(text)
            of.append(number)
            changes.append(count)
        if len(texts) > 1 << 16:
            flush()
    flush()
    form_places = places.take(np.concatenate(owners))
    table = LooseTable(
        np.concatenate(keys),
        form_places.row.astype(np.int32),
        form_places.alias,
        form_places.shouted,
        np.concatenate(counts),
        form_places.language,
    )
    if base is not None:
        columns = [np.concatenate(pair) for pair in zip(table[:5], base[:5], strict=True)]
        language = joined_languages((table.language, len(table.key)), (base.language, len(base.key)))
        table = LooseTable(columns[0], columns[1], columns[2], columns[3], columns[4], language)
    return table.take(np.lexsort((table.alias, table.row, table.key)))
