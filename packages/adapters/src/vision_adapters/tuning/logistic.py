"""Ridge logistic regression, free or around fixed scores, solved by preconditioned L-BFGS along a path of penalties."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtyping import Float
    from torch import Tensor

MEMORY = 8


class RidgeLogistic:
    r"""Ridge: $\frac1n\sum_i \ell(A_i + \Delta z_i, y_i) + \frac12\sum_c \lambda_c \lVert\Delta_c\rVert^2$ in $\Delta$.

    The features are rotated onto the eigenvectors of their second moments, which changes neither the loss nor the
    penalty; there, the curvature is close to diagonal, and L-BFGS starts from that diagonal. With fewer samples than
    features, only as many directions as samples are kept, for the solution lies in their span.

    Args:
        z: features [n, d]; a column of ones for a bias is the caller's business.
        targets: 0/1 [n, k]; rows that sum to 1 for the softmax.
        several: True for a sigmoid per label instead of a softmax over classes.
        anchor: fixed scores [n, k] to which the features' are added; none by default.

    Numerics:
        Works in the features' precision; second moments are formed in float64.
    """

    def __init__(
        self,
        z: Float[Tensor, "n d"],
        targets: Float[Tensor, "n k"],
        *,
        several: bool,
        anchor: Float[Tensor, "n k"] | None = None,
    ) -> None:
        n, d = z.shape
        wide = z.double()
        if n < d:
            values, vectors = torch.linalg.eigh(wide @ wide.T)
            keep = values > values[-1] * 1e-10
            vectors = wide.T @ (vectors[:, keep] / values[keep].sqrt())
        else:
            values, vectors = torch.linalg.eigh(wide.T @ wide)
            keep = values > values[-1] * 1e-12
            vectors = vectors[:, keep]
        self.rotation = vectors.to(z.dtype)  # [d, r]
        self.moments = (values[keep] / n).to(z.dtype)  # [r]
        self.z = z @ self.rotation
        self.targets, self.several = targets, several
        self.anchor = torch.zeros_like(targets) if anchor is None else anchor

    def around(self, anchor: Float[Tensor, "n k"]) -> RidgeLogistic:
        """The same regression around other fixed scores; the rotation is shared."""
        other = copy.copy(self)
        other.anchor = anchor
        return other

    def start(self) -> Float[Tensor, "k r"]:
        """No change from the anchor."""
        zeros: Tensor = self.z.new_zeros(self.targets.shape[1], self.z.shape[1])
        return zeros

    def evaluate(self, delta: Float[Tensor, "k r"], penalty: Float[Tensor, "k 1"]) -> tuple[float, Tensor, Tensor]:
        """The objective, its gradient and the inverse of its approximate curvature."""
        scores = torch.addmm(self.anchor, self.z, delta.T)
        n = len(scores)
        if self.several:
            loss = F.binary_cross_entropy_with_logits(scores, self.targets, reduction="sum") / n
            p = scores.sigmoid_()
        else:
            own = (scores * self.targets).sum()
            top = scores.max(1, keepdim=True).values
            p = scores.sub_(top).exp_()
            total = p.sum(1, keepdim=True)
            loss = (total.log().sum() + top.sum() - own) / n
            p.div_(total)
        spread = (p.mean() - p.square().mean()).clamp_min(1e-7)
        inverse = (self.moments * spread + penalty).reciprocal_()
        gradient = torch.addmm(delta * penalty, p.sub_(self.targets).T, self.z, alpha=1 / n)
        return float(loss + 0.5 * (penalty * delta.square()).sum()), gradient, inverse

    def solve(
        self, penalty: float | Float[Tensor, " k"], delta: Tensor, *, steps: int = 30, tolerance: float = 1e-3
    ) -> Float[Tensor, "k r"]:
        r"""Minimise from `delta` until a full step would move it by less than `tolerance` of its size.

        Args:
            penalty: lambda > 0, one or one per class.
            delta: where to start, for example the solution at the penalty before.
            steps: at most so many iterations.
            tolerance: relative; a path needs directions of change, not digits.
        """
        each = torch.as_tensor(penalty, dtype=delta.dtype, device=delta.device).expand(len(delta))[:, None]
        return lbfgs(lambda x: self.evaluate(x, each), delta, steps=steps, tolerance=tolerance)

    def unrotated(self, delta: Float[Tensor, "k r"]) -> Float[Tensor, "k d"]:
        """The same weights on the features as they were given."""
        weights: Tensor = delta @ self.rotation.T
        return weights


def lbfgs(
    function: Callable[[Tensor], tuple[float, Tensor, Tensor]], x: Tensor, *, steps: int, tolerance: float
) -> Tensor:
    """Minimise a smooth convex function by L-BFGS with a diagonal start and backtracking.

    Source:
        Nocedal and Wright, Numerical Optimization, algorithms 7.4 and 7.5 with an Armijo search.
    """
    value, gradient, scale = function(x)
    pairs: list[tuple[Tensor, Tensor, float]] = []
    for _ in range(steps):
        direction = gradient.clone()
        kept = []
        for s, y, curvature in reversed(pairs):
            a = float((s * direction).sum()) / curvature
            direction.sub_(y, alpha=a)
            kept.append(a)
        direction.mul_(scale)
        for (s, y, curvature), a in zip(pairs, reversed(kept), strict=True):
            direction.add_(s, alpha=a - float((y * direction).sum()) / curvature)
        slope = float((gradient * direction).sum())
        if slope <= 0 or float(direction.norm()) <= tolerance * max(float(x.norm()), 1e-3):
            break
        length = 1.0
        while True:
            trial = torch.sub(x, direction, alpha=length)
            trial_value, trial_gradient, trial_scale = function(trial)
            if trial_value <= value - 1e-4 * length * slope or length < 1e-4:
                break
            length *= 0.5
        if trial_value > value:  # no progress within the working precision
            break
        s, y = trial - x, trial_gradient - gradient
        curvature = float((s * y).sum())
        if curvature > 1e-10 * float(s.norm()) * float(y.norm()):
            pairs = [*pairs[-(MEMORY - 1) :], (s, y, curvature)]
        x, value, gradient, scale = trial, trial_value, trial_gradient, trial_scale
    return x
