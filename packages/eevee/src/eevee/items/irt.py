"""Item response theory with two parameters: what each item asks for, and how able each model is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Float

ROUNDS = 40
SETTLED = 1e-4
STEPS = 4
LARGEST = 6.0


@dataclass(frozen=True, eq=False)
class Irt:
    r"""$P(\text{model } i \text{ gets item } j \text{ right}) = \sigma(a_j \theta_i + d_j)$.

    Args:
        slope: $a_j$, how sharply an item tells able from unable models.
        offset: $d_j$; the item's difficulty is $-d_j / a_j$.
        ability: $\theta_i$ of the models that were fitted, mean zero and deviation one.
    """

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

    Args:
        values: outcomes in 0 to 1; NaN where not measured.

    Numerics: float64; Newton's method for every item at once given the abilities, then for every model given the items,
        until no ability moves by 1e-4. Priors: abilities N(0, 1), slopes N(1, 1), offsets N(0, 3); without them an item
        that all models solve would have no finite offset.

    Example:
        >>> generator = np.random.default_rng(0)
        >>> able = generator.normal(size=40)
        >>> chance = sigmoid(np.multiply.outer(able, np.full(300, 1.5)) + generator.normal(size=300))
        >>> fit = fit_irt((generator.random(chance.shape) < chance).astype(float))
        >>> bool(np.corrcoef(fit.ability, able)[0, 1] > 0.98)
        True

    Source: Birnbaum's two-parameter logistic model (1968); the joint fit by turns is textbook maximum a posteriori.
    """
    measured = ~np.isnan(values)
    y, mask = np.where(measured, values, 0.0), measured.astype(np.float64)
    share = y.sum(1) / mask.sum(1)
    ability = _standard(np.log((share + 0.02) / (1.02 - share)))
    slope = np.ones(values.shape[1])
    rate = (y.sum(0) + 1) / (mask.sum(0) + 2)
    offset = np.log(rate / (1 - rate))
    for _ in range(ROUNDS):
        slope, offset = _fit_items(y, mask, ability, slope, offset)
        new = fit_abilities(y, mask, slope, offset, ability)
        new = _standard(new)
        moved = float(np.abs(new - ability).max())
        ability = new
        if moved < SETTLED:
            break
    slope, offset = _fit_items(y, mask, ability, slope, offset)
    return Irt(slope, offset, ability)


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


def _fit_items(
    y: np.ndarray, mask: np.ndarray, ability: np.ndarray, slope: np.ndarray, offset: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    for _ in range(STEPS):
        p = sigmoid(np.multiply.outer(ability, slope) + offset)
        off = (y - p) * mask
        weight = p * (1 - p) * mask
        g1, g0 = ability @ off - (slope - 1), off.sum(0) - offset / 9
        h11, h01, h00 = ability**2 @ weight + 1, ability @ weight, weight.sum(0) + 1 / 9
        determinant = h11 * h00 - h01**2
        slope = np.clip(slope + np.clip((h00 * g1 - h01 * g0) / determinant, -1, 1), -LARGEST, LARGEST)
        offset = np.clip(offset + np.clip((h11 * g0 - h01 * g1) / determinant, -2, 2), -3 * LARGEST, 3 * LARGEST)
    return slope, offset


def _standard(ability: np.ndarray) -> np.ndarray:
    return np.asarray((ability - ability.mean()) / max(float(ability.std()), 1e-6))
