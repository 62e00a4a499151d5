"""The default tuner: a path of ridge logistic regressions blended with zero-shot, the blend chosen on validation."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.nn.functional as F

from vision_adapters.heads import LinearHead, language_head
from vision_adapters.tuning.data import Fold, Tuned, TuningData
from vision_adapters.tuning.logistic import RidgeLogistic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtyping import Float
    from torch import Tensor

# Penalties times the number of classes: from weights that follow the class means to weights that separate the samples.
STRENGTHS = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
# Zero-shot's part in the scores, in units of one over the dual encoder's scale: cosines times these.
BLENDS = (0.0, 1.0, 2.0, 4.0, 7.0, 12.0, 20.0, 35.0, 60.0, 100.0)
PRIOR = 10
STEPS = 8  # per point of the path: each starts from the one before


class Standardisation(NamedTuple):
    """Unit-length features, each dimension centred and scaled, so that rows have a mean squared length of 1."""

    centre: Float[Tensor, " d"]
    scale: Float[Tensor, " d"]

    def __call__(self, unit: Float[Tensor, "n d"]) -> Float[Tensor, "n d+1"]:
        """The features with a column of ones, for the bias."""
        moved = (unit - self.centre) * self.scale
        return torch.cat([moved, moved.new_ones(len(moved), 1)], dim=1)


def standardisation(unit: Float[Tensor, "n d"]) -> Standardisation:
    """Centre and scales of the training features.

    Args:
        unit: rows of length 1.

    Returns:
        The map. Each dimension's variance is pulled towards their mean with the weight of PRIOR samples, so that few
        images do not stretch a dimension that they happen to agree in; scales are 1 where all rows are equal.
    """
    centre = unit.mean(0)
    variance = (unit - centre).square().mean(0)
    variance = (len(unit) * variance + PRIOR * variance.mean()) / (len(unit) + PRIOR)
    if float(variance.max()) < 1e-14:
        return Standardisation(centre, torch.ones_like(variance))
    return Standardisation(centre, (variance * unit.shape[1]).rsqrt())


def cosines(data: TuningData, unit: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
    """Products of features with the class texts at length 1: cosines for features of length 1; 0 without texts.

    Args:
        data: whose class embeddings.
        unit: one row per image.

    Returns:
        One number per row and class.
    """
    if data.class_embeddings is None:
        return unit.new_zeros(len(unit), data.classes)
    return unit @ F.normalize(data.class_embeddings, dim=1).T


def tune_anchored(data: TuningData) -> Tuned:
    r"""Move away from zero-shot as far, and in as many directions, as validation supports.

    Scores are $\rho\, v_c \cdot z + \delta_c \cdot z + b_c$ with z the unit-length feature, each dimension centred and
    scaled by the training images (ELEVATER's batch normalisation; it closes the gap between images and texts and weighs
    down noisy dimensions). The second part is ridge logistic regression: for each of seven penalties on
    $(\delta, b)$, each solution starting from the one before, ten weights $\rho$ of the texts are tried. The strong
    end, zero-shot exactly, is a candidate too. Among those within half a standard error of the best metric, and none
    below zero-shot's, the least log-loss is chosen, for a few hundred images cannot tell seventy candidates apart by
    their hits; it is solved again on training and validation together.

    Args:
        data: with one fold, or several for pooled cross-validation. Without texts, only the penalty is chosen.

    Returns:
        The choice; its head is a `LinearHead` on raw features. In `chosen`, an infinite strength is zero-shot.

    Numerics:
        Deterministic. Float32; each point of the path takes a handful of passes over the features.

    Source:
        Ours, after ELEVATER's language initialisation: the texts keep their part after the start. The last of five
        designs that were tried on made-up features. Standardisation was adopted after a design without it had lost to
        ELEVATER's search on one seed. Blending after fitting needs one path for all blends; that it is as accurate as
        fitting around the texts was seen on one seed only, before standardisation.
    """
    unit = F.normalize(data.features, dim=1)
    texts = cosines(data, unit)
    rows = data.validation_rows()
    blends = BLENDS if data.class_embeddings is not None else (0.0,)
    pooled = [_path(data, unit, fold) for fold in data.folds]
    candidates = [(math.inf, data.logit_scale)] if data.class_embeddings is not None else []
    candidates += [(strength, blend) for strength in STRENGTHS for blend in blends]
    tried = []
    for strength, blend in candidates:
        if strength == math.inf:
            scores = blend * texts[rows]
        else:
            place = STRENGTHS.index(strength)
            scores = torch.cat([blend * path.texts + path.scores[place] for path in pooled])
        score, loss = data.score(scores, rows), _loss(data, scores, rows)
        tried.append({"strength": strength, "blend": blend, "validation": score, "loss": loss})
    best = _choose(tried, len(rows), floor=tried[0]["validation"] if data.class_embeddings is not None else -math.inf)
    head = _refit(data, unit, best["strength"], best["blend"])
    chosen = {"strength": best["strength"], "blend": best["blend"]}
    return Tuned("anchored", chosen, best["validation"], head, tuple(tried), data.metric)


def _choose(tried: list[dict[str, float]], samples: int, floor: float) -> dict[str, float]:
    """The least log-loss among those within half a standard error of the best metric and not below `floor`."""
    top = max(each["validation"] for each in tried)
    slack = 0.5 * math.sqrt(top * (1 - top) / samples) if 0 < top < 1 else 0.0
    able = [each for each in tried if each["validation"] >= max(top - slack, floor)]
    return min(able, key=lambda each: each["loss"])


def _solutions(problem: RidgeLogistic, classes: int, last: float) -> Iterator[Tensor]:
    """The weights at each penalty down to `last`."""
    delta = problem.start()
    for strength in STRENGTHS:
        delta = problem.solve(strength / classes, delta, steps=STEPS)
        yield delta
        if strength == last:
            return


class _Path(NamedTuple):
    """Scores of a fold's held rows: the texts' part, and the features' part at each penalty."""

    texts: Tensor
    scores: list[Tensor]


def _path(data: TuningData, unit: Tensor, fold: Fold) -> _Path:
    """Fit on a fold's training rows at each penalty."""
    standard = standardisation(unit[fold.train])
    problem = RidgeLogistic(standard(unit[fold.train]), data.targets(fold.train), several=data.several)
    seen = standard(unit[fold.validation])
    rotated = seen @ problem.rotation
    solutions = _solutions(problem, data.classes, STRENGTHS[-1])
    return _Path(cosines(data, seen[:, :-1]), [rotated @ delta.T for delta in solutions])


def _refit(data: TuningData, unit: Tensor, strength: float, blend: float) -> LinearHead:
    """The chosen head, fitted on all rows."""
    if strength == math.inf:
        assert data.class_embeddings is not None
        return language_head(data.class_embeddings, data.logit_scale).eval()
    standard = standardisation(unit)
    problem = RidgeLogistic(standard(unit), data.targets(), several=data.several)
    *_, delta = _solutions(problem, data.classes, strength)
    found = problem.unrotated(delta)
    weight = found[:, :-1]
    if data.class_embeddings is not None:
        weight = weight + blend * F.normalize(data.class_embeddings, dim=1)
    weight = weight * standard.scale
    return linear_head(weight, found[:, -1] - weight @ standard.centre)


def linear_head(weight: Float[Tensor, "k d"], bias: Float[Tensor, " k"]) -> LinearHead:
    """A head on unit-length features with given weights.

    Args:
        weight: one row per class.
        bias: one number per class.

    Returns:
        The head, in eval mode.
    """
    with torch.random.fork_rng(devices=[]):
        head = LinearHead(weight.shape[1], len(weight), features="l2").to(weight.device)
    with torch.no_grad():
        head.weight.copy_(weight)
        head.bias.copy_(bias)
    return head.eval()


def _loss(data: TuningData, scores: Tensor, rows: Tensor) -> float:
    """Mean log-loss of some rows."""
    if data.several:
        return float(F.binary_cross_entropy_with_logits(scores, data.targets(rows)))
    return float(F.cross_entropy(scores, data.labels[rows]))
