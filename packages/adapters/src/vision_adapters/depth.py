"""Depth of pixels in metres: what a head's output means, its loss, and the errors that tables have."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from vision_adapters.rows import Rows

_LEAST = 1e-3
"""Metres: predictions are at least this."""
_MOST = 6.0
"""Logarithms of a depth's ratio to the typical one stay within this."""


def metres(output: Float[Tensor, "n 1 h w"], typical: float) -> Float[Tensor, "n h w"]:
    """Return the depths that an output means: it is the logarithm of their ratio to a typical depth, within 6.

    Example:
        >>> metres(torch.zeros(1, 1, 1, 2), 2.5).tolist()
        [[[2.5, 2.5]]]
    """
    return typical * torch.exp(output[:, 0].clamp(-_MOST, _MOST))


def depth_loss(output: Float[Tensor, "n 1 h w"], truth: Float[Tensor, "n h w"], typical: float) -> Float[Tensor, ""]:
    """Return the mean absolute difference of logarithms over pixels whose depth was measured (above 0).

    Args:
        output: of a head, see `metres`.
        truth: metres; 0 where nothing was measured.
        typical: metres, such as the median of the training depths.

    Example:
        >>> round(float(depth_loss(torch.zeros(1, 1, 1, 2), torch.tensor([[[2.0, 0.0]]]), 1.0)), 4)  # log 2
        0.6931
    """
    measured = truth > 0
    wrong = (output[:, 0].clamp(-_MOST, _MOST) + np.log(typical) - truth.clamp_min(_LEAST).log()).abs()
    total: Tensor = (wrong * measured).sum() / measured.sum().clamp_min(1)
    return total


def depth_errors(predicted: Float[Tensor, "n h w"], truth: Rows) -> dict[str, Float64[np.ndarray, " n"]]:
    """Return each image's root mean squared error, absolute relative error, and share of pixels within 1.25 times.

    Args:
        predicted: metres.
        truth: a map of metres ``[h, w]`` for each image, read one at a time; 0 where nothing was measured.

    Returns:
        ``rmse`` in metres, ``abs_rel``, and ``delta_1.25``, by name.

    Raises:
        ValueError: another number of maps, or an image without any measured depth; its number is in the message.

    Example:
        >>> depth_errors(torch.tensor([[[2.0, 9.0]]]), torch.tensor([[[1.0, 0.0]]]))["abs_rel"].tolist()
        [1.0]

    Source:
        Eigen, Puhrsch and Fergus, Depth map prediction from a single image, NeurIPS 2014: the threshold 1.25 and rmse.
    """
    if len(predicted) != len(truth):
        raise ValueError(f"{len(predicted)} predictions and {len(truth)} maps of depth; expected the same number")
    errors: dict[str, list[float]] = {"rmse": [], "abs_rel": [], "delta_1.25": []}
    for index, guess in enumerate(predicted):
        guess, true = guess.double(), truth[index : index + 1][0].double()
        measured = true > 0
        if not bool(measured.any()):
            raise ValueError(f"no depth was measured in sample {index}")
        guess, true = guess[measured].clamp_min(_LEAST), true[measured]
        errors["rmse"].append(float((guess - true).square().mean().sqrt()))
        errors["abs_rel"].append(float(((guess - true).abs() / true).mean()))
        errors["delta_1.25"].append(float((torch.maximum(guess / true, true / guess) < 1.25).double().mean()))
    return {name: np.array(values) for name, values in errors.items()}
