"""A gallery's scores: both directions by every set of judgements, whole and in folds, with published scores beside."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from eqben_builder.suites.published import published_scores
from eqben_builder.suites.retrieval import fold_scores, retrieval_scores

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jaxtyping import Float

    from eqben_builder.formats import Picture
    from eqben_builder.progress import Progress
    from eqben_builder.scoring import DualEncoder, Share
    from eqben_builder.suites.galleries import Gallery
    from eqben_builder.suites.retrieval import RetrievalScores


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
        >>> [one.shape for one in encode_gallery(micro_gallery(images=3, captions=2, size=32), Two())]
        [(3, 2), (6, 2)]
    """
    if batch < 1:
        raise ValueError(f"batch = {batch!r}, expected at least 1")
    images, texts = [], []
    for start in range(0, len(gallery.images), batch):
        some = gallery.images[start : start + batch]
        images.append(np.asarray(encoder.encode_image([picture.load() for picture in some]), dtype=np.float32))
        if progress is not None:
            progress("pictures", start + len(some), len(gallery.images))
    for start in range(0, len(gallery.captions), batch):
        words = gallery.captions[start : start + batch]
        texts.append(np.asarray(encoder.encode_text(list(words)), dtype=np.float32))
        if progress is not None:
            progress("captions", start + len(words), len(gallery.captions))
    return np.concatenate(images), np.concatenate(texts)


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
    whole = partial(retrieval_scores, ks=ks, level=level, resamples=resamples, seed=seed)
    apart = partial(fold_scores, ks=ks, level=level, resamples=resamples, seed=seed)
    lines: list[GalleryLine] = []
    for name, right in gallery.positives.items():
        lines += _lines(gallery, name, "image to text", whole(images, texts, right.captions_of))
        lines += _lines(gallery, name, "text to image", whole(texts, images, right.images_of))
    if gallery.folds:
        right = gallery.positives["original"]
        parts = [(fold, [text for one in fold for text in right.captions_of[one]]) for fold in gallery.folds]
        back = [(asked, held) for held, asked in parts]
        lines += _lines(gallery, "original, folds", "image to text", apart(images, texts, right.captions_of, parts))
        lines += _lines(gallery, "original, folds", "text to image", apart(texts, images, right.images_of, back))
    return GalleryTable(gallery.name, len(images), len(texts), tuple(lines), gallery.notes)


def _lines(gallery: Gallery, name: str, direction: str, found: RetrievalScores) -> list[GalleryLine]:
    values = {f"R@{k}": share for k, share in found.recall.items()}
    values |= {"R-precision": found.r_precision, "mAP@R": found.map_at_r}
    return [
        GalleryLine(
            name,
            direction,
            measure,
            share,
            found.queries,
            published_scores(gallery.name, direction, measure) if name == "original" else {},
        )
        for measure, share in values.items()
    ]
