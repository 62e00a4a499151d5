"""How sure an answer is, and when to say that an entity is not in here."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from oven_retrieval.evaluation.intervals import truths, wilson
from oven_retrieval.evidence import name_features
from oven_retrieval.names import STEPS, NameLinker
from oven_retrieval.ranking import Ranking
from oven_retrieval.tokens import fold
from paired_scores.metrics.arrays import as_array
from wary_files.durable import replace_file
from wary_files.json_files import read_json

if TYPE_CHECKING:
    from jaxtyping import Bool, Float64


_FEWEST = 20


@dataclass(frozen=True)
class Calibration:
    """Logistic models of "the best link is right" and of "it is in here", and from when on a link is given.

    p = 1 / (1 + exp(-(w . (x - mean) / scale + bias)))

    They differ where a name has several holders: then one of them may be missing, or the wrong one come first.

    Args:
        weights: of the scaled features.
        bias: added to them.
        mean, scale: of the features it was fitted on.
        threshold: least probability of a link that is given; 0 gives all.
        there: weights for being in here, the bias last; empty where it was not fitted.
        kb: hash of the knowledge base whose names it was fitted on; empty where nobody said it.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x = rng.normal(size=(500, 1))
        >>> model = fit_calibration(x, rng.random(500) < 1 / (1 + np.exp(-2 * x[:, 0])))
        >>> model.probability(np.array([[-2.0], [0.0], [2.0]])).round(1).tolist()
        [0.0, 0.5, 1.0]
    """

    weights: tuple[float, ...]
    bias: float
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    threshold: float = 0.0
    there: tuple[float, ...] = ()
    kb: str = ""

    def probability(self, features: Float64[np.ndarray, "q f"]) -> Float64[np.ndarray, " q"]:
        """Probability that the best link is right, [q]; 0 where the features are NaN: there is no link."""
        return self._logistic(features, self.weights, self.bias)

    def presence(self, features: Float64[np.ndarray, "q f"]) -> Float64[np.ndarray, " q"]:
        """Probability that the entity is in here, whether or not the best link is the right one, [q].

        1 minus it is the probability of "not in here". 0 where there is no link.
        """
        if not self.there:
            raise ValueError("there: this calibration was fitted without queries that are not in here")
        presence = self._logistic(features, self.there[:-1], self.there[-1])
        at_least: npt.NDArray[np.float64] = np.maximum(presence, self.probability(features))
        return at_least

    def _logistic(
        self, features: Float64[np.ndarray, "q f"], weights: tuple[float, ...], bias: float
    ) -> Float64[np.ndarray, " q"]:
        if features.ndim != 2 or features.shape[1] != len(weights):
            raise ValueError(
                f"features: expected [q, {len(weights)}], got {list(features.shape)}; a calibration of an earlier "
                "version is fitted again (`oven calibrate`)"
            )
        logits = (features - np.array(self.mean)) / np.array(self.scale) @ np.array(weights) + bias
        probability = 1 / (1 + np.exp(-np.clip(logits, -50, 50)))
        return np.where(np.isnan(features).any(axis=1), 0.0, probability)

    def write(self, path: str | Path) -> None:
        """Keep it as JSON."""
        replace_file(Path(path), json.dumps(asdict(self), indent=1))

    @classmethod
    def read(cls, path: str | Path) -> Calibration:
        """Read what `write` has written."""
        try:
            record = read_json(path)
            lists = {name: tuple(map(float, record[name])) for name in ("weights", "mean", "scale")}
            lists["there"] = tuple(map(float, record.get("there", ())))
            bias, threshold, entities = float(record["bias"]), float(record["threshold"]), str(record.get("kb", ""))
            calibration = cls(**lists, bias=bias, threshold=threshold, kb=entities)
            lengths = {*map(len, (calibration.weights, calibration.mean, calibration.scale))}
            lengths |= {len(calibration.there) - 1} if calibration.there else set()
            numbers = np.array([*sum(lists.values(), ()), calibration.bias, calibration.threshold])
            if len(lengths) > 1 or not np.isfinite(numbers).all() or 0 in calibration.scale:
                raise ValueError("its numbers do not belong together, or are none")
            return calibration
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"{path}: not a calibration: {error!r:.200}") from None


def fit_calibration(
    features: Float64[np.ndarray, "q f"],
    right: Bool[np.ndarray, " q"],
    there: Bool[np.ndarray, " q"] | None = None,
    *,
    penalty: float = 1.0,
) -> Calibration:
    """Fit logistic models by Newton's method, with a ridge on the scaled weights.

    Without a penalty a feature that decides alone would get an infinite weight.
    """
    inputs, labels = np.asarray(features, np.float64), np.asarray(right, np.float64)
    linked = ~np.isnan(inputs).any(axis=1)
    if len(inputs) == len(labels):
        inputs, labels = inputs[linked], labels[linked]
    if len(inputs) != len(labels) or len(inputs) < _FEWEST or labels.min() == labels.max():
        raise ValueError(
            f"right: expected at least {_FEWEST} answers, one per query ({len(inputs)}), right and wrong ones, got "
            f"{len(labels)} with {int(labels.sum())} right"
        )
    mean, scale = inputs.mean(axis=0), inputs.std(axis=0)
    scale[scale < 1e-9] = 1.0
    design = np.concatenate([(inputs - mean) / scale, np.ones((len(inputs), 1))], axis=1)
    *weights, bias = _newton(design, labels, penalty).tolist()
    is_inside = np.zeros(0) if there is None else np.asarray(there, np.float64)[linked]
    has_both = len(is_inside) > 0 and is_inside.min() < is_inside.max()
    of_presence = _newton(design, is_inside, penalty).tolist() if has_both else []
    return Calibration(tuple(weights), bias, tuple(mean.tolist()), tuple(scale.tolist()), there=tuple(of_presence))


def _newton(
    design: Float64[np.ndarray, "q f+1"], labels: Float64[np.ndarray, " q"], penalty: float
) -> Float64[np.ndarray, " f+1"]:
    """Weights of a logistic regression whose last column is the bias, which goes without a penalty."""
    ridge = np.diag([penalty] * (design.shape[1] - 1) + [0.0])
    weights: npt.NDArray[np.float64] = np.zeros(design.shape[1])
    for _ in range(50):
        probability = 1 / (1 + np.exp(-np.clip(design @ weights, -50, 50)))
        gradient = design.T @ (labels - probability) - ridge @ weights
        variance = (probability * (1 - probability))[:, None]
        hessian = (design * variance).T @ design + ridge + 1e-9 * np.eye(len(weights))
        step = np.linalg.solve(hessian, gradient)
        weights += step
        if np.abs(step).max() < 1e-8:
            break
    return weights


def threshold_for(probability: Float64[np.ndarray, " q"], right: Bool[np.ndarray, " q"], precision: float) -> float:
    """The lowest threshold above which a share of at least `precision` of the answers is right."""
    if not 0 < precision <= 1:
        raise ValueError(f"precision: expected above 0 and at most 1, got {precision!r}")
    curve = risk_coverage(probability, right)
    enough = np.flatnonzero(1 - curve.risk >= precision - 1e-12)
    if not len(enough):
        raise ValueError(
            f"precision: no threshold reaches {precision:g} on these {len(right):,} queries; at most "
            f"{1 - float(curve.risk.min(initial=1.0)):.3f} is reached"
        )
    return float(curve.threshold[enough[-1]])


class RiskCoverage(NamedTuple):
    """What part of the queries is answered at each threshold, and what part of these answers is wrong.

    `threshold`, `coverage`, `risk` [t], from the surest answers on; equal probabilities count together.
    """

    threshold: Float64[np.ndarray, " t"]
    coverage: Float64[np.ndarray, " t"]
    risk: Float64[np.ndarray, " t"]


def risk_coverage(probability: Float64[np.ndarray, " q"], right: Bool[np.ndarray, " q"]) -> RiskCoverage:
    """The risk-coverage curve of answers that come with a probability or any other score.

    Source: Geifman and El-Yaniv 2017, section 2; ties are ours.
    """
    probability = np.asarray(probability, np.float64)  # by place: a pandas series is indexed by its labels
    order = np.argsort(-probability, kind="stable")
    falling, wrong = probability[order], np.cumsum(~np.asarray(right, np.bool_)[order])
    last = np.flatnonzero(np.append(falling[1:] != falling[:-1], True)) if len(falling) else np.zeros(0, np.int64)
    answered = last + 1
    return RiskCoverage(falling[last], answered / max(len(falling), 1), wrong[last] / answered)


def auroc(score: npt.ArrayLike, there: npt.ArrayLike) -> float:
    """Probability that a query whose entity is there scores above one whose entity is not; ties count a half.

    Raises:
        ValueError: shapes that differ, scores that are NaN or no numbers, `there` of other values than 0 and 1, or
            queries of one kind only.

    Source: Mann and Whitney 1947.
    """
    values, positive = as_array(score, "score").astype(np.float64), truths(there, "there")
    if values.shape != positive.shape or np.isnan(values).any():
        missing = np.flatnonzero(np.isnan(values))
        raise ValueError(f"score has shape {values.shape}, there {positive.shape}, and NaN at {missing[:8].tolist()}")
    inside, outside = np.sort(values[positive]), values[~positive]
    if not len(inside) or not len(outside):
        raise ValueError("there: expected queries of both kinds")
    above = len(inside) - np.searchsorted(inside, outside, "right")
    tied = np.searchsorted(inside, outside, "right") - np.searchsorted(inside, outside, "left")
    return float((above + 0.5 * tied).sum() / len(inside) / len(outside))


class CurvePoint(NamedTuple):
    """Of the surest answers, a share `coverage` of all queries: how many are right, with Wilson's 95 % interval."""

    coverage: float
    precision: float
    low: float
    high: float


class CalibrationReport(NamedTuple):
    """What a threshold did on queries whose entities neither the model nor the threshold has seen.

    `precision` of the answers that are given (NaN where none is) with `precision_low` and `precision_high`, Wilson's
    95 % interval; `coverage` their share, `auroc` of the presence for whether the asked entity is there (NaN where all
    or none are), `trivial_auroc` that of "the name is spelled as one of ours, folded or inflected", `queries` how many;
    `curve` the precision of the surest tenth of the queries, of two tenths, and so on.
    """

    precision: float
    coverage: float
    auroc: float
    queries: int
    precision_low: float
    precision_high: float
    trivial_auroc: float
    curve: tuple[CurvePoint, ...] = ()


def calibrate_names(
    linker: NameLinker, names: Sequence[str], ids: Sequence[str | None], precision: float = 0.95, *, seed: int = 0
) -> tuple[Calibration, CalibrationReport]:
    """Fit a calibration on half of the labelled entities, choose its threshold on a quarter, judge it on the rest.

    All names of an entity are in one part; names of no entity go by their folded form.
    """
    if len(names) != len(ids):
        raise ValueError(f"ids: expected one per name, {len(names)}, got {len(ids)}")
    links, features = name_features(linker, names)
    truth = linker.kb.rows([entity_id or "" for entity_id in ids])
    right = (links.rows[:, 0] == truth) & (truth >= 0)
    entities = [
        f"id {entity_id}" if entity_id is not None else f"name {fold(name)}"
        for name, entity_id in zip(names, ids, strict=True)
    ]
    return calibrate(features, right, truth >= 0, entities, is_spelled(links), precision, seed=seed)


def is_spelled(links: Ranking) -> Bool[np.ndarray, " q"]:
    """Whether each name is spelled as one of ours, folded or inflected: the trivial rule for "it is in here"."""
    first = links.kinds[:, 0]
    return (first >= 0) & (first < STEPS.index("typo"))


def calibrate(
    features: Float64[np.ndarray, "q f"],
    right: Bool[np.ndarray, " q"],
    there: Bool[np.ndarray, " q"],
    entities: Sequence[str],
    trivial: Bool[np.ndarray, " q"],
    precision: float = 0.95,
    *,
    seed: int = 0,
) -> tuple[Calibration, CalibrationReport]:
    """As `calibrate_names`, from evidence of any kind."""
    _, entity_of = np.unique(entities, return_inverse=True)
    different = int(entity_of.max(initial=-1)) + 1
    share = np.random.default_rng(seed).permutation(different)[entity_of] / max(different - 1, 1)
    fit, choose, judge = share < 0.5, (share >= 0.5) & (share < 0.75), share >= 0.75
    model = fit_calibration(features[fit], right[fit], there[fit])
    threshold = threshold_for(model.probability(features[choose]), right[choose], precision)
    probability = model.probability(features[judge])
    count = len(probability)
    has_both = bool(there[judge].any() and not there[judge].all())
    answered = _precision(right[judge][probability >= threshold], count)
    surest = right[judge][np.argsort(-probability, kind="stable")]
    report = CalibrationReport(
        answered.precision,
        answered.coverage,
        auroc(model.presence(features[judge]), there[judge]) if model.there and has_both else float("nan"),
        count,
        answered.low,
        answered.high,
        auroc(trivial[judge], there[judge]) if has_both else float("nan"),
        tuple(_precision(surest[: count * tenth // 10], count) for tenth in range(1, 11)),
    )
    return replace(model, threshold=threshold), report


def _precision(right: Bool[np.ndarray, " a"], queries: int) -> CurvePoint:
    """Of the answers that are given to some of the queries."""
    if not len(right):
        return CurvePoint(0.0, float("nan"), 0.0, 1.0)
    value, low, high = (share / 100 for share in wilson(int(right.sum()), len(right)))
    return CurvePoint(len(right) / queries, value, low, high)
