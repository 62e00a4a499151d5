"""What the knowledge base holds: one record per entity."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entity:
    """One entity of a knowledge base.

    Args:
        id: identifier, unique in the knowledge base, not empty (Wikidata's `Q31`, WordNet's `02084071-n`).
        name: canonical name, not empty; any script.
        aliases: other names.
        description: free text; may be empty.
        category: super-category; may be empty.
        image: address or path of the entity's picture, or None.
        popularity: any finite number, greater is more popular (page views); 0 where unknown.

    Raises:
        ValueError: shows the field that is wrong and its value.

    Example:
        >>> Entity("Q31", "Belgium", aliases=("Kingdom of Belgium",)).name
        'Belgium'
        >>> Entity("Q31", "  ")
        Traceback (most recent call last):
        ...
        ValueError: name: expected a text that is not blank, got '  '
    """

    id: str
    name: str
    aliases: tuple[str, ...] = ()
    description: str = ""
    category: str = ""
    image: str | None = None
    popularity: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what no index could hold."""
        for field in ("id", "name"):
            value = getattr(self, field)
            if not isinstance(value, str) or not value.strip():
                raise ValueError(f"{field}: expected a text that is not blank, got {value!r}")
        if any(not isinstance(alias, str) or not alias.strip() for alias in self.aliases):
            raise ValueError(f"aliases: expected texts that are not blank, got {self.aliases!r}")
        if not math.isfinite(self.popularity):
            raise ValueError(f"popularity: expected a finite number, got {self.popularity!r}")


class EntityFileError(ValueError):
    """A row of an entity file that cannot be read; the message names the file, the line and the field."""

    def __init__(self, path: object, line: int, problem: str) -> None:
        super().__init__(f"{path}:{line}: {problem}")
        self.path = str(path)
        self.line = line
