"""Features of every image and caption of a suite, each encoded once, and the similarities of each question."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eqben_builder.scoring.decoding import decoded_ahead
from eqben_builder.scoring.open_clip_encoder import check_encoder
from eqben_builder.scoring.similarity import combined, unit_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jaxtyping import Float
    from numpy.typing import ArrayLike, NDArray

    from eqben_builder.formats import Picture
    from eqben_builder.progress import Progress
    from eqben_builder.scoring.similarity import DualEncoder
    from eqben_builder.suites.files import SuiteRow

_CHUNK = 4096


class Features(NamedTuple):
    """Unit features of a suite's images and captions, and where each of them stands.

    images: [images, d].
    texts: [captions, d].
    image_at: Image -> row of `images`.
    text_at: Caption -> row of `texts`.

    Example:
        >>> from eqben_builder.formats import Picture
        >>> from eqben_builder.suites import SuiteRow
        >>> cup = Picture(content=b"a cup's bytes")
        >>> made = Features(np.eye(1, 2), np.eye(2), {cup: 0}, {"a cup": 0, "a hat": 1})
        >>> rows = [SuiteRow("0", "s", "captions", (cup,), ("a cup", "a hat"), "0")]
        >>> similarities(rows, made).values[0].ravel().tolist()
        [1.0, 0.0]
    """

    images: Float[np.ndarray, "i d"]
    texts: Float[np.ndarray, "t d"]
    image_at: dict[Picture, int]
    text_at: dict[str, int]


class Similarities(NamedTuple):
    """Cosines of the questions.

    values: One array [captions, images] a question, in their order.
    texts: Of questions with paraphrases: cosines of the captions with one another, [captions, captions]; else None.

    Example:
        >>> Similarities([np.array([[0.3], [0.1]])], [None]).values[0].shape
        (2, 1)
    """

    values: list[Float[np.ndarray, "c i"]]
    texts: list[Float[np.ndarray, "c c"] | None]


def encode_rows(
    rows: Sequence[SuiteRow], encoder: DualEncoder, *, batch: int = 64, progress: Progress | None = None
) -> Features:
    """Encode every image and every caption once.

    Args:
        rows: Of one suite.
        encoder: The model; images come as uint8 [height, width, 3] of any size.
        batch: At once, at least 1.
        progress: Called with "images", then "captions".

    Raises:
        ValueError: Features of a wrong shape, not finite, or all zero; an image that cannot be decoded.
        TypeError: A model of open_clip or transformers as it is: see `OpenClipEncoder`.

    Example:
        >>> from eqben_builder.formats import Picture, encode_png
        >>> from eqben_builder.suites import SuiteRow
        >>> class Brightness:
        ...     def encode_image(self, images):
        ...         return [[image.mean() / 255, 1 - image.mean() / 255] for image in images]
        ...     def encode_text(self, captions):
        ...         return [[float("white" in text), float("black" in text)] for text in captions]
        >>> white = Picture(content=encode_png(np.full((2, 2, 3), 255, np.uint8)))
        >>> rows = [SuiteRow("0", "s", "captions", (white,), ("a white square", "a black square"), "0")]
        >>> similarities(rows, encode_rows(rows, Brightness())).values[0].tolist()
        [[1.0], [0.0]]
    """
    pictures = list(dict.fromkeys(picture for row in rows for picture in row.images))
    captions = list(dict.fromkeys(caption for row in rows for caption in row.captions))
    images, texts = (unit_rows(*part, np.float32) for part in encoded(pictures, captions, encoder, batch, progress))
    if images.shape[1] != texts.shape[1]:
        raise ValueError(f"images have {images.shape[1]} features and captions {texts.shape[1]}")
    image_at = {picture: k for k, picture in enumerate(pictures)}
    return Features(images, texts, image_at, {caption: k for k, caption in enumerate(captions)})


def encoded(
    pictures: Sequence[Picture],
    captions: Sequence[str],
    encoder: DualEncoder,
    batch: int,
    progress: Progress | None,
) -> Iterator[tuple[NDArray[np.float32], int, str]]:
    """float32 features of images, then of captions, as the encoder gives them; each with how many, and of what."""
    if batch < 1:
        raise ValueError(f"batch = {batch!r}, expected at least 1")
    check_encoder(encoder)
    chunks = (
        (min(start + batch, len(pictures)), pictures[start : start + batch]) for start in range(0, len(pictures), batch)
    )
    parts = []
    for done, images in decoded_ahead(chunks):
        parts.append(np.asarray(encoder.encode_image(images), dtype=np.float32))
        if progress is not None:
            progress("images", done, len(pictures))
    yield np.concatenate(parts), len(pictures), "images"
    parts = []
    for start in range(0, len(captions), batch):
        parts.append(np.asarray(encoder.encode_text(list(captions[start : start + batch])), dtype=np.float32))
        if progress is not None:
            progress("captions", min(start + batch, len(captions)), len(captions))
    yield np.concatenate(parts), len(captions), "captions"


def similarities(rows: Sequence[SuiteRow], features: Features) -> Similarities:
    """Cosines of each question's captions with its images, from features.

    Args:
        rows: The questions.
        features: Of all their images and captions.

    Returns:
        One array [captions, images] a question, in their order.

    Raises:
        KeyError: An image or caption without a feature.

    Numerics:
        float32 products, some thousand questions of one size at a time.

    Example:
        >>> from eqben_builder.suites import micro_suite
        >>> rows = micro_suite(pairs=1, size=32).rows
        >>> class Same:
        ...     def encode_image(self, images):
        ...         return [[1.0, 0.0] for _ in images]
        ...     def encode_text(self, captions):
        ...         return [[2.0, 0.0] for _ in captions]
        >>> cosines = similarities(rows, encode_rows(rows, Same()))
        >>> rows[1].shape, cosines.values[1].tolist()
        ('pairs', [[1.0, 1.0], [1.0, 1.0]])
    """
    values: list[NDArray[np.float32]] = [np.empty((0, 0), np.float32)] * len(rows)
    texts: list[NDArray[np.float32] | None] = [None] * len(rows)
    by_size: dict[tuple[int, int], list[int]] = {}
    for k, row in enumerate(rows):
        by_size.setdefault((len(row.captions), len(row.images)), []).append(k)
    for places in by_size.values():
        for start in range(0, len(places), _CHUNK):
            chunk = places[start : start + _CHUNK]
            t = features.texts[[[features.text_at[text] for text in rows[k].captions] for k in chunk]]
            v = features.images[[[features.image_at[image] for image in rows[k].images] for k in chunk]]
            # Not matmul, which sums some columns in another order: equal captions would differ by a last bit, and no
            # tie would be seen.
            cosines = np.einsum("qcd,qid->qci", t, v)
            paraphrased = any(rows[k].shape == "paraphrases" for k in chunk)
            own = np.einsum("qcd,qed->qce", t, t) if paraphrased else None
            for j, k in enumerate(chunk):
                values[k] = cosines[j]
                texts[k] = own[j] if own is not None and rows[k].shape == "paraphrases" else None
    return Similarities(values, texts)


def similarities_of(
    rows: Sequence[SuiteRow],
    score: Callable[[Sequence[NDArray[np.uint8]], Sequence[str]], ArrayLike],
    *,
    batch: int = 64,
    progress: Progress | None = None,
) -> Similarities:
    """Score each question by a model that sees an image and a caption together.

    Args:
        rows: Of one suite.
        score: From n images, uint8 [height, width, 3], and n captions to n numbers: a fusion encoder's logit of a
            match, or a generative model's probability that the answer to "does this image show …?" is yes.
        batch: Combinations at once, at least 1; those of one question stay together.
        progress: Called with "combinations".

    Returns:
        One array [captions, images] a question, in their order. "text only" of paraphrases, which compares captions
        alone, is left out.

    Raises:
        ValueError: Another number of scores, one that is not finite; an image that cannot be decoded.

    Example:
        >>> from eqben_builder.formats import Picture, encode_png
        >>> from eqben_builder.suites import SuiteRow
        >>> white = Picture(content=encode_png(np.full((2, 2, 3), 255, np.uint8)))
        >>> rows = [SuiteRow("0", "s", "captions", (white,), ("a white square", "a black square"), "0")]
        >>> def p_yes(images, captions):
        ...     return [float((image.mean() > 127) == ("white" in text)) for image, text in zip(images, captions)]
        >>> similarities_of(rows, p_yes).values[0].tolist()
        [[1.0], [0.0]]
    """
    if batch < 1:
        raise ValueError(f"batch = {batch!r}, expected at least 1")
    total, done = sum(len(row.captions) * len(row.images) for row in rows), 0
    values: list[NDArray[np.float64]] = []
    for chunk, pictures in decoded_ahead(_together(rows, batch)):
        images: list[NDArray[np.uint8]] = []
        captions: list[str] = []
        first = 0
        for row in chunk:
            shown = pictures[first : first + len(row.images)]
            first += len(row.images)
            images += shown * len(row.captions)
            captions += [caption for caption in row.captions for _ in shown]
        scores, at = combined(score, images, captions), 0
        for row in chunk:
            count = len(row.captions) * len(row.images)
            values.append(scores[at : at + count].reshape(len(row.captions), len(row.images)))
            at += count
        done += at
        if progress is not None:
            progress("combinations", done, total)
    return Similarities(values, [None] * len(rows))


def _together(rows: Sequence[SuiteRow], batch: int) -> Iterator[tuple[list[SuiteRow], list[Picture]]]:
    """Questions of at most so many combinations, at least one question, with their images."""
    chunk: list[SuiteRow] = []
    size = 0
    for row in rows:
        count = len(row.captions) * len(row.images)
        if chunk and size + count > batch:
            yield chunk, [picture for member in chunk for picture in member.images]
            chunk, size = [], 0
        chunk.append(row)
        size += count
    if chunk:
        yield chunk, [picture for member in chunk for picture in member.images]
