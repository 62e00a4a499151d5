"""What a gallery's captions retrieve, image after image, by each of several models: EqSim's figure 9."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eqben_builder.scoring.similarity import unit_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jaxtyping import Float, Int

    from eqben_builder.suites.galleries import Gallery

_CHUNK = 512


class Ranking(NamedTuple):
    """The first images that a model retrieves for a caption.

    Args:
        caption: Its place in the gallery.
        pictures: Their places, the best first.
        scores: Their cosines, in the same order.
        right: Whether each is one of the caption's own images.
        rank: Of the best of its own images in the whole gallery, 1 for the first; a tie counts against it.

    Example:
        >>> ranking = Ranking(0, (4, 2), (0.9, 0.7), (False, True), 2)
        >>> 1 / ranking.rank  # the reciprocal rank
        0.5
    """

    caption: int
    pictures: tuple[int, ...]
    scores: tuple[float, ...]
    right: tuple[bool, ...]
    rank: int


def ranks_of(
    gallery: Gallery, images: Float[np.ndarray, "i d"], texts: Float[np.ndarray, "c d"]
) -> Int[np.ndarray, " c"]:
    """Return the rank of the best right image of each caption, 1 for the first; 0 where none is known.

    Args:
        gallery: With the judgements "original".
        images: Features of its images, in order.
        texts: Features of its captions, in order.

    Raises:
        ValueError: Features that are zero or not finite, or of another number than images or captions.

    Example:
        >>> from eqben_builder.suites import Gallery
        >>> gallery = Gallery("pets", (None,) * 2, ("", ""), {"original": ({}, {0: [0], 1: [0]})})
        >>> ranks_of(gallery, np.eye(2), np.eye(2)).tolist()
        [1, 2]
    """
    pictures, captions = _checked(gallery, images, texts)
    own = gallery.right["original"][1]
    ranks = np.zeros(len(captions), np.int64)
    for start in range(0, len(captions), _CHUNK):
        similar = captions[start : start + _CHUNK] @ pictures.T
        for caption, row in enumerate(similar, start):
            if own.get(caption):
                places = list(own[caption])
                ranks[caption] = 1 + np.count_nonzero(np.delete(row, places) >= row[places].max())
    return ranks


def telling_captions(ranks: Mapping[str, Int[np.ndarray, " c"]], count: int) -> list[int]:
    """Return captions to show: those on which models differ most, and of a single model those that it ranks worst.

    Args:
        ranks: Name of a model -> what `ranks_of` gave.
        count: How many, at least 0.

    Returns:
        Places of captions, the most telling first. They are chosen by the models, so they are no sample of a gallery.

    Raises:
        ValueError: No models, or of other galleries.

    Example:
        >>> telling_captions({"a": np.array([1, 9, 2]), "b": np.array([1, 2, 2])}, 1)
        [1]
    """
    if not ranks or len({len(row) for row in ranks.values()}) > 1:
        raise ValueError(f"expected ranks of the same captions by at least one model, got {len(ranks)} models")
    rows = np.stack(list(ranks.values())).astype(np.float64)
    known = rows.min(axis=0) > 0
    # a change from rank 1 to 10 is as telling as one from 100 to 1,000
    logs = np.log(np.maximum(rows, 1))
    telling = np.where(known, logs.max(axis=0) - logs.min(axis=0) if len(rows) > 1 else logs[0], -1.0)
    order = np.lexsort((np.arange(len(telling)), -telling))
    return [int(caption) for caption in order[: max(0, count)] if known[caption]]


def rankings(
    gallery: Gallery,
    images: Float[np.ndarray, "i d"],
    texts: Float[np.ndarray, "c d"],
    captions: Sequence[int],
    *,
    first: int = 8,
) -> list[Ranking]:
    """Return the first images of some captions, with cosines, and where the right one is.

    Args:
        gallery: As in `ranks_of`.
        images: As in `ranks_of`.
        texts: As in `ranks_of`.
        captions: Places of captions, in the order that they are shown in.
        first: Images of each, at least 1.

    Raises:
        ValueError: As `ranks_of`; a caption that the gallery does not have; ``first`` below 1.

    Example:
        >>> from eqben_builder.suites import Gallery
        >>> gallery = Gallery("pets", (None,) * 2, ("", ""), {"original": ({}, {0: [0], 1: [0]})})
        >>> rankings(gallery, np.eye(2), np.eye(2), [1], first=1)
        [Ranking(caption=1, pictures=(1,), scores=(1.0,), right=(False,), rank=2)]

    Source:
        EqSim and EqBen, section A.8 and figure 9.
    """
    if first < 1:
        raise ValueError(f"first = {first}, expected at least 1 image")
    for caption in captions:
        if not 0 <= caption < len(gallery.captions):
            raise ValueError(f"caption {caption} of {len(gallery.captions)}: there is none")
    pictures, texts_of = _checked(gallery, images, texts)
    ranks = ranks_of(gallery, images, texts)
    rows = []
    for caption in captions:
        similar = pictures @ texts_of[caption]
        best = np.lexsort((np.arange(len(similar)), -similar))[:first].tolist()
        own = set(gallery.right["original"][1].get(caption, ()))
        scores = tuple(float(similar[place]) for place in best)
        rows.append(Ranking(caption, tuple(best), scores, tuple(place in own for place in best), int(ranks[caption])))
    return rows


def _checked(
    gallery: Gallery, images: Float[np.ndarray, "i d"], texts: Float[np.ndarray, "c d"]
) -> tuple[Float[np.ndarray, "i d"], Float[np.ndarray, "c d"]]:
    return (
        unit_rows(images, len(gallery.images), "images", None),
        unit_rows(texts, len(gallery.captions), "captions", None),
    )
