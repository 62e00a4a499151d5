"""Ridge regression on frozen features: numbers along a path of penalties, and each sample left out once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vision_adapters.tuning.logistic import without_own

PENALTIES = tuple(10.0 ** (exponent / 2) for exponent in range(-6, 9))
"""Of which validation chooses one, as shares of the number of samples."""
_SCREENED = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
"""Penalties of `leave_one_out`, as shares of the features' mean variance."""
_FLAT = 1e-6
"""Of a column's largest magnitude: one that varies by less holds nothing."""


@dataclass(frozen=True, eq=False)
class Ridge:
    """A linear regression on features as they come; penalties are shares of the number of samples."""

    weight: Float[Tensor, " d"]
    bias: float
    penalty: float
    path: tuple[tuple[float, float], ...] = field(default=())

    def predict(self, features: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """A number for each row."""
        return features.double().matmul(self.weight.double()).add(self.bias)


def fit_ridge(
    train: Float[Tensor, "n d"],
    targets: Float[Tensor, " n"],
    held: Float[Tensor, "m d"],
    held_targets: Float[Tensor, " m"],
    *,
    error: Callable[[Tensor, Tensor], float] | None = None,
) -> Ridge:
    r"""Ridge regression on standardised features and targets, its penalty chosen on validation, then fitted on both.

    $\min_w \frac1n \sum_i (y_i - x_i^\top w)^2 + \lambda \lVert w\rVert^2$ of standardised $x$ and $y$: the start is
    the targets' mean, however far from 0 that lies. `error` is better where it is lower; the mean squared error by
    default.
    """
    for name, rows, values in (("training", train, targets), ("validation", held, held_targets)):
        if rows.ndim != 2 or values.shape != rows.shape[:1] or not len(rows):
            raise ValueError(f"{name} features have shape {tuple(rows.shape)}, targets {tuple(values.shape)}")
        if not bool(torch.isfinite(rows).all() and torch.isfinite(values).all()):
            raise ValueError(f"{name} features or targets hold NaN or infinity")
    measure = error or (lambda predicted, truth: float((predicted - truth).square().mean()))
    solved = _Solved(train, targets)
    path = []
    for penalty in PENALTIES:
        fit = solved.at(penalty)
        path.append((penalty, measure(fit.predict(held), held_targets.double())))
    penalty = min(path, key=lambda row: row[1])[0]
    refit = _Solved(torch.cat([train, held]), torch.cat([targets, held_targets])).at(penalty)
    return Ridge(refit.weight, refit.bias, penalty, tuple(path))


class _Solved:
    """A decomposition of standardised features, for any penalty."""

    def __init__(self, features: Tensor, targets: Tensor) -> None:
        rows, values = features.double(), targets.double()
        self.mean, self.centre = rows.mean(dim=0), values.mean()
        spread, unit = rows.std(dim=0, correction=0), values.std(correction=0)
        flat = spread <= _FLAT * rows.abs().amax(dim=0)
        self.spread = torch.where(flat, torch.inf, spread)
        self.unit = unit if float(unit) > 0 else torch.ones_like(unit)
        basis, self.singular, self.right = torch.linalg.svd((rows - self.mean) / self.spread, full_matrices=False)
        self.turned = basis.T @ ((values - self.centre) / self.unit)
        self.count = len(rows)

    def at(self, penalty: float) -> Ridge:
        shrunk = self.singular / (self.singular.square() + penalty * self.count)
        weight = (self.right.T @ (shrunk * self.turned)) * self.unit / self.spread
        return Ridge(weight, float(self.centre - self.mean @ weight), penalty)


class LeftOut(NamedTuple):
    """Accuracy for classes, mean R² for numbers, at the best penalty; outcomes are right, or squared errors."""

    score: float
    penalty: float
    outcomes: Float[Tensor, " n"]


def leave_one_out(features: Float[Tensor, "n d"], targets: Int[Tensor, " n"] | Float[Tensor, "n t"]) -> LeftOut:
    r"""Predict each sample from all others by ridge regression on standardised features, all at once.

    $\hat y_{-i} = (\hat y_i - h_i y_i) / (1 - h_i)$, with h the diagonal of the hat matrix; one eigendecomposition of
    the smaller of $X^T X$ and $X X^T$ serves all penalties. Targets are classes, integers; or numbers, of which each
    column counts alike.

    A column of numbers that never vary is not counted: nothing can be learnt of it. Without any other, the score is 0.

    Raises:
        ValueError: other numbers of samples and targets, fewer than 2, one class only, or NaN or infinity.

    Source: Allen's PRESS, Technometrics 16, 1974; as in scikit-learn's `RidgeClassifierCV` without intercepts of its
    own.
    """
    if len(features) != len(targets) or len(features) < 2:
        raise ValueError(f"{len(features)} samples with {len(targets)} targets; expected the same, at least 2")
    features = features.float() if features.dtype in (torch.float16, torch.bfloat16) else features
    classes = targets.ndim == 1
    if classes:
        names, labels = torch.unique(targets, return_inverse=True)
        if len(names) < 2:
            raise ValueError(f"one class only ({int(names[0])}): there is nothing to tell apart")
        outputs = torch.nn.functional.one_hot(labels).to(features.dtype)
    else:
        outputs = targets.to(features.dtype)
    x = features - features[0]  # exact for equal values: a mean of float32 is not
    x = x - x.mean(dim=0)
    spread = x.std(dim=0, correction=0)
    varies = spread > _FLAT * features.abs().amax(dim=0)
    x = x[:, varies] / spread[varies] if bool(varies.any()) else torch.zeros_like(x[:, :1])
    for name, rows in (("features", features), ("targets", outputs)):
        if not bool(torch.isfinite(rows).all()):
            raise ValueError(f"{name} hold NaN or infinity")
    centre = outputs.mean(dim=0)
    y = outputs - centre
    varied = y.square().mean(dim=0).sqrt() > _FLAT * outputs.abs().amax(dim=0)
    values, basis = _spectrum(x)
    turned, squares, share = basis.T @ y, basis.square(), float(values.sum()) / max(1, min(x.shape))
    best: LeftOut | None = None
    for penalty in _SCREENED:
        shrinkage = values / (values + penalty * share)
        leverage = (squares @ shrinkage + 1 / len(x))[:, None]
        predicted = without_own(basis @ (shrinkage[:, None] * turned), leverage, y)
        if classes:
            outcomes = (predicted + centre).argmax(dim=1).eq(labels).to(x.dtype)
            score = float(outcomes.mean())
        else:
            outcomes = (predicted - y).square().mean(dim=1)
            errors = (predicted - y).square().mean(dim=0) / y.square().mean(dim=0).clamp_min(1e-12)
            score = float(1 - errors[varied].mean()) if bool(varied.any()) else 0.0
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
