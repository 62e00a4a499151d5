"""Images of 16 bits for each colour, of which Pillow keeps the upper 8: dark ones may hold values of 12 bits."""

from __future__ import annotations

from typing import Any


def has_deep_colours(image: Any) -> bool:
    """Return whether an opened image, whose pixels are not read yet, has 16 bits for each of several bands.

    Example:
        >>> class Opened:
        ...     tile = [("zip", (0, 0, 8, 8), 41, "RGB;16B")]
        >>> has_deep_colours(Opened())
        True
    """
    forms = [str(form) for _, _, _, form, *_ in getattr(image, "tile", ())]
    return any(form.lstrip("('").startswith(("RGB", "LA")) and ";16" in form for form in forms)


def is_nearly_black(image: Any) -> bool:
    """Return whether the read pixels have only the 4 lowest bits of the upper 8, opacity aside."""
    bands = image.getbands()
    highest = [high for name, (_, high) in zip(bands, image.getextrema(), strict=True) if name not in ("A", "a")]
    return bool(max(highest) < 16)
