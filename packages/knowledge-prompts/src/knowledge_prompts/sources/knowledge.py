"""What a source of knowledge is: anything with a name and items for a class."""

from __future__ import annotations

import hashlib
import random
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Sequence


@runtime_checkable
class KnowledgeSource(Protocol):
    """Anything that knows texts about a class.

    Attributes:
        name: Short name under which prompts and tables show the source, such as ``wordnet-definition``.
        whole: True where an item is a prompt by itself, such as CuPL's sentences; False where it is a piece of
            knowledge that follows a template after `` ; ``.

    Example:
        >>> class Known:
        ...     name, whole = "notes", False
        ...     def items(self, class_name: str) -> list[str]:
        ...         return [f"{class_name} as I know it"]
        >>> isinstance(Known(), KnowledgeSource)
        True
    """

    @property
    def name(self) -> str:
        """Short name of the source."""
        ...

    @property
    def whole(self) -> bool:
        """Whether an item is a whole prompt."""
        ...

    def items(self, class_name: str) -> Sequence[str]:
        """The texts about a class, best first; empty where the source knows nothing about it."""
        ...


def check_least_one(**numbers: int) -> None:
    """Refuse a number below 1, by its name."""
    for name, value in numbers.items():
        if value < 1:
            raise ValueError(f"{name} is {value}; expected at least 1")


def generator_for(class_name: str, seed: int) -> random.Random:
    """Draws that depend on seed and class name alone: a class that is added changes no other's."""
    digest = hashlib.sha256(f"{seed}\n{class_name}".encode()).digest()
    return random.Random(int.from_bytes(digest, "big"))


def check_sources(sources: Sequence[KnowledgeSource]) -> None:
    """Refuse two sources of one name, since tables and prompts tell sources apart by it."""
    names: set[str] = set()
    for source in sources:
        if source.name in names:
            raise ValueError(f"two sources are called {source.name!r}; give one of them another name")
        names.add(source.name)
