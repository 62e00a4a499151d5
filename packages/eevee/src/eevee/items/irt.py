"""Item response theory with two parameters: what each item asks for, and how able each model is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Float

ROUNDS = 40
SETTLED = 1e-4
STEPS = 4
LARGEST = 6.0
FEW = 15
"""Models with which the priors' beginning counts as much as all items: few models make the items' spread too large."""


@dataclass(frozen=True, eq=False)
class Irt:
    r"""$P(\text{model } i \text{ gets item } j \text{ right}) = \sigma(a_j \theta_i + d_j)$."""

    slope: Float[np.ndarray, " items"]
    offset: Float[np.ndarray, " items"]
    ability: Float[np.ndarray, " models"]

    def probability(self, ability: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n items"]:
        """Chance of each item for models of these abilities."""
        return sigmoid(np.multiply.outer(ability, self.slope) + self.offset)


def sigmoid(x: np.ndarray) -> np.ndarray:
    """The logistic function, without overflow."""
    return np.asarray(0.5 * (1 + np.tanh(0.5 * x)))


def fit_irt(values: Float[np.ndarray, "models items"]) -> Irt:
    """Fit abilities, slopes and offsets to the most probable values, by turns.

    Numerics: float64; Newton's method for every item at once given the abilities, then for every model given the items,
        until no ability moves by 1e-4. Priors: abilities N(0, 1); slopes and offsets normal, with the mean and variance
        of all items (an EM step after each turn by the curvature), averaged with N(1, 1) and N(0, 9), which weigh
        the more the fewer the models). Without priors an item that all models solve would have no finite offset; with
        fixed ones sharp items are taken for dull.

    Source: Birnbaum's two-parameter logistic model (1968); the joint fit by turns is textbook maximum a posteriori, its
        priors empirical Bayes.
    """
    measured = ~np.isnan(values)
    y, mask = np.where(measured, values, 0.0), measured.astype(np.float64)
    share = y.sum(1) / mask.sum(1)
    ability = _standard(np.log((share + 0.02) / (1.02 - share)))
    slope = np.ones(values.shape[1])
    rate = (y.sum(0) + 1) / (mask.sum(0) + 2)
    offset = np.log(rate / (1 - rate))
    prior = _Prior(np.array([1.0, 0.0]), np.array([1.0, 9.0]))
    for _ in range(ROUNDS):
        slope, offset, prior = _fit_items(y, mask, ability, slope, offset, prior)
        new = _standard(fit_abilities(y, mask, slope, offset, ability))
        moved = float(np.abs(new - ability).max())
        ability = new
        if moved < SETTLED:
            break
    slope, offset, _ = _fit_items(y, mask, ability, slope, offset, prior)
    return Irt(slope, offset, ability)


def information(
    ability: Float[np.ndarray, " models"],
    mask: Float[np.ndarray, "models items"],
    slope: Float[np.ndarray, " items"],
    offset: Float[np.ndarray, " items"],
) -> Float[np.ndarray, " models"]:
    """Fisher's of the items that each model has, about its ability."""
    p = sigmoid(np.multiply.outer(ability, slope) + offset)
    return np.asarray((p * (1 - p) * mask) @ slope**2)


def fit_abilities(
    y: Float[np.ndarray, "models items"],
    mask: Float[np.ndarray, "models items"],
    slope: Float[np.ndarray, " items"],
    offset: Float[np.ndarray, " items"],
    start: Float[np.ndarray, " models"] | None = None,
) -> Float[np.ndarray, " models"]:
    """Most probable abilities of models from their outcomes, with the prior N(0, 1)."""
    ability = np.zeros(len(y)) if start is None else start.copy()
    for _ in range(STEPS if start is not None else 5 * STEPS):
        p = sigmoid(np.multiply.outer(ability, slope) + offset)
        gradient = ((y - p) * mask) @ slope - ability
        curvature = (p * (1 - p) * mask) @ slope**2 + 1
        ability = np.clip(ability + np.clip(gradient / curvature, -1, 1), -LARGEST, LARGEST)
    return ability


class _Prior(NamedTuple):
    """Of items' slopes and offsets: means and variances."""

    mean: Float[np.ndarray, " two"]
    variance: Float[np.ndarray, " two"]


def _fit_items(
    y: np.ndarray, mask: np.ndarray, ability: np.ndarray, slope: np.ndarray, offset: np.ndarray, prior: _Prior
) -> tuple[np.ndarray, np.ndarray, _Prior]:
    """Slopes and offsets given the abilities, and the prior that all of them tell."""
    (m1, m0), (v1, v0) = prior
    for _ in range(STEPS):
        p = sigmoid(np.multiply.outer(ability, slope) + offset)
        off = (y - p) * mask
        weight = p * (1 - p) * mask
        g1, g0 = ability @ off - (slope - m1) / v1, off.sum(0) - (offset - m0) / v0
        h11, h01, h00 = ability**2 @ weight + 1 / v1, ability @ weight, weight.sum(0) + 1 / v0
        determinant = h11 * h00 - h01**2
        slope = np.clip(slope + np.clip((h00 * g1 - h01 * g0) / determinant, -1, 1), -LARGEST, LARGEST)
        offset = np.clip(offset + np.clip((h11 * g0 - h01 * g1) / determinant, -2, 2), -3 * LARGEST, 3 * LARGEST)
    items, start = np.stack([slope, offset], axis=1), np.array([1.0, 0.0])
    unsure = np.stack([h00, h11], axis=1) / determinant[:, None]
    anchored = len(items) * (FEW / len(y)) ** 2
    count = len(items) + anchored
    mean = (items.sum(0) + anchored * start) / count
    square = ((items - mean) ** 2 + unsure).sum(0) + anchored * (np.array([1.0, 9.0]) + (start - mean) ** 2)
    return slope, offset, _Prior(mean, square / count)


def _standard(ability: np.ndarray) -> np.ndarray:
    return np.asarray((ability - ability.mean()) / max(float(ability.std()), 1e-6))
