"""VALSE's metrics, for one image with its caption and a foil: three are thresholded, one is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from eqben_builder.scoring.intervals import Share, check_sampling, share_of
from paired_scores.metrics.arrays import as_array

if TYPE_CHECKING:
    from jaxtyping import Bool
    from numpy.typing import ArrayLike, NDArray

Scale = Literal["probability", "calibrated"]

_FOLDS = 5


class ValseScores(NamedTuple):
    """What `valse_scores` returns.

    pairwise: The caption beats the foil (acc_r); needs no threshold; chance 1/2.
    accuracy: Captions above the threshold and foils not above it, over both (acc); chance 1/2.
    caption: Captions above the threshold (p_c).
    foil: Foils not above the threshold (p_f).
    smaller: min(p_c, p_f).
    thresholds: The one threshold of probabilities, or that of each fold.
    ties: Rows whose caption and foil score the same; these are wrong in `pairwise`.
    outcomes: bool [n, 3], one row a pair: caption beats foil, caption accepted, foil rejected.

    Example:
        >>> scores = valse_scores([[0.9, 0.2], [0.8, 0.6]], scale="probability")
        >>> scores.pairwise.value, scores.caption.value, scores.foil.value, scores.thresholds
        (1.0, 1.0, 0.5, (0.5,))
    """

    pairwise: Share
    accuracy: Share
    caption: Share
    foil: Share
    smaller: float
    thresholds: tuple[float, ...]
    ties: int
    outcomes: Bool[np.ndarray, "n 3"]


def best_cut(positives: NDArray[np.float64], negatives: NDArray[np.float64]) -> float:
    """The cut above which most of `positives` and fewest of `negatives` lie; of equally good ones, the lowest."""
    values = np.unique(np.concatenate([positives, negatives]))
    cuts = np.concatenate(([values[0] - 1.0], (values[:-1] + values[1:]) / 2, [values[-1] + 1.0]))
    # Halves of neighbours may round to the larger one: a cut must lie below what it accepts.
    cuts[1:-1] = np.minimum(cuts[1:-1], np.nextafter(values[1:], -np.inf))
    accepted = len(positives) - np.searchsorted(np.sort(positives), cuts, side="right")
    rejected = np.searchsorted(np.sort(negatives), cuts, side="right")
    return float(cuts[np.argmax(accepted + rejected)])


def valse_scores(
    scores: ArrayLike,
    *,
    scale: Scale,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> ValseScores:
    """VALSE's accuracy, p_c, p_f, their minimum, and the pairwise accuracy.

    acc = (#[s_caption > t] + #[s_foil <= t]) / 2n, p_c = mean[s_caption > t], p_f = mean[s_foil <= t],
    acc_r = mean[s_caption > s_foil].

    Args:
        scores: [n, 2]: the caption's score, the foil's; n at least 1.
        scale: What the scores are; there is no default, for 0.5 means nothing for cosines. "probability": of a match,
            in [0, 1], and t = 0.5 as in VALSE. "calibrated": any scale; t is the best threshold on the other four
            fifths of these rows (five random folds, n at least 10).
        level: Of the intervals, in (0, 1).
        resamples: Bootstrap samples of rows, at least 1.
        seed: Of the folds and of the bootstrap.

    Returns:
        A `ValseScores`. The chance of `caption` and `foil` is given as 1/2, that of a threshold at the median.

    Raises:
        ValueError: The shape; the rows that are not finite; for "probability", rows outside [0, 1], or scores that all
            lie on one side of 0.5, which is what cosines look like; fewer than 10 rows to calibrate on.

    Example:
        >>> cosines = [[0.31, 0.25]] * 6 + [[0.24, 0.26]] * 6
        >>> valse_scores(cosines, scale="calibrated").pairwise.value
        0.5
        >>> valse_scores([[0.9, 0.2], [0.8, 0.6]], scale="probability").smaller
        0.5

    Source:
        VALSE as EqBen reports it (section 5.1: acc and min(p_c, p_f)). A foil at exactly 0.5 counts as rejected here.
        Cross-fitted thresholds are ours: a model that ranks every pair rightly by cosine would get acc 0.5 and min 0.
    """
    s = _checked(scores)
    check_sampling(level, resamples)
    thresholds, folds = _thresholds(s, scale, seed)
    cut = np.asarray(thresholds)[folds]
    accepted, rejected = s[:, 0] > cut, s[:, 1] <= cut
    outcomes = np.stack([s[:, 0] > s[:, 1], accepted, rejected], axis=1)
    n, rng, tail = len(s), np.random.default_rng(seed), (1 - level) / 2
    pooled = accepted.astype(np.float64) + rejected
    counts = rng.multinomial(n, np.bincount(pooled.astype(np.int64), minlength=3) / n, resamples)
    draws = {"accuracy": counts @ np.array([0.0, 0.5, 1.0]) / n}
    for k, name in enumerate(("pairwise", "caption", "foil")):
        draws[name] = rng.binomial(n, outcomes[:, k].mean(), resamples) / n
    values = {"accuracy": pooled.mean() / 2} | dict(
        zip(("pairwise", "caption", "foil"), outcomes.mean(axis=0), strict=True)
    )
    share = {name: share_of(float(value), draws[name], 0.5, n, tail) for name, value in values.items()}
    smaller = min(share["caption"].value, share["foil"].value)
    ties = int((s[:, 0] == s[:, 1]).sum())
    return ValseScores(
        share["pairwise"], share["accuracy"], share["caption"], share["foil"], smaller, thresholds, ties, outcomes
    )


def _thresholds(s: NDArray[np.float64], scale: str, seed: int) -> tuple[tuple[float, ...], NDArray[np.intp]]:
    """Thresholds, and which of them belongs to each row."""
    if scale == "probability":
        outside = np.flatnonzero(((s < 0) | (s > 1)).any(axis=1))
        if len(outside):
            row = outside[0]
            raise ValueError(
                f"{len(outside)} rows are no probabilities (row {row}: {s[row].tolist()}); "
                "for cosines or logits use scale='calibrated'"
            )
        if (s <= 0.5).all() or (s > 0.5).all():
            raise ValueError(
                f"all scores lie on one side of 0.5 (from {s.min():.4g} to {s.max():.4g}): these look like cosines, "
                "for which 0.5 means nothing; use scale='calibrated'"
            )
        return (0.5,), np.zeros(len(s), dtype=np.intp)
    if scale != "calibrated":
        raise ValueError(f"scale {scale!r} is neither 'probability' nor 'calibrated'")
    if len(s) < 2 * _FOLDS:
        raise ValueError(f"{len(s)} rows are too few to calibrate on: at least {2 * _FOLDS}")
    folds = np.random.default_rng(seed).permutation(len(s)) % _FOLDS
    return tuple(best_cut(*s[folds != k].T) for k in range(_FOLDS)), folds


def _checked(scores: ArrayLike) -> NDArray[np.float64]:
    s = as_array(scores, "scores").astype(np.float64)
    if s.ndim != 2 or s.shape[1] != 2 or not len(s):
        raise ValueError(f"scores have shape {s.shape}, expected (n, 2) with n >= 1: caption, foil")
    wrong = np.flatnonzero(~np.isfinite(s).all(axis=1))
    if len(wrong):
        raise ValueError(f"{len(wrong)} rows are not finite: {', '.join(map(str, wrong[:10]))}")
    return s
