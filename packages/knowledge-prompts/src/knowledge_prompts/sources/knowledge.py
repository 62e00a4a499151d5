"""What a source of knowledge is: anything with a name and items for a class; texts by class name are one."""

from __future__ import annotations

import hashlib
import random
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias, runtime_checkable


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


Sources: TypeAlias = Sequence[KnowledgeSource] | KnowledgeSource | Mapping[str, Sequence[str]]
"""Several sources, a single one, or texts by class name."""


def check_least_one(**numbers: int) -> None:
    """Refuse a number below 1, by its name."""
    for name, value in numbers.items():
        if value < 1:
            raise ValueError(f"{name} is {value}; expected at least 1")


def generator_for(class_name: str, seed: int) -> random.Random:
    """Draws that depend on seed and class name alone: a class that is added changes no other's."""
    digest = hashlib.sha256(f"{seed}\n{class_name}".encode()).digest()
    return random.Random(int.from_bytes(digest, "big"))


def as_sources(sources: Sources) -> list[KnowledgeSource]:
    """Return a list of sources from what a caller may give: several, a single one, or texts by class name.

    Raises:
        TypeError: Something that is not a source; shows it.
        ValueError: Two sources of one name, since tables and prompts distinguish sources by it.
    """
    if isinstance(sources, Mapping):
        return [StoredKnowledge(sources, name="own")]
    several = [sources] if isinstance(sources, KnowledgeSource) else sources
    if isinstance(several, str) or not isinstance(several, Iterable):
        raise TypeError(f"sources is {sources!r:.80}; expected a list of knowledge sources, or texts by class name")
    names: set[str] = set()
    for source in (several := list(several)):
        if not isinstance(source, KnowledgeSource):
            raise TypeError(
                f"a source is {source!r:.80}; expected an object with name, whole and items(class_name), "
                f"such as StoredKnowledge(texts_by_class, name=...)"
            )
        if source.name in names:
            raise ValueError(f"two sources are called {source.name!r}; give one of them another name")
        names.add(source.name)
    return several


class StoredKnowledge:
    """Knowledge source over texts by class name.

    Args:
        items_by_class: For each class name its texts; a class that is absent has none.
        name: Name of the source.
        max_items: Give so many items at most; None for all.
        whole: Whether the texts are whole prompts.
        loose: Match names without regard to case, hyphens, underscores and repeated spaces.

    Raises:
        ValueError: A class whose texts are not a list of texts, ``max_items`` below 1, or two names that ``loose``
            cannot tell apart; shows class and value.

    Example:
        >>> StoredKnowledge({"tench": ["A freshwater fish."]}, name="own").items("tench")
        ('A freshwater fish.',)
        >>> StoredKnowledge({"great_white_shark": ["A fish."]}, name="own", loose=True).items("Great white shark")
        ('A fish.',)

    Numerics: Positions never matter.
    """

    def __init__(
        self,
        items_by_class: Mapping[str, Sequence[str]],
        *,
        name: str,
        max_items: int | None = None,
        whole: bool = False,
        loose: bool = False,
    ) -> None:
        if max_items is not None and max_items < 1:
            raise ValueError(f"max_items is {max_items}; expected at least 1, or None for all")
        self.name, self.whole, self.max_items, self.loose = name, whole, max_items, loose
        self.classes = tuple(items_by_class)
        self._items: dict[str, tuple[str, ...]] = {}
        spelt: dict[str, str] = {}
        for class_name, items in items_by_class.items():
            items = items if isinstance(items, str) else tuple(items)
            if isinstance(items, str) or not all(isinstance(item, str) for item in items):
                raise ValueError(f"{name}, class {class_name!r}: expected a list of texts, found {items!r}")
            key = self._key(class_name)
            if key in spelt:
                how = "when matched loosely" if loose else "in other code points"
                raise ValueError(f"{name}: classes {spelt[key]!a} and {class_name!a} are one name {how}")
            spelt[key] = class_name
            self._items[key] = tuple(item for item in items if item.strip())

    def items(self, class_name: str) -> tuple[str, ...]:
        """The stored texts, or nothing."""
        return self._items.get(self._key(class_name), ())[: self.max_items]

    def unused(self, class_names: Sequence[str]) -> list[str]:
        """Stored names that no class has: where there are many, the names are spelt differently."""
        keys = {self._key(name) for name in class_names}
        return [name for name in self.classes if self._key(name) not in keys]

    def _key(self, class_name: str) -> str:
        name = unicodedata.normalize("NFC", class_name)  # as macOS writes names of folders, letters are in parts
        return re.sub(r"[\s_-]+", " ", name).strip().casefold() if self.loose else name
