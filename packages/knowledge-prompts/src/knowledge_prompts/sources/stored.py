"""Knowledge that was found before: by class name, from any mapping."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence


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
            if isinstance(items, str) or not all(isinstance(item, str) for item in items):
                raise ValueError(f"{name}, class {class_name!r}: expected a list of texts, found {items!r}")
            key = self._key(class_name)
            if key in spelt:
                raise ValueError(f"{name}: classes {spelt[key]!r} and {class_name!r} are one name when matched loosely")
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
        return re.sub(r"[\s_-]+", " ", class_name).strip().casefold() if self.loose else class_name
