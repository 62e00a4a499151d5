"""Cross-validation of the whole: every sample is scored by a head that was chosen and fitted without it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vision_adapters.metrics import evaluate
from vision_adapters.tuning.data import as_predictions, tuning_data
from vision_adapters.tuning.folds import class_folds
from vision_adapters.tuning.methods import tune


@dataclass(frozen=True, eq=False)
class CrossValidated:
    """What cross-validation says of a method.

    `scores` [n, k] of every sample by the head of the folds that it is not in (a class that a fold's training lacks is
    below all others there), and the `folds` of the samples [n]; the metric's `values` by fold, with the 95 % interval
    of their mean from `low` to `high`; of each fold the name of the features taken, and the choice.
    """

    scores: Float[Tensor, "n k"]
    folds: Int[Tensor, " n"]
    metric: str
    values: tuple[float, ...]
    low: float
    high: float
    features: tuple[str, ...]
    best_params: tuple[Mapping[str, Any], ...]


def cross_validate(
    features: Mapping[str, Float[Tensor, "n d"]],
    labels: Int[Tensor, " n"],
    classes: int,
    *,
    folds: int = 5,
    method: str = "anchored",
    metric: str = "accuracy",
    class_weight: Literal["balanced"] | None = None,
    seed: int = 0,
) -> CrossValidated:
    """Test each of `folds` parts of all samples once, on a head chosen and fitted on the others.

    The parts have equally many samples of each class, as far as that goes. Within the others, `tuning_data` validates
    as it does by default; where there are several kinds of features, those that validate best are taken.

    Args:
        features: by name, of the same samples.
        labels: 0 … classes - 1.
        classes: k.
        folds: at least 2.
        method: a key of `METHODS` that takes no texts.
        metric: a key of `METRICS` for one label per sample.
        class_weight: see `tuning_data`.
        seed: of the folds and of the validation within them.

    Raises:
        ValueError: fewer than two folds, more folds than samples, or what `tuning_data` refuses.

    Numerics:
        The interval is Student's with $k - 1$ degrees of freedom and the variance of the folds' values times
        $1 / k + 1 / (k - 1)$: folds share training samples, so that their values are not independent.

    Example:
        >>> x, y = torch.eye(3).repeat(12, 1), torch.arange(3).repeat(12)
        >>> cross_validate({"plain": x}, y, 3, folds=3).values
        (1.0, 1.0, 1.0)

    Source:
        Nadeau and Bengio, Inference for the generalization error, Machine Learning 52, 2003.
    """
    from scipy.stats import t as student

    if not 2 <= folds <= len(labels):
        raise ValueError(f"folds must be from 2 to the {len(labels)} samples, got {folds}")
    numbers = class_folds(labels, folds, seed)
    scores = torch.empty(len(labels), classes)
    values, names, choices = [], [], []
    for fold in range(folds):
        train, test = (numbers != fold).nonzero().flatten(), (numbers == fold).nonzero().flatten()
        present = torch.unique(labels[train])
        renumbered = torch.searchsorted(present, labels[train])
        tuned = {
            name: tune(
                tuning_data(rows[train], renumbered, metric=metric, class_weight=class_weight, seed=seed), method
            )
            for name, rows in features.items()
        }
        best = max(tuned, key=lambda name: -math.inf if (value := tuned[name].validation) is None else value)
        present_scores = tuned[best].scores(features[best][test])
        part = present_scores.new_full((len(test), classes), float(present_scores.min()) - 1.0)
        part[:, present] = present_scores
        scores[test] = part
        values.append(evaluate(metric, as_predictions(part, metric, several=False), labels[test], resamples=0).value)
        names.append(best)
        choices.append(tuned[best].best_params)
    mean = math.fsum(values) / folds
    variance = math.fsum((value - mean) ** 2 for value in values) / (folds - 1)
    half = float(student.ppf(0.975, folds - 1)) * math.sqrt(variance * (1 / folds + 1 / (folds - 1)))
    return CrossValidated(
        scores, numbers, metric, tuple(values), mean - half, mean + half, tuple(names), tuple(choices)
    )
