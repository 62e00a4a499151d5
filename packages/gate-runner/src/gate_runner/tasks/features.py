"""Every image through the frozen encoder once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gate_runner.benchmarks.data import Split
from gate_runner.benchmarks.pictures import Pictures
from gate_runner.encoders.encoder import TextTokens
from gate_runner.errors import EncoderError
from gate_runner.tasks.job import Job

_WORD_WIDTH = 64


def pooled(job: Job, split: Split, name: str) -> Float[Tensor, "n *frames d"]:
    """Pooled features; of videos, one per frame.

    Raises:
        EncoderError: NaN or infinity in the features; the message says in how many images of which split.
    """
    frames = split.images.shape[1:-3]

    def encode(images: Tensor) -> Tensor:
        found = job.encoder.encode_image(images.reshape(-1, *images.shape[-3:]))
        return found.reshape(len(images), *frames, found.shape[-1])

    return _in_batches(job, split.images, name, encode, max(1, job.batch_size // frames.numel()))


def patches(job: Job, split: Split, name: str) -> tuple[Float[Tensor, "n t d"], tuple[int, int]]:
    """Patch features and their rows and columns.

    Raises:
        MissingCapabilityError: the encoder gives pooled features only.
        EncoderError: NaN or infinity in the features.
    """
    grid = job.encoder.encode_patches(split.images[:1]).grid
    return _in_batches(
        job, split.images, name, lambda images: job.encoder.encode_patches(images).tokens, job.batch_size
    ), grid


def embedded(job: Job, texts: Sequence[str]) -> Float[Tensor, "n d"]:
    """Pooled text features, in the order of the texts.

    Raises:
        MissingCapabilityError: the encoder has no text side.
    """
    with job.timed("encode"):
        size = job.batch_size
        return torch.cat([job.encoder.encode_text(texts[i : i + size]).cpu() for i in range(0, len(texts), size)])


def words(job: Job, split: Split) -> tuple[Float[Tensor, "n l e"], Bool[Tensor, "n l"]]:
    """Text tokens of the questions, from the encoder's text side or, where it has none, from fixed random vectors.

    Returns:
        Tokens and a mask that is True where a token is real.
    """
    questions = split.questions or ()
    unique = sorted(set(questions))
    row = {text: index for index, text in enumerate(unique)}
    with job.timed("encode"):
        made = _by_encoder(job, unique) if job.encoder.text_tokens is not None else _by_hash(unique)
    index = torch.tensor([row[text] for text in questions])
    return made.tokens[index], made.mask[index]


def _in_batches(
    job: Job, images: Tensor | Pictures, name: str, encode: Callable[[Tensor], Tensor], size: int
) -> Tensor:
    parts = []
    with job.timed("encode"):
        for start in range(0, len(images), size):
            parts.append(encode(images[start : start + size]).cpu())
            job.progress(f"encode {name}", min(start + size, len(images)), len(images))
    found = torch.cat(parts).clone()
    bad = (~torch.isfinite(found)).flatten(1).any(dim=1)
    if bool(bad.any()):
        raise EncoderError(
            f"encoder {job.encoder.spec!r} gave NaN or infinity for {int(bad.sum())} of {len(images)} images of the "
            f"{name} split, the first at index {int(bad.int().argmax())}"
        )
    return found


def _by_encoder(job: Job, texts: list[str]) -> TextTokens:
    parts = [
        job.encoder.encode_text_tokens(texts[i : i + job.batch_size]) for i in range(0, len(texts), job.batch_size)
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
