"""Knowledge that was found before: by class name, from any mapping."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class StoredKnowledge:
    """Knowledge source over texts by class name.

    Args:
        items_by_class: For each class name its texts; a class that is absent has none.
        name: Name of the source.
        max_items: Give so many items at most; None for all.
        whole: Whether the texts are whole prompts.

    Raises:
        ValueError: A class whose texts are not a list of texts, or ``max_items`` below 1; shows class and value.

    Example:
        >>> StoredKnowledge({"tench": ["A freshwater fish."]}, name="own").items("tench")
        ('A freshwater fish.',)

    Numerics: Names match exactly. Positions never matter.
    """

    def __init__(
        self,
        items_by_class: Mapping[str, Sequence[str]],
        *,
        name: str,
        max_items: int | None = None,
        whole: bool = False,
    ) -> None:
        if max_items is not None and max_items < 1:
            raise ValueError(f"max_items is {max_items}; expected at least 1, or None for all")
        for class_name, items in items_by_class.items():
            if isinstance(items, str) or not all(isinstance(item, str) for item in items):
                raise ValueError(f"{name}, class {class_name!r}: expected a list of texts, found {items!r}")
        self.name, self.whole, self.max_items = name, whole, max_items
        self._items = {
            class_name: tuple(item for item in items if item.strip()) for class_name, items in items_by_class.items()
        }

    def items(self, class_name: str) -> tuple[str, ...]:
        """The stored texts, or nothing."""
        return self._items.get(class_name, ())[: self.max_items]

    @property
    def classes(self) -> Iterable[str]:
        """Class names that are stored."""
        return self._items.keys()
