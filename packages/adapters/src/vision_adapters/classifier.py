"""The tuners as a scikit-learn classifier: in a `Pipeline`, under `clone`, pickled, with its parameters by name."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Literal, Self
from weakref import WeakKeyDictionary

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from paired_scores.metrics.arrays import refuse_masked
from vision_adapters.calibration import Calibration, calibrate
from vision_adapters.tuning.data import Tuned, as_predictions, check_features, rows_of, tuning_data
from vision_adapters.tuning.methods import tune


class HeadClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A head on cached features, every choice made by validation inside `fit`.

    Args:
        method: a key of `METHODS`: "anchored" (the default), "logistic", "elevater", "gda", "clap", …
        class_embeddings: one text embedding per class, in the space of the features: a mapping class -> [d], or rows in
            the order of `classes_` (sorted). None for a probe without texts.
        logit_scale: the dual encoder's scale, > 0.
        scoring: what validation maximises (or minimises), a key of `METRICS`; by default accuracy, or 11-point mAP for
            several labels per sample.
        validation: as in `tuning_data`: "auto", "folds", "shuffled", "toolkit", or a pair (X, y).
        class_weight: "balanced" for fits in which every class counts the same, or a mapping class -> weight.
        random_state: of the split.
        calibration: "temperature" for probabilities whose temperature is fitted on labels that the head has not seen:
            heads of the other folds score each (`calibrate`), which takes as many fits more as there are folds.

    Attributes:
        classes_: the classes, sorted; for several labels per sample, 0 … k - 1.
        best_params_: the choice, by name.
        best_score_: its validation metric (more is better, so that a Brier score is negative), or None where nothing
            could be validated.
        chosen_with_: which labels it was chosen with, beside those that it was fitted on: "nothing", "its own shots",
            or "N further labels".
        cv_results_: what was tried, one entry per candidate, as `GridSearchCV` has it.
        calibration_: temperature, and on how many labels it rests; None where no calibration was asked for.
        head_: a torch module, features -> scores.
        tuned_: the `Tuned`, which `HeldOut.score` takes.
        n_features_in_: columns of X.

    Raises:
        ValueError: at `fit`, what `tuning_data` refuses, and embeddings that lack a class, with its name.

    Example:
        >>> texts = np.eye(3, 8)
        >>> y = np.array(["cat", "cow", "dog"])[np.arange(60) % 3]
        >>> X = np.eye(3, 8)[np.arange(60) % 3] + np.random.default_rng(0).normal(size=(60, 8))
        >>> classifier = HeadClassifier(class_embeddings=dict(zip(["cat", "cow", "dog"], texts))).fit(X, y)
        >>> classifier.predict(texts), classifier.predict_proba(texts).shape
        (array(['cat', 'cow', 'dog'], dtype='<U3'), (3, 3))
    """

    def __init__(
        self,
        method: str = "anchored",
        *,
        class_embeddings: Any = None,
        logit_scale: float = 100.0,
        scoring: str | None = None,
        validation: Any = "auto",
        class_weight: Literal["balanced"] | Mapping[Any, float] | None = None,
        random_state: Any = 0,
        calibration: Literal["temperature"] | None = None,
    ) -> None:
        self.method = method
        self.class_embeddings = class_embeddings
        self.logit_scale = logit_scale
        self.scoring = scoring
        self.validation = validation
        self.class_weight = class_weight
        self.random_state = random_state
        self.calibration = calibration

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Choose and fit a head on features [n, d] and classes [n], or 0/1 per label [n, k].

        `sample_weight` [n], >= 0, says what each sample counts in fits, for "anchored", "logistic" and "tip_adapter";
        only ratios matter, and a sample of weight 0 is left out. Folds are drawn as ever, so a weight of 2 is not the
        same as a row that stands twice. Temperatures are fitted with each label counted once.
        """
        labels = np.asarray(_host(y, "y"))
        several = labels.ndim == 2 and labels.shape[1] > 1
        if (
            labels.ndim
            and labels.dtype == object
            and (absent := [row for row, label in enumerate(labels.ravel()) if label is None])
        ):
            raise ValueError(f"y is None at row {absent[0]}; expected a class for each row of X")
        X, y = validate_data(self, _host(X, "X"), _host(y, "y"), dtype=[np.float64, np.float32], multi_output=several)
        check_classification_targets(y)
        if self.calibration not in (None, "temperature"):
            raise ValueError(f"calibration must be 'temperature' or None, got {self.calibration!r}")
        self.classes_ = np.arange(y.shape[1]) if several else np.unique(y)
        if len(self.classes_) < 2:
            raise ValueError(
                f"{type(self).__name__} needs at least two classes, got the one class {self.classes_.tolist()[0]!r}"
            )
        seed = self.random_state
        if not isinstance(seed, int | np.integer):
            seed = check_random_state(seed).randint(2**31 - 1)
        validation = self.validation
        if isinstance(validation, tuple):
            validation = (
                rows_of(validation[0], "validation features").float(),
                self._codes(validation[1], several, "validation labels"),
            )
        class_weight: Any = self.class_weight
        if isinstance(class_weight, Mapping):
            numbers = {name: number for number, name in enumerate(self.classes_.tolist())}
            if unknown := [name for name in class_weight if name not in numbers]:
                raise ValueError(
                    f"class_weight names {unknown[0]!r}, which is no class; classes are {list(numbers)[:8]}"
                )
            class_weight = {numbers[name]: weight for name, weight in class_weight.items()}
        data = tuning_data(
            torch.tensor(np.ascontiguousarray(X), dtype=torch.float32),
            self._codes(y, several),
            classes=len(self.classes_),
            class_embeddings=None if self.class_embeddings is None else self._rows(self.class_embeddings),
            logit_scale=self.logit_scale,
            metric=self.scoring,
            validation=validation,
            class_weight=class_weight,
            sample_weight=None
            if sample_weight is None
            else np.array(_host(sample_weight, "sample_weight"), dtype=np.float64),
            seed=int(seed),
        )
        self.tuned_: Tuned = tune(data, self.method)
        self.head_ = self.tuned_.head
        self.best_params_ = dict(self.tuned_.best_params)
        self.best_score_ = self.tuned_.validation
        self.chosen_with_ = self.tuned_.chosen_with
        self.cv_results_ = _results(self.tuned_.candidates)
        self.calibration_: Calibration | None = (
            None if self.calibration is None else calibrate(data, self.method, tuned=self.tuned_)
        )
        return self

    def decision_function(self, X: Any) -> np.ndarray[Any, Any]:
        """Scores [n, k]; of two classes, the second's less the first's [n]."""
        scores = self._scores(X)
        if len(self.classes_) == 2 and not self._several:
            return np.asarray(scores[:, 1] - scores[:, 0])
        return scores.numpy()

    def predict_proba(self, X: Any) -> np.ndarray[Any, Any]:
        """Probabilities [n, k]: the softmax of the scores, or the sigmoid where a sample may have several labels.

        Without `calibration` they are not calibrated.
        """
        scores = self._scores(X)
        if self.calibration_ is not None:
            return self.calibration_.probabilities(scores).numpy()
        return as_predictions(scores, "brier", several=self._several).numpy()

    def predict(self, X: Any) -> np.ndarray[Any, Any]:
        """The best class of each sample, or 0/1 per label."""
        scores = self._scores(X)
        return (scores > 0).long().numpy() if self._several else np.asarray(self.classes_[scores.argmax(1).numpy()])

    @property
    def _several(self) -> bool:
        return bool(self._labels_ndim == 2)

    def _scores(self, X: Any) -> torch.Tensor:
        check_is_fitted(self)
        X = validate_data(self, _host(X, "X"), dtype=[np.float64, np.float32], reset=False)
        rows = torch.tensor(np.ascontiguousarray(X), dtype=torch.float32)
        check_features(rows, "X")
        # in float64, for a row's last digits in float32 depend on how many rows are scored with it
        with torch.no_grad():
            return torch.as_tensor(_wide(self.head_)(rows.double()))

    def _codes(self, y: Any, several: bool, name: str = "y") -> torch.Tensor:
        """Labels as numbers of `classes_`."""
        self._labels_ndim = 2 if several else 1
        labels = np.asarray(_host(y, name))
        if several:
            return torch.from_numpy(labels.astype(np.int64))
        unknown = labels[~np.isin(labels, self.classes_)]
        if len(unknown):
            raise ValueError(f"validation has the class {unknown.tolist()[0]!r}, which y lacks")
        return torch.from_numpy(np.searchsorted(self.classes_, labels))

    def _rows(self, embeddings: Any) -> torch.Tensor:
        """One row per class, in the order of `classes_`."""
        if isinstance(embeddings, Mapping):
            missing = [name for name in self.classes_.tolist() if name not in embeddings]
            if missing:
                raise ValueError(f"class_embeddings lack the class {missing[0]!r}")
            embeddings = np.stack(
                [
                    np.asarray(_host(embeddings[name], f"class_embeddings of {name!r}"))
                    for name in self.classes_.tolist()
                ]
            )
        return rows_of(embeddings, "class_embeddings").float()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


_WIDE: WeakKeyDictionary[torch.nn.Module, tuple[Any, torch.nn.Module]] = WeakKeyDictionary()
"""Heads in float64, by the heads that they were made of: no prediction may change a classifier's own state."""


def _wide(head: torch.nn.Module) -> torch.nn.Module:
    """A head in float64; made again once its weights were changed in place."""
    state = sorted(head.state_dict(keep_vars=True).items())
    mark = [(name, id(tensor), tensor._version) for name, tensor in state]
    known = _WIDE.get(head)
    if known is None or known[0] != mark:
        known = mark, copy.deepcopy(head).double()
        _WIDE[head] = known
    return known[1]


def _host(values: Any, name: str) -> Any:
    """A tensor as an array; anything else as it is, but for masked values, which scikit-learn takes for values."""
    refuse_masked(values, name)
    if not isinstance(values, torch.Tensor):
        return values
    values = values.detach().cpu()
    return values.float().numpy() if values.dtype in (torch.bfloat16, torch.float16) else values.numpy()


def _results(candidates: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    """`cv_results_` of the candidates."""
    params = [
        {name: value for name, value in candidate.items() if name not in ("validation", "loss")}
        for candidate in candidates
    ]
    scores = np.array([candidate["validation"] for candidate in candidates], dtype=np.float64)
    results: dict[str, Any] = {"params": params, "mean_test_score": scores}
    for name in dict.fromkeys(name for candidate in params for name in candidate):
        column: Any = np.ma.masked_all(len(params), dtype=object)  # type: ignore[no-untyped-call]  # NumPy's
        for row, candidate in enumerate(params):
            if name in candidate:
                column[row] = candidate[name]
        results[f"param_{name}"] = column
    results["rank_test_score"] = np.array([1 + int((scores > score).sum()) for score in scores], dtype=np.int32)
    return results
