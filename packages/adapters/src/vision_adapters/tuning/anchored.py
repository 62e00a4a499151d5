"""The default tuner: a path of ridge logistic regressions blended with zero-shot, the blend chosen on validation."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.nn.functional as F

from vision_adapters.heads import LinearHead, language_head
from vision_adapters.tuning.data import Tuned, TuningData
from vision_adapters.tuning.logistic import RidgeLogistic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtyping import Float
    from torch import Tensor

# Penalties times the number of classes: from weights that follow the class means to weights that separate the samples.
STRENGTHS = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
# Zero-shot's part in the scores, in units of one over the dual encoder's scale: cosines times these.
BLENDS = (0.0, 1.0, 2.0, 4.0, 7.0, 12.0, 20.0, 35.0, 60.0, 100.0)
STEPS = 8  # per point of the path: each starts from the one before


class Whitening(NamedTuple):
    """Unit-length features, centred and scaled so that their mean squared length is 1."""

    centre: Float[Tensor, " d"]
    scale: float

    def __call__(self, unit: Float[Tensor, "n d"]) -> Float[Tensor, "n d+1"]:
        """The features with a column of ones, for the bias."""
        moved = (unit - self.centre) * self.scale
        return torch.cat([moved, moved.new_ones(len(moved), 1)], dim=1)


def whitening(unit: Float[Tensor, "n d"]) -> Whitening:
    """Centre and scale of the training features.

    Args:
        unit: rows of length 1.

    Returns:
        The map; a scale of 1 where all rows are equal.
    """
    centre = unit.mean(0)
    spread = float((unit - centre).square().sum(1).mean())
    return Whitening(centre, 1.0 / math.sqrt(spread) if spread > 1e-12 else 1.0)


def cosines(data: TuningData, unit: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
    """Cosines of unit-length features with the class texts, 0 without texts.

    Args:
        data: whose class embeddings.
        unit: rows of length 1.

    Returns:
        One cosine per row and class.
    """
    if data.class_embeddings is None:
        return unit.new_zeros(len(unit), data.classes)
    return unit @ F.normalize(data.class_embeddings, dim=1).T


def tune_anchored(data: TuningData) -> Tuned:
    r"""Move away from zero-shot as far, and in as many directions, as validation supports.

    Scores are $\rho \cos(x, v_c) + \delta_c \cdot z + b_c$, z being the unit-length feature, centred and scaled.
    For each of seven penalties, $(\delta, b)$ minimises the cross-entropy plus $\frac{\lambda}{2}\lVert(\delta, b)\rVert^2$,
    each solution starting from the one before; for each solution, ten weights $\rho$ of the texts are tried. The
    strong end, $\delta = b = 0$ with the encoder's own scale, is zero-shot exactly and is a candidate too. Among those
    within half a standard error of the best metric, and none below zero-shot's, the least log-loss is chosen, for a
    validation set of a few hundred images cannot tell seventy candidates apart by their hits; it is solved again on
    training and validation together.

    Args:
        data: with one fold, or several for pooled cross-validation. Without texts, only the penalty is chosen.

    Returns:
        The choice; its head is a `LinearHead` on raw features. In `chosen`, an infinite strength is zero-shot.

    Numerics:
        Deterministic. Float32; each point of the path takes a handful of passes over the features.

    Source:
        Ours, after ELEVATER's language initialisation: the texts keep their part after the start. Blending after
        fitting was as accurate as fitting around the texts, and needs one path for all blends.
    """
    unit = F.normalize(data.features, dim=1)
    texts = cosines(data, unit)
    rows = data.validation_rows()
    blends = BLENDS if data.class_embeddings is not None else (0.0,)
    pooled = [list(_path(data, unit, *fold)) for fold in data.folds]
    candidates = [(math.inf, data.logit_scale)] if data.class_embeddings is not None else []
    candidates += [(strength, blend) for strength in STRENGTHS for blend in blends]
    tried = []
    for strength, blend in candidates:
        scores = blend * texts[rows]
        if strength < math.inf:
            scores = scores + torch.cat([path[STRENGTHS.index(strength)] for path in pooled])
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


def _path(data: TuningData, unit: Tensor, train: Tensor, held: Tensor) -> Iterator[Tensor]:
    """Scores of the held rows at each penalty, without the texts' part."""
    white = whitening(unit[train])
    problem = RidgeLogistic(white(unit[train]), data.targets(train), several=data.several)
    seen = white(unit[held]) @ problem.rotation
    for delta in _solutions(problem, data.classes, STRENGTHS[-1]):
        yield seen @ delta.T


def _refit(data: TuningData, unit: Tensor, strength: float, blend: float) -> LinearHead:
    """The chosen head, fitted on all rows."""
    if strength == math.inf:
        assert data.class_embeddings is not None
        return language_head(data.class_embeddings, data.logit_scale).eval()
    white = whitening(unit)
    problem = RidgeLogistic(white(unit), data.targets(), several=data.several)
    *_, delta = _solutions(problem, data.classes, strength)
    found = problem.unrotated(delta)
    weight = found[:, :-1] * white.scale
    bias = found[:, -1] - weight @ white.centre
    if data.class_embeddings is not None:
        weight = weight + blend * F.normalize(data.class_embeddings, dim=1)
    return linear_head(weight, bias)


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
