"""How sure an answer is, and when to say that an entity is not in here."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from oven_retrieval.durable import replace_file
from oven_retrieval.names import STEPS, Links, NameLinker
from oven_retrieval.tokens import words

if TYPE_CHECKING:
    from jaxtyping import Bool, Float64

    from oven_retrieval.vectors import Neighbours

NAME_FEATURES = (*STEPS, "shared words of all", "score over the second's", "known words of the query", "words")
VECTOR_FEATURES = ("score", "score over the second's", "score over the others' mean")
_FEWEST = 20


def name_features(linker: NameLinker, names: Sequence[str]) -> tuple[Links, Float64[np.ndarray, "q f"]]:
    """Link names, and say of each best link what tells whether it is right.

    Args:
        linker: of the knowledge base.
        names: any texts.

    Returns:
        The two best links of each name, and the features named in `NAME_FEATURES`; NaN where there is no link.

    Example:
        >>> import tempfile
        >>> from oven_retrieval import Entity, build_kb, build_linker
        >>> kb = build_kb([Entity("Q1", "Wood duck"), Entity("Q2", "Goose")], Path(tempfile.mkdtemp()) / "kb")
        >>> links, features = name_features(build_linker(kb), ["goose", "duck pond", "moon"])
        >>> dict(zip(NAME_FEATURES, features[1].round(2).tolist(), strict=True))["shared words of all"]
        0.33
    """
    links = linker.link(names, min(2, linker.kb.entity_count))
    features = np.zeros((len(names), len(NAME_FEATURES)))
    for number, (name, row) in enumerate(zip(names, links.rows[:, 0].tolist(), strict=True)):
        if row < 0:
            features[number] = np.nan
            continue
        step = int(links.steps[number, 0])
        features[number, step] = 1.0
        asked = set(words(name))
        held = [
            set(words(linker.kb.names[row])),
            *(set(words(linker.kb.aliases[i])) for i in linker.kb.alias_rows(row)),
        ]
        best = max(held, key=lambda own: len(asked & own) / max(len(asked | own), 1))
        scores = links.scores[number]
        ratio = 1.0
        if step == len(STEPS) - 1 and len(scores) > 1 and links.rows[number, 1] >= 0 and scores[0] > 0:
            ratio = float(scores[1] / scores[0])
        features[number, len(STEPS) :] = (
            len(asked & best) / max(len(asked | best), 1),
            1.0 - ratio,
            len(asked & best) / max(len(asked), 1),
            min(len(asked), 8) / 8,
        )
    return links, features


def vector_features(found: Neighbours) -> Float64[np.ndarray, "q f"]:
    """What tells whether a nearest entity is right, named in `VECTOR_FEATURES`.

    Args:
        found: at least the two nearest of each query.

    Example:
        >>> from oven_retrieval.vectors import Neighbours
        >>> found = Neighbours(np.array([[4, 2, 9]]), np.array([[0.75, 0.5, 0.25]], np.float32))
        >>> vector_features(found).tolist()
        [[0.75, 0.25, 0.375]]
    """
    if found.scores.ndim != 2 or found.scores.shape[1] < 2:
        raise ValueError(f"found: expected the two nearest of each query at least, got {list(found.scores.shape)}")
    scores = np.where(found.rows < 0, np.nan, found.scores).astype(np.float64)
    rest = np.nan_to_num(np.nanmean(np.where(np.isnan(scores), 0.0, scores)[:, 1:], axis=1))
    first, second = np.nan_to_num(scores[:, 0]), np.nan_to_num(scores[:, 1])
    return np.stack([first, first - second, first - rest], axis=1)


@dataclass(frozen=True)
class Calibration:
    """A logistic model of "the best link is right", and the probability from which on it is given.

    p = 1 / (1 + exp(-(w . (x - mean) / scale + bias)));  the probability of "not in here, or another" is 1 - p.

    Args:
        weights: of the scaled features.
        bias: added to them.
        mean, scale: of the features it was fitted on.
        threshold: least probability of an answer that is given; 0 gives all.

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

    def probability(self, features: Float64[np.ndarray, "q f"]) -> Float64[np.ndarray, " q"]:
        """Probability that the best link is right, [q]; 0 where the features are NaN: there is no link."""
        if features.ndim != 2 or features.shape[1] != len(self.weights):
            raise ValueError(f"features: expected [q, {len(self.weights)}], got {list(features.shape)}")
        z = (features - np.array(self.mean)) / np.array(self.scale) @ np.array(self.weights) + self.bias
        p = 1 / (1 + np.exp(-np.clip(z, -50, 50)))
        return np.where(np.isnan(features).any(axis=1), 0.0, p)

    def write(self, path: str | Path) -> None:
        """Keep it as JSON."""
        replace_file(Path(path), json.dumps(asdict(self), indent=1))

    @classmethod
    def read(cls, path: str | Path) -> Calibration:
        """Read what `write` has written.

        Raises:
            ValueError: the file holds something else.
        """
        try:
            given = json.loads(Path(path).read_text(encoding="utf-8"))
            lists = {name: tuple(map(float, given[name])) for name in ("weights", "mean", "scale")}
            return cls(**lists, bias=float(given["bias"]), threshold=float(given["threshold"]))
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"{path}: not a calibration: {error!r:.200}") from None


def fit_calibration(
    features: Float64[np.ndarray, "q f"], right: Bool[np.ndarray, " q"], *, penalty: float = 1.0
) -> Calibration:
    """Fit a logistic model by Newton's method, with a ridge on the scaled weights.

    Args:
        features: of `name_features` or `vector_features`; rows with NaN are left out.
        right: whether each best link is the right one; both must occur.
        penalty: of the squared weights; with none, a feature that decides alone would get an infinite one.

    Raises:
        ValueError: fewer than 20 queries, or answers that are all right or all wrong.
    """
    x, y = np.asarray(features, np.float64), np.asarray(right, np.float64)
    if len(x) == len(y):
        linked = ~np.isnan(x).any(axis=1)
        x, y = x[linked], y[linked]
    if len(x) != len(y) or len(x) < _FEWEST or y.min() == y.max():
        raise ValueError(
            f"right: expected at least {_FEWEST} answers, one per query ({len(x)}), right and wrong ones, got {len(y)} "
            f"with {int(y.sum())} right"
        )
    mean, scale = x.mean(axis=0), x.std(axis=0)
    scale[scale < 1e-9] = 1.0
    design = np.concatenate([(x - mean) / scale, np.ones((len(x), 1))], axis=1)
    ridge = np.diag([penalty] * x.shape[1] + [0.0])
    w = np.zeros(design.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-np.clip(design @ w, -50, 50)))
        gradient = design.T @ (y - p) - ridge @ w
        step = np.linalg.solve((design * (p * (1 - p))[:, None]).T @ design + ridge + 1e-9 * np.eye(len(w)), gradient)
        w += step
        if np.abs(step).max() < 1e-8:
            break
    return Calibration(tuple(w[:-1].tolist()), float(w[-1]), tuple(mean.tolist()), tuple(scale.tolist()))


def threshold_for(probability: Float64[np.ndarray, " q"], right: Bool[np.ndarray, " q"], precision: float) -> float:
    """The lowest threshold above which a share of at least `precision` of the answers is right.

    Args:
        probability: of each best link, on validation queries.
        right: whether it is the right one.
        precision: wanted, above 0 and at most 1.

    Raises:
        ValueError: no threshold reaches it; the best that one does is shown.

    Example:
        >>> threshold_for(np.array([0.9, 0.8, 0.7, 0.2]), np.array([True, True, False, False]), 0.9)
        0.8
    """
    if not 0 < precision <= 1:
        raise ValueError(f"precision: expected above 0 and at most 1, got {precision!r}")
    curve = risk_coverage(probability, right)
    good = np.flatnonzero(1 - curve.risk >= precision - 1e-12)
    if not len(good):
        raise ValueError(
            f"precision: no threshold reaches {precision:g} on these {len(right):,} queries; at most "
            f"{1 - float(curve.risk.min(initial=1.0)):.3f} is reached"
        )
    return float(curve.threshold[good[-1]])


class RiskCoverage(NamedTuple):
    """What part of the queries is answered at each threshold, and what part of these answers is wrong.

    `threshold`, `coverage`, `risk` [t], from the surest answers on; equal probabilities count together.
    """

    threshold: Float64[np.ndarray, " t"]
    coverage: Float64[np.ndarray, " t"]
    risk: Float64[np.ndarray, " t"]

    def area(self) -> float:
        """Mean risk over all coverages: 0 for an oracle that is always right."""
        widths = np.diff(self.coverage, prepend=0.0)
        return float((self.risk * widths).sum())


def risk_coverage(probability: Float64[np.ndarray, " q"], right: Bool[np.ndarray, " q"]) -> RiskCoverage:
    """The risk-coverage curve of answers that come with a probability or any other score.

    Example:
        >>> curve = risk_coverage(np.array([0.9, 0.5, 0.5]), np.array([True, True, False]))
        >>> curve.coverage.round(2).tolist(), curve.risk.round(2).tolist()
        ([0.33, 1.0], [0.0, 0.33])

    Source: Geifman and El-Yaniv 2017, section 2; ties are ours.
    """
    order = np.argsort(-probability, kind="stable")
    sure, wrong = probability[order], np.cumsum(~np.asarray(right, np.bool_)[order])
    last = np.flatnonzero(np.append(sure[1:] != sure[:-1], True)) if len(sure) else np.zeros(0, np.int64)
    answered = last + 1
    return RiskCoverage(sure[last], answered / max(len(sure), 1), wrong[last] / answered)


def auroc(score: npt.ArrayLike, there: npt.ArrayLike) -> float:
    """Probability that a query whose entity is there scores above one whose entity is not; ties count a half.

    Example:
        >>> auroc([0.9, 0.8, 0.3, 0.3], [True, False, True, False])
        0.625

    Source: Mann and Whitney 1947.
    """
    values, positive = np.asarray(score, np.float64), np.asarray(there, np.bool_)
    inside, outside = np.sort(values[positive]), values[~positive]
    if not len(inside) or not len(outside):
        raise ValueError("there: expected queries of both kinds")
    above = len(inside) - np.searchsorted(inside, outside, "right")
    tied = np.searchsorted(inside, outside, "right") - np.searchsorted(inside, outside, "left")
    return float((above + 0.5 * tied).sum() / len(inside) / len(outside))


class CalibrationReport(NamedTuple):
    """What a threshold did on queries that the model was not fitted on.

    `precision` of the answers that are given, `coverage` their share, `auroc` of the probability for whether the
    asked entity is there (NaN where all or none are), `queries` how many.
    """

    precision: float
    coverage: float
    auroc: float
    queries: int


def calibrate_names(
    linker: NameLinker, names: Sequence[str], ids: Sequence[str | None], precision: float = 0.95, *, seed: int = 0
) -> tuple[Calibration, CalibrationReport]:
    """Fit a calibration of names on one half of labelled ones, and choose its threshold on the other half.

    Args:
        linker: of the knowledge base.
        names: as they will be asked.
        ids: the right entity of each, None where it is not in here.
        precision: wanted of the answers that are given.
        seed: of the halves.

    Returns:
        The calibration, and what it does on the second half.

    Raises:
        ValueError: too few names, no right or no wrong link among them, or a precision that no threshold reaches.

    Source: Platt 1999 for the model; the features are ours.
    """
    if len(names) != len(ids):
        raise ValueError(f"ids: expected one per name, {len(names)}, got {len(ids)}")
    links, features = name_features(linker, names)
    truth = linker.kb.rows([given or "" for given in ids])
    right = (links.rows[:, 0] == truth) & (truth >= 0)
    order = np.random.default_rng(seed).permutation(len(names))
    fit, check = order[: len(order) // 2], order[len(order) // 2 :]
    model = fit_calibration(features[fit], right[fit])
    probability = model.probability(features[check])
    chosen = threshold_for(probability, right[check], precision)
    given = probability >= chosen
    there = truth[check] >= 0
    report = CalibrationReport(
        float(right[check][given].mean()),
        float(given.mean()),
        auroc(probability, there) if there.any() and not there.all() else float("nan"),
        len(check),
    )
    return replace(model, threshold=chosen), report
