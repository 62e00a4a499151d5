"""From scores of words to a class map, a few lines or a few words at a time: memory holds no whole map of all words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from gate_runner.tasks.segmenting.pamr import affinities, refined
from gate_runner.tasks.segmenting.windows import Scored

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int, UInt8

MOST_VALUES = 8_000_000
"""Scores that are held at a time: 32 MB."""


class Answer(NamedTuple):
    """The class of each pixel, and the probability of its word."""

    classes: Int[Tensor, "h w"]
    confidence: Float[Tensor, "h w"]

    def above(self, threshold: float, background: int | None) -> Int[Tensor, "h w"]:
        """Return the classes, and the background where no word has the probability."""
        if background is None or threshold <= 0:
            return self.classes
        return torch.where(self.confidence < threshold, background, self.classes)


class _Best:
    """For each pixel the best word so far, its score, and the logarithm of the sum of exponentials."""

    def __init__(self, shape: tuple[int, int], device: torch.device) -> None:
        self.word = torch.zeros(shape, dtype=torch.long, device=device)
        self.score = torch.full(shape, float("-inf"), device=device)
        self.total = torch.full(shape, float("-inf"), device=device)

    def add(self, scores: Float[Tensor, "k r w"], rows: slice, first: int, allowed: Bool[Tensor, " k"]) -> None:
        """Take in the scores of some words, from ``first`` on, on some lines."""
        self.total[rows] = torch.logaddexp(self.total[rows], scores.logsumexp(dim=0))
        best, word = scores.masked_fill(~allowed[:, None, None], float("-inf")).max(dim=0)
        better = best > self.score[rows]
        self.word[rows] = torch.where(better, word + first, self.word[rows])
        self.score[rows] = torch.where(better, best, self.score[rows])


def answer(
    scored: Scored,
    of_class: Int[Tensor, " k"],
    scale: float,
    *,
    words: slice = slice(None),
    image: UInt8[Tensor, "3 h w"] | None = None,
    least_area: float = 0.0,
    background: int | None = None,
    most_values: int = MOST_VALUES,
) -> Answer:
    """Return the class map of an image: ``argmax`` over words of ``softmax(scale cosine)``, and that probability.

    A class is as sure as its surest word.

    Args:
        scored: of the image's windows.
        of_class: of each word among ``words``.
        scale: factor on scores.
        words: which of the scores are meant.
        image: by which scores are refined (PAMR); None does not refine.
        least_area: share of the image that a class covers at least; the pixels of others go to the next best word.
        background: the class that no area is asked of.
        most_values: scores held at a time.
    """
    walk = _by_lines(scored, words, most_values) if image is None else _by_words(scored, words, image, most_values)
    device = scored.patches.device
    of_class = of_class.to(device)
    allowed = torch.ones(len(of_class), dtype=torch.bool, device=device)
    best = _reduced(walk, scored.shape, scale, allowed)
    classes = of_class[best.word]
    if least_area > 0:
        count = int(of_class.max()) + 1
        things = classes if background is None else classes[classes != background]
        areas = torch.bincount(things.flatten(), minlength=count)
        large = areas > least_area * areas.sum()
        if background is not None:
            large[background] = True
        allowed = large[of_class]
        if not bool(allowed.all()) and bool(allowed.any()):
            best = _reduced(walk, scored.shape, scale, allowed)
            classes = of_class[best.word]
    return Answer(classes.cpu(), (best.score - best.total).exp().cpu())


Walk = Callable[[], Iterator[tuple[Tensor, slice, int]]]
"""Scores of some words on some lines, the lines, and the number of the first word."""


def _reduced(walk: Walk, shape: tuple[int, int], scale: float, allowed: Bool[Tensor, " k"]) -> _Best:
    best = _Best(shape, allowed.device)
    for scores, rows, first in walk():
        best.add(scale * scores, rows, first, allowed[first : first + len(scores)])
    return best


def _by_lines(scored: Scored, words: slice, most_values: int) -> Walk:
    """Walk over lines of all words."""
    count = len(range(*words.indices(scored.patches.shape[1])))
    lines = max(1, most_values // (count * max(scored.shape[1], scored.size[1])))

    def walk() -> Iterator[tuple[Tensor, slice, int]]:
        for first in range(0, scored.shape[0], lines):
            last = min(first + lines, scored.shape[0])
            yield scored.lines(words, first, last), slice(first, last), 0

    return walk


def _by_words(scored: Scored, words: slice, image: Tensor, most_values: int) -> Walk:
    """Walk over words on all lines, refined: refinement needs a word's whole map."""
    start, stop, _ = words.indices(scored.patches.shape[1])
    weights = affinities(image.to(scored.patches.device).float() / 255)
    together = max(1, most_values // (scored.shape[0] * scored.shape[1]))

    def walk() -> Iterator[tuple[Tensor, slice, int]]:
        for first in range(start, stop, together):
            some = slice(first, min(first + together, stop))
            maps = refined(scored.lines(some, 0, scored.shape[0]), weights)
            yield maps, slice(0, scored.shape[0]), first - start

    return walk
