"""The names and aliases of a knowledge base: where each belongs, and which goes first among equals."""

from __future__ import annotations

from itertools import compress
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtyping import Bool, Float64, Int64, UInt64

    from oven_retrieval.kb import KnowledgeBase


class NamePlaces(NamedTuple):
    """One value per name, [n]; an entity's aliases follow one another.

    `row` int64, the entity; `alias` whether the name is an alias; `shouted` whether it has a capital after its first
    character.
    """

    row: Int64[np.ndarray, " n"]
    alias: Bool[np.ndarray, " n"]
    shouted: Bool[np.ndarray, " n"]

    def order(
        self, popularity: Float64[np.ndarray, " rows"], *first: UInt64[np.ndarray, " n"]
    ) -> Int64[np.ndarray, " n"]:
        """Names in order: names before aliases, sentence case, the greater popularity of the row, the earlier row.

        Args:
            popularity: of each row of the knowledge base.
            first: [n] values that decide before all these, the most important last.
        """
        return np.lexsort((self.row, -popularity[self.row], self.shouted, self.alias, *first))

    def preference(self, popularity: Float64[np.ndarray, " rows"]) -> Int64[np.ndarray, " n"]:
        """Place of each name in `order`: a permutation."""
        place = np.empty(len(self.row), dtype=np.int64)
        place[self.order(popularity)] = np.arange(len(self.row))
        return place

    def take(self, chosen: Bool[np.ndarray, " n"] | Int64[np.ndarray, " m"]) -> NamePlaces:
        """Some of the names."""
        return NamePlaces(self.row[chosen], self.alias[chosen], self.shouted[chosen])


def is_shouted(name: str) -> bool:
    """Whether a name has a capital after its first character.

    Example:
        >>> is_shouted("Golden gate"), is_shouted("Golden Gate")
        (False, True)
    """
    return name[1:] != name[1:].lower()


def name_texts(kb: KnowledgeBase, first: int = 0) -> Iterator[str]:
    """Names, then aliases, of the entities from row `first` on that were not removed."""
    live = ~kb.removed
    live[:first] = False
    start = int(kb.alias_ends[first - 1]) if first else 0
    owners = np.repeat(np.arange(first, len(kb)), np.diff(kb.alias_ends[first:], prepend=start))
    for texts, begin, kept in ((kb.names, first, live[first:]), (kb.aliases, start, live[owners])):
        done = 0
        for block in texts.blocks(first=begin):
            yield from compress(block, kept[done : done + len(block)].tolist())
            done += len(block)


def name_places(kb: KnowledgeBase, first: int = 0) -> NamePlaces:
    """Where the names of `name_texts` belong, in its order."""
    live = ~kb.removed
    live[:first] = False
    rows = np.flatnonzero(live)
    owners = np.repeat(rows, np.diff(kb.alias_ends, prepend=0)[rows])
    row = np.concatenate([rows, owners])
    shouted = np.fromiter((is_shouted(name) for name in name_texts(kb, first)), bool, len(row))
    return NamePlaces(row, np.arange(len(row)) >= len(rows), shouted)
