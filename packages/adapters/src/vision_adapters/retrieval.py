"""Retrieval between images and their texts: recalls among all, accuracies in small galleries, and their chance."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from paired_scores.metrics.definitions import hits_at

GALLERY = 64
"""GATE's: an image is matched with this many texts, and a text with this many images."""
IN_GALLERIES = {
    "image_to_text": (False, 1), "text_to_image": (True, 1), "image_to_text@5": (False, 5), "text_to_image@5": (True, 5)
}  # fmt: skip
"""Accuracies in galleries: whether texts look for images, and among how many best the right one counts."""
_ROWS = 256
"""Queries that are compared with all others together."""


def recalls(
    images: Float[Tensor, "n d"], texts: Float[Tensor, "n t d"], ks: Sequence[int] = (1, 5, 10)
) -> dict[str, Float64[np.ndarray, " n"]]:
    """Recalls of each image and of its texts among all images and all texts, by inner product.

    An image is right if any of its texts is among the k best; its texts count each. Equal scores share their places.

    Args:
        images: features of images.
        texts: features of the t texts of each image.
        ks: how many best are looked at.

    Returns:
        ``i2t_r@k`` and ``t2i_r@k`` for each k: the first 0 to 1 of each image, the second a mean over its texts.

    Raises:
        ValueError: shapes that do not belong together, NaN or infinity, or a k below 1.

    Example:
        >>> features = torch.eye(3)
        >>> recalls(features, features[:, None], (1,))["i2t_r@1"].tolist()
        [1.0, 1.0, 1.0]
    """
    images, texts = _check(images, texts)
    if min(ks, default=1) < 1:
        raise ValueError(f"ks {list(ks)}: expected numbers of at least 1")
    count, each = texts.shape[:2]
    rows = texts.reshape(count * each, -1)
    among_texts, among_images = _scorer(rows), _scorer(images)
    of_images, of_texts = [], []
    for start in range(0, count, _ROWS):
        scores = among_texts(images[start : start + _ROWS])
        owners = torch.arange(start, start + len(scores))
        own = owners[:, None] * each + torch.arange(each)
        of_images.append(_found_within(scores, own, ks))
    for start in range(0, count * each, _ROWS):
        scores = among_images(rows[start : start + _ROWS])
        own = torch.arange(start, start + len(scores))[:, None] // each
        of_texts.append(_found_within(scores, own, ks))
    i2t, t2i = torch.cat(of_images), torch.cat(of_texts).reshape(count, each, -1).mean(dim=1)
    return {
        f"{direction}_r@{k}": values[:, column].numpy()
        for column, k in enumerate(ks)
        for direction, values in (("i2t", i2t), ("t2i", t2i))
    }


def chance_of_recall(count: int, own: int, k: int) -> float:
    """Return the chance that k of so many in a random order hold one of one's own: 1 - C(count - own, k) / C(count, k).

    Example:
        >>> round(chance_of_recall(60, 5, 5), 3)  # 12 images of 5 captions
        0.363
    """
    k = min(k, count)
    return 1 - math.comb(count - own, k) / math.comb(count, k)


class FirstRight(NamedTuple):
    """Where each query's best right answer stands.

    `recall` [q, k] is the chance that a right answer is among the k best, 0 or 1 unless scores are equal. `rank` [q]
    is the place of the first right answer, from 1, and its mean over all orders of equal scores.
    """

    recall: Float64[np.ndarray, "q k"]
    rank: Float64[np.ndarray, " q"]


def first_right(
    queries: Float[Tensor, "q d"],
    answers: Float[Tensor, "a d"],
    right: Sequence[Sequence[int]],
    ks: Sequence[int] = (1, 5, 10),
) -> FirstRight:
    """Rank all answers for each query by inner product, and find the first right one; a query may have several.

    Equal scores share their places. Equal answers have equal scores whatever the order in which they are multiplied.

    Args:
        queries: features, e.g. of images of unit length.
        answers: features of what is searched, e.g. of captions.
        right: for each query the rows of its right answers, at least one.
        ks: numbers of best answers that are looked at.

    Raises:
        ValueError: shapes that do not belong together, NaN or infinity, a k below 1, not one list for each query, an
            empty list, or a row beyond the answers; shows the query.

    Example:
        >>> first_right(torch.eye(3), torch.eye(3), [[0], [2], [1, 2]], (1,)).recall[:, 0].tolist()
        [1.0, 0.0, 1.0]

    Source:
        CLIP_benchmark, zeroshot_retrieval: a query is right if any right answer is among the k best.
    """
    if queries.ndim != 2 or answers.ndim != 2 or queries.shape[1] != answers.shape[1] or not len(answers):
        raise ValueError(
            f"queries have shape {tuple(queries.shape)}, answers {tuple(answers.shape)}; expected [q, d] and [a, d]"
        )
    queries, answers = _finite(queries=queries, answers=answers)
    if min(ks, default=1) < 1:
        raise ValueError(f"ks {list(ks)}: expected numbers of at least 1")
    if len(right) != len(queries):
        raise ValueError(f"{len(right)} lists of right answers for {len(queries)} queries")
    for row, rows in enumerate(right):
        if not len(rows) or min(rows) < 0 or max(rows) >= len(answers):
            raise ValueError(f"query {row} has right answers {list(rows)[:5]}, expected rows 0 to {len(answers) - 1}")
    score = _scorer(answers)
    recalled, ranks = [], []
    for start in range(0, len(queries), _ROWS):
        scores = score(queries[start : start + _ROWS])
        own = torch.zeros(scores.shape, dtype=torch.bool)
        for row in range(len(scores)):
            own[row, list(right[start + row])] = True
        best = scores.masked_fill(~own, -torch.inf).amax(dim=1, keepdim=True)
        ahead, equal = (scores > best).sum(dim=1), scores == best
        tied, mine = equal.sum(dim=1), (equal & own).sum(dim=1)
        recalled.append(_found_among(ahead, tied, tied - mine, ks))
        ranks.append(ahead + (tied + 1) / (mine + 1).double())
    return FirstRight(torch.cat(recalled).numpy(), torch.cat(ranks).double().numpy())


def chance_of_rank(count: int, own: Sequence[int]) -> int:
    """Return the median rank of the first right answer in random orders of so many answers.

    Args:
        count: how many answers are searched.
        own: for each query, how many of them are right.

    Example:
        >>> chance_of_rank(100, [1] * 100), chance_of_rank(500, [5] * 100)
        (50, 65)
    """
    sizes, times = np.unique(np.asarray(own), return_counts=True)
    low, high = 1, count
    while low < high:
        middle = (low + high) // 2
        share = sum(time * chance_of_recall(count, int(size), middle) for size, time in zip(sizes, times, strict=True))
        low, high = (low, middle) if share >= times.sum() / 2 - 1e-9 else (middle + 1, high)
    return low


def gallery_outcomes(
    images: Float[Tensor, "n d"], texts: Float[Tensor, "n t d"], first: Int[np.ndarray, " m"]
) -> dict[str, Float64[np.ndarray, " n"]]:
    """Accuracies in galleries of 64 different images, each with one text; a short last one is filled from the first.

    Galleries, and the text of each image, are drawn by a fixed seed. Equal scores share their places.

    Args:
        images: features of images.
        texts: features of the t texts of each image.
        first: rows that stand in a gallery: the first of each different image.

    Returns:
        The outcomes of `IN_GALLERIES`, 0 to 1; NaN for rows that stand in no gallery.

    Raises:
        ValueError: shapes that do not belong together, NaN or infinity, or no row in a gallery.

    Example:
        >>> features = torch.eye(3)
        >>> gallery_outcomes(features, features[:, None], np.arange(3))["text_to_image"].tolist()
        [1.0, 1.0, 1.0]

    Source:
        GATE, image-text tasks: accuracy at 1 and 5 among 64.
    """
    images, texts = _check(images, texts)
    if not len(first):
        raise ValueError("first: no row stands in a gallery; expected at least one")
    rows = torch.from_numpy(np.array(first, dtype=np.int64, order="C"))
    order = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))]
    chosen = torch.randint(texts.shape[1], (len(texts),), generator=torch.Generator().manual_seed(1))
    text = texts[torch.arange(len(texts)), chosen]
    size = min(GALLERY, len(order))
    outcomes = {name: np.full(len(images), np.nan) for name in IN_GALLERIES}
    for start in range(0, len(order), size):
        queries = order[start : start + size]
        members = torch.cat([queries, order[: size - len(queries)]])
        scores = _scorer(text[members])(images[members])
        truth = np.arange(len(queries))
        for name, (turned, k) in IN_GALLERIES.items():
            ranked = scores.T if turned else scores
            outcomes[name][queries.numpy()] = hits_at(k)(ranked[: len(queries)].numpy(), truth)
    return outcomes


def gallery_chances(count: int) -> dict[str, float]:
    """Return what a random order scores in the galleries of so many different images.

    Example:
        >>> gallery_chances(10)["image_to_text@5"]
        0.5
    """
    gallery = 1 / min(GALLERY, count)
    return {name: min(1.0, k * gallery) for name, (_, k) in IN_GALLERIES.items()}


def _check(images: Tensor, texts: Tensor) -> tuple[Tensor, Tensor]:
    """Return features without gradients, in float32 at least, of one type; or refuse them."""
    if images.ndim != 2 or texts.ndim != 3 or len(images) != len(texts) or images.shape[1] != texts.shape[2]:
        raise ValueError(
            f"images have shape {tuple(images.shape)}, texts {tuple(texts.shape)}; expected [n, d] and [n, t, d]"
        )
    return _finite(images=images, texts=texts)


def _scorer(answers: Float[Tensor, "a d"]) -> Callable[[Float[Tensor, "q d"]], Float[Tensor, "q a"]]:
    """Inner products with all answers. Equal answers are multiplied once: a product may sum columns in other orders."""
    numbers: dict[bytes, int] = {}
    place = torch.tensor([numbers.setdefault(row.tobytes(), len(numbers)) for row in answers.cpu().numpy()])
    different = answers[torch.tensor(np.unique(place.numpy(), return_index=True)[1])]
    return lambda queries: (queries @ different.T)[:, place]


def _finite(**sides: Tensor) -> tuple[Tensor, Tensor]:
    """Return both without gradients, in float32 at least, of one type; refuse NaN and infinity."""
    for name, features in sides.items():
        wrong = ~torch.isfinite(features).flatten(1).all(dim=1)
        if bool(wrong.any()):  # nothing is better than NaN: each would be found
            raise ValueError(f"{name}: row {int(wrong.nonzero()[0])} holds NaN or infinity, which has no rank")
    first, second = sides.values()
    kind = torch.promote_types(torch.promote_types(first.dtype, second.dtype), torch.float32)
    return first.detach().to(kind), second.detach().to(kind)


def _found_within(
    scores: Float[Tensor, "n m"], own: Int[Tensor, "n o"], sizes: Sequence[int]
) -> Float[Tensor, "n sizes"]:
    """For each row, the chance that one of its own columns is among the k best, equal scores standing in any order."""
    mine = scores.gather(1, own)
    best = mine.max(dim=1, keepdim=True).values
    ahead, tied = (scores > best).sum(dim=1), (scores == best).sum(dim=1)
    return _found_among(ahead, tied, tied - (mine == best).sum(dim=1), sizes)


def _found_among(
    ahead: Int[Tensor, " n"], tied: Int[Tensor, " n"], wrong: Int[Tensor, " n"], sizes: Sequence[int]
) -> Float[Tensor, "n sizes"]:
    """For each row, the chance that a right column is among the k best.

    So many are ahead, so many tied with the best right one, so many of these wrong: of ``g`` tied, ``o`` are right,
    and ``r`` places are left for them: 1 - C(g-o, r) / C(g, r).
    """
    chances = []
    for k in sizes:
        missed = torch.ones(len(ahead), dtype=torch.float64)
        for filled in range(k):
            factor = (wrong - filled).clamp_min(0) / (tied - filled).clamp_min(1)
            missed = torch.where(filled < k - ahead, missed * factor.double(), missed)
        chances.append(1 - missed)
    return torch.stack(chances, dim=1)
