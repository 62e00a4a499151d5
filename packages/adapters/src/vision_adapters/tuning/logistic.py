"""Ridge logistic regressions, many at once: penalties and folds of one decomposed matrix, by preconditioned L-BFGS."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

MEMORY = 8
STEPS = 40
TOLERANCE = 1e-3
_LARGEST_LEVERAGE = 1 - 1e-4


def without_own(fitted: Float[Tensor, "*n k"], leverage: Float[Tensor, "*n 1"], y: Float[Tensor, "*n k"]) -> Tensor:
    r"""$\hat y_{-i} = (\hat y_i - h_i y_i) / (1 - h_i)$: what a regression of all other samples predicts of each."""
    leverage = leverage.clamp(max=_LARGEST_LEVERAGE)
    return (fitted - leverage * y) / (1 - leverage)


class RidgeLogistic:
    r"""Ridge: $\sum_i w_i\, \ell(A_i + \Delta z_i, y_i) + \frac\lambda2 \lVert\Delta\rVert^2$ in $\Delta$, per fold.

    The features are rotated onto the eigenvectors of their second moments (formed in float64), which changes neither
    the loss nor the penalty; there, the curvature is close to diagonal, and L-BFGS starts from that diagonal, so that
    its first step is the ridge regression of the labels at every penalty. With fewer samples than features, only as
    many directions as samples are there, for the solution lies in their span.

    Of features z [n, d] (with a column of ones for a bias) and 0/1 targets [n, k], a softmax over classes or `several`
    sigmoids; `anchor` [n, k] are fixed scores, `weights` [f, n] those of the samples in each fold, each row of sum 1.
    """

    def __init__(
        self,
        z: Float[Tensor, "n d"],
        targets: Float[Tensor, "n k"],
        *,
        several: bool,
        anchor: Float[Tensor, "n k"] | None = None,
        weights: Float[Tensor, "f n"] | None = None,
    ) -> None:
        n, d = z.shape
        wide = z.double()
        if n < d:
            values, vectors = torch.linalg.eigh(wide @ wide.T)
            positive = values > values[-1] * 1e-10
            vectors = wide.T @ (vectors[:, positive] / values[positive].sqrt())
        else:
            values, vectors = torch.linalg.eigh(wide.T @ wide)
            positive = values > values[-1] * 1e-12
            vectors = vectors[:, positive]
        self.rotation = vectors.to(z.dtype)  # [d, r]
        self.moments = (values[positive] / n).to(z.dtype)  # [r]
        self.z = z @ self.rotation
        self.targets, self.several = targets, several
        self.own = targets.argmax(1)[:, None, None]  # [n, 1, 1]: the classes of samples that have one
        self.weights = z.new_full((1, n), 1 / n) if weights is None else weights
        self.anchors = None if anchor is None else anchor[None]

    def around(self, anchors: Float[Tensor, "f n k"]) -> RidgeLogistic:
        """The same regressions around fixed scores, each fold around its own; the rotation is shared."""
        anchored = copy.copy(self)
        anchored.anchors = anchors
        return anchored

    def evaluate(
        self, delta: Float[Tensor, "b k r"], penalties: Float[Tensor, " b"], folds: Int[Tensor, " b"]
    ) -> tuple[Float[Tensor, " b"], Float[Tensor, "b k r"], Float[Tensor, "b 1 r"]]:
        """The objectives, their gradients and the inverses of their approximate curvatures."""
        return self._evaluate(delta, penalties, *self._of(folds))

    def _of(self, folds: Int[Tensor, " b"]) -> tuple[Float[Tensor, "n b"], Float[Tensor, "n b k"] | None]:
        """Weights and anchors of some problems."""
        return self.weights[folds].T, None if self.anchors is None else self.anchors[folds].transpose(0, 1)

    def _evaluate(
        self,
        delta: Float[Tensor, "b k r"],
        penalties: Float[Tensor, " b"],
        weights: Float[Tensor, "n b"],
        anchors: Float[Tensor, "n b k"] | None,
    ) -> tuple[Float[Tensor, " b"], Float[Tensor, "b k r"], Float[Tensor, "b 1 r"]]:
        """Evaluate with the weights and anchors of the problems at hand."""
        problems, k, r = delta.shape
        scores = (self.z @ delta.reshape(problems * k, r).T).view(-1, problems, k)
        if anchors is not None:
            scores += anchors
        if self.several:
            loss = (F.softplus(scores) - scores * self.targets[:, None]).sum(2)
            p = scores.sigmoid_()
        else:
            true_scores = scores.gather(2, self.own.expand(-1, problems, 1)).squeeze(2)
            top = scores.amax(2, keepdim=True)
            p = scores.sub_(top).exp_()
            total = p.sum(2, keepdim=True)
            loss = total.log().add_(top).squeeze(2) - true_scores
            p.div_(total)
        values = (weights * loss).sum(0) + 0.5 * penalties * delta.square().sum((1, 2))
        squares = torch.linalg.vector_norm(p, dim=2).square_()
        sums = p.sum(2) if self.several else 1.0
        spread = (torch.rsub(squares, sums) * weights).sum(0).div_(k).clamp_min_(1e-7)
        inverse = (self.moments * spread[:, None] + penalties[:, None]).reciprocal_()
        residual = p.sub_(self.targets[:, None]).mul_(weights[:, :, None]).view(-1, problems * k)
        gradient = (residual.T @ self.z).view(problems, k, r).add_(delta * penalties[:, None, None])
        return values, gradient, inverse[:, None]

    def solve(
        self,
        penalties: Float[Tensor, " b"],
        folds: Int[Tensor, " b"] | None = None,
        start: Float[Tensor, "b k r"] | None = None,
        *,
        steps: int = STEPS,
        tolerance: float = TOLERANCE,
    ) -> Float[Tensor, "b k r"]:
        """Minimise at each penalty until a full step would move a solution by less than `tolerance` of its size."""
        penalties = penalties.to(self.z)
        folds = torch.zeros(len(penalties), dtype=torch.long) if folds is None else folds
        if start is None:
            start = self.z.new_zeros(len(penalties), self.targets.shape[1], self.z.shape[1])

        at_hand = (torch.arange(0), penalties, *self._of(folds))  # of the problems of the last call

        def function(delta: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            nonlocal at_hand
            if rows is not at_hand[0]:
                at_hand = (rows, penalties[rows], *self._of(folds[rows]))
            return self._evaluate(delta, *at_hand[1:])

        with torch.inference_mode():
            minima = lbfgs(function, start, steps=steps, tolerance=tolerance)
        return minima.clone()

    def left_out(self, penalties: Float[Tensor, " p"], rows: Int[Tensor, " m"]) -> Float[Tensor, "p m k"]:
        """Scores of some samples, each by the ridge regression of all others, at each penalty.

        The labels less $1/k$ (of several labels less $1/2$) over the curvature at scores of 0, regressed on the
        features: the regression's first Newton step; see `without_own` (Allen, 1974).
        """
        n, k = self.targets.shape
        prior = 0.5 if self.several else 1 / k
        curvature = 0.25 if self.several else (1 - 1 / k) / k
        y = (self.targets - prior) / curvature
        shrinkage = 1 / (n * (self.moments + penalties.to(self.z)[:, None] / curvature))  # [p, r]
        z = self.z[rows]
        fitted = z @ (shrinkage[:, :, None] * (self.z.T @ y))
        return without_own(fitted, (shrinkage @ z.square().T)[:, :, None], y[rows])

    def unrotated(self, delta: Float[Tensor, "*b k r"]) -> Float[Tensor, "*b k d"]:
        """The same weights on the features as they were given."""
        weights: Tensor = delta @ self.rotation.T
        return weights


def lbfgs(
    function: Callable[[Tensor, Tensor], tuple[Tensor, Tensor, Tensor]], x: Tensor, *, steps: int, tolerance: float
) -> Tensor:
    """Minimise smooth convex functions side by side by L-BFGS with a diagonal start and backtracking.

    `function` takes points [b, k, r] and the numbers of the functions [b] that they belong to; one that is at its
    minimum leaves the batch.

    Source: Nocedal and Wright, Numerical Optimization, algorithms 7.4 and 7.5 with an Armijo search.
    """
    minima, rows = x.clone(), torch.arange(len(x))
    value, gradient, inverse = function(x, rows)
    pairs: list[tuple[Tensor, Tensor, Tensor]] = []  # moves, changes of the gradient, 1 / their product (0: no pair)
    for _ in range(steps):
        direction = gradient.clone()
        factors = []
        for move, change, share in reversed(pairs):
            factor = _dot(move, direction) * share
            direction -= factor * change
            factors.append(factor)
        direction *= inverse
        for (move, change, share), factor in zip(pairs, reversed(factors), strict=True):
            direction += (factor - _dot(change, direction) * share) * move
        slope = _dot(gradient, direction).flatten()
        moving = (slope > 0) & (_length(direction) > tolerance * _length(x).clamp_min(1e-3))
        trial = x - direction
        trial_value, trial_gradient, trial_inverse = function(trial, rows)
        long, length = moving & (trial_value > value - 1e-4 * slope), torch.ones_like(value)
        while any(long.tolist()):
            length[long] *= 0.5
            trial[long] = x[long] - length[long, None, None] * direction[long]
            trial_value[long], trial_gradient[long], trial_inverse[long] = function(trial[long], rows[long])
            long = moving & (trial_value > value - 1e-4 * length * slope) & (length >= 1e-4)
        moving &= trial_value <= value  # otherwise there is no progress within the working precision
        goes_on = moving.tolist()
        if not any(goes_on):
            break
        move, change = trial - x, trial_gradient - gradient
        product = _dot(move, change)
        curved = product > 1e-10 * (_length(move) * _length(change))[:, None, None]
        pairs = [*pairs[-(MEMORY - 1) :], (move, change, torch.where(curved, product.reciprocal(), 0.0))]
        state = (trial, trial_value, trial_gradient, trial_inverse)
        if not all(goes_on):
            minima[rows] = x  # where those that leave the batch stay
            rows = rows[moving]
            state = tuple(part[moving] for part in state)  # type: ignore[assignment]  # as many as before
            pairs = [tuple(part[moving] for part in pair) for pair in pairs]  # type: ignore[misc]  # three as before
        x, value, gradient, inverse = state
    minima[rows] = x
    return minima


def _dot(a: Tensor, b: Tensor) -> Tensor:
    """Products of each function's two points, [b, 1, 1]."""
    return (a * b).sum((1, 2), keepdim=True)


def _length(x: Tensor) -> Tensor:
    lengths: Tensor = torch.linalg.vector_norm(x, dim=(1, 2))
    return lengths
