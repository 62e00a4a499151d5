"""The default tuner: ridge logistic regressions blended with zero-shot or fitted around it, chosen on validation."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

import torch
import torch.nn.functional as F

from vision_adapters.heads import LinearHead, language_head
from vision_adapters.tuning.baselines import CacheHead
from vision_adapters.tuning.data import Tuned, TuningData
from vision_adapters.tuning.discriminant import BLENDS as DISCRIMINANT_BLENDS
from vision_adapters.tuning.discriminant import TEMPERATURES, discriminant_head, discriminant_scores
from vision_adapters.tuning.logistic import RidgeLogistic
from vision_adapters.tuning.safeguard import worth_moving
from vision_adapters.tuning.unit_features import Standardisation, cosines, linear_head, standardisation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor, nn

    from vision_adapters.tuning.folds import Fold

# Penalties times the number of classes: from weights that follow the class means to weights that separate the samples.
STRENGTHS = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 3e-4, 1e-4, 3e-5, 1e-5)
PATIENCE = 2  # points of the path without a better metric, after which it is left
# The texts' part in the scores: cosines times these. A dual encoder's own scale is another, for zero-shot.
BLENDS = (0.0, 1.0, 2.0, 4.0, 7.0, 12.0, 20.0, 35.0, 60.0, 100.0)
UNVALIDATED = 0.3  # the strength where nothing can be validated
STEPS = 8  # per point of the path: each starts from the one before
SOLVED_STEPS = 25  # per point where a regression is to be solved
SHARPNESSES = (5.0, 10.0, 20.0, 40.0, 80.0)  # of a cache of cosines
CACHE_WEIGHTS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
CACHED_IMAGES = 10_000  # of more, a cache is slow to ask, and regressions are ahead
MEAN_TEMPERATURES = (5.0, 10.0, 20.0, 40.0)

Kind = Literal["zero_shot", "regression", "around_texts", "solved", "discriminant", "class_means", "cache", "mean"]
REGRESSIONS = ("regression", "around_texts", "solved")


@dataclass(frozen=True)
class Candidate:
    """A way of making scores; what its kind does not have is None.

    Args:
        kind: "zero_shot"; "regression", with the texts added; "around_texts", a regression fitted around them;
            "solved", one on features that are centred alone, solved at each penalty as scikit-learn's is;
            "discriminant"; "class_means", cosines with them; "cache", Tip-Adapter's, of cosines with every image;
            "mean", of a regression's and a discriminant's scores.
        strength: the regression's penalty times the classes.
        blend: of the texts: cosines times this (of the regression, in a mean).
        temperature: factor of the discriminant's scores, or of the cosines with class means.
        alpha: weight of the cache.
        beta: its sharpness.
        regression: the kind of regression in a mean.
        discriminant_blend: of the texts in a mean's discriminant.
    """

    kind: Kind
    strength: float | None = None
    blend: float | None = None
    temperature: float | None = None
    alpha: float | None = None
    beta: float | None = None
    regression: Kind | None = None
    discriminant_blend: float | None = None

    def params(self) -> dict[str, float | str]:
        """What the kind has, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}


class Judged(NamedTuple):
    """A candidate with its metric (more is better) and its mean log-loss on the counted validation rows."""

    candidate: Candidate
    validation: float
    loss: float


def tune_anchored(data: TuningData, *, linear: bool = False) -> Tuned:
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
    images. So are a regression on features that are centred alone, solved at the penalties around the best as
    scikit-learn's probe is; Tip-Adapter's cache of cosines with every image, up to 10,000 of them; and, where there are
    no texts, cosines with class means.

    A validation image whose class has no image left to train on says nothing about the fit, and is left out. Where that
    is more than half of them (one image per class), nothing is validated. The texts have not seen these images, so that
    their hits on them are a fair test: where moving images and texts to a common mean makes hits more frequent by more
    than a standard error, or the texts are near chance, the fit around the texts is taken at one fixed penalty; else
    zero-shot stays, for a single image per class then harms more often than it helps.

    Args:
        data: with one fold, or several for pooled cross-validation. With several labels per sample, there is no fit
            around the texts, no discriminant, no cache and no class means, and every validation image counts.
        linear: leave the cache out, so that the head is a `LinearHead`, which a training can go on from.

    Source:
        Ours, after ELEVATER's language initialisation: the texts keep their part after the start. Weighing the texts
        by how they do on the training images is CLAP's idea (Silva-Rodriguez et al., 2024). Designs were compared on
        made-up features and on draws of real images other than those that the README reports.
    """
    unit = F.normalize(data.features, dim=1)
    anchored = data.class_embeddings is not None and not data.several
    if not data.has_validation:
        if anchored and not worth_moving(data, unit):
            chosen = Candidate("zero_shot", blend=data.logit_scale)
        else:
            chosen = Candidate("around_texts" if anchored else "regression", UNVALIDATED, 0.0)
        head, chosen = _refit(data, unit, chosen)
        return Tuned("anchored", chosen.params(), None, head, (), data.metric)
    trials = _Trials(data, unit)
    blends: tuple[float, ...] = (0.0,)
    floor = -math.inf
    if data.class_embeddings is not None:
        zero_shot = Candidate("zero_shot", blend=data.logit_scale)
        floor = trials.judge(zero_shot, data.logit_scale * trials.cosines).validation
        blends = BLENDS
    folds = [_fold_problem(data, unit, fold) for fold in data.folds]
    free = trials.descend(folds, blends)
    if anchored:
        trials.descend([fold.around(data) for fold in folds], (), behind=free)
    trials.solved(free, blends)
    trials.discriminants()
    trials.mean()
    if not data.several:
        if not linear:
            trials.cache()
        if data.class_embeddings is None:
            trials.class_means()
    best = trials.choose(floor)
    head, chosen = _refit(data, unit, best.candidate)
    candidates = tuple({**each.candidate.params(), **_figures(each)} for each in trials.judged)
    return Tuned("anchored", chosen.params(), best.validation, head, candidates, data.metric)


def _figures(judged: Judged) -> dict[str, float | str]:
    return {"validation": judged.validation, "loss": judged.loss}


class _Trials:
    """Candidates judged on the validation rows that count, and the scores of the surest of each family."""

    def __init__(self, data: TuningData, unit: Tensor) -> None:
        self.data, self.unit = data, unit
        self.counted = data.valid_mask()
        self.rows = data.validation_rows()[self.counted]
        self.cosines = cosines(data, unit[self.rows])
        self.judged: list[Judged] = []
        self.surest: dict[str, tuple[Judged, Tensor]] = {}

    def judge(self, candidate: Candidate, scores: Tensor) -> Judged:
        """Note how a candidate does."""
        found = Judged(candidate, self.data.score(scores, self.rows), _loss(self.data, scores, self.rows))
        self.judged.append(found)
        family = "regression" if candidate.kind in REGRESSIONS else candidate.kind
        if family not in self.surest or found.loss < self.surest[family][0].loss:
            self.surest[family] = found, scores
        return found

    def descend(
        self, folds: list[_FoldProblem], blends: tuple[float, ...], behind: list[Judged] | None = None
    ) -> list[Judged]:
        """Try ever weaker penalties while they help, with every blend, or (without any) as fitted around the texts.

        With `behind`, it is also left where its metric is two standard errors below what was `behind` at the same
        penalty.
        """
        scale = math.fsum(each.scale for each in folds) / len(folds)
        texts = torch.cat([each.texts for each in folds])[self.counted]
        tried: list[Judged] = []
        top, waited = -math.inf, 0
        paths = zip(*(_solutions(each.problem, self.data.classes, STRENGTHS[-1]) for each in folds), strict=True)
        for strength, deltas in zip(STRENGTHS, paths, strict=True):
            scores = torch.cat([each.seen @ delta.T for each, delta in zip(folds, deltas, strict=True)])[self.counted]
            here = [
                self.judge(Candidate("regression", strength, blend), blend * texts + scores) for blend in blends
            ] or [self.judge(Candidate("around_texts", strength, scale), texts + scores)]
            tried += here
            best = max(each.validation for each in here)
            waited = 0 if best > top else waited + 1
            top = max(top, best)
            other = max([e.validation for e in behind or () if e.candidate.strength == strength], default=-math.inf)
            if waited == PATIENCE or best < other - 4 * _slack(other, len(self.rows)):
                break
        return tried

    def solved(self, path: list[Judged], blends: tuple[float, ...]) -> None:
        """Regressions that are solved, at the penalties around the surest of a path, on features centred alone."""
        surest = min(path, key=lambda each: each.loss).candidate.strength
        assert surest is not None
        folds = [_fold_problem(self.data, self.unit, fold, spread=False) for fold in self.data.folds]
        texts = torch.cat([each.texts for each in folds])[self.counted]
        deltas = [fold.problem.start() for fold in folds]
        place = STRENGTHS.index(surest)
        for strength in STRENGTHS[max(0, place - 1) : place + 3]:
            deltas = [_solved(f.problem, self.data, strength, start) for f, start in zip(folds, deltas, strict=True)]
            scores = torch.cat([each.seen @ delta.T for each, delta in zip(folds, deltas, strict=True)])[self.counted]
            for blend in blends:
                self.judge(Candidate("solved", strength, blend), blend * texts + scores)

    def class_means(self) -> None:
        """Cosines with the mean feature of each class; where there are texts, those stand for the classes."""
        folds = self.data.folds
        means = [_class_means(self.unit[fold.train], self.data.targets(fold.train)) for fold in folds]
        near = [self.unit[fold.validation] @ mean.T for fold, mean in zip(folds, means, strict=True)]
        scores = torch.cat(near)[self.counted]
        for temperature in MEAN_TEMPERATURES:
            self.judge(Candidate("class_means", temperature=temperature), temperature * scores)

    def cache(self) -> None:
        """Zero-shot and a cache of the training images, as in Tip-Adapter; the cache alone where there are no texts."""
        if len(self.unit) > CACHED_IMAGES:
            return
        data, blend = self.data, 0.0 if self.data.class_embeddings is None else self.data.logit_scale
        near = [(self.unit[fold.validation] @ self.unit[fold.train].T, data.targets(fold.train)) for fold in data.folds]
        for beta in SHARPNESSES:
            parts = [torch.exp(beta * (cosine - 1)) @ member for cosine, member in near]
            scores = torch.cat(parts)[self.counted]
            for alpha in CACHE_WEIGHTS:
                self.judge(
                    Candidate("cache", blend=blend, alpha=alpha, beta=beta), blend * self.cosines + alpha * scores
                )

    def discriminants(self) -> None:
        """Shrinkage discriminant analysis, softened and blended with the texts."""
        scores = discriminant_scores(self.data, self.unit)
        if scores is None:
            return
        scores = scores[self.counted]
        for temperature in TEMPERATURES:
            for blend in DISCRIMINANT_BLENDS if self.data.class_embeddings is not None else (0.0,):
                candidate = Candidate("discriminant", temperature=temperature, blend=blend)
                self.judge(candidate, temperature * scores + blend * self.cosines)

    def mean(self) -> None:
        """The mean of the scores of the surest regression and of the surest discriminant, over several folds."""
        if len(self.data.folds) == 1 or not {"regression", "discriminant"} <= self.surest.keys():
            return
        (one, first), (other, second) = self.surest["regression"], self.surest["discriminant"]
        candidate = Candidate(
            "mean", one.candidate.strength, one.candidate.blend, other.candidate.temperature,
            regression=one.candidate.kind, discriminant_blend=other.candidate.blend,
        )  # fmt: skip
        self.judge(candidate, 0.5 * first + 0.5 * second)

    def choose(self, floor: float) -> Judged:
        """The least log-loss among those within half a standard error of the best metric and not below `floor`."""
        top = max(each.validation for each in self.judged)
        able = [each for each in self.judged if each.validation >= max(top - _slack(top, len(self.rows)), floor)]
        return min(able, key=lambda each: each.loss)


class _FoldProblem(NamedTuple):
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

    def around(self, data: TuningData) -> _FoldProblem:
        """The same fold with the regression around the texts."""
        scale = _text_scale(data, self.trained, self.fold.train)
        problem = self.problem.around(scale * self.trained)
        return self._replace(problem=problem, texts=scale * self.raw, scale=scale)


def _fold_problem(data: TuningData, unit: Tensor, fold: Fold, *, spread: bool = True) -> _FoldProblem:
    standard, problem, _ = _problem(data, unit, fold.train, around=False, spread=spread)
    moved = standard(unit[fold.validation])
    raw, trained = cosines(data, unit[fold.validation]), cosines(data, unit[fold.train])
    return _FoldProblem(fold, problem, moved @ problem.rotation, cosines(data, moved[:, :-1]), raw, trained, 0.0)


def _slack(value: float, samples: int) -> float:
    """Half the standard error of a metric between 0 and 1; 0 at the ends and outside."""
    return 0.5 * math.sqrt(value * (1 - value) / samples) if 0 < value < 1 else 0.0


def _solutions(problem: RidgeLogistic, classes: int, last: float) -> Iterator[Tensor]:
    """The weights at each penalty down to `last`."""
    delta = problem.start()
    for strength in STRENGTHS:
        delta = problem.solve(strength / classes, delta, steps=STEPS)
        yield delta
        if strength == last:
            return


def _solved(problem: RidgeLogistic, data: TuningData, strength: float, start: Tensor) -> Tensor:
    return problem.solve(strength / data.classes, start, steps=SOLVED_STEPS)


def _class_means(unit: Tensor, member: Tensor) -> Tensor:
    """The mean of each class's features, at length 1; that of all for a class without images."""
    counts = member.sum(0)
    means = (member.T @ unit) / counts.clamp_min(1)[:, None]
    means[counts == 0] = unit.mean(0)
    return F.normalize(means, dim=1)


def _text_scale(data: TuningData, texts: Tensor, rows: Tensor) -> float:
    """The blend at which the texts alone explain the labels of some rows best."""
    return min(BLENDS, key=lambda blend: _loss(data, blend * texts, rows))


def _problem(
    data: TuningData, unit: Tensor, rows: Tensor, *, around: bool, spread: bool = True
) -> tuple[Standardisation, RidgeLogistic, float]:
    """The regression on some rows, and the weight of the texts that it is fitted around (0 where it is not)."""
    standard = standardisation(unit[rows], spread=spread)
    anchor, scale = None, 0.0
    if around:
        texts = cosines(data, unit[rows])
        scale = _text_scale(data, texts, rows)
        anchor = scale * texts
    problem = RidgeLogistic(standard(unit[rows]), data.targets(rows), several=data.several, anchor=anchor)
    return standard, problem, scale


def _refit(data: TuningData, unit: Tensor, chosen: Candidate) -> tuple[nn.Module, Candidate]:
    """The chosen head, fitted on all rows, and the choice with the texts' weight in a fit around them."""
    if chosen.kind == "zero_shot":
        assert data.class_embeddings is not None
        return language_head(data.class_embeddings, data.logit_scale).eval(), chosen
    if chosen.kind == "discriminant":
        return discriminant_head(data, unit, chosen.temperature or 0.0, chosen.blend or 0.0), chosen
    texts = None if data.class_embeddings is None else F.normalize(data.class_embeddings, dim=1)
    if chosen.kind == "class_means":
        weight = (chosen.temperature or 0.0) * _class_means(unit, data.targets())
        return linear_head(weight, weight.new_zeros(data.classes)), chosen
    if chosen.kind == "cache":
        keys = unit.new_zeros(data.classes, unit.shape[1]) if texts is None else texts
        parts = (chosen.blend or 0.0, chosen.alpha or 0.0, chosen.beta or 0.0)
        return CacheHead(keys, unit, data.targets(), *parts).eval(), chosen
    if chosen.kind == "mean":  # the mean of two linear heads is one
        one, _ = _refit_regression(data, unit, replace(chosen, kind=chosen.regression or "regression"))
        other = discriminant_head(data, unit, chosen.temperature or 0.0, chosen.discriminant_blend or 0.0)
        weight, bias = (
            0.5 * first.detach() + 0.5 * second.detach()
            for first, second in ((one.weight, other.weight), (one.bias, other.bias))
        )
        return linear_head(weight, bias), chosen
    return _refit_regression(data, unit, chosen)


def _refit_regression(data: TuningData, unit: Tensor, chosen: Candidate) -> tuple[LinearHead, Candidate]:
    """A regression on all rows, along the path that was validated."""
    assert chosen.strength is not None
    around, solved = chosen.kind == "around_texts", chosen.kind == "solved"
    standard, problem, scale = _problem(data, unit, torch.arange(len(unit)), around=around, spread=not solved)
    # the same few steps per penalty: at weak ones the path stops early, and what is validated is the stopped solution
    if solved:
        delta = _solved(problem, data, chosen.strength, problem.start())
    else:
        *_, delta = _solutions(problem, data.classes, chosen.strength)
    found = problem.unrotated(delta)
    weight = found[:, :-1]
    texts = None if data.class_embeddings is None else F.normalize(data.class_embeddings, dim=1)
    if texts is not None and not around:
        weight = weight + (chosen.blend or 0.0) * texts
    weight = weight * standard.scale
    bias = found[:, -1] - weight @ standard.centre
    if texts is not None and around:
        weight, chosen = weight + scale * texts, replace(chosen, blend=scale)
    return linear_head(weight, bias), chosen


def _loss(data: TuningData, scores: Tensor, rows: Tensor) -> float:
    """Mean log-loss of some rows."""
    if data.several:
        return float(F.binary_cross_entropy_with_logits(scores, data.targets(rows)))
    return float(F.cross_entropy(scores, data.labels[rows]))
