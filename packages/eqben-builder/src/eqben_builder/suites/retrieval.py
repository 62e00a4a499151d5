"""A gallery's scores: recall, R-precision and mean average precision in both directions, whole and in folds."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from eqben_builder.scoring.intervals import Share, check_sampling, share_of
from eqben_builder.scoring.similarity import unit_rows
from eqben_builder.suites.features import encoded
from eqben_builder.suites.published import published_scores

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jaxtyping import Float
    from numpy.typing import NDArray

    from eqben_builder.formats import Picture
    from eqben_builder.progress import Progress
    from eqben_builder.scoring import DualEncoder
    from eqben_builder.suites.galleries import Gallery

_CHUNK = 512


class RetrievalScores(NamedTuple):
    """One direction with one set of judgements: shares in [0, 1], with intervals over queries, and what chance gives.

    recall: k -> share of queries of which a right answer is among the first k.
    r_precision: Mean share of right answers among the first R, R being how many there are.
    map_at_r: Mean over the first R ranks of the precision where a right answer stands, else 0.
    queries: How many were asked.

    Example:
        >>> retrieval_scores(np.eye(2), np.eye(2), {0: [0]}, ks=(1,)).queries
        1
    """

    recall: Mapping[int, Share]
    r_precision: Share
    map_at_r: Share
    queries: int


def retrieval_scores(
    queries: Float[np.ndarray, "q d"],
    answers: Float[np.ndarray, "a d"],
    right: Mapping[int, Sequence[int]],
    *,
    folds: Sequence[tuple[Sequence[int], Sequence[int]]] | None = None,
    ks: Sequence[int] = (1, 5, 10),
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> RetrievalScores:
    """Recall at k, R-precision and mAP at R over a gallery; a tie counts against the right answer.

    recall@k = mean over queries of [some right answer is among the first k];
    R-precision = mean of #right among the first R / R;
    mAP@R = mean of 1/R times the sum over r <= R of precision(r) [rank r is right].

    Args:
        queries: Features; cosines are taken.
        answers: Features of the gallery, of the same width.
        right: Query -> its right answers, by place; queries without an entry are not asked.
        folds: Places of the queries and of the answers of each fold, whose queries are searched among its own answers
            alone; the scores are means over all queries. None to search the whole gallery.
        ks: Each from 1 to the size of the gallery, or of the smallest fold.
        level: Of the intervals, in (0, 1).
        resamples: Bootstrap samples of queries, at least 1.
        seed: Of the bootstrap.

    Returns:
        A `RetrievalScores`.

    Raises:
        ValueError: No queries or folds, shapes that do not fit, a place outside of the gallery, features that are not
            finite.

    Numerics:
        Cosines in the features' own precision, 512 queries at a time: a gallery of 25,000 takes 50 MB.

    Example:
        >>> images, texts = np.eye(2), np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
        >>> scores = retrieval_scores(images, texts, {0: [0, 1], 1: [2]}, ks=(1,))
        >>> scores.recall[1].value, scores.r_precision.value
        (0.5, 0.25)

    Source:
        Recall as in Karpathy and Fei-Fei's split, whose "1k" of COCO is the mean over five folds of 1,000 pictures;
        R-precision and mAP@R as in ECCV Caption. In the example the second
        picture's caption ties with one that is not its own, and the first picture's second caption with another.
    """
    check_sampling(level, resamples)
    values, chance = (
        _values(queries, answers, right, ks) if folds is None else _fold_values(queries, answers, right, folds, ks)
    )
    count = len(values)
    drawn = np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), resamples)
    draws = drawn @ values / count
    shares = [
        share_of(float(values[:, k].mean()), draws[:, k], expected, count, (1 - level) / 2)
        for k, expected in enumerate(chance)
    ]
    return RetrievalScores(dict(zip(ks, shares, strict=False)), shares[-2], shares[-1], count)


def _fold_values(
    queries: Float[np.ndarray, "q d"],
    answers: Float[np.ndarray, "a d"],
    right: Mapping[int, Sequence[int]],
    folds: Sequence[tuple[Sequence[int], Sequence[int]]],
    ks: Sequence[int],
) -> tuple[NDArray[np.float64], list[float]]:
    """`_values` of all folds; right answers of other folds are left out."""
    if not folds:
        raise ValueError("no folds to search")
    parts = []
    for fold_queries, held in folds:
        position = {answer: k for k, answer in enumerate(held)}
        own = {
            k: [position[answer] for answer in right.get(query, ()) if answer in position]
            for k, query in enumerate(fold_queries)
        }
        own = {k: answered for k, answered in own.items() if answered}
        parts.append(_values(np.asarray(queries)[list(fold_queries)], np.asarray(answers)[list(held)], own, ks))
    weights = np.array([len(values) for values, _ in parts], dtype=np.float64)
    chance = np.average([chance for _, chance in parts], axis=0, weights=weights).tolist()
    return np.concatenate([values for values, _ in parts]), chance


def _values(
    queries: Float[np.ndarray, "q d"],
    answers: Float[np.ndarray, "a d"],
    right: Mapping[int, Sequence[int]],
    ks: Sequence[int],
) -> tuple[NDArray[np.float64], list[float]]:
    """Of each query its hits within each k, R-precision and average precision at R; and what chance gives."""
    q, a = (unit_rows(rows, len(rows), kind, None) for rows, kind in ((queries, "queries"), (answers, "answers")))
    queries_asked = sorted(right)
    if not queries_asked or q.shape[1] != a.shape[1] or not 1 <= min(ks) <= max(ks) <= len(a):
        raise ValueError(
            f"{len(queries_asked)} queries, features {q.shape} and {a.shape}, ks = {tuple(ks)}: nothing to search"
        )
    sizes = np.array([len(right[query]) for query in queries_asked])
    everything = [row for query in queries_asked for row in right[query]]
    if not sizes.all() or min(everything) < 0 or max(everything) >= len(a) or queries_asked[-1] >= len(q):
        raise ValueError(f"a right answer lies outside of the gallery of {len(a)}, or a query has none")
    values = np.empty((len(queries_asked), len(ks) + 2))
    for start in range(0, len(queries_asked), _CHUNK):
        chunk = queries_asked[start : start + _CHUNK]
        similar = q[chunk] @ a.T
        for k, query in enumerate(chunk):
            values[start + k] = _one_query(similar[k], np.asarray(right[query]), ks)
    chance = [float(np.mean([_chance(len(a), int(size), k) for size in sizes])) for k in ks]
    chance += [float(np.mean(sizes / len(a))), float(np.mean([_chance_of_map(len(a), int(size)) for size in sizes]))]
    return values, chance


def _one_query(similar: NDArray[Any], right: NDArray[np.intp], ks: Sequence[int]) -> list[float]:
    """Hits within each k, R-precision, average precision at R. Ranks count wrong answers that are as good as better."""
    own = np.sort(similar[right])[::-1]
    wrong = np.delete(similar, right)
    better = np.array([np.count_nonzero(wrong >= value) for value in own])
    ranks = better + np.arange(1, len(own) + 1)
    size = len(right)
    inside = ranks <= size
    precision = np.where(inside, np.arange(1, size + 1) / ranks, 0.0)
    return [*(float(ranks[0] <= k) for k in ks), float(inside.mean()), float(precision.mean())]


def _chance(gallery: int, right: int, k: int) -> float:
    """1 - C(gallery - right, k) / C(gallery, k)."""
    missed = 1.0
    for j in range(k):
        missed *= max(0, gallery - right - j) / (gallery - j)
    return 1.0 - missed


def _chance_of_map(gallery: int, right: int) -> float:
    """Of a random order: rank r is right with R / N, and then (r - 1)(R - 1)/(N - 1) more are expected before it."""
    share = (right - 1) / max(1, gallery - 1)
    return sum((1 + (rank - 1) * share) / rank for rank in range(1, right + 1)) / gallery


class Searched(Protocol):
    """What has pictures and captions to encode."""

    @property
    def images(self) -> Sequence[Picture]:
        """The pictures."""

    @property
    def captions(self) -> Sequence[str]:
        """The captions."""


class GalleryLine(NamedTuple):
    """One line of the table.

    judgements: "original", "eccv", "cxc" or another of the gallery's, or "original, folds" for the mean over folds.
    direction: "image to text" or "text to image".
    measure: "R@1" and the like, "R-precision" or "mAP@R".
    score: In [0, 1], with its interval over queries and its chance.
    queries: How many were asked.
    published: Model -> its score in [0, 1], as published.

    Example:
        >>> from eqben_builder.suites import GalleryLine
        >>> GalleryLine._fields[:3]
        ('judgements', 'direction', 'measure')
    """

    judgements: str
    direction: str
    measure: str
    score: Share
    queries: int
    published: Mapping[str, float]


class GalleryTable(NamedTuple):
    """What `gallery_table` returns.

    gallery: Its name.
    images: How many pictures.
    captions: How many captions.
    lines: By judgements, direction and measure.
    notes: What a reader must know.

    Example:
        >>> from eqben_builder.suites import GalleryTable
        >>> GalleryTable("coco", 5000, 25000, (), ()).gallery
        'coco'
    """

    gallery: str
    images: int
    captions: int
    lines: tuple[GalleryLine, ...]
    notes: tuple[str, ...]


def encode_gallery(
    gallery: Searched, encoder: DualEncoder, *, batch: int = 64, progress: Progress | None = None
) -> tuple[Float[np.ndarray, "i d"], Float[np.ndarray, "c d"]]:
    """Features of a gallery's pictures and captions, in their order.

    Args:
        gallery: What `read_gallery` or `read_objects` gave.
        encoder: The model; pictures come as uint8 [height, width, 3] of any size.
        batch: At once, at least 1.
        progress: Called with "pictures", then "captions".

    Raises:
        ValueError: `batch` below 1; a picture that cannot be decoded.

    Example:
        >>> from eqben_builder.suites import encode_gallery, micro_gallery
        >>> class Two:
        ...     def encode_image(self, images):
        ...         return [[1.0, image.mean()] for image in images]
        ...     def encode_text(self, captions):
        ...         return [[1.0, len(caption)] for caption in captions]
        >>> [features.shape for features in encode_gallery(micro_gallery(images=3, captions=2, size=32), Two())]
        [(3, 2), (6, 2)]
    """
    images, texts = (part for part, _, _ in encoded(gallery.images, gallery.captions, encoder, batch, progress))
    return images, texts


def gallery_table(
    gallery: Gallery,
    images: Float[np.ndarray, "i d"],
    texts: Float[np.ndarray, "c d"],
    *,
    ks: Sequence[int] = (1, 5, 10),
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> GalleryTable:
    """Score a gallery in both directions by every set of judgements, and COCO's in its five folds, too.

    Args:
        gallery: What `read_gallery` gave.
        images: Features of its pictures, in order.
        texts: Features of its captions, in order.
        ks: Of the recalls, each from 1 to the size of a fold or of the gallery.
        level: Of the intervals, in (0, 1).
        resamples: Bootstrap samples of queries, at least 1.
        seed: Of the bootstrap.

    Returns:
        A `GalleryTable`.

    Raises:
        ValueError: Other numbers of features than of pictures or captions; as `retrieval_scores`.

    Example:
        >>> from eqben_builder.suites import Gallery, Positives, gallery_table
        >>> places = {k: [k] for k in range(12)}
        >>> gallery = Gallery("pets", (None,) * 12, ("",) * 12, {"original": Positives(places, places)})
        >>> table = gallery_table(gallery, np.eye(12), np.eye(12))
        >>> [(line.direction, line.measure, line.score.value) for line in table.lines][0]
        ('image to text', 'R@1', 1.0)
    """
    if (len(images), len(texts)) != (len(gallery.images), len(gallery.captions)):
        raise ValueError(
            f"{len(images)} and {len(texts)} features for {len(gallery.images)} pictures and "
            f"{len(gallery.captions)} captions"
        )
    scores_of = partial(retrieval_scores, ks=ks, level=level, resamples=resamples, seed=seed)
    lines: list[GalleryLine] = []
    for name, right in gallery.positives.items():
        lines += _lines(gallery, name, "image to text", scores_of(images, texts, right.captions_of))
        lines += _lines(gallery, name, "text to image", scores_of(texts, images, right.images_of))
    if gallery.folds:
        right = gallery.positives["original"]
        parts = [(fold, [text for image in fold for text in right.captions_of[image]]) for fold in gallery.folds]
        back = [(queried, held) for held, queried in parts]
        lines += _lines(
            gallery, "original, folds", "image to text", scores_of(images, texts, right.captions_of, folds=parts)
        )
        lines += _lines(
            gallery, "original, folds", "text to image", scores_of(texts, images, right.images_of, folds=back)
        )
    return GalleryTable(gallery.name, len(images), len(texts), tuple(lines), gallery.notes)


def _lines(gallery: Gallery, name: str, direction: str, scores: RetrievalScores) -> list[GalleryLine]:
    values = {f"R@{k}": share for k, share in scores.recall.items()}
    values |= {"R-precision": scores.r_precision, "mAP@R": scores.map_at_r}
    return [
        GalleryLine(
            name,
            direction,
            measure,
            share,
            scores.queries,
            published_scores(gallery.name, direction, measure) if name == "original" else {},
        )
        for measure, share in values.items()
    ]
