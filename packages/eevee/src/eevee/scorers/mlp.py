"""The paper's meta-model (algorithm 1): small networks for every candidate and split, all trained at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from eevee.errors import EeveeError, MissingExtraError
from eevee.scorers.scorer import Objective, require_objective

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Bool, Float

    from eevee.tables.standard import Standardised

CACHE_BYTES = 6 << 20


@dataclass(frozen=True)
class MlpScorer:
    r"""Error of predicting a table from some of its columns by a small network, on shuffled splits of the models.

    $g(x) = W_2 \max(0, W_1 x + b_1) + b_2$, trained on the mean squared error of the training models in full batches,
    and scored by that of the held-out models; the score is the mean over splits.

    Args:
        objective: `all` metrics count, or the `unselected` ones, outside the candidate.
        epochs: full-batch steps, >= 1.
        hidden: width, >= 1.
        lr: learning rate of AdamW, > 0.
        weight_decay: of AdamW, >= 0.
        splits: number of shuffled splits, >= 1.
        held_out: share of the models (of their groups) that a split holds out, in (0, 1).
        seed: of splits and starts, which all candidates share: common random numbers.
        chunk: candidates trained at once; by default as many as fit the cache.

    Numerics: float32, one flat parameter buffer, hand-written gradients; equal to a torch module for each candidate
        and split to rounding. A missing target is not counted, a missing input is the column's mean. The standard error
        over splits is corrected for their overlap: $s \sqrt{1/S + n_{out}/n_{in}}$ (Nadeau and Bengio).

    Raises:
        EeveeError: a setting out of its range; or, when networks are trained, torch is not installed: the message names
            the extra.

    Source: algorithm 1 of the EEVEE paper: 100 hidden units, 20 epochs, AdamW, .01 and .01, ShuffleSplit. Not in the
        paper, and chosen here: ReLU, full batches, ten splits that hold out a tenth (as scikit-learn's ShuffleSplit).
    """

    objective: Objective = "all"
    epochs: int = 20
    hidden: int = 100
    lr: float = 0.01
    weight_decay: float = 0.01
    splits: int = 10
    held_out: float = 0.1
    seed: int = 0
    chunk: int | None = None

    def __post_init__(self) -> None:
        require_objective(self.objective)
        for name in ("epochs", "hidden", "splits"):
            if getattr(self, name) < 1:
                raise EeveeError(f"{name} is {getattr(self, name)}; expected at least 1")
        if not self.lr > 0 or not self.weight_decay >= 0:
            raise EeveeError(f"lr is {self.lr} and weight_decay {self.weight_decay}; expected > 0 and >= 0")
        if not 0 < self.held_out < 1:
            raise EeveeError(f"held_out is {self.held_out}; expected a share between 0 and 1, exclusive")
        if self.chunk is not None and self.chunk < 1:
            raise EeveeError(f"chunk is {self.chunk}; expected at least 1")

    @property
    def name(self) -> str:
        """Name in prints and results."""
        return "mlp"

    @property
    def batch(self) -> int:
        """Candidates in one call of `score`: few, so that progress is seen."""
        return 64

    def score(self, data: Standardised, candidates: Sequence[Sequence[int]]) -> Float[np.ndarray, "b 2"]:
        """Errors and standard errors of candidates."""
        out = np.empty((len(candidates), 2))
        splits = shuffled_splits(data.groups, self.splits, self.held_out, self.seed)
        networks = _networks()
        starts = networks.draw_starts(data.values.shape[1], self.hidden, self.splits, self.seed)
        training = networks.Training(self.epochs, self.lr, self.weight_decay)
        widths = [len(data.metric_columns(candidate)) for candidate in candidates]
        order = np.argsort(widths, kind="stable")
        step = self.chunk or self.automatic_chunk(max(widths, default=1), data.values.shape[1])
        for begin in range(0, len(candidates), step):
            chosen = order[begin : begin + step]
            batch = [candidates[int(i)] for i in chosen]
            predicted = networks.predictions(data, batch, ~splits, starts, data.values, training)
            out[chosen] = networks.split_errors(data, batch, splits, predicted, self.objective)
        return out

    def predict(
        self, data: Standardised, candidate: Sequence[int], inputs: Float[np.ndarray, "m metrics"]
    ) -> Float[np.ndarray, "m metrics"]:
        """Whole rows of models that took no part in `data`: the mean of `splits` networks trained on all of it."""
        everyone = np.ones((self.splits, len(data.values)), dtype=bool)
        networks = _networks()
        starts = networks.draw_starts(data.values.shape[1], self.hidden, self.splits, self.seed)
        training = networks.Training(self.epochs, self.lr, self.weight_decay)
        predicted = networks.predictions(data, [candidate], everyone, starts, np.nan_to_num(inputs), training)
        return np.asarray(predicted[0].mean(0).numpy(), dtype=np.float64)

    def automatic_chunk(self, width: int, metrics: int) -> int:
        """Candidates whose parameters, gradients and two moments fit the cache together."""
        parameters = (width + 1) * self.hidden + (self.hidden + 1) * metrics
        return max(1, CACHE_BYTES // (4 * 4 * parameters * self.splits))


def shuffled_splits(
    groups: np.ndarray | Sequence[int], splits: int, held_out: float, seed: int
) -> Bool[np.ndarray, "s n"]:
    """Random splits; True marks a held-out model. Groups go to one side as a whole."""
    labels = np.asarray(groups)
    unique = np.unique(labels)
    if len(unique) < 2:
        raise EeveeError("all models are in one group; expected at least two groups")
    count = min(len(unique) - 1, math.ceil(held_out * len(unique)))
    generator = np.random.default_rng(seed)
    return np.stack([np.isin(labels, generator.permutation(unique)[:count]) for _ in range(splits)])


def _networks() -> Any:
    """The module that needs torch, which the rest of the package does not."""
    try:
        from eevee.scorers import networks
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise MissingExtraError("torch", "mlp") from None
    return networks
