"""Records of drawn data sets: three splits of NumPy arrays, and names of their classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from jaxtyping import Float64, Int64, Shaped, UInt8


class Boxes(NamedTuple):
    """Objects of one image.

    Args:
        box: float64 ``[m, 4]``: left, top, width and height in pixels, tightest around the pixels that are visible.
        label: int64 ``[m]``: the class of each object.
        area: float64 ``[m]``: visible pixels of each object.

    Example:
        >>> from eqben_builder.stand_ins import STAND_INS
        >>> boxes = STAND_INS["boxed_lot"](1).test.targets[0]
        >>> boxes.box.shape, boxes.label.tolist()
        ((5, 4), [1, 0, 1, 1, 0])
    """

    box: Float64[np.ndarray, "m 4"]
    label: Int64[np.ndarray, " m"]
    area: Float64[np.ndarray, " m"]


@dataclass(frozen=True, eq=False)
class DrawnSplit:
    """Samples of one split.

    Args:
        images: uint8 ``[n, s, s, 3]``, sRGB; clips ``[n, f, s, s, 3]``, pairs of images ``[n, 2, s, s, 3]``.
        targets: int64 classes ``[n]``, of several questions ``[n, q]``, of pixels ``[n, s, s]`` with -100 for pixels
            that are not scored; float32 values ``[n]``, labels ``[n, k]`` of 0 and 1, metres ``[n, s, s]``; or a tuple
            of n `Boxes`.
        texts: questions or captions, n of them or the same number for each image, one image after another; or None.
        groups: int64 ``[n]``, the volume of each slice; or None.

    Example:
        >>> from eqben_builder.stand_ins import STAND_INS
        >>> split = STAND_INS["count_questions"](2).test
        >>> split.images.shape, split.targets.tolist(), split.texts[0]
        ((2, 64, 64, 3), [3, 2], 'add one red object . how many objects are there ?')
    """

    images: UInt8[np.ndarray, "n *frames s s 3"]
    targets: Shaped[np.ndarray, n * more] | tuple[Boxes, ...]
    texts: tuple[str, ...] | None = None
    groups: Int64[np.ndarray, " n"] | None = None

    def __len__(self) -> int:
        return len(self.images)


@dataclass(frozen=True, eq=False)
class DrawnSet:
    """A drawn data set.

    Args:
        train: what a head is fitted on.
        validation: what chooses among heads.
        test: what is scored.
        classes: names of classes or answers, in the order of their indices; empty where targets are values.

    Example:
        >>> from eqben_builder.stand_ins import STAND_INS
        >>> plates = STAND_INS["plates"](3)
        >>> len(plates.train), len(plates.test), plates.classes[0]
        (3, 3, 'red and green')
    """

    train: DrawnSplit
    validation: DrawnSplit
    test: DrawnSplit
    classes: tuple[str, ...]
