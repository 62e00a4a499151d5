"""What a model reaches that never looks at an image: the shorter caption, a bigram model, a user's own."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eqben_builder.scoring.blind import held_out_likelihoods, scored_by
from eqben_builder.scoring.intervals import check_sampling
from eqben_builder.suites.outcomes import Outcome, folds_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from eqben_builder.scoring.blind import TextScorer
    from eqben_builder.suites.files import SuiteRow


_WORD = re.compile(r"\w+")


class Difference(NamedTuple):
    """How much better one is than another on the same questions.

    value: Difference of the means; low and high: its interval.
    p: Two-sided, of flipping the signs of whole clusters at random.
    """

    value: float
    low: float
    high: float
    p: float


def blind_outcomes(
    rows: Sequence[SuiteRow], scorers: Mapping[str, TextScorer] | None = None, *, seed: int = 0
) -> dict[str, Outcome]:
    """Each text-only baseline's outcomes on the questions that captions alone could answer.

    These are questions with wrong captions: of two images' own captions both are true, and a wrong image changes no
    word, so that a blind model gets nothing there. "shorter": the caption of fewer characters is taken. "bigram": two
    bigram models are learnt, of the right and of the wrong captions of the other folds' images; the caption that is
    likeliest to be a right one is taken. A scorer of your own: the caption that it scores highest. A tie is wrong.
    Statements: "bigram" says true where that is likelier.

    Source:
        SugarCrepe asks the question with Vera and a grammar model; the two lines are ours, for they need no download.
    """
    chosen = [k for k, row in enumerate(rows) if row.shape in ("captions", "paraphrases", "statement")]
    if not chosen:
        return {}
    choices = [k for k in chosen if rows[k].shape != "statement"]
    texts = [text for k in chosen for text in rows[k].captions]
    at = np.cumsum([0, *(len(rows[k].captions) for k in chosen)])
    lines = {}
    if choices:
        lines["shorter"] = np.array([-float(len(text)) for text in texts])
    lines["bigram"] = _bigram([rows[k] for k in chosen], texts, at, seed)
    for name, scorer in (scorers or {}).items():
        lines[name] = scored_by(scorer, texts, name)
    outcomes = {}
    for name, scores in lines.items():
        entries = []
        for k, begin, end in zip(chosen, at, at[1:], strict=False):
            row, s = rows[k], scores[begin:end]
            if row.shape == "statement":
                if name == "bigram":
                    entries.append((k, float((s[0] > 0) == row.label), False))
                continue
            right = s[:-1].min() > s[-1] if row.shape == "paraphrases" else s[0] > s[1:].max()
            entries.append((k, float(right), bool((s[0] == s[1:]).any())))
        if not entries:  # a scorer of captions alone has no threshold for statements
            continue
        places, right_, tied = zip(*entries, strict=True)
        outcomes[name] = Outcome(
            np.array(places, np.intp), np.array(right_), np.array(tied, bool), np.full(len(places), np.nan)
        )
    return outcomes


def bag_of_words_outcome(rows: Sequence[SuiteRow]) -> Outcome | None:
    """What is the most that a model of words without their order can reach: of captions of the same words it draws one.

    Of questions with one image, right and wrong captions; None without any. `tied` marks those in which a wrong
    caption has the words of the right one, in another order: order alone decides them.

    Example:
        >>> from eqben_builder.formats import Picture
        >>> from eqben_builder.suites import SuiteRow
        >>> captions = ("a dog on a cat", "a cat on a dog")
        >>> row = SuiteRow("0", "swap_obj", "captions", (Picture(content=b""),), captions, "0")
        >>> outcome = bag_of_words_outcome([row])
        >>> outcome.right.tolist(), outcome.tied.tolist()
        ([0.5], [True])
    """
    entries = []
    for k, row in enumerate(rows):
        if row.shape == "captions":
            first, *wrong = (Counter(_WORD.findall(caption.lower())) for caption in row.captions)
            same = sum(words == first for words in wrong)
            entries.append((k, 1 / (1 + same), same > 0))
    if not entries:
        return None
    places, right, tied = zip(*entries, strict=True)
    return Outcome(np.array(places, np.intp), np.array(right), np.array(tied, bool), np.full(len(places), np.nan))


def _bigram(rows: Sequence[SuiteRow], texts: list[str], at: NDArray[np.intp], seed: int) -> NDArray[np.float64]:
    """Mean log-ratio a word of each text under right and under wrong captions of the other folds."""
    right = np.concatenate([_right(row) for row in rows])
    fold = np.repeat(folds_of([row.cluster for row in rows], seed), np.diff(at))
    (under_right, under_wrong), lengths = held_out_likelihoods(texts, [right, ~right], fold)
    ratio: NDArray[np.float64] = (under_right - under_wrong) / lengths
    return ratio


def _right(row: SuiteRow) -> NDArray[np.bool_]:
    if row.shape == "statement":
        return np.array([bool(row.label)])
    count = len(row.captions)
    return np.arange(count) < (count - 1 if row.shape == "paraphrases" else 1)


def paired_difference(
    first: NDArray[np.float64],
    second: NDArray[np.float64],
    clusters: Sequence[str],
    *,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> Difference:
    """Whether one line is right more often than another, on the same questions; images' questions go together."""
    if not len(first) == len(second) == len(clusters) or not len(first):
        raise ValueError(f"{len(first)}, {len(second)} outcomes, {len(clusters)} clusters: expected as many, and some")
    check_sampling(level, resamples)
    names, at = np.unique(np.asarray(clusters), return_inverse=True)
    sums = np.bincount(at, np.asarray(first) - np.asarray(second), minlength=len(names))
    sizes = np.bincount(at, minlength=len(names)).astype(np.float64)
    rng = np.random.default_rng(seed)
    flips, draws = np.empty(resamples), np.empty(resamples)
    for k in range(resamples):
        flips[k] = abs((sums * rng.choice((-1.0, 1.0), len(names))).sum())
        counts = np.bincount(rng.integers(0, len(names), len(names)), minlength=len(names))
        draws[k] = counts @ sums / (counts @ sizes)
    low, high = np.quantile(draws, ((1 - level) / 2, (1 + level) / 2)).tolist()
    p = (1 + np.count_nonzero(flips >= abs(sums.sum()) - 1e-9)) / (1 + resamples)
    return Difference(float(sums.sum() / sizes.sum()), low, high, float(p))
