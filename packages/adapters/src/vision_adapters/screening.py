"""How well a linear head would do on features, without training one: ridge regression, each sample left out once."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

if TYPE_CHECKING:
    from jaxtyping import Float, Int

__all__ = ["LeftOut", "leave_one_out"]

_PENALTIES = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
"""Shares of the features' mean variance."""


class LeftOut(NamedTuple):
    """`score` of the best `penalty`: accuracy for classes, mean R² for numbers; `outcomes` [n], right or squared error.

    Example:
        >>> LeftOut(0.75, 0.1, torch.tensor([1.0, 1.0, 1.0, 0.0])).outcomes.mean().item()
        0.75
    """

    score: float
    penalty: float
    outcomes: Float[Tensor, " n"]


def leave_one_out(features: Float[Tensor, "n d"], targets: Int[Tensor, " n"] | Float[Tensor, "n t"]) -> LeftOut:
    r"""Predict each sample from all others by ridge regression on standardised features, all at once.

    $\hat y_{-i} = (\hat y_i - h_i y_i) / (1 - h_i)$, with h the diagonal of the hat matrix; one eigendecomposition of
    the smaller of $X^T X$ and $X X^T$ serves all penalties.

    Args:
        features: of n >= 2 samples.
        targets: classes, integers; or numbers, of which each column counts alike.

    Raises:
        ValueError: lengths that differ, fewer than two samples, or one class only.

    Example:
        >>> x = torch.tensor([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]])
        >>> leave_one_out(x, torch.tensor([0, 0, 0, 1, 1, 1])).score
        1.0

    Source:
        Allen's PRESS, Technometrics 16, 1974; as in scikit-learn's `RidgeClassifierCV` without intercepts of its own.
    """
    if len(features) != len(targets) or len(features) < 2:
        raise ValueError(f"{len(features)} samples with {len(targets)} targets; expected the same, at least 2")
    classes = targets.ndim == 1
    if classes:
        names, labels = torch.unique(targets, return_inverse=True)
        if len(names) < 2:
            raise ValueError(f"one class only ({int(names[0])}): there is nothing to tell apart")
        outputs = torch.nn.functional.one_hot(labels).to(features.dtype)
    else:
        outputs = targets.to(features.dtype)
    x = features - features.mean(dim=0)
    x = x / x.std(dim=0, correction=0).clamp_min(1e-6)
    centre = outputs.mean(dim=0)
    y = outputs - centre
    values, basis = _spectrum(x)
    turned, squares, share = basis.T @ y, basis.square(), float(values.sum()) / max(1, min(x.shape))
    best: LeftOut | None = None
    for penalty in _PENALTIES:
        shrinkage = values / (values + penalty * share)
        leverage = (squares @ shrinkage + 1 / len(x)).clamp(max=1 - 1e-4)[:, None]
        predicted = (basis @ (shrinkage[:, None] * turned) - leverage * y) / (1 - leverage)
        if classes:
            outcomes = (predicted + centre).argmax(dim=1).eq(labels).to(x.dtype)
            score = float(outcomes.mean())
        else:
            outcomes = (predicted - y).square().mean(dim=1)
            errors = (predicted - y).square().mean(dim=0) / y.square().mean(dim=0).clamp_min(1e-12)
            score = float(1 - errors.mean())
        if best is None or score > best.score:
            best = LeftOut(score, penalty, outcomes)
    assert best is not None
    return best


def _spectrum(x: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues of the samples' products and their vectors ``[n, r]``, those that are not 0."""
    if x.shape[0] <= x.shape[1]:
        values, basis = torch.linalg.eigh(x @ x.T)
    else:
        values, vectors = torch.linalg.eigh(x.T @ x)
        basis = x @ vectors / values.clamp_min(1e-12).sqrt()
    positive = values > values.max() * 1e-6
    return values[positive], basis[:, positive]
