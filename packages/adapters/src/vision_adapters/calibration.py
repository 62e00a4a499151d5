"""Probabilities that mean something: a temperature for a head's scores, and on how many labels it rests."""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from vision_adapters.tuning.data import Tuned, TuningData, tuning_data
from vision_adapters.tuning.folds import FOLDS, class_folds
from vision_adapters.tuning.methods import tune

__all__ = ["Calibration", "calibrate", "cross_fitted", "fit_temperature", "is_better"]

PRIOR = 1.0
"""Labels, spread over each sample's two best classes, that a temperature is fitted with besides: few labels that are
all hit would ask for certainty. Spread over all classes it would flatten scores that are very low for many of them."""
ERRORS = 1.5
"""Standard errors by which a temperature must lower the log-loss of a head that chose its own scale."""
OWN_SCALE = ("anchored",)
"""Methods whose heads choose the scale of their scores by log-loss."""
ENDS = -10.0, 10.0
"""Of the logarithm of 1 / temperature."""


class Calibration(NamedTuple):
    """A temperature, how many labels it was fitted on, and whether the head had seen them.

    `how` is "cross-fitted": heads of the other folds scored them; "unseen": the head was not fitted on them; or "none".

    Example:
        >>> print(Calibration(2.0, 40, "unseen"))
        probabilities rest on 40 labels (unseen), temperature 2
    """

    temperature: float
    labels: int
    how: str

    def probabilities(self, scores: Float[Tensor, "n k"]) -> Float[Tensor, "n k"]:
        """Return the calibrated probabilities of scores."""
        return (scores / self.temperature).softmax(1)

    def __str__(self) -> str:
        """Say on how many labels the probabilities rest."""
        if not self.labels:
            return "probabilities are not calibrated: no label was left to fit a temperature on"
        return f"probabilities rest on {self.labels:,} labels ({self.how}), temperature {self.temperature:.3g}"


def fit_temperature(scores: Float[Tensor, "n k"], labels: Int[Tensor, " n"], *, prior: float = PRIOR) -> float:
    r"""Return the temperature T at which the softmax of scores / T has the least log-loss.

    The loss is convex in 1/T, whose derivative is halved down to its zero; T lies between e^-10 and e^10.

    Args:
        scores: [n, k] of samples that the head was not fitted on.
        labels: their classes.
        prior: each label counts as n of n + `prior` labels, the rest being spread over the two best classes, as Platt
            has it for two; 0 for the temperature of scikit-learn's `CalibratedClassifierCV(method="temperature")`.

    Raises:
        ValueError: no sample, scores that are not finite, or labels that are not their classes.

    Example:
        >>> scores = torch.tensor([[4.0, 0.0]]).repeat(100, 1)
        >>> labels = (torch.arange(100) < 20).long()  # 80 % are of class 0, the scores give it 98 %
        >>> round(4 / fit_temperature(scores, labels, prior=0), 3), round(math.log(0.8 / 0.2), 3)
        (1.386, 1.386)

    Source:
        Guo et al., On calibration of modern neural networks (2017); Platt (1999) for the prior.
    """
    z, y = scores.double(), labels.long()
    if z.ndim != 2 or y.shape != z.shape[:1] or len(z) == 0:
        raise ValueError(f"scores have shape {tuple(z.shape)}, labels {tuple(y.shape)}; expected [n, k] and [n], n > 0")
    if not bool(z.isfinite().all()):
        raise ValueError(f"scores: row {int((~z.isfinite()).any(1).nonzero()[0])} holds NaN or infinity")
    if bool((y < 0).any()) or bool((y >= z.shape[1]).any()):
        raise ValueError(f"labels must lie in 0..{z.shape[1] - 1}, got {int(y.min())} to {int(y.max())}")
    z = z - z.max(1, keepdim=True).values
    share = len(z) / (len(z) + prior)
    best_two = z.topk(min(2, z.shape[1])).values.clamp_min(-1e6).mean(1)
    target = share * z[torch.arange(len(z)), y] + (1 - share) * best_two

    def slope(log_beta: float) -> float:
        return float(((math.exp(log_beta) * z).softmax(1) * z).sum(1).mean() - target.mean())

    low, high = ENDS
    if slope(low) >= 0:
        return math.exp(-low)
    if slope(high) <= 0:
        return math.exp(-high)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    return math.exp(-(low + high) / 2)


def calibrate(data: TuningData, method: str = "anchored", *, tuned: Tuned | None = None) -> Calibration:
    """Fit a temperature for a method's head on the labels that it is tuned on, each scored by heads of other folds.

    Their parameters are those of the head that is kept: they were chosen on these labels, which makes probabilities a
    little too sure. A method that is fitted on no label ("zero_shot") is scored as it is. Where no fold can be left
    out (one image per class), the temperature is 1, on 0 labels. The default head chooses the scale of its scores by
    log-loss, so it keeps a temperature of 1 unless another `is_better`. `tuned` is what `tune` gave for the same, if it
    is known already.

    Raises:
        ValueError: what `tune` refuses, or several labels per sample.

    Example:
        >>> labels = torch.arange(60) % 3
        >>> features = torch.eye(3)[labels] + 0.3 * torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
        >>> calibrate(tuning_data(features, labels)).labels
        60
    """
    if data.several:
        raise ValueError("a temperature calibrates one label per sample, got several")
    if method == "zero_shot":
        scores = (tuned or tune(data, method)).scores(data.features)
        return Calibration(fit_temperature(scores, data.labels), len(scores), "unseen")
    scores, labels = cross_fitted(data, method, tuned=tuned)
    if not len(labels):
        return Calibration(1.0, 0, "none")
    better = method not in OWN_SCALE or is_better(scores, labels)
    return Calibration(fit_temperature(scores, labels) if better else 1.0, len(labels), "cross-fitted")


def is_better(scores: Float[Tensor, "n k"], labels: Int[Tensor, " n"]) -> bool:
    """Whether a temperature lowers the log-loss of samples that it was not fitted on, by 1.5 standard errors.

    Five folds, as many of each class in each as that goes; each is scored by the temperature of the others.

    Example:
        >>> sure, labels = 20 * torch.eye(4)[torch.arange(40) % 4], torch.arange(40) % 4
        >>> labels[::5] = (labels[::5] + 1) % 4  # a fifth is wrong, at probabilities near 0
        >>> is_better(sure, labels), is_better(sure / 9, labels)
        (True, False)
    """
    if len(labels) < 2:
        return False
    numbers, gains = class_folds(labels, FOLDS, 0), torch.zeros(len(labels), dtype=torch.double)
    for fold in range(FOLDS):
        rows = numbers == fold
        if not bool(rows.any()) or bool(rows.all()):
            continue
        z, temperature = scores[rows].double(), fit_temperature(scores[~rows], labels[~rows])
        before, after = (F.cross_entropy(z / t, labels[rows], reduction="none") for t in (1.0, temperature))
        gains[rows] = before - after
    return float(gains.mean()) > ERRORS * float(gains.std()) / math.sqrt(len(gains))


def cross_fitted(
    data: TuningData, method: str, *, tuned: Tuned | None = None
) -> tuple[Float[Tensor, "m k"], Int[Tensor, " m"]]:
    """Return scores of validation rows by heads that were fitted on the other rows alone, and their labels.

    Their parameters are those that are chosen on all rows, so that scores are as sharp as those of the head that is
    kept; ELEVATER's search is done again in each fold. A class that a fold has no image of scores far below all others
    there, and its own rows are left out. A fold that leaves too few images for the method is left out, too.

    Example:
        >>> labels = torch.arange(12) % 3
        >>> scores, truth = cross_fitted(tuning_data(torch.eye(3)[labels], labels), "logistic")
        >>> scores.shape, len(truth)
        (torch.Size([12, 3]), 12)
    """
    fixed = None if method == "elevater" else (tuned or tune(data, method)).best_params
    columns, labels = [], []
    for fold in data.folds:
        present = torch.unique(data.labels[fold.train])
        rows = fold.validation[torch.isin(data.labels[fold.validation], present)]
        if len(present) < 2 or not len(rows):
            continue
        part = dataclasses.replace(_part(data, fold.train, present), fixed=fixed)
        try:
            scores = tune(part, method).scores(data.features[rows])
        except ValueError:  # too few images of some class for this method, of which all images are enough
            continue
        full = scores.min() - 1e6 + scores.new_zeros(len(rows), data.classes)
        full[:, present] = scores
        columns.append(full)
        labels.append(data.labels[rows])
    if not columns:
        return data.features.new_zeros(0, data.classes), data.labels[:0]
    return torch.cat(columns), torch.cat(labels)


def _part(data: TuningData, rows: Tensor, present: Tensor) -> TuningData:
    """Some rows as tuning data of their own, of the classes that they have."""
    weight = data.class_weight
    if isinstance(weight, tuple):
        weight = tuple(weight[number] for number in present.tolist())
    part = tuning_data(
        data.features[rows],
        torch.searchsorted(present, data.labels[rows]),
        class_embeddings=None if data.class_embeddings is None else data.class_embeddings[present],
        logit_scale=data.logit_scale,
        metric=data.metric,
    )
    return dataclasses.replace(part, class_weight=weight)
