"""A detector over a split's pictures, each in its own size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int, UInt8
from torch import Tensor

from gate_data.ragged import Ragged
from gate_data.readers.decode import decode
from gate_runner.detection.scoring import in_pixels
from gate_runner.encoders.detectors import MOST, Detector
from gate_runner.encoders.phrases import Phrase
from vision_adapters.detection import topk_detections

if TYPE_CHECKING:
    from gate_data.pictures import Pictures


def whole_picture(images: Tensor | Pictures, row: int) -> UInt8[np.ndarray, "h w 3"]:
    """One picture as it lies in its file, neither cut nor scaled.

    Example:
        >>> import torch
        >>> whole_picture(torch.zeros(2, 3, 4, 6, dtype=torch.uint8), 1).shape
        (4, 6, 3)
    """
    if isinstance(images, Tensor):
        return np.ascontiguousarray(images[row].permute(1, 2, 0).numpy())
    return np.asarray(decode(images.files[row][0]))


def detect(
    detector: Detector,
    images: Tensor | Pictures,
    sizes: Int[np.ndarray, "n 2"],
    phrases: Sequence[Phrase],
    progress: Callable[[int, int], None],
) -> Ragged:
    """The 300 best pairs of a query and a class of each picture; no threshold, and nothing is suppressed.

    Source:
        Grounding DINO's own evaluation; COCO's then counts the 100 best of each class.
    """
    parts: list[Ragged] = []
    detector.model.eval()
    for row in range(len(images)):
        spotted = detector.spot(whole_picture(images, row), phrases)
        best = topk_detections(spotted.scores[None], spotted.boxes[None], MOST)
        corners = best.boxes[0].numpy().astype(np.float64)
        boxes = np.concatenate([(corners[:, :2] + corners[:, 2:]) / 2, corners[:, 2:] - corners[:, :2]], axis=1)
        parts.append(in_pixels(boxes[None], best.scores.numpy(), best.labels.numpy(), sizes[row : row + 1]))
        progress(row + 1, len(images))
    columns = {name: np.concatenate([part.columns[name] for part in parts]) for name in ("box", "label", "score")}
    return Ragged(columns, np.concatenate([part.lengths for part in parts]))
