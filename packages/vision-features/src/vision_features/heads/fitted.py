"""Which images a head was fitted on: an accuracy on those says nothing of new ones."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gate_data import Data

MOST = 100_000
"""Images of which a card has marks: 0.8 MB."""
_BYTES = 6
"""Of a digest: of 100,000 images beside 100,000 others, one in 30,000 such sets shares a mark by chance."""


def marks_of_images(data: Data[Any]) -> str | None:
    """Marks of the image files that train or validate, for a head's card; None of images in memory, or too many."""
    from gate_data.pictures import Pictures

    marks: set[bytes] = set()
    for split in (data.train, data.validation):
        if not len(split):
            continue
        if not isinstance(split.images, Pictures) or len(split) > MOST:
            return None
        marks |= {content[:_BYTES] for content in split.images.contents}
    return base64.b64encode(b"".join(sorted(marks))).decode() if marks else None


def fitted_among(card: Mapping[str, Any], files: Sequence[str]) -> list[str]:
    """Those of image files whose content is among the images that a head's card has marks of.

    Args:
        card: of the head; without marks there are none.
        files: paths of images that can be read.
    """
    from gate_data.pictures import Pictures

    marks = _marks(card.get("fitted_on"))
    if not marks or not files:
        return []
    contents = Pictures.of(list(files), 1).contents
    return [file for file, content in zip(files, contents, strict=True) if content[:_BYTES] in marks]


def _marks(held: object) -> frozenset[bytes]:
    try:
        joined = base64.b64decode(str(held or ""), validate=True)
    except ValueError:
        return frozenset()
    return frozenset(joined[start : start + _BYTES] for start in range(0, len(joined), _BYTES))
