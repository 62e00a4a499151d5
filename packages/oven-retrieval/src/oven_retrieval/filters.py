"""Pages that are no entities: disambiguation, redirects, media and other namespaces."""

from __future__ import annotations

import re
from collections.abc import Callable

from oven_retrieval.entity import Entity

_NAMESPACES = (
    "book", "category", "draft", "file", "help", "image", "media", "mediawiki", "module", "portal", "special", "talk",
    "template", "timedtext", "user", "wikipedia",
)  # fmt: skip
_NAMESPACE = re.compile(rf"(?:{'|'.join(_NAMESPACES)})(?: talk)?:\S", re.IGNORECASE)
_MAY_REFER = re.compile(r"\b(?:may|can|could|might)(?: also)? (?:refer|stand|mean)\b[^.]{0,60}:", re.IGNORECASE)
_REDIRECT = re.compile(r"\s*#\s*redirect\b", re.IGNORECASE)


def is_disambiguation(entity: Entity, content: str = "") -> bool:
    """Whether a page only lists meanings of its title.

    True where the name ends in `(disambiguation)`, the category says so, or the text opens with "... may refer to:".

    Source: OVEN section 3 removes these pages without saying how they are found; the rules are ours.
    """
    return (
        entity.name.casefold().rstrip().endswith("(disambiguation)")
        or "disambiguation page" in entity.category.casefold()
        or any(_MAY_REFER.search(text[:200]) is not None for text in (entity.description, content))
    )


def is_redirect(entity: Entity, content: str = "") -> bool:
    """Whether a page is only a `#REDIRECT`."""
    return any(_REDIRECT.match(text) is not None for text in (entity.description, content))


def is_media(entity: Entity, content: str = "") -> bool:
    """Whether a title lies in a namespace of files or of the encyclopaedia itself (`File:`, `Template:` ...)."""
    return _NAMESPACE.match(entity.name) is not None


Filter = Callable[[Entity, str], bool]
FILTERS: dict[str, Filter] = {"disambiguation": is_disambiguation, "redirects": is_redirect, "media": is_media}
