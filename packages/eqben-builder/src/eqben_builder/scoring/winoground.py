"""Text, image and group score of minimal pairs, from their 2 x 2 similarities."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eqben_builder.scoring.intervals import Share, share_of

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Float64
    from numpy.typing import ArrayLike

#: What scores drawn independently from one continuous distribution would get.
CHANCE: dict[str, float] = {"text": 1 / 4, "image": 1 / 4, "group": 1 / 6}


class WinogroundScores(NamedTuple):
    """What `winoground_scores` returns.

    text: Both images pick their own caption.
    image: Both captions pick their own image.
    group: Both.
    ties: Pairs in which at least one of the four comparisons is an exact tie; these cannot be right in "group".
    outcomes: bool [n, 3], one row a pair: text, image, group.

    Example:
        >>> found = winoground_scores([[[0.9, 0.1], [0.2, 0.8]], [[0.9, 0.3], [0.2, 0.1]]])
        >>> found.text.value, found.ties, found.outcomes.tolist()
        (0.5, 0, [[True, True, True], [False, False, False]])
    """

    text: Share
    image: Share
    group: Share
    ties: int
    outcomes: Bool[np.ndarray, "n 3"]


def winoground_scores(
    scores: ArrayLike, *, level: float = 0.95, resamples: int = 1000, seed: int = 0
) -> WinogroundScores:
    """Score minimal pairs: text, image and group, by strict inequalities.

    text = mean[s00 > s10 and s11 > s01], image = mean[s00 > s01 and s11 > s10], group = mean[both], where s_ci is
    the similarity of caption c and image i.

    Args:
        scores: [n, 2, 2], the caption first: `scores[k, c, i]`; n at least 1. Any finite scale will do.
        level: Of the intervals, in (0, 1).
        resamples: Bootstrap samples of pairs, at least 1.
        seed: Of the bootstrap.

    Returns:
        A `WinogroundScores`; a model that ties everything scores 0, not chance.

    Raises:
        ValueError: The shape that is wrong, or the first entry that is not finite.

    Numerics:
        Comparisons are made in float64 on the values as given. The bootstrap of a share is drawn from its exact
        distribution, Binomial(n, share) / n; where fewer than ten pairs are right, or wrong, the interval is Wilson's.

    Example:
        >>> result = winoground_scores([[[0.9, 0.1], [0.2, 0.8]], [[0.9, 0.9], [0.2, 0.8]]])
        >>> result.text.value, result.image.value, result.ties
        (0.5, 0.5, 1)

    Source:
        EqBen section 4 (text, image and group scores as in Winoground); chance as derived from four independent scores.
    """
    s = checked_scores(scores)
    if not 0.0 < level < 1.0 or resamples < 1:
        raise ValueError(f"level = {level!r} and resamples = {resamples!r}: expected within (0, 1) and at least 1")
    outcomes, tied = comparisons(s)
    ties = int(tied.any(axis=1).sum())
    rng = np.random.default_rng(seed)
    tail = (1 - level) / 2
    shares = []
    for k, name in enumerate(("text", "image", "group")):
        value = float(outcomes[:, k].mean())
        shares.append(share_of(value, rng.binomial(len(s), value, resamples) / len(s), CHANCE[name], len(s), tail))
    return WinogroundScores(shares[0], shares[1], shares[2], ties, outcomes)


def comparisons(s: Float[np.ndarray, "n 2 2"]) -> tuple[Bool[np.ndarray, "n 3"], Bool[np.ndarray, "n 2"]]:
    """Of each pair whether text, image and group are right, and whether text and image hold an exact tie."""
    own = s[:, (0, 1), (0, 1)]
    # Of each picture the other caption's score, and of each caption the other picture's.
    others = (s[:, (1, 0), (0, 1)], s[:, (0, 1), (1, 0)])
    text, image = ((own > other).all(axis=1) for other in others)
    tied = np.stack([(own == other).any(axis=1) for other in others], axis=1)
    return np.stack([text, image, text & image], axis=1), tied


def checked_scores(scores: ArrayLike) -> Float64[np.ndarray, "n 2 2"]:
    """Scores as float64 [n, 2, 2], or an error with the shape or the first entry that is not finite."""
    s = np.asarray(scores, dtype=np.float64)
    if s.ndim != 3 or s.shape[1:] != (2, 2) or not len(s):
        raise ValueError(f"scores have shape {s.shape}, expected (n, 2, 2) with n >= 1: scores[k, caption, image]")
    if not np.isfinite(s).all():
        k, c, i = np.argwhere(~np.isfinite(s))[0]
        raise ValueError(f"scores[{k}, {c}, {i}] = {s[k, c, i]} is not finite")
    return s
