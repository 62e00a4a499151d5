"""Discriminants with a ridge: heads for few images without texts that no rotation of the features changes."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from vision_adapters.tuning.unit_features import class_means

RIDGES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Ridges, in traces of the within-class covariance."""
PUBLISHED_RIDGE = 1.0
DISCRIMINANT_SCALES = (2.0, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0)
"""Factors of a discriminant's scores, among which log-loss chooses."""
REGRESSION_SCALES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
"""Factors of a regression's scores: a strong penalty leaves them too small for probabilities."""
FINE_FACTORS: tuple[float, ...] = tuple(2.0 ** (step / 5) for step in range(-4, 5))
"""Factors around the best one given: a factor that is off by the root of two shows in the calibration error."""
REGRESSION_STRENGTHS = (1.0, 0.3, 0.1)
"""Penalties of the regression that a discriminant is averaged with, times the classes."""
MIXED_UP_TO = 10
"""Images per class up to which the average with a regression is tried."""
CACHED_FROM = 10
"""Images per class from which a cache is tried without texts: of fewer it follows single images."""
UNVALIDATED_STRENGTH = 1.0
"""Penalty, times the classes, of the regression that is taken if nothing can be validated: scikit-learn's ``C = 1``."""
GAIN_IN_ERRORS = 1.5
"""Standard errors of the paired log-loss, or of the paired hits, by which another candidate must be ahead."""


class Linear(NamedTuple):
    """Class scores ``x @ weight.T + bias``."""

    weight: Float[Tensor, "k d"]
    bias: Float[Tensor, " k"]

    def scores(self, features: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
        """Return the class scores of some features."""
        return features @ self.weight.T + self.bias

    def length(self) -> float:
        """Return the length of all class weights less their mean: how far scores differ."""
        return float((self.weight - self.weight.mean(0)).norm())


class RidgeDiscriminant:
    r"""A linear discriminant whose covariance gets a multiple of its trace, with equal priors.

    With $Z$ the features less their class's mean and $t = \lVert Z \rVert^2 / (n - 1)$, class weights are
    $w_c = t (Z^\top Z + r\,t\,I)^{-1} \mu_c$ and biases $-\mu_c \cdot w_c / 2$. One decomposition serves all ridges r.
    With one image per class $Z$ is 0, and the head is that of the nearest mean.

    Args:
        features: [n, d], at length 1.
        member: [n, k], 1 where a sample has the class.
        weights: [n], `TuningData.effective_weights`; None where each sample counts 1.

    Source: the closed form of Wang et al. (ICLR 2024), there with r = 1; other ridges are ours.
    """

    def __init__(
        self,
        features: Float[Tensor, "n d"],
        member: Float[Tensor, "n k"],
        weights: Float[Tensor, " n"] | None = None,
    ) -> None:
        self.means = class_means(features, member, weights)
        centred = (features - member @ self.means).double()
        samples = float(len(features))
        if weights is not None:
            centred = centred * weights.double().sqrt()[:, None]
            samples = float(weights.sum())
        self.trace = float(centred.square().sum()) / max(samples - 1, 1)
        if len(centred) < centred.shape[1]:
            values, left = torch.linalg.eigh(centred @ centred.T)
            held = values > 1e-10 * values.max().clamp_min(1e-300)
            self.values = values[held]
            self.axes = (centred.T @ left[:, held]) / self.values.sqrt()
        else:
            self.values, self.axes = torch.linalg.eigh(centred.T @ centred)

    def head(self, ridge: float) -> Linear:
        """Return class weights [k, d] and biases [k] at a ridge."""
        means = self.means.double()
        if self.trace <= 1e-12:
            weight = means
        else:
            added = ridge * self.trace
            along = means @ self.axes
            outside = (means - along @ self.axes.T) / added
            weight = self.trace * (along / (self.values + added) @ self.axes.T + outside)
        return Linear(weight.to(self.means), (-0.5 * (means * weight).sum(1)).to(self.means))
