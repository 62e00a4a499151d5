"""What a certificate can say of any pair: words that differ between captions, pixels that differ between pictures."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: A channel must move by more than this, of 255, for a pixel to count as changed to the eye.
VISIBLE = 10


def token_edits(caption0: str, caption1: str) -> list[dict[str, Any]]:
    """The runs of words that differ, from the first caption to the second.

    Args:
        caption0: Any text; words are what lies between spaces.
        caption1: Any text.

    Returns:
        One `{"at", "from", "to"}` for each run: the index of its first word, and the words on both sides.

    Example:
        >>> token_edits("a red cube", "a blue cube")
        [{'at': 1, 'from': ['red'], 'to': ['blue']}]
    """
    a, b = caption0.split(), caption1.split()
    return [
        {"at": i0, "from": a[i0:i1], "to": b[j0:j1]}
        for kind, i0, i1, j0, j1 in SequenceMatcher(None, a, b, autojunk=False).get_opcodes()
        if kind != "equal"
    ]


def pixel_change(
    image0: NDArray[np.uint8], image1: NDArray[np.uint8], mask: NDArray[np.bool_] | None = None
) -> dict[str, float]:
    """How much of two pictures differs.

    Args:
        image0: uint8 [height, width, 3].
        image1: Of the same shape.
        mask: Where the change is meant to be, bool [height, width].

    Returns:
        `changed`: share of pixels that differ at all; `moved`: share in which a channel moves by more than `VISIBLE`.
        With a mask also its share of the picture (`mask_share`), the changed and moved shares of the pixels inside it
        (`changed_inside`, `moved_inside`) and of those outside (`changed_outside`, `moved_outside`). Six decimals.

    Raises:
        ValueError: Shapes that differ.

    Example:
        >>> import numpy as np
        >>> first = np.zeros((2, 2, 3), np.uint8)
        >>> second = first.copy()
        >>> second[0, 0] = 200
        >>> pixel_change(first, second)
        {'changed': 0.25, 'moved': 0.25}
    """
    if image0.shape != image1.shape or (mask is not None and mask.shape != image0.shape[:2]):
        raise ValueError(f"shapes differ: {image0.shape}, {image1.shape}, {None if mask is None else mask.shape}")
    distance = np.abs(image0.astype(np.int16) - image1.astype(np.int16)).max(axis=-1)
    seen = {"changed": distance > 0, "moved": distance > VISIBLE}
    found = {name: _share(where) for name, where in seen.items()}
    if mask is not None:
        found["mask_share"] = _share(mask)
        found |= {f"{name}_inside": _share(where[mask]) for name, where in seen.items()}
        found |= {f"{name}_outside": _share(where[~mask]) for name, where in seen.items()}
    return found


def _share(where: NDArray[np.bool_]) -> float:
    return round(float(where.mean()), 6) if where.size else 0.0
