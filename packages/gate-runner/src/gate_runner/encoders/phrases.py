"""What a detector reads for a list of classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gate_data.boxes.files import UNNAMED


class Phrase(NamedTuple):
    """A class as a detector reads it: the words that count, and what stands around them."""

    name: str
    prefix: str = ""
    suffix: str = ""

    @property
    def text(self) -> str:
        """All of it."""
        return f"{self.prefix}{self.name}{self.suffix}"


def phrases(classes: Sequence[str], captions: Mapping[str, Mapping[str, str]] | None = None) -> list[Phrase]:
    """Class names as queries.

    What stands in parentheses is dropped, ``_`` becomes a space, and one double space a single one. A class without a
    name gets an empty phrase, of which nothing can be found.

    Source:
        GLIP's ``create_queries_and_maps`` and ``clean_name``.
    """
    listed = []
    for name in classes:
        caption = (captions or {}).get(name, {})
        shown = "" if name == UNNAMED else caption.get("name", _clean(name))
        listed.append(Phrase(shown, caption.get("prefix", ""), caption.get("suffix", "")) if shown else Phrase(""))
    return listed


def _clean(name: str) -> str:
    cleaned, depth = "", 0
    for sign in name:
        depth += sign == "("
        if not depth:
            cleaned += sign
        depth -= sign == ")" and depth > 0
    return cleaned.replace("_", " ").replace("  ", " ", 1).strip() or name.strip()
