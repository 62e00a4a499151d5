"""Handwritten digits that scikit-learn carries inside its package: real images with no download."""

from __future__ import annotations

import numpy as np
import torch

from gate_runner.benchmarks.benchmark import DataRequest
from gate_runner.benchmarks.data import Data, Split, as_targets

_SEED = 9000
_SHARES = (0.5, 0.15, 0.35)


def load(request: DataRequest) -> Data:
    """The 1,797 digits of 8 x 8 pixels, each pixel drawn as a block of 8 x 8.

    Args:
        request: only its limit is used.

    Returns:
        Splits of 50, 15 and 35 % of each class, shuffled with a fixed seed.
    """
    from sklearn.datasets import load_digits

    grey, labels = load_digits(return_X_y=True)
    images = torch.from_numpy(np.kron(grey.reshape(-1, 8, 8), np.ones((8, 8)))).mul(255 / 16).round().byte()
    rng = np.random.default_rng(_SEED)
    rows: tuple[list[int], list[int], list[int]] = ([], [], [])
    for label in range(10):
        mine = rng.permutation(np.flatnonzero(labels == label))
        first, second = (round(len(mine) * share) for share in np.cumsum(_SHARES)[:2])
        for share, part in zip(rows, np.split(mine, [first, second]), strict=True):
            share.extend(part.tolist())

    def split(chosen: list[int]) -> Split:
        order = rng.permutation(chosen)
        return Split(images[order][:, None].expand(-1, 3, -1, -1), as_targets(labels[order].tolist()))

    data = Data(split(rows[0]), split(rows[1]), split(rows[2]), tuple(str(digit) for digit in range(10)))
    return data.limited(request.limit)
