"""Texts of strangers as they are printed."""

from __future__ import annotations

#: Wide and unbreakable spaces, and what joins letters of Persian, Hindi and emoji: no printing characters to Python.
_HARMLESS = "\u00a0\u200c\u200d\u202f\u3000"


def printable(text: str) -> str:
    """What a terminal or a browser would obey (escapes, line ends, turns of the writing's direction) as escapes."""
    return "".join(letter if letter.isprintable() or letter in _HARMLESS else repr(letter)[1:-1] for letter in text)
