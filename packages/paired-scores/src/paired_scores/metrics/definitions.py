"""The metrics: what each keeps per sample, and how those numbers make the metric for any weighting of the samples.

One file of more than 400 lines: a metric is a row of the table at its end and two or three functions above it, which
are read beside those of its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Literal

import numpy as np

from paired_scores.metrics.arrays import (
    IGNORED,
    Array,
    Floats,
    UndefinedMetricError,
    class_labels,
    mean_over,
    ratio,
    score_columns,
)
from paired_scores.metrics.probabilities import (
    binned_error,
    log_losses,
    refuse_partial,
    sure_and_right,
    uniform_log_loss,
)
from paired_scores.metrics.ranking import (
    weighted_11point,
    weighted_auc,
    weighted_average_precision,
    weighted_elevater_11point,
)


@dataclass(frozen=True)
class Metric:
    """A metric as two functions, so that an interval resamples samples and never recomputes predictions.

    `chance` takes targets and the number of classes or labels, and gives what guessing without the image expects, where
    there is such a number. `outcomes` takes predictions and targets, and gives what is kept per sample; `aggregate`
    takes these and weights [r, n], and gives the metric [r] of each weighting. `trials` is of how many independent
    trials the metric is the share that succeeded, or as good as that at 0 and 1, where resampling has nothing to vary.
    `undefined` is what is wrong where the metric has no value; `check` refuses outcomes that define none, and says why.
    `within` are the least and the largest value that the metric can have.
    """

    name: str
    direction: Literal["higher", "lower"]
    chance: Callable[[Array, int], float] | None
    outcomes: Callable[[Array, Array], Floats]
    aggregate: Callable[[Floats, Floats], Floats]
    trials: Callable[[Floats], float] | None = None
    undefined: str = "these samples do not define it"
    check: Callable[[Floats], None] | None = None
    within: tuple[float, float] = (0.0, 1.0)


_EXACT = 2**53
"""Whole numbers up to which float64 tells neighbours apart."""


def weighted_mean(outcomes: Floats, weights: Floats) -> Floats:
    """The mean over samples of one number each."""
    return ratio(weights @ outcomes, weights.sum(1))


def hits_at(k: int) -> Callable[[Array, Array], Floats]:
    """The chance that the true class is among the k best: 0 or 1, or between where other classes score the same."""

    def outcomes(predictions: Array, targets: Array) -> Floats:
        if predictions.ndim == 1:
            if k > 1:
                raise ValueError(f"acc@{k} needs scores [n, classes], got labels of shape {predictions.shape}")
            return np.asarray(
                class_labels(predictions, None, "prediction") == class_labels(targets, None), dtype=np.float64
            )
        if predictions.ndim != 2:
            raise ValueError(f"predictions must be labels [n] or scores [n, classes], got shape {predictions.shape}")
        labels = class_labels(targets, predictions.shape[1])
        own = predictions[np.arange(len(labels)), labels][:, None]
        ahead, tied = (predictions > own).sum(1), (predictions == own).sum(1)
        share: Floats = np.clip((k - ahead) / tied, 0.0, 1.0)
        return share

    return outcomes


def _refuse_inexact(*labels: Array) -> None:
    """Refuse class numbers that float64 merges with their neighbours: outcomes are kept in it."""
    for values in labels:
        if values.size and values.dtype.kind in "iu" and (large := max(int(values.max()), -int(values.min()))) > _EXACT:
            raise ValueError(f"class {large} is above 2**53, where numbers are merged; number the classes from 0")


def _hits_and_class(predictions: Array, targets: Array) -> Floats:
    """Columns: whether the sample is right, and its class."""
    _refuse_inexact(targets)
    return np.stack([hits_at(1)(predictions, targets), targets.astype(np.float64)], axis=1)


def _per_class_accuracy(outcomes: Floats, weights: Floats) -> Floats:
    """The mean over classes of the accuracy within each; classes that a resample lacks are left out of its mean."""
    order = np.argsort(outcomes[:, 1], kind="stable")
    classes = outcomes[order, 1]
    starts = np.flatnonzero(np.append(True, np.diff(classes) != 0))
    sorted_weights = weights[:, order]
    count = np.add.reduceat(sorted_weights, starts, axis=1)
    right = np.add.reduceat(sorted_weights * outcomes[order, 0], starts, axis=1)
    return mean_over(ratio(right, count))


def _balanced_trials(outcomes: Floats) -> float:
    """Kish's effective number of samples, each weighing 1 / (its class's size)."""
    _, counts = np.unique(outcomes[:, 1], return_counts=True)
    return float(len(counts) ** 2 / (1 / counts).sum())


def _ranked(predictions: Array, targets: Array) -> Floats:
    """Scores and truths [n, 2, labels]."""
    return np.stack(score_columns(predictions, targets), axis=1)


def _refuse_lonely(outcomes: Floats) -> None:
    """Some label must have a positive and a negative; one that has not is left out of the mean."""
    truths = outcomes[:, 1]
    positives = truths.sum(0)
    lonely = (positives == 0) | (positives == len(truths))
    if lonely.all():
        label = int(lonely.argmax())
        raise UndefinedMetricError(
            f"label {label} has {int(positives[label])} positives among {len(truths)} samples, expected both classes"
        )


def _ranked_trials(outcomes: Floats) -> float:
    """The harmonic mean over labels of the rarer side's samples: a ranking is right as far as those were seen."""
    positives = (outcomes[:, 1] > 0).sum(0)
    rarer = np.minimum(positives, len(outcomes) - positives)
    return float(1 / (1 / rarer[rarer > 0]).mean())


def _macro(rank: Callable[[Floats, Floats, Floats], Floats]) -> Callable[[Floats, Floats], Floats]:
    """The mean over labels of a ranking metric."""

    def aggregate(outcomes: Floats, weights: Floats) -> Floats:
        truths = outcomes[:, 1]
        mixed = [label for label in range(outcomes.shape[2]) if truths[:, label].any() and not truths[:, label].all()]
        columns = [rank(outcomes[:, 0, label], truths[:, label], weights) for label in mixed]
        return mean_over(np.stack(columns, axis=1)) if columns else np.full(len(weights), np.nan)

    return aggregate


def _brier(predictions: Array, targets: Array) -> Floats:
    """Squared error of the probabilities: the sum over more than two classes, the mean over labels.

    Of two classes it is that of the second's probability, half of the sum; so has scikit-learn it.
    """
    exclusive = predictions.ndim == 2 and targets.ndim == 1 and predictions.shape[1] > 1
    if exclusive:
        truths = np.eye(predictions.shape[1])[class_labels(targets, predictions.shape[1])]
        scores = predictions.astype(np.float64)
    else:
        scores, truths = score_columns(predictions, targets)
    outside = (scores < 0) | (scores > 1)
    if outside.any():
        raise ValueError(f"brier needs probabilities, got {scores[outside][0]}; apply a softmax or sigmoid first")
    if exclusive:
        refuse_partial(scores)
    squares = np.square(scores - truths)
    errors: Floats = squares.sum(1) if exclusive and squares.shape[1] > 2 else squares.mean(1)
    return errors


def _errors(power: int) -> Callable[[Array, Array], Floats]:
    """|prediction - target| ** power, averaged over what each sample predicts."""

    def outcomes(predictions: Array, targets: Array) -> Floats:
        if predictions.ndim == targets.ndim + 1 and predictions.shape[-1] == 1:
            predictions = predictions[..., 0]
        if predictions.shape != targets.shape:
            raise ValueError(f"predictions have shape {predictions.shape}, targets {targets.shape}; expected the same")
        with np.errstate(over="ignore"):
            error = np.abs(predictions.astype(np.float64) - targets.astype(np.float64)) ** power
            means: Floats = error.reshape(len(error), -1).mean(1)
        if not np.isfinite(means).all():
            sample = int(np.argmin(np.isfinite(means)))
            raise ValueError(
                f"predictions: sample {sample} is so far from its target that float64 holds no error to the power "
                f"{power}: {predictions[sample].ravel()[0]} against {targets[sample].ravel()[0]}"
            )
        return means

    return outcomes


def _squared_and_target(predictions: Array, targets: Array) -> Floats:
    """Columns: squared error, and the target."""
    _refuse_several(targets)
    return np.stack([_errors(2)(predictions, targets), targets.astype(np.float64).reshape(len(targets))], axis=1)


def _root_mean(outcomes: Floats, weights: Floats) -> Floats:
    root: Floats = np.sqrt(weighted_mean(outcomes, weights))
    return root


def _explained(outcomes: Floats, weights: Floats) -> Floats:
    """1 - squared errors over squared distances from the mean."""
    error, target = outcomes[:, 0], outcomes[:, 1] - outcomes[:, 1].mean()  # centred, for precision
    total = weights.sum(1)
    spread = weights @ np.square(target) - ratio(np.square(weights @ target), total, 0.0)
    return 1 - ratio(weights @ error, np.where(spread > 1e-12 * total * np.square(target).max(initial=0), spread, 0.0))


def _prediction_and_target(predictions: Array, targets: Array) -> Floats:
    _refuse_several(targets)
    _errors(1)(predictions, targets)  # of one shape, or refused
    return np.stack([predictions.reshape(len(targets)), targets], axis=1).astype(np.float64)


def _rank_correlation(outcomes: Floats, weights: Floats) -> Floats:
    """Spearman's: Pearson's of mean ranks, a weight being so many equal samples; 0 where all predictions are equal."""
    ranks = [_mean_ranks(outcomes[:, column], weights) for column in (0, 1)]
    total = weights.sum(1)
    first, second = (rank - ratio((weights * rank).sum(1), total)[:, None] for rank in ranks)
    product = (weights * first * second).sum(1)
    spreads = [(weights * rank**2).sum(1) for rank in (first, second)]
    return np.where((spreads[0] <= 0) & (spreads[1] > 0), 0.0, ratio(product, np.sqrt(spreads[0] * spreads[1])))


def _mean_ranks(values: Floats, weights: Floats) -> Floats:
    order = np.argsort(values, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(values[order]) != 0, True))
    upto = np.cumsum(weights[:, order], axis=1)[:, ends]
    before = np.concatenate([np.zeros((len(weights), 1)), upto[:, :-1]], axis=1)
    groups = np.searchsorted(ends, np.arange(len(values)))
    ranks = np.empty_like(weights)
    ranks[:, order] = ((before + upto + 1) / 2)[:, groups]
    return ranks


def _refuse_several(targets: Array) -> None:
    if targets.size != len(targets):
        raise ValueError(
            f"targets have shape {targets.shape}, expected one of each sample [n]: score each column alone"
        )


def _graded(predictions: Array, targets: Array) -> Floats:
    """Classes in their order, columns predicted and true [n, 2]."""
    _refuse_several(targets)
    return _guess_and_truth(predictions, targets.reshape(len(targets)))


def _guess_and_truth(predictions: Array, targets: Array) -> Floats:
    """Of classes, columns predicted and true [n, 2]; of labels, 0/1 of both [n, 2, labels], from a half on."""
    if targets.ndim == 2:
        scores, truths = score_columns(predictions, targets)
        if scores.min(initial=0) < 0 or scores.max(initial=0) > 1:
            raise ValueError("F1 of several labels needs probabilities; apply a sigmoid first")
        return np.stack([(scores > 0.5).astype(np.float64), truths], axis=1)
    _refuse_inexact(predictions, targets)
    guessed = predictions.argmax(1) if predictions.ndim == 2 else class_labels(predictions, None, "prediction")
    classes = predictions.shape[1] if predictions.ndim == 2 else None
    return np.stack([guessed, class_labels(targets, classes)], axis=1).astype(np.float64)


def _counted(outcomes: Floats, weights: Floats) -> tuple[Floats, Floats, Floats]:
    """Weights [r, classes] of what is right, predicted and true, over the classes that occur."""
    if outcomes.ndim == 3:
        guessed, true = outcomes[:, 0], outcomes[:, 1]
        return weights @ (guessed * true), weights @ guessed, weights @ true
    classes, places = np.unique(outcomes, return_inverse=True)
    places = places.reshape(outcomes.shape)
    right = outcomes[:, 0] == outcomes[:, 1]

    def summed(labels: Array, chosen: Array) -> Floats:
        columns = np.zeros((len(weights), len(classes)))
        order = np.argsort(labels[chosen], kind="stable")
        if len(order):
            held = labels[chosen][order]
            starts = np.flatnonzero(np.append(True, np.diff(held) != 0))
            columns[:, held[starts]] = np.add.reduceat(weights[:, np.flatnonzero(chosen)[order]], starts, axis=1)
        return columns

    every = np.ones(len(outcomes), dtype=bool)
    return summed(places[:, 1], right), summed(places[:, 0], every), summed(places[:, 1], every)


def _macro_f1(outcomes: Floats, weights: Floats) -> Floats:
    """The mean over classes that are predicted or true."""
    right, predicted, true = _counted(outcomes, weights)
    return mean_over(ratio(2 * right, predicted + true))


def _micro_f1(outcomes: Floats, weights: Floats) -> Floats:
    right, predicted, true = _counted(outcomes, weights)
    return ratio(2 * right.sum(1), (predicted + true).sum(1))


def _quadratic_kappa(outcomes: Floats, weights: Floats) -> Floats:
    """1 - squared distances between predicted and true ranks over those of independent ones."""
    guessed, true = outcomes[:, 0], outcomes[:, 1]
    total = weights.sum(1)
    means = [ratio(weights @ labels, total) for labels in (guessed, true)]
    squares = [ratio(weights @ np.square(labels), total) for labels in (guessed, true)]
    expected = squares[0] + squares[1] - 2 * means[0] * means[1]
    return 1 - ratio(ratio(weights @ np.square(guessed - true), total), expected)


MOST_CLASSES = 2**16
"""Of label maps, for each of which a count is kept per image: what a map of 16 bits can hold."""
_VOID = 255
"""What most class maps hold where nobody said a class."""


def _mask_counts(predictions: Array, targets: Array) -> Floats:
    """Pixels [n, 3, classes] of each image and class: in both, predicted, true. Targets of -100 count nowhere."""
    scored = predictions.ndim == targets.ndim + 1
    labels = predictions.argmax(1) if scored else predictions
    if labels.shape != targets.shape or targets.ndim < 2:
        raise ValueError(f"masks have shape {predictions.shape}, targets {targets.shape}; expected [n, (k,) h, w]")
    if not targets.size:
        raise ValueError(f"masks have shape {predictions.shape}, targets {targets.shape}: there are no pixels")
    for name, values in (("predictions", labels), ("targets", targets)):
        if values.dtype.kind == "f" and (values != np.floor(values)).any():
            share = values[values != np.floor(values)][0]
            raise ValueError(f"{name}: {share} is not a class, expected whole numbers; were the maps scaled to [0, 1]?")
    valid = targets != IGNORED
    classes = predictions.shape[1] if scored else int(max(labels.max(), targets.max())) + 1
    if classes > MOST_CLASSES:
        raise ValueError(
            f"the label maps name class {classes - 1}, expected 0..{MOST_CLASSES - 1} or {IGNORED}; number them again"
        )
    if (targets == _VOID).any() and not (scored and classes > _VOID) and not (labels == _VOID).any():
        raise ValueError(
            f"targets hold {_VOID}, which no prediction has: if it marks void pixels, write {IGNORED} there"
        )
    for name, values in (("predictions", labels), ("targets", targets)):
        wrong = valid & ((values < 0) | (values >= classes))
        if wrong.any():
            raise ValueError(
                f"{name}: class {values[wrong][0]} is out of range, expected 0..{classes - 1}, or {IGNORED} where void"
            )
    counts = np.zeros((len(targets), 3, max(classes, 1)))
    for row in range(len(targets)):
        predicted, true = labels[row][valid[row]].astype(np.int64), targets[row][valid[row]].astype(np.int64)
        counts[row, 0] = np.bincount(true[predicted == true], minlength=classes)
        counts[row, 1] = np.bincount(predicted, minlength=classes)
        counts[row, 2] = np.bincount(true, minlength=classes)
    return counts


def _foreground_counts(predictions: Array, targets: Array) -> Floats:
    """`_mask_counts` of the pixels whose true class is not 0."""
    signed = targets if targets.dtype.kind == "f" else targets.astype(np.int64)  # bytes hold no -100
    return _mask_counts(predictions, np.where(targets == 0, IGNORED, signed))


def _refuse_unlabelled(outcomes: Floats) -> None:
    """Some pixel must count."""
    if not outcomes.any():
        raise ValueError(f"every target pixel of {len(outcomes)} maps is {IGNORED} (ignored); nothing can be scored")


def _pixels(outcomes: Floats, weights: Floats) -> Floats:
    """Pixels [3, r, classes] over all images: in both, predicted, true."""
    n, _, classes = outcomes.shape
    return (weights @ outcomes.reshape(n, -1)).reshape(len(weights), 3, classes).swapaxes(0, 1)


def _iou(outcomes: Floats, weights: Floats) -> Floats:
    """Mean over classes of intersection over union; absent classes are left out."""
    shared, predicted, true = _pixels(outcomes, weights)
    return mean_over(ratio(shared, predicted + true - shared))


def _dice(outcomes: Floats, weights: Floats) -> Floats:
    """Mean over classes but 0; absent classes are left out."""
    shared, predicted, true = _pixels(outcomes, weights)
    return mean_over(ratio(2 * shared[:, 1:], (predicted + true)[:, 1:]))


def _mean_class_accuracy(outcomes: Floats, weights: Floats) -> Floats:
    """Mean of the shares of right pixels within the classes that are there."""
    shared, _, true = _pixels(outcomes, weights)
    return mean_over(ratio(shared, true))


def _overall_accuracy(outcomes: Floats, weights: Floats) -> Floats:
    """Share of pixels whose class is right."""
    shared, _, true = _pixels(outcomes, weights)
    return ratio(shared.sum(1), true.sum(1))


def _prevalence(targets: Array, classes: int) -> float:
    """Mean share of positives: the precision of a random ranking."""
    return 1.0 / classes if targets.ndim == 1 and classes > 2 else float((targets > 0).mean())


def _best_constant(power: int) -> Callable[[Array, int], float]:
    """Error of the best constant: the median for absolute, the mean for squared errors."""

    def chance(targets: Array, classes: int) -> float:
        centre = np.median(targets, axis=0) if power == 1 else targets.mean(0)
        return float((np.abs(targets - centre) ** power).mean())

    return chance


def _uniform_brier(targets: Array, classes: int) -> float:
    """The Brier score of 1/k for every class of k, or of .5 for every label."""
    if targets.ndim == 1 and classes > 1:
        return (1 - 1 / classes) / (2 if classes == 2 else 1)
    return 0.25


_NO_CHANCE: Callable[[Array, int], float] = lambda targets, classes: 0.0  # noqa: E731


def _ranking(
    name: str, rank: Callable[[Floats, Floats, Floats], Floats], chance: Callable[[Array, int], float] = _prevalence
) -> Metric:
    """The mean over labels of a metric of their ranked scores."""
    return Metric(name, "higher", chance, _ranked, _macro(rank), _ranked_trials, check=_refuse_lonely)


def _masks(name: str, aggregate: Callable[[Floats, Floats], Floats], **more: Any) -> Metric:
    """A metric of label maps' pixels, counted over all images."""
    return Metric(name, "higher", None, _mask_counts, aggregate, len, check=_refuse_unlabelled, **more)


_ONE_IN_K: Callable[[Array, int], float] = lambda targets, classes: 1 / classes  # noqa: E731
_EQUAL = "all targets are equal"
_ANY_ERROR, _BOTH_SIGNS = (0.0, inf), (-1.0, 1.0)
_NOWHERE = "no class is predicted or true"
METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("accuracy", "higher", _ONE_IN_K, hits_at(1), weighted_mean, len),
        Metric("acc@1", "higher", _ONE_IN_K, hits_at(1), weighted_mean, len),
        Metric("acc@5", "higher", lambda _, k: min(5, k) / k, hits_at(5), weighted_mean, len),
        Metric("mean_per_class", "higher", _ONE_IN_K, _hits_and_class, _per_class_accuracy, _balanced_trials),
        _ranking("map_11point", weighted_11point),
        _ranking("map_11point_elevater", weighted_elevater_11point),
        _ranking("roc_auc", weighted_auc, lambda _t, _k: 0.5),
        _ranking("average_precision", weighted_average_precision),
        Metric("brier", "lower", _uniform_brier, _brier, weighted_mean, len, within=(0.0, 2.0)),
        Metric("log_loss", "lower", uniform_log_loss, log_losses, weighted_mean, within=_ANY_ERROR),
        Metric("calibration_error", "lower", None, sure_and_right, binned_error),
        _masks("miou", _iou),
        replace(
            _masks("miou_foreground", _iou, undefined="every true pixel is of class 0, the background"),
            outcomes=_foreground_counts,
            check=None,
        ),
        _masks("mean_acc", _mean_class_accuracy),
        _masks("overall_acc", _overall_accuracy),
        _masks("dice", _dice, undefined="no class but 0, the background, is predicted or true"),
        Metric("mae", "lower", _best_constant(1), _errors(1), weighted_mean, within=_ANY_ERROR),
        Metric("mse", "lower", _best_constant(2), _errors(2), weighted_mean, within=_ANY_ERROR),
        Metric("rmse", "lower", lambda t, k: _best_constant(2)(t, k) ** 0.5, _errors(2), _root_mean,
               within=_ANY_ERROR),
        Metric("r2", "higher", _NO_CHANCE, _squared_and_target, _explained, undefined=_EQUAL, within=(-inf, 1.0)),
        Metric("spearman", "higher", _NO_CHANCE, _prediction_and_target, _rank_correlation, undefined=_EQUAL,
               within=_BOTH_SIGNS),
        Metric("macro_f1", "higher", None, _guess_and_truth, _macro_f1, len, undefined=_NOWHERE),
        Metric("micro_f1", "higher", None, _guess_and_truth, _micro_f1, len, undefined=_NOWHERE),
        Metric("quadratic_kappa", "higher", _NO_CHANCE, _graded, _quadratic_kappa,
               undefined="all predictions and targets are of one class", within=_BOTH_SIGNS),
    )
}  # fmt: skip


def refuse_form(name: str, outcomes: Array) -> None:
    """Refuse outcomes that are not what a metric keeps per sample: its aggregate would read other columns, or none.

    Raises:
        ValueError: another shape; shows it.

    Example:
        >>> refuse_form("accuracy", np.ones(3))
    """
    metric = METRICS[name]
    forms = ["n, 2"]
    if metric.aggregate in (weighted_mean, _root_mean):
        forms = ["n"]
    elif metric.outcomes in (_mask_counts, _foreground_counts):
        forms = ["n, 3, classes"]
    elif metric.outcomes is _ranked:
        forms = ["n, 2, labels"]
    elif metric.outcomes is _guess_and_truth:
        forms = ["n, 2", "n, 2, labels"]
    for form in forms:
        sizes = form.split(", ")
        if len(sizes) == outcomes.ndim and all(
            str(size) == wanted or not wanted.isdigit() for size, wanted in zip(outcomes.shape, sizes, strict=True)
        ):
            return
    expected = " or ".join(f"[{form}]" for form in forms)
    if forms == ["n"]:
        expected = "one number for each sample"
    raise ValueError(f"{name}: outcomes have shape {outcomes.shape}; expected {expected}")
