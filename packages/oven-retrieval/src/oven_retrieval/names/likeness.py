"""How alike a text and an entity's names are written: what a link by guessing needs to be more than weak."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from oven_retrieval.tokens import plain

if TYPE_CHECKING:
    from oven_retrieval.kb import KnowledgeBase

LEAST_ALIKE = 0.5
"""Links by guessing to entities whose names are less alike than this are weak."""
_ALIASES = 32
"""So many aliases of an entity are compared."""


def likeness(kb: KnowledgeBase, text: str, row: int) -> float:
    """Return how alike a text and the most similar name of an entity are written, 0 to 1.

    It is Dice's coefficient of the character trigrams of both in plain letters, of their bigrams where one has other
    letters than Latin ones.

    Example:
        >>> from oven_retrieval import KnowledgeBase
        >>> kb = KnowledgeBase.from_names(["Bosch drill 55 inch"])
        >>> round(likeness(kb, "Samsung TV 55 inch", 0), 2), round(likeness(kb, "bosh drill 55 inch", 0), 2)
        (0.38, 0.86)
    """
    wanted = plain(text)
    names = [kb.names[row], *(kb.aliases[i] for i in kb.alias_rows(row)[:_ALIASES])]
    return max(_dice(wanted, plain(name)) for name in names)


def _dice(first: str, second: str) -> float:
    """Twice the parts that both have, divided by all their parts."""
    length = 3 if first.isascii() and second.isascii() else 2
    a, b = _parts(first, length), _parts(second, length)
    return 2 * (a & b).total() / max(a.total() + b.total(), 1)


def _parts(text: str, length: int) -> Counter[str]:
    padded = f" {text} "
    return Counter(padded[i : i + length] for i in range(len(padded) - length + 1))
