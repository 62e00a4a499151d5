"""The names and aliases of a knowledge base: where each belongs, and which goes first among equals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from oven_retrieval.tokens import hash64

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtyping import Bool, Float64, Int64, UInt32, UInt64

    from oven_retrieval.kb import KnowledgeBase


class NamePlaces(NamedTuple):
    """One value per name, [n]; an entity's aliases follow one another.

    `row` int64, the entity; `alias` whether the name is an alias; `shouted` whether it has a capital after its first
    character; `language` uint32, `language_key` of the languages that it belongs to, None where no name has any.
    """

    row: Int64[np.ndarray, " n"]
    alias: Bool[np.ndarray, " n"]
    shouted: Bool[np.ndarray, " n"]
    language: UInt32[np.ndarray, " n"] | None = None

    def order(
        self, popularity: Float64[np.ndarray, " rows"], *first: UInt64[np.ndarray, " n"]
    ) -> Int64[np.ndarray, " n"]:
        """Names in order: names before aliases, sentence case, the greater popularity of the row, the earlier row."""
        return np.lexsort((self.row, -popularity[self.row], self.shouted, self.alias, *first))

    def preference(self, popularity: Float64[np.ndarray, " rows"]) -> Int64[np.ndarray, " n"]:
        """Place of each name in `order`: a permutation."""
        rank = np.empty(len(self.row), dtype=np.int64)
        rank[self.order(popularity)] = np.arange(len(self.row))
        return rank


Table = TypeVar("Table", bound="tuple[Any, ...]")


def taken(table: Table, chosen: Bool[np.ndarray, " n"] | Int64[np.ndarray, " m"]) -> Table:
    """Some rows of columns of one length; a column that is None stays so."""
    make: Any = type(table)
    rows: Table = make(*(None if column is None else column[chosen] for column in table))
    return rows


def runs(first: Int64[np.ndarray, " n"], size: Int64[np.ndarray, " n"]) -> Int64[np.ndarray, " m"]:
    """Runs of numbers, one after another: so many from each first on."""
    numbers: Int64[np.ndarray, " m"] = np.arange(int(size.sum())) + np.repeat(first - (np.cumsum(size) - size), size)
    return numbers


def best_entities(
    scores: Float64[np.ndarray, " c"],
    owners: Int64[np.ndarray, " c"],
    preference: Int64[np.ndarray, " c"],
    k: int,
) -> tuple[Int64[np.ndarray, " e"], Float64[np.ndarray, " e"]]:
    """The k best entities of one query from the scores of its candidate names."""
    if len(scores) > 4 * k:
        for count in (4 * k, 64 * k):
            if count < len(scores):
                floor = np.partition(scores, len(scores) - count)[len(scores) - count]
                near = np.flatnonzero(scores >= floor)
                if len(np.unique(owners[near])) >= k:
                    scores, owners, preference = scores[near], owners[near], preference[near]
                    break
    order = np.lexsort((preference, -scores))
    _, first = np.unique(owners[order], return_index=True)
    best = order[np.sort(first)[:k]]
    return owners[best], scores[best]


def language_key(tags: str) -> int:
    """What stands for a name's languages in an index: 0 for none, else 32 bits of their tags' hash."""
    return int(hash64([tags])[0]) >> 32 | 1 if tags else 0


def wanted_languages(kb: KnowledgeBase, languages: Sequence[str] | None) -> UInt32[np.ndarray, " w"] | None:
    """The `language_key`s of names that belong to one of these languages, or to all (`mul`); None for all names."""
    if languages is None:
        return None
    if isinstance(languages, str) or not languages:
        raise ValueError(f"languages: expected a list of tags such as 'en', got {languages!r}")
    kb_languages = kb.languages
    unknown = [tag for tag in languages if tag not in kb_languages]
    if unknown:
        shown = f"they have {', '.join(kb_languages[:20])}" if kb_languages else "they have no language at all"
        raise ValueError(f"languages: no name of {kb.path} belongs to {', '.join(unknown)}; {shown}")
    accepted = {*languages, "mul"}
    return np.array([language_key(tags) for tags in kb.language_sets if accepted & set(tags.split())], np.uint32)


def spoken_in(
    kb: KnowledgeBase, row: Int64[np.ndarray, " m"], alias: Int64[np.ndarray, " m"], keys: UInt32[np.ndarray, " w"]
) -> Bool[np.ndarray, " m"]:
    """Which names, given by their rows and the numbers of aliases (-1 for names), have one of these `language_key`s."""
    code = kb.language_codes[row]
    if (alias >= 0).any():
        code[alias >= 0] = kb.alias_language_codes[alias[alias >= 0]]
    counts: Bool[np.ndarray, " m"] = np.isin([language_key(tags) for tags in kb.language_sets], keys)[code]
    return counts


def is_shouted(name: str) -> bool:
    """Whether a name has a capital after its first character."""
    return name[1:] != name[1:].lower()


def name_texts(kb: KnowledgeBase) -> Iterator[str]:
    """Names, then aliases, of all entities."""
    for texts in (kb.names, kb.aliases):
        for block in texts.blocks():
            yield from block


def name_places(kb: KnowledgeBase) -> NamePlaces:
    """Where the names of `name_texts` belong, in its order."""
    rows = np.arange(len(kb))
    row = np.concatenate([rows, np.repeat(rows, np.diff(kb.alias_ends, prepend=0))])
    shouted = np.fromiter((is_shouted(name) for name in name_texts(kb)), bool, len(row))
    language = None
    if kb.languages:
        keys = np.array([language_key(tags) for tags in kb.language_sets], np.uint32)
        language = np.concatenate([keys[kb.language_codes], keys[kb.alias_language_codes]])
    return NamePlaces(row, np.arange(len(row)) >= len(rows), shouted, language)
