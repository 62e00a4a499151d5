"""What a training gained on its own task, and what it forgot of others: paired changes on the same samples."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from paired_scores.metrics import METRICS, evaluate, paired_difference
from paired_scores.metrics.arrays import as_array


class Change(NamedTuple):
    """A metric before and after, the paired change between them, and its 95 % interval."""

    metric: str
    before: float
    after: float
    change: float
    low: float
    high: float


def paired_change(metric: str, before: npt.ArrayLike, after: npt.ArrayLike, *, seed: int = 0) -> Change:
    """Return the change from one model's outcomes to another's on the same samples, with its interval.

    Args:
        metric: a name of `paired_scores.metrics.METRICS`.
        before: outcomes of each sample, as `paired_scores.metrics.evaluate` gives them.
        after: outcomes of the same samples in the same order.
        seed: of the resamples.

    Raises:
        ValueError: outcomes of other numbers of samples.

    Example:
        >>> change = paired_change("accuracy", [0.0, 0.0, 1.0, 1.0], [1.0, 0.0, 1.0, 1.0])
        >>> change.before, change.after, change.change
        (0.5, 0.75, 0.25)
    """
    pair = as_array(before, "before"), as_array(after, "after")
    difference = paired_difference(metric, *pair, seed=seed)
    weights = np.ones((1, len(pair[0])))
    first, second = (float(METRICS[metric].aggregate(outcomes, weights)[0]) for outcomes in pair)
    return Change(metric, first, second, difference.value, difference.low, difference.high)


def zero_shot_outcomes(
    metric: str, features: Float[Tensor, "n d"], weights: Float[Tensor, "k d"], truth: Int[Tensor, " n"]
) -> Float[np.ndarray, "n ..."]:
    """Return each sample's outcome when its class is the one whose text is nearest by cosine.

    Args:
        metric: a name of `paired_scores.metrics.METRICS`, of classes.
        features: of images, of any length.
        weights: a unit vector for each class, from its prompts.
        truth: the class of each image.

    Example:
        >>> import torch
        >>> zero_shot_outcomes("accuracy", torch.eye(2) * 3, torch.eye(2), torch.tensor([0, 0])).tolist()
        [1.0, 0.0]
    """
    scores = F.normalize(features, dim=-1) @ weights.T
    return np.asarray(evaluate(metric, scores, truth, resamples=0).outcomes)
