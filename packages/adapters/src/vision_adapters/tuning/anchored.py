"""The default tuner: ridge logistic regressions blended with zero-shot or fitted around it, chosen on validation."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.nn.functional as F

from vision_adapters.heads import LinearHead, language_head
from vision_adapters.tuning.data import Tuned, TuningData
from vision_adapters.tuning.discriminant import BLENDS as DISCRIMINANT_BLENDS
from vision_adapters.tuning.discriminant import TEMPERATURES, discriminant_head, discriminant_scores
from vision_adapters.tuning.folds import Fold
from vision_adapters.tuning.logistic import RidgeLogistic
from vision_adapters.tuning.safeguard import worth_moving
from vision_adapters.tuning.unit_features import Standardisation, cosines, linear_head, standardisation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

# Penalties times the number of classes: from weights that follow the class means to weights that separate the samples.
STRENGTHS = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 3e-4, 1e-4, 3e-5, 1e-5)
PATIENCE = 2  # points of the path without a better metric, after which it is left
# The texts' part in the scores: cosines times these. A dual encoder's own scale is another, for zero-shot.
BLENDS = (0.0, 1.0, 2.0, 4.0, 7.0, 12.0, 20.0, 35.0, 60.0, 100.0)
UNVALIDATED = 0.3  # the strength where nothing can be validated
SHARE = 0.5  # of the discriminant in a mean with a regression
MIXED = ("share", "lda", "lda_blend", "strength", "blend", "around")
STEPS = 8  # per point of the path: each starts from the one before


def tune_anchored(data: TuningData) -> Tuned:
    r"""Move away from zero-shot as far, and in as many directions, as validation supports.

    Scores are $\rho\, v_c \cdot z + \delta_c \cdot z + b_c$ with z the unit-length feature, each dimension centred and
    scaled by the training images (ELEVATER's batch normalisation; it closes the gap between images and texts and weighs
    down noisy dimensions). The second part is ridge logistic regression: for each of up to eleven penalties
    on $(\delta, b)$, each solution starting from the one before, ten weights $\rho$ of the texts are tried; the path
    is left when two weaker penalties in a row have not helped the metric. At the same
    penalties, $(\delta, b)$ is also fitted around $\rho \cos(v_c, x)$, with that $\rho$ of the ten at which zero-shot
    explains the training labels best (texts have not seen the images, so that this is no overfitting). The strong
    end, zero-shot exactly, is a candidate too. Among those within half a standard error of the best metric, and none
    below zero-shot's, the least log-loss is chosen, for a few hundred images cannot tell so many candidates apart by
    their hits; it is solved again on training and validation together.

    Shrinkage discriminant analysis, softened and blended with the texts, is a further candidate, and so, over
    several folds, is the mean of its scores and a regression's, each the surest of its kind: they err on different
    images.

    A validation image whose class has no image left to train on says nothing about the fit, and is left out. Where that
    is more than half of them (one image per class), nothing is validated. The texts have not seen these images, so that
    their hits on them are a fair test: where moving images and texts to a common mean makes hits more frequent by more
    than a standard error, or the texts are near chance, the fit around the texts is taken at one fixed penalty; else
    zero-shot stays, for a single image per class then harms more often than it helps.

    Args:
        data: with one fold, or several for pooled cross-validation. Without texts, only the penalty is chosen; with
            several labels per sample, there is no fit around the texts, and every validation image counts.

    Returns:
        The choice; its head is a `LinearHead` on raw features. In `chosen`, "strength" is the penalty times the classes
        (infinite for zero-shot), "blend" is rho, and "around" is 1 for a fit around the texts; "lda" is
        the factor of a discriminant's scores, and "share" its part in a mean. `validation` is None where nothing could
        be validated.

    Numerics:
        Deterministic. Float32; each point of the path takes a handful of passes over the features.

    Source:
        Ours, after ELEVATER's language initialisation: the texts keep their part after the start. Weighing the texts
        by how they do on the training images is CLAP's idea (Silva-Rodriguez et al., 2024). Designs were compared on
        made-up features and on draws of real images other than those that the README reports.
    """
    unit = F.normalize(data.features, dim=1)
    anchored = data.class_embeddings is not None and not data.several
    if not data.validates:
        if anchored and not worth_moving(data, unit):
            assert data.class_embeddings is not None
            head = language_head(data.class_embeddings, data.logit_scale).eval()
            return Tuned("anchored", _chosen(math.inf, data.logit_scale, 0.0), None, head, (), data.metric)
        head, blend = _refit(data, unit, UNVALIDATED, around=anchored)
        return Tuned("anchored", _chosen(UNVALIDATED, blend, float(anchored)), None, head, (), data.metric)
    counted = data.counted()
    rows = data.validation_rows()[counted]
    tried: list[dict[str, float]] = []
    floor = -math.inf
    blends: tuple[float, ...] = (0.0,)
    if data.class_embeddings is not None:
        zero_shot = data.logit_scale * cosines(data, unit[rows])
        tried.append({**_chosen(math.inf, data.logit_scale, 0.0), **_judged(data, zero_shot, rows)})
        floor, blends = tried[0]["validation"], BLENDS
    folds = [_fitted(data, unit, fold) for fold in data.folds]
    blended = _descend(data, folds, counted, blends)
    tried += blended
    if anchored:
        tried += _descend(data, [fold.around(data) for fold in folds], counted, (), behind=blended)
    discriminants = _discriminants(data, unit, counted)
    mixed = _mixed(data, unit, tried, discriminants, folds, counted)
    tried += discriminants + mixed
    best = _choose(tried, len(rows), floor)
    if "share" in best:
        return Tuned(
            "anchored",
            {name: best[name] for name in MIXED},
            best["validation"],
            _mixture(data, unit, best),
            tuple(tried),
            data.metric,
        )
    if "lda" in best:
        discriminant = discriminant_head(data, unit, best["lda"], best["blend"])
        chosen = {name: best[name] for name in ("lda", "blend")}
        return Tuned("anchored", chosen, best["validation"], discriminant, tuple(tried), data.metric)
    head, blend = _refit(data, unit, best["strength"], around=best["around"] == 1.0, blend=best["blend"])
    chosen = _chosen(best["strength"], blend, best["around"])
    return Tuned("anchored", chosen, best["validation"], head, tuple(tried), data.metric)


def _discriminants(data: TuningData, unit: Tensor, counted: Tensor) -> list[dict[str, float]]:
    """Shrinkage discriminant analysis, softened and blended with the texts, judged on the counted rows."""
    found = discriminant_scores(data, unit, data.folds)
    if found is None:
        return []
    rows = data.validation_rows()[counted]
    scores, texts = found[counted], cosines(data, unit[rows])
    return [
        {
            "lda": part,
            "blend": blend,
            "strength": math.inf,
            "around": 0.0,
            **_judged(data, part * scores + blend * texts, rows),
        }
        for part in TEMPERATURES
        for blend in (DISCRIMINANT_BLENDS if data.class_embeddings is not None else (0.0,))
    ]


def _mixed(
    data: TuningData,
    unit: Tensor,
    regressions: list[dict[str, float]],
    discriminants: list[dict[str, float]],
    folds: list[_Fitted],
    counted: Tensor,
) -> list[dict[str, float]]:
    """The mean of the scores of the surest regression and of the surest discriminant, judged on the counted rows."""
    able = [each for each in regressions if each["strength"] < math.inf]
    if len(folds) == 1 or not able or not discriminants:
        return []
    one, other = (min(each, key=lambda tried: tried["loss"]) for each in (able, discriminants))
    rows, around = data.validation_rows()[counted], one["around"] == 1.0
    parts = []
    for fold in [each.around(data) for each in folds] if around else folds:
        *_, delta = _solutions(fold.problem, data.classes, one["strength"])
        parts.append((1.0 if around else one["blend"]) * fold.texts + fold.seen @ delta.T)
    found = discriminant_scores(data, unit, data.folds)
    assert found is not None
    scores = other["lda"] * found[counted] + other["blend"] * cosines(data, unit[rows])
    mean = (1 - SHARE) * torch.cat(parts)[counted] + SHARE * scores
    named = {**one, "lda": other["lda"], "lda_blend": other["blend"], "share": SHARE}
    return [{**named, **_judged(data, mean, rows)}]


def _mixture(data: TuningData, unit: Tensor, best: dict[str, float]) -> LinearHead:
    """The head of such a mean, fitted on all rows: the mean of two linear heads is one."""
    one, _ = _refit(data, unit, best["strength"], around=best["around"] == 1.0, blend=best["blend"])
    other = discriminant_head(data, unit, best["lda"], best["lda_blend"])
    share = best["share"]
    return linear_head(
        (1 - share) * one.weight.detach() + share * other.weight.detach(),
        (1 - share) * one.bias.detach() + share * other.bias.detach(),
    )


def _chosen(strength: float, blend: float, around: float) -> dict[str, float]:
    return {"strength": strength, "blend": blend, "around": around}


def _judged(data: TuningData, scores: Tensor, rows: Tensor) -> dict[str, float]:
    return {"validation": data.score(scores, rows), "loss": _loss(data, scores, rows)}


class _Fitted(NamedTuple):
    """A fold: the regression on its training rows, and its validation rows.

    `seen` is standardised and rotated, `texts` the texts' part of the scores, `raw` and `trained` the cosines of the
    validation and the training rows, and `scale` the texts' weight in the regression.
    """

    fold: Fold
    problem: RidgeLogistic
    seen: Tensor
    texts: Tensor
    raw: Tensor
    trained: Tensor
    scale: float

    def around(self, data: TuningData) -> _Fitted:
        """The same fold with the regression around the texts."""
        scale = _text_scale(data, self.trained, self.fold.train)
        problem = self.problem.around(scale * self.trained)
        return self._replace(problem=problem, texts=scale * self.raw, scale=scale)


def _fitted(data: TuningData, unit: Tensor, fold: Fold) -> _Fitted:
    standard, problem, _ = _problem(data, unit, fold.train, around=False)
    moved = standard(unit[fold.validation])
    raw, trained = cosines(data, unit[fold.validation]), cosines(data, unit[fold.train])
    return _Fitted(fold, problem, moved @ problem.rotation, cosines(data, moved[:, :-1]), raw, trained, 0.0)


def _descend(
    data: TuningData,
    folds: list[_Fitted],
    counted: Tensor,
    blends: tuple[float, ...],
    behind: list[dict[str, float]] | None = None,
) -> list[dict[str, float]]:
    """Try ever weaker penalties while they help on the counted rows, with every blend, or (without any) as fitted.

    With `behind`, it is also left where its metric is two standard errors below what was `behind` at the same penalty.
    """
    rows = data.validation_rows()[counted]
    scale = math.fsum(each.scale for each in folds) / len(folds)
    texts = torch.cat([each.texts for each in folds])[counted]
    tried: list[dict[str, float]] = []
    top, waited = -math.inf, 0
    paths = zip(*(_solutions(each.problem, data.classes, STRENGTHS[-1]) for each in folds), strict=True)
    for strength, deltas in zip(STRENGTHS, paths, strict=True):
        scores = torch.cat([each.seen @ delta.T for each, delta in zip(folds, deltas, strict=True)])[counted]
        here = [
            {**_chosen(strength, blend, 0.0), **_judged(data, blend * texts + scores, rows)} for blend in blends
        ] or [{**_chosen(strength, scale, 1.0), **_judged(data, texts + scores, rows)}]
        tried += here
        best = max(each["validation"] for each in here)
        waited = 0 if best > top else waited + 1
        top = max(top, best)
        other = max([each["validation"] for each in behind or () if each["strength"] == strength], default=-math.inf)
        if waited == PATIENCE or best < other - 4 * _slack(other, len(rows)):
            break
    return tried


def _slack(value: float, samples: int) -> float:
    """Half the standard error of a metric between 0 and 1; 0 at the ends and outside."""
    return 0.5 * math.sqrt(value * (1 - value) / samples) if 0 < value < 1 else 0.0


def _choose(tried: list[dict[str, float]], samples: int, floor: float) -> dict[str, float]:
    """The least log-loss among those within half a standard error of the best metric and not below `floor`."""
    top = max(each["validation"] for each in tried)
    able = [each for each in tried if each["validation"] >= max(top - _slack(top, samples), floor)]
    return min(able, key=lambda each: each["loss"])


def _solutions(problem: RidgeLogistic, classes: int, last: float) -> Iterator[Tensor]:
    """The weights at each penalty down to `last`."""
    delta = problem.start()
    for strength in STRENGTHS:
        delta = problem.solve(strength / classes, delta, steps=STEPS)
        yield delta
        if strength == last:
            return


def _text_scale(data: TuningData, texts: Tensor, rows: Tensor) -> float:
    """The blend at which the texts alone explain the labels of some rows best."""
    return min(BLENDS, key=lambda blend: _loss(data, blend * texts, rows))


def _problem(
    data: TuningData, unit: Tensor, rows: Tensor, *, around: bool
) -> tuple[Standardisation, RidgeLogistic, float]:
    """The regression on some rows, and the weight of the texts that it is fitted around (0 where it is not)."""
    standard = standardisation(unit[rows])
    anchor, scale = None, 0.0
    if around:
        texts = cosines(data, unit[rows])
        scale = _text_scale(data, texts, rows)
        anchor = scale * texts
    problem = RidgeLogistic(standard(unit[rows]), data.targets(rows), several=data.several, anchor=anchor)
    return standard, problem, scale


def _refit(
    data: TuningData,
    unit: Tensor,
    strength: float,
    *,
    around: bool,
    blend: float = 0.0,
) -> tuple[LinearHead, float]:
    """The chosen head, fitted on all rows along the path that was validated, and the texts' weight in it."""
    if strength == math.inf:
        assert data.class_embeddings is not None
        return language_head(data.class_embeddings, data.logit_scale).eval(), data.logit_scale
    standard, problem, scale = _problem(data, unit, torch.arange(len(unit)), around=around)
    # the same few steps per penalty: at weak ones the path stops early, and what is validated is the stopped solution
    *_, delta = _solutions(problem, data.classes, strength)
    found = problem.unrotated(delta)
    weight = found[:, :-1]
    texts = None if data.class_embeddings is None else F.normalize(data.class_embeddings, dim=1)
    if texts is not None and not around:
        weight = weight + blend * texts
    weight = weight * standard.scale
    bias = found[:, -1] - weight @ standard.centre
    if texts is not None and around:
        weight, blend = weight + scale * texts, scale
    return linear_head(weight, bias), blend


def _loss(data: TuningData, scores: Tensor, rows: Tensor) -> float:
    """Mean log-loss of some rows."""
    if data.several:
        return float(F.binary_cross_entropy_with_logits(scores, data.targets(rows)))
    return float(F.cross_entropy(scores, data.labels[rows]))
