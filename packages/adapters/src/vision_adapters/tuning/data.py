"""What a tuner may see, and what it may not: labelled features with their validation folds, and held-out test data.

One file of more than 400 lines: the checks at the door are most of it, and are read beside what they protect.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from paired_scores.metrics import Score, evaluate, metric_named
from paired_scores.metrics.arrays import UndefinedMetricError, as_array, refuse_masked
from vision_adapters.losses import class_balance
from vision_adapters.tuning.folds import SPLITS, Fold, Split, make_folds

SINGLE_LABEL_METRICS = ("accuracy", "acc@1", "acc@5", "mean_per_class", "macro_f1", "micro_f1", "quadratic_kappa")
RANKING_METRICS = ("map_11point", "map_11point_elevater", "roc_auc", "average_precision", "brier", "log_loss")
"""Metrics that class scores can be chosen by, for one label per sample, and for one or several."""


def as_predictions(scores: Float[Tensor, "n k"], metric: str, *, several: bool) -> Float[Tensor, "n k"]:
    """What a metric takes: probabilities for those of probabilities, the scores themselves for all others."""
    if metric not in ("brier", "log_loss", "calibration_error"):
        return scores
    return scores.sigmoid() if several else scores.softmax(1)


@dataclass(frozen=True, eq=False)
class TuningData:
    """Labelled features with everything that a choice may depend on. Made by `tuning_data`; holds no test data.

    Args:
        features: [n, d], as the encoder gave them.
        labels: classes [n], or 0/1 per class [n, k].
        classes: k.
        class_embeddings: one text embedding per class, or None for an encoder without texts.
        logit_scale: the dual encoder's scale.
        metric: what validation maximises (or minimises); a key of `METRICS`.
        folds: one fold for a fixed validation split, several for cross-validation.
        class_weight: "balanced", or what an image of each class counts.
        further: images of a validation set that came beside the training images.
        fixed: parameters to fit with where nothing is to be searched (`calibrate`), or None.
        sample_weight: what each image counts in fits, [n], above 0; None where each counts the same.

    Example:
        >>> from vision_adapters.tuning import tuning_data
        >>> tuning_data(torch.eye(3).repeat(6, 1), torch.arange(3).repeat(6)).classes
        3
    """

    features: Float[Tensor, "n d"]
    labels: Tensor
    classes: int
    class_embeddings: Float[Tensor, "k d"] | None
    logit_scale: float
    metric: str
    folds: tuple[Fold, ...]
    class_weight: Literal["balanced"] | tuple[float, ...] | None = None
    further: int = 0
    fixed: Mapping[str, Any] | None = None
    sample_weight: Float[Tensor, " n"] | None = None

    @property
    def choice_labels(self) -> str:
        """Which labels a search on validation chooses with: of its own images, or of how many further ones."""
        return f"{self.further} further labels" if self.further else "its own shots"

    @property
    def several(self) -> bool:
        """Whether a sample may have several labels."""
        return self.labels.ndim == 2

    def targets(self, rows: Tensor | slice = slice(None)) -> Float[Tensor, "n k"]:
        """The labels of some rows as 0/1 columns."""
        labels = self.labels[rows]
        if self.several:
            return labels.to(self.features.dtype)
        return torch.nn.functional.one_hot(labels, self.classes).to(self.features.dtype)

    @property
    def weighs_alike(self) -> bool:
        """Whether every sample counts 1 in a fit."""
        return self.class_weight is None and self.sample_weight is None

    def sample_weights(self, rows: Tensor | slice = slice(None)) -> Float[Tensor, " n"]:
        """What each of some rows counts in a fit on these rows, 1 on average; balanced, every class counts the same."""
        labels = self.labels[rows]
        own = None if self.sample_weight is None else self.sample_weight[rows]
        if self.weighs_alike:
            return self.features.new_ones(len(labels))
        weights = torch.ones(len(labels)) if own is None else own
        if self.class_weight == "balanced":
            weights = weights * class_balance(labels, self.classes, own)[labels]
        elif self.class_weight is not None:
            weights = weights * torch.tensor(self.class_weight)[labels]
        return (weights / weights.mean()).to(self.features.dtype)

    def effective_weights(self, rows: Tensor | slice = slice(None)) -> Float[Tensor, " n"] | None:
        """What each of some rows counts in a scatter, by `sample_weight` alone; None where each counts 1.

        They sum to Kish's effective number of samples, (sum w)^2 / sum w^2, which is what shrinkage goes by.
        """
        if self.sample_weight is None:
            return None
        weights = self.sample_weight[rows]
        return (weights * weights.sum() / weights.square().sum()).to(self.features.dtype)

    def validation_rows(self) -> Tensor:
        """Every row that some fold validates on, in the order of the folds."""
        return torch.cat([fold.validation for fold in self.folds])

    def valid_mask(self) -> Tensor:
        """Which of `validation_rows` say something about a fit: a row whose class its fold has no image of does not."""
        if self.several:
            return torch.ones(len(self.validation_rows()), dtype=torch.bool)
        return torch.cat([torch.isin(self.labels[fold.validation], self.labels[fold.train]) for fold in self.folds])

    @property
    def has_validation(self) -> bool:
        """Whether at least half of the validation rows count; with one image per class, none does."""
        valid = self.valid_mask()
        return 2 * int(valid.sum()) >= len(valid)

    def score(self, scores: Tensor, rows: Tensor) -> float:
        """The metric of scores for some rows; larger is better.

        What these rows do not define is the worst, and so are scores that are not finite: a fit that diverged. A wrong
        shape raises.
        """
        if len(scores) != len(rows):
            raise ValueError(f"scores have {len(scores)} rows for {len(rows)} samples; expected the same length")
        if not bool(torch.isfinite(scores).all()):
            return -math.inf
        metric = metric_named(self.metric)
        predictions = as_predictions(scores, self.metric, several=self.several)
        try:  # as `evaluate` does, but for its checks: labels were checked at the door, and there are many candidates
            outcomes = metric.outcomes(predictions.detach().numpy(), self.labels[rows].numpy())
            if metric.check is not None:
                metric.check(outcomes)
        except UndefinedMetricError:
            return -math.inf
        value = float(metric.aggregate(outcomes.astype(np.float64), np.ones((1, len(outcomes))))[0])
        return -math.inf if math.isnan(value) else value if metric.direction == "higher" else -value


@dataclass(frozen=True, eq=False)
class Tuned:
    """A finished choice.

    Args:
        method: which tuner made it.
        best_params: its hyper-parameters.
        validation: the metric on validation (of cross-validation, pooled), or None for a method without one.
        head: features -> scores [n, k], in eval mode.
        candidates: every setting with its validation metric, in the order tried.
        metric: that `validation` is in, and the default of `HeldOut.score`.
        chosen_with: which labels the parameters were chosen with: "nothing", "its own shots", or "N further labels".

    Example:
        >>> from vision_adapters.tuning import tune, tuning_data
        >>> tuned = tune(tuning_data(torch.eye(3).repeat(6, 1), torch.arange(3).repeat(6)))
        >>> tuned.scores(torch.eye(3)).argmax(dim=1).tolist()
        [0, 1, 2]
    """

    method: str
    best_params: Mapping[str, float | str]
    validation: float | None
    head: nn.Module
    candidates: tuple[dict[str, Any], ...]
    metric: str
    chosen_with: str = "nothing"

    def scores(self, features: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
        """Scores of new samples, whose features may be of any floating-point type."""
        with torch.no_grad():
            return torch.as_tensor(self.head(features.float()))

    def trained_parameters(self) -> int:
        """Numbers that were fitted."""
        return sum(parameter.numel() for parameter in self.head.parameters())


def search(
    data: TuningData,
    method: str,
    candidates: Iterable[tuple[dict[str, float], Tensor]] | None,
    head: Callable[..., nn.Module],
    plain: dict[str, float],
    *,
    latest: bool = False,
) -> Tuned:
    """The parameters whose scores of `validation_rows` do best, the first (or latest) of equal ones."""
    if data.fixed is not None:
        return Tuned(method, data.fixed, None, head(**data.fixed), (), data.metric)
    tried: list[dict[str, float]] = []
    if candidates is not None and data.has_validation:
        rows, counted = data.validation_rows(), data.valid_mask()
        tried = [{**params, "validation": data.score(scores[counted], rows[counted])} for params, scores in candidates]
    best = max(tried[::-1] if latest else tried, key=lambda row: row["validation"], default=plain)
    params = {name: best[name] for name in plain}
    return Tuned(method, params, best.get("validation"), head(**params), tuple(tried), data.metric)


@final
class HeldOut:
    """Test data that only a finished choice can be scored on.

    Features and labels live in a closure, not in attributes: there is nothing to index, copy, pickle or pass to a tuner
    (Python can be pried open, but not by accident). Each scoring is recorded in `evaluation_log`, so that choosing
    among many finished choices by their test score shows.

    Args:
        features: [n, d], of any floating-point type.
        labels: classes [n], or 0/1 per class [n, k].

    Raises:
        ValueError: lengths that differ, no samples, or features that are not finite.

    Example:
        >>> held = HeldOut(torch.eye(3), torch.arange(3))
        >>> held.labels
        Traceback (most recent call last):
            ...
        AttributeError: held-out data has no 'labels': score a finished choice with .score(tuned)

    Source:
        ELEVATER's toolkit reports the best of 50 epochs by the test set's labels; this type is the answer to that.
    """

    __slots__ = ("__evaluation_log", "__score")

    def __init__(self, features: Any, labels: Any) -> None:
        hidden, truth = rows_of(features, "held-out features"), _integers(labels, "held-out labels")
        check_features(hidden, "held-out features")
        if len(hidden) != len(truth):
            raise ValueError(f"held-out features have {len(hidden)} rows, labels {len(truth)}; expected the same")
        hidden, truth = hidden.detach().clone(), truth.detach().clone()

        def score(tuned: Tuned, metric: str, seed: int, resamples: int) -> Score:
            scores = torch.cat(
                [tuned.scores(part.to(_device(tuned.head, part))).cpu() for part in torch.split(hidden, 4096)]
            )
            predictions = as_predictions(scores, metric, several=truth.ndim == 2)
            return evaluate(metric, predictions, truth, seed=seed, resamples=resamples)

        self.__score = score
        self.__evaluation_log: tuple[tuple[str, str], ...] = ()

    def score(self, tuned: Tuned, *, metric: str | None = None, seed: int = 0, resamples: int = 1000) -> Score:
        """The test metric of a finished choice, with its interval, by default in the metric that was tuned for.

        Raises:
            TypeError: anything but a `Tuned`.
        """
        if not isinstance(tuned, Tuned):
            raise TypeError(f"held-out data scores a finished choice (Tuned), got {type(tuned).__name__}")
        name = tuned.metric if metric is None else metric
        self.__evaluation_log += ((tuned.method, name),)
        return self.__score(tuned, name, seed, resamples)

    @property
    def evaluation_log(self) -> tuple[tuple[str, str], ...]:
        """(method, metric) of every scoring so far."""
        return self.__evaluation_log

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"held-out data has no {name!r}: score a finished choice with .score(tuned)")

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("held-out data cannot be copied or pickled")

    def __repr__(self) -> str:
        return f"HeldOut({len(self.__evaluation_log)} evaluations)"


def tuning_data(
    features: Any,
    labels: Any,
    *,
    classes: int | None = None,
    class_embeddings: Any = None,
    logit_scale: float = 100.0,
    metric: str | None = None,
    validation: Split | tuple[Any, Any] = "auto",
    class_weight: Literal["balanced"] | Mapping[int, float] | None = None,
    sample_weight: Any = None,
    seed: int = 0,
) -> TuningData:
    """Check labelled features at the door and fix how choices are validated.

    Args:
        features: [n, d], cached once; never re-encoded.
        labels: classes 0 … k - 1 [n], or 0/1 per class [n, k].
        classes: k; by default that of the embeddings, or the largest label + 1.
        class_embeddings: [k, d] text embeddings in the space of the features, or None.
        logit_scale: the dual encoder's scale, > 0.
        metric: by default "accuracy", or "map_11point" for several labels.
        validation: "toolkit", the first ceil(20 %) of each class, as ELEVATER's toolkit; "shuffled", 20 % of each class
            (at least one) drawn with the seed; "folds", 5-fold cross-validation, which also takes classes of one image
            (see `TuningData.has_validation`); "auto", "shuffled" from 1,000 images and 5 per class on, "folds" below;
            or a pair (features, labels).
        class_weight: "balanced" for fits in which every class counts the same, however many images it has, or what an
            image of a class counts (1 where nothing is said), > 0, as in scikit-learn, for "anchored", "logistic" and
            "tip_adapter". The metric that validates is as it was: "mean_per_class" is the one that counts classes the
            same.
        sample_weight: what each image counts in fits, [n], >= 0, for the methods that take `class_weight`; only their
            ratios matter. An image of weight 0 is left out. The metric that validates counts each image once, and
            images of a validation pair count 1 beside a mean of 1.
        seed: of the draws.

    Raises:
        ValueError: what cannot be tuned on, with the value and its place.
        TypeError: held-out test data.

    Example:
        >>> data = tuning_data(torch.randn(20, 4), torch.arange(20) % 2)
        >>> [len(part) for part in data.folds[0]]
        [16, 4]

    Source:
        ELEVATER, appendix: 80/20, at least one per class.
    """
    pair = validation if isinstance(validation, tuple) else (None, None)
    for name, value in (("features", features), ("labels", labels), ("validation", pair[0]), ("validation", pair[1])):
        if isinstance(value, HeldOut):
            raise TypeError(f"{name} is held-out test data, which no tuner may see")
    x, y = rows_of(features, "features"), _integers(labels, "labels")
    if isinstance(validation, str) and validation not in SPLITS:
        raise ValueError(f"validation must be one of {SPLITS} or a pair, got {validation!r}")
    check_features(x, "features")
    x = x.to("cpu", torch.float32, copy=True)  # the caller's own may change, or come from inference mode
    texts = None if class_embeddings is None else rows_of(class_embeddings, "class_embeddings").to(x, copy=True)
    counted = len(texts) if texts is not None else y.shape[1] if y.ndim == 2 else int(y.max()) + 1 if len(y) else 0
    k = counted if classes is None else classes
    if texts is not None:
        if texts.shape != (k, x.shape[1]):
            raise ValueError(f"class_embeddings have shape {tuple(texts.shape)}, expected {(k, x.shape[1])}")
        check_features(texts, "class_embeddings")
        if bool((texts == 0).all(1).any()):
            raise ValueError(f"class_embeddings: row {int((texts == 0).all(1).nonzero()[0])} is all 0, no direction")
    y = _labels(y, len(x), k, "labels")
    if not 0 < logit_scale < math.inf:
        raise ValueError(f"logit_scale must be positive and finite, got {logit_scale}")
    name = metric_named(metric or ("accuracy" if y.ndim == 1 else "map_11point")).name
    able = (*SINGLE_LABEL_METRICS, *RANKING_METRICS) if y.ndim == 1 else RANKING_METRICS
    if name not in able:
        kind = "one label" if y.ndim == 1 else "several labels"
        raise ValueError(f"metric {name!r} does not measure scores of {kind} per sample, expected {', '.join(able)}")
    weight = _class_weight(class_weight, y, k)
    own = _sample_weight(sample_weight, len(x))
    if own is not None:
        x, y, own = x[own > 0], y[own > 0], own[own > 0]
        own = own / own.mean()
    counts = torch.bincount(y, minlength=k) if y.ndim == 1 else y.sum(0).long()
    if bool((counts == 0).any()):
        raise ValueError(
            f"class {int(counts.argmin())} of {k} has no image{'' if own is None else ' of weight above 0'}, "
            "expected at least one; "
            "tuning.transduce takes classes that only a text names"
        )
    if not isinstance(validation, tuple):
        folds = make_folds(y, validation, seed, x)
        return TuningData(x, y, k, texts, logit_scale, name, folds, weight, sample_weight=own)
    validation_rows, theirs = (
        rows_of(validation[0], "validation features"),
        _integers(validation[1], "validation labels"),
    )
    check_features(validation_rows, "validation features")
    if validation_rows.shape[1] != x.shape[1]:
        raise ValueError(f"validation features have {validation_rows.shape[1]} columns, features {x.shape[1]}")
    theirs = _labels(theirs, len(validation_rows), k, "validation labels")
    lacking = (torch.bincount(theirs, minlength=k) if theirs.ndim == 1 else theirs.sum(0)) == 0
    if bool(lacking.any()):
        raise ValueError(f"class {int(lacking.nonzero()[0])} has no image in the validation set")
    fold = Fold(torch.arange(len(x)), torch.arange(len(x), len(x) + len(validation_rows)))
    joined = torch.cat([x, validation_rows.detach().to(x)])
    if own is not None:
        own = torch.cat([own, own.new_ones(len(theirs))])
    labelled = torch.cat([y, theirs])
    return TuningData(joined, labelled, k, texts, logit_scale, name, (fold,), weight, len(theirs), sample_weight=own)


def _sample_weight(value: Any, rows: int) -> Float[Tensor, " n"] | None:
    """Weights of samples, checked; None where all are equal."""
    if value is None:
        return None
    refuse_masked(value, "sample_weight")
    try:
        weights = torch.as_tensor(as_array(value, "sample_weight").astype(np.float64))
    except (TypeError, ValueError) as error:
        raise ValueError(f"sample_weight must be {rows} numbers, got {value!r}") from error
    if weights.ndim == 0:
        weights = weights.repeat(rows)
    if weights.shape != (rows,):
        raise ValueError(f"sample_weight has shape {tuple(weights.shape)}, expected ({rows},), one for each sample")
    bad = ~torch.isfinite(weights) | (weights < 0)
    if bool(bad.any()):
        row = int(bad.nonzero()[0])
        raise ValueError(f"sample_weight: row {row} is {float(weights[row])}, expected a finite number of at least 0")
    if not bool((weights > 0).any()):
        raise ValueError("sample_weight is zero for every sample, expected one above 0")
    return None if bool((weights == weights[0]).all()) else weights


def _class_weight(value: Any, labels: Tensor, classes: int) -> Literal["balanced"] | tuple[float, ...] | None:
    """A class weight as `TuningData` holds it."""
    if value is None:
        return None
    if labels.ndim == 2:
        raise ValueError(f"class_weight takes one label per sample, got labels of shape {tuple(labels.shape)}")
    if isinstance(value, Mapping):
        for name, weight in value.items():
            if name not in range(classes) or not 0 < weight < math.inf:
                raise ValueError(
                    f"class_weight: class {name!r} of {classes} with weight {weight}, expected one above 0"
                )
        return tuple(float(value.get(label, 1.0)) for label in range(classes))
    if value != "balanced":
        raise ValueError(f"class_weight must be 'balanced', a mapping or None, got {value!r}")
    return "balanced"


def rows_of(values: Any, name: str) -> Tensor:
    """Return features as a tensor, of whatever holds numbers: a list, an array, a data frame.

    Raises:
        ValueError: texts or missing values, or a value that is masked, which torch takes for a value.
    """
    if isinstance(values, Tensor):
        return values.detach()
    array = as_array(values, name)
    return torch.as_tensor(array.astype(array.dtype.newbyteorder("="))).detach()


LARGEST = 1e15
"""Magnitude of a feature whose squares, over some thousand dimensions, still fit float32."""
LEAST = 1e-10
"""Magnitude of the largest feature from which on rows are brought to length 1: torch divides by no less than 1e-12."""


def check_features(features: Tensor, name: str) -> None:
    """Refuse anything but a finite matrix with rows and columns."""
    if features.ndim != 2 or 0 in features.shape or not features.is_floating_point():
        raise ValueError(f"{name} must be a matrix of floats, got {features.dtype} of shape {tuple(features.shape)}")
    bad = ~torch.isfinite(features).all(1)
    if bool(bad.any()):
        raise ValueError(f"{name}: row {int(bad.nonzero()[0])} holds NaN or infinity")
    large = (features.abs() > LARGEST).any(1)
    if bool(large.any()):
        row = int(large.nonzero()[0])
        most = float(features[row].abs().max())
        raise ValueError(
            f"{name}: row {row} holds {most:.3g}, and squares beyond {LARGEST:g} do not fit "
            "float32: divide the features by their largest value"
        )
    most = float(features.abs().max())
    if 0 < most < LEAST:
        raise ValueError(
            f"{name} hold at most {most:.3g}, and lengths below {LEAST:g} are not divided by: divide the features by "
            "their largest value"
        )


def _integers(labels: Any, name: str) -> Tensor:
    """Labels as a tensor; what is no number is named."""
    refuse_masked(labels, name)
    if isinstance(labels, Tensor):
        return labels
    try:
        array = as_array(labels, name)
        return torch.as_tensor(array.astype(np.int64 if array.dtype.kind in "iub" else np.float64))
    except (TypeError, ValueError) as error:
        first = next((label for label in labels if not isinstance(label, int)), labels)
        raise ValueError(f"{name} must be integers, got {first!r}") from error


def labels_of(labels: Any, rows: int, classes: int) -> Tensor:
    """Classes of few labelled images, checked; some classes may have none."""
    return _labels(_integers(labels, "labels"), rows, classes, "labels")


def _labels(labels: Tensor, rows: int, classes: int, name: str) -> Tensor:
    """Labels as integers, checked against the number of rows and classes."""
    if labels.ndim not in (1, 2) or len(labels) != rows:
        raise ValueError(f"{name} have shape {tuple(labels.shape)} for {rows} rows of features")
    if classes < 2 and not bool((labels < 0).any()):
        raise ValueError(f"there is {classes} class, expected at least two")
    if labels.ndim == 2 and labels.shape[1] != classes:
        raise ValueError(f"{name} have {labels.shape[1]} columns, expected {classes} classes")
    top = classes - 1 if labels.ndim == 1 else 1
    wrong = (labels != labels.long()) | (labels < 0) | (labels > top)
    if bool(wrong.any()):
        index = wrong.nonzero()[0].tolist()
        raise ValueError(f"{name}: {labels[tuple(index)].item()} at {index} is out of range, expected 0..{max(top, 1)}")
    return labels.long().cpu()


def _device(module: nn.Module, otherwise: Tensor) -> torch.device:
    """The device of a module's first parameter or buffer."""
    for tensor in (*module.parameters(), *module.buffers()):
        return tensor.device
    return otherwise.device
