"""Every image through the frozen encoder once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor

from gate_runner.benchmarks.data import Split
from gate_runner.benchmarks.pictures import Pictures
from gate_runner.encoders.encoder import TextTokens
from gate_runner.errors import EncoderError
from gate_runner.tasks.job import Job
from gate_runner.tasks.stored import IndexedRows, mark_of
from vision_adapters.rows import Rows

Kind = Literal["pooled", "patches"]
"""Features of whole images or frames, or of their places."""
_WORD_WIDTH = 64


def pooled(job: Job, split: Split, name: str) -> Rows:
    """Pooled features ``[n, d]``; of videos, one per frame ``[n, f, d]``.

    Raises:
        EncoderError: NaN or infinity in the features; the message says in which images of which split.
    """
    frames = split.images.shape[1:-3]

    def encode(images: Tensor) -> Tensor:
        found = job.encoder.encode_image(images.reshape(-1, *images.shape[-3:]))
        return found.reshape(len(images), *frames, found.shape[-1])

    return _encoded(job, split.images, name, encode, max(1, job.settings.batch_size // frames.numel()))


def before_projection(job: Job, split: Split, name: str) -> Rows:
    """Pooled features before the projection into the texts' space ``[n, b]``.

    Raises:
        MissingCapabilityError: the encoder has no such projection.
        EncoderError: NaN or infinity in the features.
    """
    return _encoded(job, split.images, name, job.encoder.encode_backbone, job.settings.batch_size)


def patches(job: Job, split: Split, name: str) -> Rows:
    """Patch features ``[n, t, d]``.

    Raises:
        MissingCapabilityError: the encoder gives pooled features only.
        EncoderError: NaN or infinity in the features.
    """
    return _encoded(
        job, split.images, name, lambda images: job.encoder.encode_patches(images).tokens, job.settings.batch_size
    )


def images_at(images: Tensor | Pictures, rows: Tensor) -> UInt8[Tensor, "b *frames 3 s s"]:
    """Images by their numbers, in memory or from their files."""
    if isinstance(images, Pictures):
        return replace(images, files=tuple(images.files[row] for row in rows.tolist()))[:]
    return images[rows]


def embedded(job: Job, texts: Sequence[str]) -> Float[Tensor, "n d"]:
    """Pooled text features, in the order of the texts.

    Raises:
        MissingCapabilityError: the encoder has no text side.
    """
    with job.timed("encode"):
        size = job.settings.batch_size
        return torch.cat([job.encoder.encode_text(texts[i : i + size]).cpu() for i in range(0, len(texts), size)])


class Words(NamedTuple):
    """Tokens of each different text, which of them are real, and the row of each sample's text."""

    tokens: Float[Tensor, "u l e"]
    mask: Bool[Tensor, "u l"]
    sample: Int[Tensor, " n"]

    def padded(self, longest: int) -> Words:
        """With as many places as the longest text of all splits."""
        missing = longest - self.tokens.shape[1]
        return Words(F.pad(self.tokens, (0, 0, 0, missing)), F.pad(self.mask, (0, missing)), self.sample)


def words(job: Job, split: Split) -> Words:
    """Text tokens of the questions, from the encoder's text side or, where it has none, from fixed random vectors."""
    questions = split.texts or ()
    unique = sorted(set(questions))
    row = {text: index for index, text in enumerate(unique)}
    with job.timed("encode"):
        made = _by_encoder(job, unique) if job.encoder.text_tokens is not None else _by_hash(unique)
    return Words(made.tokens, made.mask, torch.tensor([row[text] for text in questions]))


def _encoded(job: Job, images: Tensor | Pictures, name: str, encode: Callable[[Tensor], Tensor], size: int) -> Rows:
    """Features of each different image, once; see `FeatureStore`."""
    shown, index = (images, None) if isinstance(images, Tensor) else _different(images)

    def checked(numbers: Tensor) -> Tensor:
        found = encode(images_at(shown, numbers))
        bad = (~torch.isfinite(found)).flatten(1).any(dim=1)
        if bool(bad.any()):
            raise EncoderError(
                f"encoder {job.encoder.spec!r} gave NaN or infinity for {int(bad.sum())} of {len(found)} images "
                f"encoded together, the first at index {int(numbers[int(bad.int().argmax())])} of the {name} split"
            )
        return found

    def progress(done: int, total: int) -> None:
        job.progress(f"encode {name}", done, total)

    with job.timed("encode"):
        rows = job.features.encoded(name, len(shown), size, checked, mark_of(shown), progress)
    return rows if index is None else IndexedRows(rows, index)


def _different(images: Pictures) -> tuple[Pictures, Tensor | None]:
    """The different files, and the place of each sample's among them where some come twice."""
    place = {files: number for number, files in enumerate(dict.fromkeys(images.files))}
    if len(place) == len(images):
        return images, None
    return replace(images, files=tuple(place)), torch.tensor([place[files] for files in images.files])


def _by_encoder(job: Job, texts: list[str]) -> TextTokens:
    parts = [
        job.encoder.encode_text_tokens(texts[i : i + job.settings.batch_size])
        for i in range(0, len(texts), job.settings.batch_size)
    ]
    longest = max(int(part.mask.sum(dim=1).max()) for part in parts)
    tokens = torch.cat([part.tokens.cpu() for part in parts]).clone()
    mask = torch.cat([part.mask.cpu() for part in parts])
    fits = not bool(mask[:, longest:].any())
    return TextTokens(tokens[:, :longest], mask[:, :longest]) if fits else TextTokens(tokens, mask)


def _by_hash(texts: list[str]) -> TextTokens:
    """A fixed random vector per word and place: an encoder without a text side is tested on its eyes alone."""
    split = [text.split() for text in texts]
    longest = max(len(parts) for parts in split)
    tokens = torch.zeros(len(texts), longest, _WORD_WIDTH)
    mask = torch.zeros(len(texts), longest, dtype=torch.bool)
    for row, parts in enumerate(split):
        for place, word in enumerate(parts):
            tokens[row, place] = _vector(word) + 0.5 * _vector(f"place {place}")
            mask[row, place] = True
    return TextTokens(tokens, mask)


def _vector(key: str) -> Float[Tensor, " d"]:
    seed = int.from_bytes(hashlib.sha256(key.encode()).digest()[:7], "big")
    return torch.randn(_WORD_WIDTH, generator=torch.Generator().manual_seed(seed))
