"""Similarities of pairs from any model: a dual encoder's cosines, or a fusion encoder's score of each combination."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from eqben_builder.scoring.decoding import decoded_ahead
from eqben_builder.scoring.open_clip_encoder import check_encoder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from jaxtyping import Float64
    from numpy.typing import ArrayLike, DTypeLike, NDArray

    from eqben_builder.formats import PairRow, Picture

    Image = NDArray[np.uint8]


class DualEncoder(Protocol):
    """Features of images and of captions in one space; they need not be normalised."""

    def encode_image(self, images: Sequence[Image]) -> ArrayLike:
        """uint8 [height, width, 3] each, of any sizes, to [n, d]."""

    def encode_text(self, captions: Sequence[str]) -> ArrayLike:
        """Texts to [n, d]."""


def dual_similarities(
    rows: Iterable[PairRow], encoder: DualEncoder, *, batch: int = 64
) -> Float64[np.ndarray, "n 2 *images"]:
    """Cosines of every caption with every image of its pair.

    s[k, c, i] = <t_c, v_i> / (|t_c| |v_i|).

    Args:
        rows: Pairs, read as they are needed; all of two images, or all of one (VALSE's).
        encoder: The model.
        batch: Pairs at once, at least 1; an image or caption that comes several times among them is encoded once.

    Returns:
        float64 [n, 2, 2]: caption, image; [n, 2] for rows of one image: caption, foil.

    Raises:
        ValueError: No rows; rows of one and of two images; features of a wrong shape, not finite, or all zero.
        TypeError: A model of open_clip or transformers as it is: see `OpenClipEncoder`.

    Numerics:
        Two batches of images are decoded ahead in threads.

    Example:
        >>> from eqben_builder.formats import PairRow, Picture, encode_png
        >>> class Brightness:
        ...     def encode_image(self, images):
        ...         return [[image.mean() / 255, 1 - image.mean() / 255] for image in images]
        ...     def encode_text(self, captions):
        ...         return [[float("white" in text), float("black" in text)] for text in captions]
        >>> white, black = (Picture(content=encode_png(np.full((2, 2, 3), v, np.uint8))) for v in (255, 0))
        >>> row = PairRow("a", "micro", "", white, black, "a white square", "a black square")
        >>> dual_similarities([row], Brightness()).tolist()
        [[[1.0, 0.0], [0.0, 1.0]]]
    """
    parts = []
    check_encoder(encoder)
    for (batch_rows, at), pictures in decoded_ahead(_with_pictures(rows, batch)):
        captions, of = _distinct([text for row in batch_rows for text in (row.caption0, row.caption1)])
        images = unit_rows(encoder.encode_image(pictures), len(pictures), "images")
        texts = unit_rows(encoder.encode_text(captions), len(captions), "captions")
        v, t = images[at].reshape(len(batch_rows), -1, images.shape[1]), texts[of].reshape(len(batch_rows), 2, -1)
        if v.shape[2] != t.shape[2]:
            raise ValueError(f"images have {v.shape[2]} features and captions {t.shape[2]}: expected as many")
        parts.append(np.einsum("ncd,nid->nci", t, v))
    return _joined(parts)


def fusion_similarities(
    rows: Iterable[PairRow], score: Callable[[Sequence[Image], Sequence[str]], ArrayLike], *, batch: int = 16
) -> Float64[np.ndarray, "n 2 *images"]:
    """Scores of a model that sees an image and a caption together: four of each pair.

    Args:
        rows: As in `dual_similarities`.
        score: From n images and n captions to n numbers, such as logits or probabilities of a match.
        batch: Pairs at once, at least 1: four times as many combinations, or twice for rows of one image.

    Returns:
        As `dual_similarities`.

    Raises:
        ValueError: No rows; rows of one and of two images; another number of scores, or one that is not finite.

    Example:
        >>> from eqben_builder.formats import PairRow, Picture, encode_png
        >>> white, black = (Picture(content=encode_png(np.full((2, 2, 3), v, np.uint8))) for v in (255, 0))
        >>> row = PairRow("a", "micro", "", white, black, "a white square", "a black square")
        >>> def match(images, captions):
        ...     return [(i.mean() > 127) == ("white" in c) for i, c in zip(images, captions, strict=True)]
        >>> fusion_similarities([row], match).tolist()
        [[[1.0, 0.0], [0.0, 1.0]]]
    """
    parts = []
    for (batch_rows, at), pictures in decoded_ahead(_with_pictures(rows, batch)):
        images: list[Image] = []
        captions: list[str] = []
        places = iter(at)
        for row in batch_rows:
            loaded = [pictures[next(places)] for _ in row.pictures()]
            images += loaded * 2
            captions += [text for text in (row.caption0, row.caption1) for _ in loaded]
        scores = combined(score, images, captions)
        parts.append(scores.reshape(len(batch_rows), 2, -1))
    return _joined(parts)


def combined(
    score: Callable[[Sequence[Image], Sequence[str]], ArrayLike], images: Sequence[Image], captions: Sequence[str]
) -> NDArray[np.float64]:
    """One finite score for each image and caption; a `ValueError` for any other answer of a model."""
    scores = np.asarray(score(images, captions), dtype=np.float64)
    if scores.shape != (len(images),) or not np.isfinite(scores).all():
        raise ValueError(f"the model gave {scores.shape} scores for {len(images)} combinations, or one not finite")
    return scores


def _with_pictures(
    rows: Iterable[PairRow], batch: int
) -> Iterator[tuple[tuple[list[PairRow], list[int]], list[Picture]]]:
    """Batches of pairs, which of the distinct images each shows, and these."""
    for batch_rows in _batches(rows, batch):
        pictures, at = _distinct([picture for row in batch_rows for picture in row.pictures()])
        yield (batch_rows, at), pictures


def _batches(rows: Iterable[PairRow], batch: int) -> Iterator[list[PairRow]]:
    if batch < 1:
        raise ValueError(f"batch = {batch!r}, expected at least 1")
    stream = iter(rows)
    pictures = 0
    while batch_rows := list(islice(stream, batch)):
        for row in batch_rows:
            pictures = pictures or len(row.pictures())
            if len(row.pictures()) != pictures:
                raise ValueError(f"pair {row.id!r} has {len(row.pictures())} images, those before have {pictures}")
        yield batch_rows


def _distinct(values: Sequence[Any]) -> tuple[list[Any], list[int]]:
    places: dict[Any, int] = {}
    at = [places.setdefault(value, len(places)) for value in values]
    return list(places), at


def unit_rows(features: object, n: int, kind: str, dtype: DTypeLike | None = np.float64) -> NDArray[Any]:
    """Features [n, d], each row of length 1; a `ValueError` for another shape, a zero row, or no numbers."""
    rows = np.asarray(features, dtype=dtype)
    if rows.ndim != 2 or len(rows) != n:
        raise ValueError(f"the features of {n} {kind} have the shape {rows.shape}, expected ({n}, d)")
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    if not np.isfinite(length).all() or not length.all():
        raise ValueError(f"the features of the {kind} hold a row that is zero or not finite")
    unit: NDArray[Any] = rows / length
    return unit


def _joined(parts: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    if not parts:
        raise ValueError("there are no pairs to score")
    joined = np.concatenate(parts)
    return joined[:, :, 0] if joined.shape[2] == 1 else joined
