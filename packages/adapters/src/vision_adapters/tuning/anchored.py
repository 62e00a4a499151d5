"""The default tuner: ridge logistic regressions blended with zero-shot or fitted around it, chosen on validation.

One file of more than 400 lines: what is tried, how it is judged and how the chosen one is fitted again have to agree
line by line.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vision_adapters.heads import LinearHead, fixed_head, language_head
from vision_adapters.tuning.baselines import CacheHead, cache_values
from vision_adapters.tuning.data import Tuned, TuningData
from vision_adapters.tuning.discriminant import BLENDS as DISCRIMINANT_BLENDS
from vision_adapters.tuning.discriminant import TEMPERATURES, discriminant_head, discriminant_scores
from vision_adapters.tuning.few_images import (
    CACHED_FROM,
    DISCRIMINANT_SCALES,
    FINE_FACTORS,
    GAIN_IN_ERRORS,
    MIXED_UP_TO,
    PUBLISHED_RIDGE,
    REGRESSION_SCALES,
    REGRESSION_STRENGTHS,
    RIDGES,
    UNVALIDATED_STRENGTH,
    RidgeDiscriminant,
)
from vision_adapters.tuning.logistic import RidgeLogistic
from vision_adapters.tuning.unit_features import class_means, cosines, may_move, standardisation

# Penalties times the number of classes: from weights that follow the class means to weights that separate the samples.
STRENGTHS = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 3e-4, 1e-4, 3e-5, 1e-5)
PATIENCE = 2  # points of the path without a better metric, after which it is left
# The texts' part in the scores: cosines times these. A dual encoder's own scale is another, for zero-shot.
BLENDS = (0.0, 1.0, 2.0, 4.0, 7.0, 12.0, 20.0, 35.0, 60.0, 100.0)
UNVALIDATED = 0.3  # the strength where nothing can be validated
STEPS = 8  # per point of the path: each starts from the one before
SOLVED_STEPS = 25  # per point where a regression is to be solved
LOOKED_AT = 2**20  # scores by which forms of the features are compared before anything is solved
RIVALS = 2.0  # standard errors below features at length 1, within which features as they come are tried too
SAME_LENGTH = 0.01  # relative spread of lengths below which features as they come are those at length 1
SHARPNESSES = (5.0, 10.0, 20.0, 40.0, 80.0)  # of a cache of cosines
CACHE_WEIGHTS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
OWN_SCALES = tuple(2.0 ** (quarter / 4) for quarter in range(-4, 29))  # of a candidate that is chosen by its hits
SURE_OF_A_SCALE = 10.83  # twice the log-likelihood that a factor must gain: a likelihood-ratio test at 0.001
KEPT_SCORES = 2**18  # validation scores of a candidate that are kept to find its factor, of rows at equal distances
CACHED_IMAGES = 10_000  # of more, a cache is slow to ask, and regressions are ahead
MEAN_TEMPERATURES = (5.0, 10.0, 20.0, 40.0)

Kind = Literal[
    "zero_shot", "regression", "around_texts", "solved", "discriminant", "class_means", "cache", "mean",
    "ridge_discriminant", "ridge_mean",
]  # fmt: skip
"""Regressions have the texts added, are fitted around them, or solved on features that are centred alone, as
scikit-learn's is; the cache is Tip-Adapter's; a mean is that of a regression's and a discriminant's scores, a ridge
mean that of a solved regression's and a ridge discriminant's."""
STEADY = ("ridge_discriminant", "ridge_mean")
REGRESSIONS = ("regression", "around_texts", "solved")


@dataclass(frozen=True)
class Candidate:
    """A way of making scores; what its kind does not have is None."""

    kind: Kind
    strength: float | None = None  # the regression's penalty times the classes
    blend: float | None = None  # of the texts: cosines times this (of the regression, in a mean)
    temperature: float | None = None  # factor of the discriminant's scores, or of the cosines with class means
    alpha: float | None = None  # weight of the cache
    beta: float | None = None  # its sharpness
    regression: Kind | None = None  # in a mean
    discriminant_blend: float | None = None  # of the texts in a mean's discriminant
    lengths: Literal["raw"] | None = None  # "raw" for features as they come; None for features at length 1
    ridge: float | None = None  # of a ridge discriminant, in traces
    scale: float | None = None  # factor of the regression's scores, in a mean or alone
    images: int | None = None  # in the caches that alpha was chosen with, without texts
    length: float | None = None  # of the discriminants' weights that the temperature was chosen with

    def params(self) -> dict[str, float | str]:
        """What the kind has, by name."""
        return {name: value for name, value in vars(self).items() if value is not None}


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
    on $(\delta, b)$, each solution starting from the one before, and the first from the ridge regression of the labels,
    ten weights $\rho$ of the texts are tried; the path is left when two weaker penalties in a row have not helped the
    metric. At the same penalties, $(\delta, b)$ is also fitted around $\rho \cos(v_c, x)$, with
    that $\rho$ of the ten at which zero-shot explains the training labels best (texts have not seen the images, so that
    this is no overfitting). The strong end, zero-shot exactly, is a candidate too. Among those within half a standard
    error of the best metric, and none below zero-shot's, the least log-loss is chosen, for a few hundred images cannot
    tell so many candidates apart by their hits; it is solved again on training and validation together.

    Further candidates: regressions solved on features that are centred alone, as scikit-learn's probe is, at the
    penalties around the best; shrinkage discriminant analysis, softened and blended with the texts; over several folds
    the mean of its scores and a regression's, which err on different images; Tip-Adapter's cache, up to 10,000 images;
    without texts, cosines with class means. The length of a feature may tell classes apart: see `_spaces`.

    Without texts, few images cannot tell so many candidates apart, and scales of single axes are noise. There the
    start is a ridge discriminant (`RidgeDiscriminant`), or its mean with a solved regression, whichever has the least
    log-loss: no rotation of the features changes either. Another candidate is chosen only where its paired log-loss or
    hits on the validation images are better by 1.5 standard errors. With one image per class it is a regression on
    centred features at scikit-learn's default penalty.

    A validation image whose class has no image left to train on is left out; where that is more than half of them (one
    image per class), nothing is validated: with texts, `may_move` decides between zero-shot and a fit around them at
    one fixed penalty. With several labels per sample there are regressions with texts alone, and every image counts.
    `linear` takes features at length 1 alone, and no cache: the head is a `LinearHead`, which a training can go on
    from.

    Over several folds, features are centred and scaled by all images, validation's included; no labels are in that.

    Source: ours, after ELEVATER's language initialisation: the texts keep their part after the start. Weighing the
    texts by how they do on the training images is CLAP's idea (Silva-Rodriguez et al., 2024). Designs were compared on
    made-up features and on draws of real images other than those that the README reports.
    """
    unit = F.normalize(data.features, dim=1)
    anchored = data.class_embeddings is not None and not data.several
    if data.fixed is not None:
        head, choice = _refit(data, unit, Candidate(**data.fixed))
        return Tuned("anchored", choice.params(), None, head, (), data.metric)
    if not data.has_validation:
        if anchored and not may_move(data, unit):
            choice = Candidate("zero_shot", blend=data.logit_scale)
        elif anchored or data.several:
            choice = Candidate("around_texts" if anchored else "regression", UNVALIDATED, 0.0)
        else:
            choice = Candidate("solved", UNVALIDATED_STRENGTH, 0.0)
        head, choice = _refit(data, unit, choice)
        return Tuned("anchored", choice.params(), None, head, (), data.metric)
    trials = _Trials(data, unit)
    blends: tuple[float, ...] = (0.0,)
    floor = -math.inf
    if data.class_embeddings is not None:
        zero_shot = Candidate("zero_shot", blend=data.logit_scale)
        floor = trials.judge(zero_shot, data.logit_scale * trials.cosines).validation
        blends = BLENDS
    spaces = [_Space(data, unit, raw=False, spread=True)] if linear else _spaces(data, unit)
    for space in spaces:
        free = trials.descend(space, (0.0,) if space.raw else blends)
        if anchored and not space.raw:
            trials.descend(space, (), behind=free)
        trials.solved(free, (0.0,) if space.raw else blends)
        trials.discriminants(space)
        trials.mean(raw=space.raw)
    if not data.several:
        if not linear and (data.class_embeddings is not None or len(unit) >= CACHED_FROM * data.classes):
            trials.cache()
        if data.class_embeddings is None and not isinstance(data.class_weight, tuple):
            trials.class_means()
    best = trials.choose(floor)
    if data.class_embeddings is None and not data.several:
        steady = trials.steady()
        best = best if trials.is_ahead(best, steady) else steady
    head, choice = _refit(data, unit, trials.at_its_scale(best.candidate))
    candidates = tuple(
        {**judged.candidate.params(), "validation": judged.validation, "loss": judged.loss} for judged in trials.judged
    )
    return Tuned("anchored", choice.params(), best.validation, head, candidates, data.metric)


class _Trials:
    """Candidates judged on the validation rows that count, and the scores of the surest of each family."""

    def __init__(self, data: TuningData, unit: Tensor) -> None:
        self.data, self.unit = data, unit
        self.counted = data.valid_mask()
        self.rows = data.validation_rows()[self.counted]
        self.cosines = cosines(data, unit[self.rows])
        self.judged: list[Judged] = []
        self.losses: dict[Candidate, Tensor] = {}
        self.hits: dict[Candidate, Tensor] = {}
        self.surest: dict[tuple[str, bool], tuple[Judged, Tensor]] = {}
        self.top = -math.inf
        self.scores: dict[Candidate, tuple[Tensor, Tensor]] = {}  # of those that may be chosen

    def judge(self, candidate: Candidate, scores: Tensor) -> Judged:
        """Note how a candidate does."""
        losses = _losses(self.data, scores, self.rows)
        judged = Judged(candidate, self.data.score(scores, self.rows), float(losses.mean()))
        self.judged.append(judged)
        self.losses[candidate] = losses
        if not self.data.several:
            self.hits[candidate] = (scores.argmax(1) == self.data.labels[self.rows]).float()
            self.top = max(self.top, judged.validation)
            if candidate.kind not in STEADY and judged.validation >= self.top - _slack(self.top, len(self.rows)):
                step = -(-scores.numel() // KEPT_SCORES)
                self.scores[candidate] = scores[::step].clone(), self.rows[::step]
        family = "regression" if candidate.kind in REGRESSIONS else candidate.kind, candidate.lengths == "raw"
        if family not in self.surest or judged.loss < self.surest[family][0].loss:
            self.surest[family] = judged, scores
        return judged

    def at_its_scale(self, candidate: Candidate) -> Candidate:
        """Give a candidate that is chosen by its hits the factor that log-loss wants, if it is sure of one.

        A strong penalty, or a sharp cache, leaves scores so small that all probabilities are nearly the same.
        """
        if candidate not in self.scores:
            return candidate
        scores, rows = self.scores[candidate]
        losses = {factor: _loss(self.data, factor * scores, rows) for factor in OWN_SCALES}
        best = min(losses, key=lambda factor: losses[factor])
        gain = 2 * len(scores) * (_loss(self.data, scores, rows) - losses[best])
        return _scaled(candidate, best) if gain > SURE_OF_A_SCALE else candidate

    def features(self, *, raw: bool) -> Tensor:
        """As they come, or at length 1."""
        return self.data.features if raw else self.unit

    def descend(self, space: _Space, blends: tuple[float, ...], behind: list[Judged] | None = None) -> list[Judged]:
        """Try ever weaker penalties while they help, with every blend, or (without any) as fitted around the texts.

        With `behind`, it is also left where its metric is two standard errors below what was `behind` at the same
        penalty.
        """
        lengths: Literal["raw"] | None = "raw" if space.raw else None
        texts = (space.text_products() if blends else space.around())[self.counted]
        judged: list[Judged] = []
        top, waited = -math.inf, 0
        for strength, scores in space.path():
            scores = scores[self.counted]
            if blends:
                at_strength = [
                    self.judge(Candidate("regression", strength, blend, lengths=lengths), blend * texts + scores)
                    for blend in blends
                ]
            else:
                at_strength = [self.judge(Candidate("around_texts", strength, space.mean_scale), texts + scores)]
            judged += at_strength
            best = max(row.validation for row in at_strength)
            waited = 0 if best > top else waited + 1
            top = max(top, best)
            rivals = [row.validation for row in behind or () if row.candidate.strength == strength]
            rival = max(rivals, default=-math.inf)
            if waited == PATIENCE or best < rival - 4 * _slack(rival, len(self.rows)):
                break
        return judged

    def solved(self, path: list[Judged], blends: tuple[float, ...]) -> None:
        """Regressions that are solved, at the penalties around the surest of a path, on features centred alone."""
        surest = min(path, key=lambda judged: judged.loss).candidate
        assert surest.strength is not None
        raw = surest.lengths == "raw"
        space = _Space(self.data, self.features(raw=raw), raw=raw, spread=False)
        texts = space.text_products()[self.counted]
        rank = STRENGTHS.index(surest.strength)
        for strength, scores in space.solved(STRENGTHS[max(0, rank - 1) : rank + 3]):
            for blend in blends:
                candidate = Candidate("solved", strength, blend, lengths=surest.lengths)
                self.judge(candidate, blend * texts + scores[self.counted])

    def class_means(self) -> None:
        """Cosines with the mean feature of each class; where there are texts, those stand for the classes."""
        folds = self.data.folds
        means = [_unit_means(self.data, self.unit, fold.train) for fold in folds]
        near = [self.unit[fold.validation] @ mean.T for fold, mean in zip(folds, means, strict=True)]
        scores = torch.cat(near)[self.counted]
        for temperature in MEAN_TEMPERATURES:
            self.judge(Candidate("class_means", temperature=temperature), temperature * scores)

    def cache(self) -> None:
        """Zero-shot and a cache of the training images, as in Tip-Adapter; the cache alone where there are no texts."""
        if len(self.unit) > CACHED_IMAGES:
            return
        data, blend = self.data, 0.0 if self.data.class_embeddings is None else self.data.logit_scale
        near = [
            (self.unit[fold.validation] @ self.unit[fold.train].T - 1, cache_values(data, fold.train))
            for fold in data.folds
        ]
        images = None if blend else sum(len(fold.train) for fold in data.folds) // len(data.folds)
        for beta in SHARPNESSES:
            parts = [(beta * distance).exp_() @ member for distance, member in near]
            scores = torch.cat(parts)[self.counted]
            for alpha in CACHE_WEIGHTS:
                candidate = Candidate("cache", blend=blend, alpha=alpha, beta=beta, images=images)
                self.judge(candidate, blend * self.cosines + alpha * scores)

    def discriminants(self, space: _Space) -> None:
        """Shrinkage discriminant analysis, softened and blended with the texts."""
        raw, scores = space.raw, space.discriminant
        if scores is None:
            return
        scores = scores[self.counted]
        texts = self.data.class_embeddings is not None and not raw
        for temperature in TEMPERATURES:
            for blend in DISCRIMINANT_BLENDS if texts else (0.0,):
                candidate = Candidate(
                    "discriminant", temperature=temperature, blend=blend, lengths="raw" if raw else None
                )
                self.judge(candidate, temperature * scores + blend * self.cosines)

    def mean(self, *, raw: bool) -> None:
        """The mean of the scores of the surest regression and of the surest discriminant, over several folds."""
        families = [("regression", raw), ("discriminant", raw)]
        if len(self.data.folds) == 1 or not self.surest.keys() >= set(families):
            return
        (regression, scores), (discriminant, its_scores) = (self.surest[family] for family in families)
        candidate = replace(
            regression.candidate, kind="mean", temperature=discriminant.candidate.temperature,
            regression=regression.candidate.kind, discriminant_blend=discriminant.candidate.blend,
        )  # fmt: skip
        self.judge(candidate, 0.5 * scores + 0.5 * its_scores)

    def steady(self) -> Judged:
        """Return a ridge discriminant, or its mean with a regression, each at its best scale.

        Another ridge than the published one is taken only where it is ahead (`is_ahead`).
        """
        data = self.data
        heads = [
            RidgeDiscriminant(self.unit[fold.train], data.targets(fold.train), data.effective_weights(fold.train))
            for fold in data.folds
        ]
        judged: dict[float, Judged] = {}
        scores_at: dict[float, Tensor] = {}
        for ridge in RIDGES:
            at_ridge = [head.head(ridge) for head in heads]
            parts = [head.scores(self.unit[fold.validation]) for head, fold in zip(at_ridge, data.folds, strict=True)]
            scores = torch.cat(parts)[self.counted]
            factor = self._factor(scores, DISCRIMINANT_SCALES)
            scores_at[ridge] = factor * scores
            length = sum(head.length() for head in at_ridge) / len(at_ridge)
            candidate = Candidate("ridge_discriminant", temperature=factor, ridge=ridge, length=length)
            judged[ridge] = self.judge(candidate, scores_at[ridge])
        surest = min(judged, key=lambda ridge: judged[ridge].loss)
        chosen = surest if self.is_ahead(judged[surest], judged[PUBLISHED_RIDGE]) else PUBLISHED_RIDGE
        if len(self.unit) > MIXED_UP_TO * data.classes:
            return judged[chosen]
        strength, factor, scores = self._regression()
        both, of_discriminant = 0.5 * scores_at[chosen] + 0.5 * scores, judged[chosen].candidate
        sharper = self._factor(both, (1.0,))
        candidate = replace(
            of_discriminant, kind="ridge_mean", strength=strength, scale=sharper * factor,
            temperature=sharper * (of_discriminant.temperature or 0.0),
        )  # fmt: skip
        return min(judged[chosen], self.judge(candidate, sharper * both), key=lambda row: row.loss)

    def _factor(self, scores: Tensor, coarse: tuple[float, ...]) -> float:
        """Return the factor at which scores have the least log-loss, by steps of 15 % around the best one given."""

        def loss(factor: float) -> float:
            return _loss(self.data, factor * scores, self.rows)

        start = min(coarse, key=loss)
        return min((start * fine for fine in FINE_FACTORS), key=loss)

    def _regression(self) -> tuple[float, float, Tensor]:
        """Return penalty, factor and scaled scores of the surest solved regression among a few strong ones."""
        space = _Space(self.data, self.unit, raw=False, spread=False)
        tried = [
            (strength, factor, factor * scores[self.counted])
            for strength, scores in space.solved(REGRESSION_STRENGTHS)
            for factor in REGRESSION_SCALES
        ]
        strength, factor, scores = min(tried, key=lambda row: _loss(self.data, row[2], self.rows))
        finer = self._factor(scores, (1.0,))
        return strength, finer * factor, finer * scores

    def is_ahead(self, other: Judged, base: Judged) -> bool:
        """Whether log-loss or hits of `other` are better than those of `base` by `GAIN_IN_ERRORS`, paired."""
        gains = (
            self.losses[base.candidate] - self.losses[other.candidate],
            self.hits[other.candidate] - self.hits[base.candidate],
        )
        return any(
            len(gain) > 1 and float(gain.mean()) > GAIN_IN_ERRORS * float(gain.std()) / math.sqrt(len(gain))
            for gain in gains
        )

    def choose(self, floor: float) -> Judged:
        """The least log-loss among those within half a standard error of the best metric and not below `floor`."""
        top = max(judged.validation for judged in self.judged)
        least = max(top - _slack(top, len(self.rows)), floor)
        return min((judged for judged in self.judged if judged.validation >= least), key=lambda judged: judged.loss)


class _Space:
    """Features in one form, decomposed once, with the regressions of all folds on them.

    One fold is centred and scaled by its training rows alone; several share the rows, and have weights on them.
    """

    def __init__(self, data: TuningData, features: Tensor, *, raw: bool, spread: bool) -> None:
        self.data, self.features, self.raw = data, features, raw
        folds = data.folds
        self.rows = folds[0].train if len(folds) == 1 else torch.arange(len(features))
        standard = standardisation(features[self.rows], spread=spread)
        weights = features.new_zeros(len(folds), len(features))
        for number, fold in enumerate(folds):
            weights[number, fold.train] = data.sample_weights(fold.train) / len(fold.train)
        weights = weights[:, self.rows]
        z = standard(features[self.rows])
        self.problem = RidgeLogistic(z, data.targets(self.rows), several=data.several, weights=weights)
        self.held = [standard(features[fold.validation]) for fold in folds]

    @cached_property
    def discriminant(self) -> Tensor | None:
        """A discriminant's scores of the validation rows, where there is one."""
        return discriminant_scores(self.data, self.features)

    def text_products(self) -> Tensor:
        """Products of the standardised validation rows with the texts."""
        return torch.cat([cosines(self.data, held[:, :-1]) for held in self.held])

    def around(self) -> Tensor:
        """Fit around the texts from now on; their part in the scores of the validation rows."""
        data, unit = self.data, F.normalize(self.data.features, dim=1)
        similarities = cosines(data, unit)
        scales = [_text_scale(data, similarities[fold.train], fold.train) for fold in data.folds]
        self.mean_scale = math.fsum(scales) / len(scales)
        self.problem = self.problem.around(torch.stack([scale * similarities[self.rows] for scale in scales]))
        parts = [scale * similarities[fold.validation] for scale, fold in zip(scales, data.folds, strict=True)]
        return torch.cat(parts)

    def look(self) -> float:
        """The best metric of ridge regressions of the labels, at rows that they leave out."""
        every = max(1, len(self.rows) * self.data.classes // LOOKED_AT)
        rows = torch.arange(0, len(self.rows), every)
        penalties = torch.tensor(STRENGTHS[::2]) / self.data.classes
        labelled = self.rows[rows]
        return max(self.data.score(scores, labelled) for scores in self.problem.left_out(penalties, rows))

    def path(self) -> Iterator[tuple[float, Tensor]]:
        """Each penalty, the strong ones first, with the scores of the validation rows."""
        for strength, deltas in _path(self.problem, self.data.classes, len(self.held)):
            yield strength, self.scores(deltas)

    def solved(self, strengths: tuple[float, ...]) -> Iterator[tuple[float, Tensor]]:
        """Some penalties, each solved from the stronger one's solution, with the scores of the validation rows."""
        folds, deltas = len(self.held), None
        for strength in strengths:
            penalties = torch.full((folds,), strength / self.data.classes)
            deltas = self.problem.solve(penalties, torch.arange(folds), deltas, steps=SOLVED_STEPS)
            yield strength, self.scores(deltas)

    def scores(self, deltas: Tensor) -> Tensor:
        """Of the validation rows, each by its fold's weights."""
        parts = [held @ weights.T for held, weights in zip(self.held, self.problem.unrotated(deltas), strict=True)]
        return torch.cat(parts)


def _path(problem: RidgeLogistic, classes: int, folds: int = 1) -> Iterator[tuple[float, Tensor]]:
    """Each penalty with the weights of all folds after a few steps from those at the stronger one."""
    numbers, deltas = torch.arange(folds), None
    for strength in STRENGTHS:
        deltas = problem.solve(torch.full((folds,), strength / classes), numbers, deltas, steps=STEPS)
        yield strength, deltas


def _spaces(data: TuningData, unit: Tensor) -> list[_Space]:
    """Features at length 1, as they come, or both, by which of them ridge regressions and discriminants do better on.

    The length may tell classes apart, or hide them. Where ridge regressions that leave each image out are within two
    standard errors of one another, discriminants decide. Features as they come are tried where they are not behind
    (with texts, which are compared with features at length 1: where they are ahead), those at length 1 where they are
    not two standard errors behind.
    """
    at_length_1 = _Space(data, unit, raw=False, spread=True)
    lengths = data.features.norm(dim=1)
    if float(lengths.std(correction=0)) <= SAME_LENGTH * float(lengths.mean()):
        return [at_length_1]
    spaces = (at_length_1, _Space(data, data.features, raw=True, spread=True))
    gap = _gap([space.look() for space in spaces], len(unit))
    discriminants = [space.discriminant for space in spaces]
    if abs(gap) <= RIVALS and discriminants[0] is not None:
        counted = data.valid_mask()
        rows = data.validation_rows()[counted]
        gap = _gap([data.score(scores[counted], rows) for scores in discriminants if scores is not None], len(rows))
    anchored = data.class_embeddings is not None
    tried = anchored or gap <= RIVALS, gap > RIVALS if anchored else gap >= 0
    return [space for space, try_it in zip(spaces, tried, strict=True) if try_it]


def _gap(metrics: list[float], samples: int) -> float:
    """By how many standard errors the second metric is above the first."""
    difference, error = metrics[1] - metrics[0], 2 * _slack(max(metrics), samples)
    return difference / error if error else math.copysign(math.inf, difference) if difference else 0.0


def _scaled(candidate: Candidate, factor: float) -> Candidate:
    """The candidate, all of whose scores are multiplied by a factor; zero-shot stays as it is."""
    scaled = {
        "discriminant": ("temperature", "blend"),
        "class_means": ("temperature",),
        "cache": ("alpha", "blend"),
        "mean": ("temperature", "discriminant_blend"),
    }.get(candidate.kind, ())
    values: dict[str, Any] = {name: factor * (getattr(candidate, name) or 0.0) for name in scaled}
    if candidate.kind in (*REGRESSIONS, "mean"):
        values["scale"] = factor
    return replace(candidate, **values)


def _slack(value: float, samples: int) -> float:
    """Half the standard error of a metric between 0 and 1; 0 at the ends and outside."""
    return 0.5 * math.sqrt(value * (1 - value) / samples) if 0 < value < 1 else 0.0


def _unit_means(data: TuningData, unit: Tensor, rows: Tensor | slice = slice(None)) -> Tensor:
    return F.normalize(class_means(unit[rows], data.targets(rows), data.effective_weights(rows)), dim=1)


def _text_scale(data: TuningData, texts: Tensor, rows: Tensor) -> float:
    """The blend at which the texts alone explain the labels of some rows best."""
    return min(BLENDS, key=lambda blend: _loss(data, blend * texts, rows))


def _refit(data: TuningData, unit: Tensor, candidate: Candidate) -> tuple[nn.Module, Candidate]:
    """The chosen head, fitted on all rows, and the choice with the texts' weight in a fit around them."""
    raw = candidate.lengths == "raw"
    features = data.features if raw else unit
    if candidate.kind == "zero_shot":
        assert data.class_embeddings is not None
        return language_head(data.class_embeddings, data.logit_scale).eval(), candidate
    if candidate.kind == "discriminant":
        temperature, blend = candidate.temperature or 0.0, candidate.blend or 0.0
        return discriminant_head(data, features, temperature, blend, raw=raw), candidate
    texts = None if data.class_embeddings is None else F.normalize(data.class_embeddings, dim=1)
    if candidate.kind == "class_means":
        weight = (candidate.temperature or 0.0) * _unit_means(data, unit)
        return fixed_head(weight, weight.new_zeros(data.classes), "l2"), candidate
    if candidate.kind == "cache":
        keys = unit.new_zeros(data.classes, unit.shape[1]) if texts is None else texts
        # more images make sums larger, and probabilities too sure
        alpha = (candidate.alpha or 0.0) * (candidate.images or len(unit)) / len(unit)
        parts = (candidate.blend or 0.0, alpha, candidate.beta or 0.0)
        return CacheHead(keys, unit, cache_values(data), *parts).eval(), candidate
    if candidate.kind in STEADY:
        assert candidate.ridge is not None
        assert candidate.temperature is not None
        discriminant = RidgeDiscriminant(unit, data.targets(), data.effective_weights()).head(candidate.ridge)
        # more images have more scatter, which makes weights shorter and probabilities less sure
        own = discriminant.length()
        factor = candidate.temperature * (candidate.length / own if candidate.length and own > 0 else 1.0)
        weight, bias = factor * discriminant.weight, factor * discriminant.bias
        if candidate.kind == "ridge_mean":
            solved, _ = _refit_regression(data, unit, replace(candidate, kind="solved", blend=0.0, scale=None))
            of_solved = candidate.scale or 0.0
            weight = 0.5 * weight + 0.5 * of_solved * solved.weight.detach()
            bias = 0.5 * bias + 0.5 * of_solved * solved.bias.detach()
        return fixed_head(weight, bias, "l2"), candidate
    if candidate.kind == "mean":  # the mean of two linear heads is one
        regression, _ = _refit_regression(data, features, replace(candidate, kind=candidate.regression or "regression"))
        temperature, blend = candidate.temperature or 0.0, candidate.discriminant_blend or 0.0
        shrunk = discriminant_head(data, features, temperature, blend, raw=raw)
        weight = 0.5 * regression.weight.detach() + 0.5 * shrunk.weight.detach()
        bias = 0.5 * regression.bias.detach() + 0.5 * shrunk.bias.detach()
        return fixed_head(weight, bias, "raw" if raw else "l2"), candidate
    return _refit_regression(data, features, candidate)


def _refit_regression(data: TuningData, features: Tensor, candidate: Candidate) -> tuple[LinearHead, Candidate]:
    """A regression on all rows, at the penalty that was validated."""
    assert candidate.strength is not None
    around, raw = candidate.kind == "around_texts", candidate.lengths == "raw"
    rows = torch.arange(len(features))
    standard = standardisation(features, spread=candidate.kind != "solved")
    anchor, scale = None, 0.0
    if around:
        similarities = cosines(data, features)
        scale = _text_scale(data, similarities, rows)
        anchor = scale * similarities
    weights = data.sample_weights(rows)[None] / len(rows)
    problem = RidgeLogistic(standard(features), data.targets(), several=data.several, anchor=anchor, weights=weights)
    # the same few steps per penalty: at weak ones the path stops early, and what is validated is the stopped solution
    if candidate.kind == "solved":
        deltas = problem.solve(torch.tensor([candidate.strength / data.classes]), steps=SOLVED_STEPS)
    else:
        deltas = next(deltas for strength, deltas in _path(problem, data.classes) if strength <= candidate.strength)
    solution = problem.unrotated(deltas)[0]
    weight = solution[:, :-1]
    texts = None if data.class_embeddings is None else F.normalize(data.class_embeddings, dim=1)
    if texts is not None and not around and candidate.blend:
        weight = weight + candidate.blend * texts
    weight = weight * standard.scale
    bias = solution[:, -1] - (weight.double() @ standard.centre.double()).to(weight)
    if texts is not None and around:
        weight, candidate = weight + scale * texts, replace(candidate, blend=scale)
    if candidate.scale is not None:
        weight, bias = candidate.scale * weight, candidate.scale * bias
    return fixed_head(weight, bias, "raw" if raw else "l2"), candidate


def _loss(data: TuningData, scores: Tensor, rows: Tensor) -> float:
    """Mean log-loss of some rows."""
    return float(_losses(data, scores, rows).mean())


def _losses(data: TuningData, scores: Tensor, rows: Tensor) -> Tensor:
    """Log-loss of each of some rows, or of each label of each row."""
    if data.several:
        losses = F.binary_cross_entropy_with_logits(scores, data.targets(rows), reduction="none")
        return losses if data.sample_weight is None else losses * data.sample_weights(rows)[:, None]
    losses = F.cross_entropy(scores, data.labels[rows], reduction="none")
    return losses if data.weighs_alike else losses * data.sample_weights(rows)
