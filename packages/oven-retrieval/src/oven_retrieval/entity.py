"""What the knowledge base holds: one record per entity."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from os import PathLike
from typing import Any

_LANGUAGES = re.compile(r"(?:[a-z]{2,12}(?:-[a-z0-9]{1,8})*(?: (?!$)|$))*")


@dataclass(frozen=True, slots=True)
class Entity:
    """One entity of a knowledge base.

    Args:
        id: identifier, unique in the knowledge base, not empty (Wikidata's `Q31`, WordNet's `02084071-n`).
        name: canonical name, not empty; any script.
        aliases: other names.
        description: free text; may be empty.
        category: super-category; may be empty.
        image: address or path of the entity's image, or None.
        popularity: any finite number, greater is more popular (page views); 0 where unknown.
        language: tags of the languages that the name belongs to, in lower case with blanks between them (`en`,
            `de zh-hans`); empty where unknown.
        alias_languages: the same of each alias; empty where all are unknown.

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
    language: str = ""
    alias_languages: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what no index could hold."""
        for field in ("id", "name"):
            value = getattr(self, field)
            if not isinstance(value, str) or not value.strip():
                raise ValueError(f"{field}: expected a text that is not blank, got {value!r}")
        if isinstance(self.aliases, str | Set | Mapping):
            raise ValueError(f"aliases: expected a list of texts, got {self.aliases!r:.60}")
        if type(self.aliases) is not tuple:
            object.__setattr__(self, "aliases", tuple(self.aliases))
        if any(not isinstance(alias, str) or not alias.strip() for alias in self.aliases):
            raise ValueError(f"aliases: expected texts that are not blank, got {self.aliases!r}")
        if isinstance(self.image, PathLike):
            object.__setattr__(self, "image", str(self.image))
        for field in ("description", "category", "image"):
            value = getattr(self, field)
            if value is not None and not isinstance(value, str):
                raise ValueError(f"{field}: expected a text, got {value!r:.60}")
        try:
            is_finite = math.isfinite(self.popularity)
        except (TypeError, OverflowError):
            is_finite = False
        if not is_finite:
            raise ValueError(f"popularity: expected a finite number, got {self.popularity!r:.60}")
        if self.alias_languages and len(self.alias_languages) != len(self.aliases):
            raise ValueError(
                f"alias_languages: expected one per alias, {len(self.aliases)}, got {self.alias_languages!r}"
            )
        if (self.language or self.alias_languages) and not all(
            _LANGUAGES.fullmatch(tags) for tags in (self.language, *self.alias_languages)
        ):
            raise ValueError(
                f"language: expected tags such as 'en' or 'de zh-hans', got {(self.language, *self.alias_languages)!r}"
            )


def as_texts(texts: Any, what: str) -> Sequence[str]:
    """Return texts in their order, from a list, an array, a series or what gives them one by one.

    Raises:
        TypeError: one text, a set, a mapping, a table, or something that is no text among them; shows it.
    """
    if isinstance(texts, str | bytes | Set | Mapping) or getattr(texts, "ndim", 1) != 1:
        kind = "one text" if isinstance(texts, str) else f"a {type(texts).__name__}"
        raise TypeError(f"{what}: expected a list of texts, got {kind} {texts!r:.40}")
    if isinstance(texts, Sequence) and not isinstance(texts, list | tuple):
        return texts  # a knowledge base's own column, read as it is asked for
    listed = texts if isinstance(texts, list | tuple) else list(texts)
    for place, text in enumerate(listed):
        if not isinstance(text, str):
            raise TypeError(f"{what}: text {place} is {text!r:.60}; expected a text: leave out what has no name")
    return listed


def tagged(texts: Iterable[tuple[str, str]], name: str, language: str) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """One entry per text with all its languages."""
    tags: dict[str, set[str]] = {name: {language}}
    for text, tag in texts:
        tags.setdefault(text, set()).add(tag)
    joined = {text: " ".join(sorted(own - {""})) for text, own in tags.items()}
    of_name = joined.pop(name)
    return of_name, tuple(joined), tuple(joined.values()) if any(joined.values()) else ()


class EntityFileError(ValueError):
    """A row of an entity file that cannot be read; the message names the file, the line and the field.

    Example:
        >>> error = EntityFileError("kb.jsonl", 7, "id: missing")
        >>> str(error), error.line
        ('kb.jsonl:7: id: missing', 7)
    """

    def __init__(self, path: object, line: int, problem: str) -> None:
        super().__init__(f"{path}:{line}: {problem}")
        self.path = str(path)
        self.line = line
