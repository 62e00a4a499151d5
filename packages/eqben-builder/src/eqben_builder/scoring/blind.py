"""The blind control: a model that sees no image must stay at chance, or the captions give the answer away."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from eqben_builder.scoring.intervals import Share, check_sampling, share_of
from paired_scores.metrics.arrays import as_array

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float64
    from numpy.typing import NDArray

_WORD = re.compile(r"\w+|[^\w\s]")
_DISCOUNT = 0.75


class TextScorer(Protocol):
    """Anything that scores captions alone; a higher score is a likelier caption."""

    def __call__(self, captions: Sequence[str]) -> Sequence[float]:
        """One score a caption."""


class BlindScores(NamedTuple):
    """What `blind_scores` returns; every chance is 1/2.

    likelier: Pairs whose caption 0 (the true one, where the other is a foil) scores higher; ties count half.
    learnt: Pairs whose sides are told apart by two caption models that learnt, on the other folds, how each side reads;
        None with a scorer of your own.
    ties: Pairs whose captions score the same.
    leak: The larger distance of the two shares from 1/2.
    outcomes: float64 [n]: 1, 0 or 1/2, of `likelier`.
    """

    likelier: Share
    learnt: Share | None
    ties: int
    leak: float
    outcomes: Float64[np.ndarray, " n"]


def held_out_likelihoods(
    texts: Sequence[str], learnt: Sequence[NDArray[np.bool_]], fold: NDArray[np.intp]
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Log-likelihoods [models, texts] under a bigram model of each selection's texts of the other folds, and lengths.

    p(w | v) = max(c(vw) - D, 0) / c(v) + D t(v) / c(v) p(w), where t(v) counts the words seen after v, and
    p(w) = (c(w) + 1) / (N + V + 1). All counts are taken once, and a fold's own are subtracted; of a single fold
    nothing is.
    """
    ids: dict[str, int] = {}
    words = [np.array([ids.setdefault(word, len(ids) + 2) for word in _WORD.findall(text.lower())]) for text in texts]
    size = len(ids) + 2  # 0 begins a text and 1 ends it
    lengths = np.array([len(own) + 1 for own in words])
    owner = np.repeat(np.arange(len(texts)), lengths)
    first = np.concatenate([np.concatenate(([0], own)) for own in words]).astype(np.int64)
    second = np.concatenate([np.concatenate((own, [1])) for own in words]).astype(np.int64)
    pairs, pair = np.unique(first * size + second, return_inverse=True)
    fold_of, folds = fold[owner], int(fold.max()) + 1
    logs = np.zeros((len(learnt), len(texts)))
    for model, selected in enumerate(learnt):
        side = selected[owner]
        counts, after, before = (
            np.bincount(fold_of[side] * bins + values[side], minlength=folds * bins).reshape(folds, bins)
            for values, bins in ((pair, len(pairs)), (second, size), (first, size))
        )
        for k in range(folds):
            c, w, b = (all_.sum(0) - all_[k] if folds > 1 else all_[0] for all_ in (counts, after, before))
            followers = np.bincount(pairs[c > 0] // size, minlength=size)
            inside = fold_of == k
            v, u = first[inside], second[inside]
            plain = (w[u] + 1) / (w.sum() + np.count_nonzero(w) + 1)
            divisor = np.maximum(b[v], 1)
            smooth = np.maximum(c[pair[inside]] - _DISCOUNT, 0) / divisor + _DISCOUNT * followers[v] / divisor * plain
            chances = np.log(np.where(b[v] > 0, smooth, plain))
            logs[model] += np.bincount(owner[inside], chances, minlength=len(texts))
    return logs, lengths


def blind_scores(
    captions: Sequence[tuple[str, str]],
    scorer: TextScorer | None = None,
    *,
    folds: int = 5,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> BlindScores:
    """Score pairs by their captions alone: the share that a model without eyes gets right should be one half.

    Both captions of a pair of images are true, so text alone wins neither text, image nor group score; what can leak is
    their order, which decides every protocol that shows the images in one order. Where one image stands beside a true
    caption and a foil, the share is the accuracy of a blind model.

    Args:
        captions: [n] pairs: caption 0 and caption 1, or the true caption and its foil.
        scorer: Scores captions alone. By default a bigram model, fitted on both captions of the other
            folds, and per word, so that a short caption has no advantage.
        folds: For the default scorer, at least 2 and at most n.
        level: Of the intervals, in (0, 1).
        resamples: Bootstrap samples of pairs, at least 1.
        seed: Of the folds and of the bootstrap.

    Returns:
        A `BlindScores`.

    Raises:
        ValueError: No pairs, too few for the folds, or a scorer that returns another number of scores or no number.

    Example:
        >>> leaking = [(f"there is a {colour} ball", f"ball {colour} no") for colour in ("red", "blue", "green") * 4]
        >>> blind_scores(leaking).learnt.value
        1.0

    Source:
        SugarCrepe's question (do foils read unlike captions?), put to built pairs. Fitting on other folds is ours.
    """
    n = len(captions)
    if not n:
        raise ValueError("expected at least one pair, got none")
    check_sampling(level, resamples)
    rng = np.random.default_rng(seed)
    if scorer is not None:
        values = np.stack([scored_by(scorer, [pair[side] for pair in captions]) for side in (0, 1)], axis=1)
        learnt = None
    else:
        if not 2 <= folds <= n:
            raise ValueError(f"folds = {folds} for {n} pairs: expected at least 2 and at most the number of pairs")
        values, margins = _cross_fitted(captions, rng.permutation(n) % folds)
        learnt = _share(_outcomes(margins[:, 0] - margins[:, 1]), level, resamples, rng)
    outcomes = _outcomes(values[:, 0] - values[:, 1])
    likelier = _share(outcomes, level, resamples, rng)
    leak = max(abs(share.value - 0.5) for share in (likelier, learnt) if share is not None)
    return BlindScores(likelier, learnt, int((outcomes == 0.5).sum()), leak, outcomes)


def _cross_fitted(
    captions: Sequence[tuple[str, str]], fold: NDArray[np.intp]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Likelihoods [n, 2], and how much likelier each caption is as a first than as a second one [n, 2]."""
    texts = [caption for pair in captions for caption in pair]
    firsts = np.arange(len(texts)) % 2 == 0
    logs, lengths = held_out_likelihoods(texts, [np.ones(len(texts), bool), firsts, ~firsts], np.repeat(fold, 2))
    total, first, second = (logs / lengths).reshape(3, -1, 2)
    return total, first - second


def scored_by(scorer: TextScorer, captions: list[str], name: str = "the scorer") -> NDArray[np.float64]:
    """One finite score a caption, or an error with the scorer's name."""
    scores = as_array(scorer(captions), f"scores of {name}").astype(np.float64)
    if scores.shape != (len(captions),) or not np.isfinite(scores).all():
        raise ValueError(f"{name} gave {scores.shape} scores for {len(captions)} captions, or one is not finite")
    return scores


def _outcomes(difference: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(difference == 0, 0.5, (difference > 0).astype(np.float64))


def _share(outcomes: NDArray[np.float64], level: float, resamples: int, rng: np.random.Generator) -> Share:
    n, shares = len(outcomes), np.array([(outcomes == value).mean() for value in (0.0, 0.5, 1.0)])
    draws = rng.multinomial(n, shares / shares.sum(), resamples) @ np.array([0.0, 0.5, 1.0]) / n
    return share_of(float(outcomes.mean()), draws, 0.5, n, (1 - level) / 2)
