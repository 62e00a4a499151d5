"""Classes whose texts an encoder hardly distinguishes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Float

TWINS = 0.98
"""Cosine of two classes' texts from which on an encoder hardly tells them apart."""


def indistinct_classes(weights: Float[np.ndarray, "k d"], classes: Sequence[str]) -> str:
    """Return a sentence on the classes whose texts an encoder hardly distinguishes; empty if it distinguishes all.

    Two classes are hardly distinguished if the cosine of their texts is above 0.98: a choice of ours, at which a
    zero-shot score is mostly a draw between the two.

    Args:
        weights: a unit row for each class, such as `ClassEmbeddings.weights`.
        classes: their names, ``k``.

    Example:
        >>> indistinct_classes(np.eye(2), ["cat", "dog"])
        ''
        >>> indistinct_classes(np.ones((2, 4)) / 2, ["cat", "dog"])[:71]
        '2 of 2 class texts are hardly distinguished by this encoder (cosines ab'
    """
    close = weights @ weights.T
    np.fill_diagonal(close, -1)
    twins = (close > TWINS).any(axis=1)
    if not twins.any():
        return ""
    first, second = divmod(int(close.argmax()), len(classes))
    return (
        f"{int(twins.sum())} of {len(classes)} class texts are hardly distinguished by this encoder (cosines above "
        f"{TWINS}), such as {classes[first]!r} and {classes[second]!r}: scores without a trained head mean little"
    )
