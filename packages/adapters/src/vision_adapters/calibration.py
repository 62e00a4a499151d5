"""Probabilities that mean something: a temperature, a uniform share, and on how many labels they rest."""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vision_adapters.tuning.data import Tuned, TuningData, tuning_data
from vision_adapters.tuning.methods import tune

__all__ = ["Calibration", "calibrate", "cross_fitted", "fit_softmax_map", "fit_temperature"]

PRIOR = 1.0
"""Labels, spread over each sample's two best classes, that a temperature is fitted with besides: few labels that are
all hit would ask for certainty. Spread over all classes it would flatten scores that are very low for many of them."""
RATIO = 10.83
"""Twice the log-likelihood that each further parameter must gain: a likelihood-ratio test at 0.001. Heads of the folds
are not the head that is kept, so that small gains on their scores mean little."""
OWN_SCALE = ("anchored",)
"""Methods whose heads choose the scale of their scores by log-loss."""
ENDS = -10.0, 10.0
"""Of the logarithm of 1 / temperature."""
SHARES = (1e-4, 3e-4, 1e-3, 2e-3, 3e-3, 5e-3, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2)
"""Uniform shares that are tried."""
COARSE, FINE = 0.4, 0.05
"""Steps of log(1 / temperature) that are tried with a uniform share, which makes it larger."""


class SoftmaxMap(NamedTuple):
    r"""A map from scores to probabilities: $(1 - u)\operatorname{softmax}(z / T) + u / k$.

    Example:
        >>> SoftmaxMap(1.0, 0.5).probabilities(torch.zeros(1, 2)).tolist()
        [[0.5, 0.5]]
    """

    temperature: float = 1.0
    uniform: float = 0.0

    def probabilities(self, scores: Float[Tensor, "n k"]) -> Float[Tensor, "n k"]:
        """Return the probabilities of scores."""
        return (1 - self.uniform) * (scores / self.temperature).softmax(1) + self.uniform / scores.shape[1]


class Calibration(NamedTuple):
    """A temperature, how many labels it was fitted on, and whether the head had seen them.

    `how` is "cross-fitted": heads of the other folds scored them; "unseen": the head was not fitted on them; or "none".
    `uniform` is the share that all classes have alike, for heads that are sure and wrong now and then; mostly 0.

    Example:
        >>> print(Calibration(2.0, 40, "unseen"))
        probabilities rest on 40 labels (unseen), temperature 2
    """

    temperature: float
    labels: int
    how: str
    uniform: float = 0.0

    def probabilities(self, scores: Float[Tensor, "n k"]) -> Float[Tensor, "n k"]:
        """Return the calibrated probabilities of scores."""
        return SoftmaxMap(self.temperature, self.uniform).probabilities(scores)

    def __str__(self) -> str:
        """Say on how many labels the probabilities rest."""
        if not self.labels:
            return "probabilities are not calibrated: no label was left to fit a temperature on"
        share = f", uniform share {self.uniform:.2g}" if self.uniform else ""
        return f"probabilities rest on {self.labels:,} labels ({self.how}), temperature {self.temperature:.3g}{share}"


def fit_temperature(scores: Float[Tensor, "n k"], labels: Int[Tensor, " n"], *, prior: float = PRIOR) -> float:
    r"""Return the temperature T at which the softmax of scores / T has the least log-loss.

    The loss is convex in 1/T, whose derivative is halved down to its zero; T lies between e^-10 and e^10.

    Args:
        scores: [n, k] of samples that the head was not fitted on.
        labels: their classes.
        prior: each label counts as n of n + `prior` labels, the rest being spread over the two best classes, as Platt
            has it for two; 0 for the temperature of scikit-learn's `CalibratedClassifierCV(method="temperature")`.

    Raises:
        ValueError: no sample, scores that are not finite, labels that are not their classes, or a prior below 0.

    Example:
        >>> scores = torch.tensor([[4.0, 0.0]]).repeat(100, 1)
        >>> labels = (torch.arange(100) < 20).long()  # 80 % are of class 0, the scores give it 98 %
        >>> round(4 / fit_temperature(scores, labels, prior=0), 3), round(math.log(0.8 / 0.2), 3)
        (1.386, 1.386)

    Source:
        Guo et al., On calibration of modern neural networks (2017); Platt (1999) for the prior.
    """
    z, y = _checked(scores, labels)
    if not 0 <= prior < math.inf:
        raise ValueError(f"prior must be at least 0 and finite, got {prior}")
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


def _checked(scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Scores in double precision, the best of each row being 0, and their labels."""
    z, y = scores.double(), labels.long()
    if z.ndim != 2 or y.shape != z.shape[:1] or len(z) == 0:
        raise ValueError(f"scores have shape {tuple(z.shape)}, labels {tuple(y.shape)}; expected [n, k] and [n], n > 0")
    if not bool(z.isfinite().all()):
        raise ValueError(f"scores: row {int((~z.isfinite()).any(1).nonzero()[0])} holds NaN or infinity")
    if bool((labels.double() != y.double()).any()):
        raise ValueError(f"labels must be whole numbers, got {labels.tolist()[:8]}")
    if bool((y < 0).any()) or bool((y >= z.shape[1]).any()):
        raise ValueError(f"labels must lie in 0..{z.shape[1] - 1}, got {int(y.min())} to {int(y.max())}")
    return z - z.max(1, keepdim=True).values, y


def fit_softmax_map(scores: Float[Tensor, "n k"], labels: Int[Tensor, " n"], *, own_scale: bool = False) -> SoftmaxMap:
    r"""Return a temperature and, if it pays, a uniform share.

    Heads that are sure and wrong now and then keep a temperature high that all other scores want low. The uniform share
    u of $(1 - u)\operatorname{softmax}(z / T) + u / k$ takes those few. It is 0 unless twice the log-likelihood gains
    10.83 by it, which 1 in 1,000 useless parameters would. `fit_temperature`'s prior counts here, too.

    Args:
        scores: [n, k] of samples that the head was not fitted on.
        labels: their classes.
        own_scale: whether the head chose its scale by log-loss: then the temperature, too, has to gain that much.

    Raises:
        ValueError: as `fit_temperature`.

    Example:
        >>> labels = torch.arange(500) % 5
        >>> scores = 3.0 * torch.eye(5)[labels]
        >>> scores[::50] = -40.0 * torch.eye(5)[labels[::50]]  # one in fifty is surely wrong
        >>> fitted = fit_softmax_map(scores, labels)
        >>> fitted.temperature < 1, fitted.uniform > 0, fit_temperature(scores, labels) > 1
        (True, True, True)

    Source: ours; a mixture with the uniform distribution is the usual model of labels that are wrong at random.
    """
    z, y = _checked(scores, labels)
    temperature = fit_temperature(scores, labels)
    rows = torch.arange(len(z))
    best_two = z.topk(min(2, z.shape[1])).indices

    def loss(sharpness: float, shares: Tensor) -> Tensor:
        """Twice the negative log-likelihood of all labels and the prior's, at each share."""
        p = (sharpness * z).softmax(1)
        logs = [((1 - shares) * own[:, None] + shares / z.shape[1]).clamp_min(1e-300).log()
                for own in (p[rows, y], p.gather(1, best_two).flatten())]  # fmt: skip
        total: Tensor = -2 * (logs[0].sum(0) + PRIOR * logs[1].mean(0))
        return total

    none = torch.zeros(1, dtype=torch.double)
    fits = [(float(loss(1.0, none)), SoftmaxMap())] if own_scale else []
    fits.append((float(loss(1 / temperature, none)) + RATIO * own_scale, SoftmaxMap(temperature)))
    shares = torch.tensor(SHARES, dtype=torch.double)
    centre = -math.log(temperature)
    for step, steps in ((COARSE, range(math.ceil((ENDS[1] - centre) / COARSE))), (FINE, range(-7, 8))):
        tried = []
        for log_sharpness in (centre + step * number for number in steps):
            losses = loss(math.exp(log_sharpness), shares)
            share = int(losses.argmin())
            tried.append((float(losses[share]), log_sharpness, SHARES[share]))
        total, centre, uniform = min(tried, default=(math.inf, centre, 0.0))
    fits.append((total + RATIO * (1 + own_scale), SoftmaxMap(math.exp(-centre), uniform)))
    return min(fits, key=lambda fit: fit[0])[1]


def calibrate(data: TuningData, method: str = "anchored", *, tuned: Tuned | None = None) -> Calibration:
    """Fit a temperature for a method's head on the labels that it is tuned on, each scored by heads of other folds.

    Their parameters are those of the head that is kept: they were chosen on these labels, which makes probabilities a
    little too sure. A method that is fitted on no label ("zero_shot") is scored as it is. Where no fold can be left
    out (one image per class), the temperature is 1, on 0 labels. The default head chooses the scale of its scores by
    log-loss, so it keeps a temperature of 1 unless another passes the test of `fit_softmax_map`. `tuned` is what
    `tune` gave for the same, if it is known already.

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
        return _of(fit_softmax_map(scores, data.labels), len(scores), "unseen")
    scores, labels = cross_fitted(data, method, tuned=tuned)
    if not len(labels):
        return Calibration(1.0, 0, "none")
    return _of(fit_softmax_map(scores, labels, own_scale=method in OWN_SCALE), len(labels), "cross-fitted")


def _of(fitted: SoftmaxMap, labels: int, how: str) -> Calibration:
    return Calibration(fitted.temperature, labels, how, fitted.uniform)


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
    own = None if data.sample_weight is None else data.sample_weight[rows]
    return dataclasses.replace(part, class_weight=weight, sample_weight=own)
