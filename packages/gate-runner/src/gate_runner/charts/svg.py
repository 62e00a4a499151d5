"""Inline SVG as text, with every name escaped; colours come from the page's style sheet, which knows dark mode."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape


def element(name: str, *children: str, **attributes: object) -> str:
    """One element. Underscores in attribute names become dashes; children are markup already.

    Example:
        >>> element("text", "a &lt; b", x=1.25, text_anchor="end", class_="label")
        '<text x="1.25" text-anchor="end" class="label">a &lt; b</text>'
    """
    pairs = "".join(
        f' {key.rstrip("_").replace("_", "-") if key not in _KEPT else key}="{escape(_plain(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{pairs}>{''.join(children)}</{name}>" if children else f"<{name}{pairs}/>"


_KEPT = frozenset({"viewBox", "preserveAspectRatio"})


def label(text: str, x: float, y: float, **attributes: object) -> str:
    """Text at a place, escaped."""
    return element("text", escape(text), x=x, y=y, **attributes)


def chart(
    title: str, description: str, width: float, height: float, body: Sequence[str], /, **attributes: object
) -> str:
    """A picture with a name and a description for those who cannot see it."""
    names = (element("title", escape(title)), element("desc", escape(description)))
    size = f"0 0 {_plain(width)} {_plain(height)}"
    return element("svg", *names, *body, viewBox=size, role="img", **attributes)


def points(pairs: Sequence[tuple[float, float]]) -> str:
    """Coordinates of a line or polygon."""
    return " ".join(f"{_plain(x)},{_plain(y)}" for x, y in pairs)


def shortened(text: str, most: int) -> str:
    """The text, or its beginning and end around an ellipsis.

    Example:
        >>> shortened("open_clip:ViT-B-32/laion2b", 15)
        'open_cl…laion2b'
    """
    if len(text) <= most:
        return text
    head = most // 2
    return f"{text[:head]}…{text[len(text) - (most - head - 1) :]}"


def _plain(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".") if value != int(value) else str(int(value))
    return str(value)
