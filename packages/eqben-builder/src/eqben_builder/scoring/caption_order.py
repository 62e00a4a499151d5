"""Multimodal language models on minimal pairs: which caption is whose, asked in both orders of the captions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from eqben_builder.scoring.intervals import Share, check_sampling, share_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jaxtyping import Bool
    from numpy.typing import NDArray

    Image = NDArray[np.uint8]

PROMPT = (
    "Two pictures stand side by side, one on the left and one on the right. One of these captions belongs to each:\n"
    "caption 1: {caption1}\ncaption 2: {caption2}\n"
    "Which caption belongs to the left picture, and which to the right one? Answer with the two numbers only, the left "
    'picture\'s first, parted by a semicolon: "1;2" says that caption 1 belongs to the left picture.'
)

_NUMBERS = re.compile(r"(?<!\d)([12])\s*[;,/&]\s*(?:and\s+)?(?:#\s*|caption\s*)?([12])(?!\d)", re.IGNORECASE)
_SIDE = r"(?:left|right)"
_NUMBER_THEN_SIDE = re.compile(
    rf"(?:caption|index|#)\s*#?([12])\b(?:(?!\b(?:caption|index)\b|#|[.;\n]|\b{_SIDE}\b).)*?\b({_SIDE})\b",
    re.IGNORECASE,
)
_SIDE_THEN_NUMBER = re.compile(
    rf"\b({_SIDE})\b(?:(?!\b{_SIDE}\b|[.;\n]).)*?(?:caption|index|#)\s*#?([12])\b", re.IGNORECASE
)


class Answerer(Protocol):
    """Anything that looks at pictures and answers a prompt in words.

    Example:
        >>> def first_caption_left(images, prompt):
        ...     return "1;2"
        >>> answer: Answerer = first_caption_left
        >>> picture = np.zeros((2, 2, 3), np.uint8)
        >>> caption_order_scores([(picture, picture, "a cat", "a dog")], answer).unparsed
        0
    """

    def __call__(self, images: list[Image], prompt: str) -> str:
        """Answer; `images` are uint8 [height, width, 3]: one, both side by side, or two where that was asked for."""


class CaptionOrder(NamedTuple):
    """What `caption_order_scores` returns; an answer that cannot be read is wrong.

    first: Right when the left picture's caption is listed first (the right answer is 1;2); chance 1/2.
    swapped: Right when it is listed second (2;1); chance 1/2.
    both: Right in both orders; chance 1/4.
    consistent: The same caption for the same picture in both orders, right or not; chance 1/2.
    unparsed: Answers that could not be read, of 2n.
    follows_order: Share of the read answers that are "1;2": 1/2 for a model that looks.
    answers: The model's own words, one pair of answers a pair.
    outcomes: bool [n, 2]: right in the first order, in the swapped one.

    Example:
        >>> picture = np.zeros((2, 2, 3), np.uint8)
        >>> pairs = [(picture, picture, "a cat", "a dog"), (picture, picture, "a cup", "a hat")]
        >>> scores = caption_order_scores(pairs, lambda images, prompt: "2;1" if "a cat" in prompt else "both")
        >>> scores.unparsed, scores.answers[1], scores.outcomes.tolist()
        (2, ('both', 'both'), [[False, True], [False, False]])
    """

    first: Share
    swapped: Share
    both: Share
    consistent: Share
    unparsed: int
    follows_order: float
    answers: tuple[tuple[str, str], ...]
    outcomes: Bool[np.ndarray, "n 2"]


def parse_order(answer: str) -> tuple[int, int] | None:
    """Read which caption an answer gives to the left and to the right picture.

    Args:
        answer: Free text. "1;2", "2, 1", "caption 2 is the left image and caption 1 the right", "left: caption 1; ...".

    Returns:
        (1, 2) or (2, 1), or None where the answer says neither, or both. Of "number, then side" and "side, then number"
        the reading that explains more of the answer counts; where they explain as much and disagree, None.

    Example:
        >>> parse_order("2;1"), parse_order("Caption 1 belongs to the left image."), parse_order("1;1")
        ((2, 1), (1, 2), None)
    """
    numbers = {(int(a), int(b)) for a, b in _NUMBERS.findall(answer)}
    if numbers:
        return _only(numbers)
    readings = [
        [(side.lower(), int(number)) for number, side in _NUMBER_THEN_SIDE.findall(answer)],
        [(side.lower(), int(number)) for side, number in _SIDE_THEN_NUMBER.findall(answer)],
    ]
    most = max(map(len, readings))
    return _only({_order(*claim) for reading in readings if len(reading) == most for claim in reading})


def _order(side: str, number: int) -> tuple[int, int]:
    return (number, 3 - number) if side == "left" else (3 - number, number)


def _only(orders: set[tuple[int, int]]) -> tuple[int, int] | None:
    """The one order that was said, unless none or several were, or both pictures got the same caption."""
    return next(iter(orders)) if len(orders) == 1 and orders <= {(1, 2), (2, 1)} else None


def side_by_side(image0: Image, image1: Image, gap: int = 0) -> Image:
    """Two pictures as one, the first on the left; the lower one is centred on black.

    Args:
        image0: uint8 [height, width, 3].
        image1: uint8 [height, width, 3].
        gap: Black pixels between them.

    Returns:
        uint8 [larger height, sum of the widths + gap, 3].

    Example:
        >>> side_by_side(np.ones((4, 2, 3), np.uint8), np.ones((2, 3, 3), np.uint8)).shape
        (4, 5, 3)
    """
    height = max(len(image0), len(image1))
    canvas = np.zeros((height, image0.shape[1] + gap + image1.shape[1], 3), np.uint8)
    for image, left in ((image0, 0), (image1, image0.shape[1] + gap)):
        top = (height - len(image)) // 2
        canvas[top : top + len(image), left : left + image.shape[1]] = image
    return canvas


def caption_order_scores(
    pairs: Iterable[tuple[Image, Image, str, str]],
    answer: Answerer,
    *,
    prompt: str = PROMPT,
    joined: bool = True,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> CaptionOrder:
    """Ask a multimodal language model which caption is whose, in both orders of the captions.

    Args:
        pairs: (image0, image1, caption0, caption1); image0 stands on the left in both questions.
        answer: The model, as a function of pictures and a prompt.
        prompt: With the fields {caption1} and {caption2}.
        joined: Show one picture, both side by side; False shows two.
        level: Of the intervals, in (0, 1).
        resamples: Bootstrap samples of pairs, at least 1.
        seed: Of the bootstrap.

    Returns:
        A `CaptionOrder`.

    Raises:
        ValueError: No pairs; a prompt without one of the two fields; answers none of which can be read; level or
            resamples out of range.
        TypeError: An answer that is no text, with its pair.

    Example:
        >>> picture = np.zeros((2, 2, 3), np.uint8)
        >>> scores = caption_order_scores([(picture, picture, "a cat", "a dog")], lambda images, prompt: "1;2")
        >>> scores.first.value, scores.swapped.value, scores.follows_order
        (1.0, 0.0, 1.0)

    Source:
        EqBen section 5.5: pictures joined horizontally, answers of the form "1;2", both caption orders (table 7, read
        by hand on 20 samples a subset). Differences: answers are read by `parse_order` and counted where that fails;
        `both` and `consistent` are ours; so is the prompt's wording, which `prompt` replaces.
    """
    if any(field not in prompt for field in ("{caption1}", "{caption2}")):
        raise ValueError(f"the prompt lacks {{caption1}} or {{caption2}}: {prompt!r}")
    check_sampling(level, resamples)
    answers: list[tuple[str, str]] = []
    for k, (image0, image1, caption0, caption1) in enumerate(pairs):
        shown = [side_by_side(image0, image1)] if joined else [image0, image1]
        texts = []
        for first, second in ((caption0, caption1), (caption1, caption0)):
            # Not str.format: a caption or a prompt may hold braces of its own.
            question = prompt.replace("{caption1}", "\0").replace("{caption2}", second).replace("\0", first)
            text = answer(shown, question)
            if not isinstance(text, str):
                raise TypeError(f"pair {k}: the model answered {text!r}, expected a text")
            texts.append(text)
        answers.append((texts[0], texts[1]))
    if not answers:
        raise ValueError("no pairs to ask about")
    read = [(parse_order(first_order), parse_order(second_order)) for first_order, second_order in answers]
    left_first = np.array([first_order == (1, 2) for first_order, _ in read])
    swapped = np.array([second_order == (2, 1) for _, second_order in read])
    consistent = np.array([None not in pair and pair[0] != pair[1] for pair in read])
    rng, n, tail = np.random.default_rng(seed), len(answers), (1 - level) / 2

    def share(right: NDArray[np.bool_], chance: float) -> Share:
        value = float(right.mean())
        return share_of(value, rng.binomial(n, value, resamples) / n, chance, n, tail)

    valid = [order for pair in read for order in pair if order is not None]
    if not valid:
        raise ValueError(
            f"none of {2 * n} answers says which caption is whose, the first is {answers[0][0]!r:.80}; "
            "expected such as '1;2'"
        )
    return CaptionOrder(
        share(left_first, 1 / 2),
        share(swapped, 1 / 2),
        share(left_first & swapped, 1 / 4),
        share(consistent, 1 / 2),
        2 * n - len(valid),
        float(np.mean([order == (1, 2) for order in valid])),
        tuple(answers),
        np.stack([left_first, swapped], axis=1),
    )
