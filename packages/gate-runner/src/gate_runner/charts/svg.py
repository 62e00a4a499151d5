"""Inline SVG as text, with every name escaped; colours come from the page's style sheet, which knows dark mode."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from markupsafe import Markup, escape


def element(name: str, *children: str, **attributes: object) -> Markup:
    """One element. Underscores in attribute names become dashes; children are escaped unless they are markup.

    Example:
        >>> str(element("text", "a < b", x=1.25, text_anchor="end", class_="label"))
        '<text x="1.25" text-anchor="end" class="label">a &lt; b</text>'
    """
    pairs = Markup("").join(
        Markup(' {}="{}"').format(key if key in _CASED else key.rstrip("_").replace("_", "-"), _plain(value))
        for key, value in attributes.items()
        if value is not None
    )
    start = Markup(f"<{name}{pairs}")  # noqa: S704 - names are ours, and the attributes escaped above
    return start + Markup(">") + Markup("").join(children) + Markup(f"</{name}>") if children else start + Markup("/>")  # noqa: S704


_CASED = frozenset({"viewBox", "preserveAspectRatio"})


def label(text: str, x: float, y: float, **attributes: object) -> Markup:
    """Text at a place."""
    return element("text", escape(text), x=x, y=y, **attributes)


def chart(
    title: str, description: str, width: float, height: float, body: Iterable[str], /, **attributes: object
) -> Markup:
    """A picture with a name and a description for those who cannot see it."""
    size = f"0 0 {_plain(width)} {_plain(height)}"
    names = element("title", title or " "), element("desc", description or " ")
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
