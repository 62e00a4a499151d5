"""Every image through the frozen encoder once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor

from gate_runner.benchmarks.data import Split
from gate_runner.benchmarks.pictures import Pictures
from gate_runner.errors import EncoderError
from gate_runner.tasks.job import Job
from gate_runner.tasks.stored import EncodedRows, IndexedRows, mark_of
from vision_adapters.rows import Rows

Kind = Literal["pooled", "backbone", "patches"]
"""Features of whole images or frames, the same before the projection into the texts' space, or of their places."""
_WORD_WIDTH = 64
_WORDS_IN_MEMORY = 256_000_000
"""Bytes of a split's text tokens above which they are kept as features are."""


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


def rows_of(job: Job, split: Split, kind: Kind, name: str) -> Rows:
    """Features of a kind; see `pooled`, `before_projection` and `patches`."""
    encode = {"pooled": pooled, "backbone": before_projection, "patches": patches}[kind]
    return encode(job, split, name)


def kinds_to_probe(job: Job) -> dict[str, Kind]:
    """Kinds of features that a classifier may be fitted to, by what results call them."""
    kinds: dict[str, Kind] = {"projected": "pooled"}
    return kinds if job.encoder.backbone is None else {**kinds, "backbone": "backbone"}


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
    """Tokens ``[u, l, e]`` of each different text, which of them are real, and the row of each sample's text."""

    tokens: Rows
    mask: Bool[Tensor, "u l"]
    sample: Int[Tensor, " n"]

    def padded(self, longest: int) -> Words:
        """With as many places as the longest text of all splits."""
        missing = longest - self.mask.shape[1]
        tokens: Rows
        if isinstance(self.tokens, Tensor):
            tokens = F.pad(self.tokens, (0, 0, 0, missing))
        else:
            tokens = _Places(self.tokens, longest)
        return Words(tokens, F.pad(self.mask, (0, missing)), self.sample)


class _Places:
    """Rows of tokens with so many places: others are left out, missing ones are 0."""

    def __init__(self, rows: Rows, places: int, width: int | None = None) -> None:
        self.rows, self.places, self.width = rows, places, width

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, rows: Any, /) -> Tensor:
        found: Tensor = self.rows[rows][:, : self.places, : self.width]
        return F.pad(found, (0, 0, 0, self.places - found.shape[1])).contiguous()


def words(job: Job, split: Split, name: str) -> Words:
    """Text tokens of the questions, from the encoder's text side or, where it has none, from fixed random vectors.

    Tokens of many texts are kept as features of images are, see `FeatureStore`.

    Args:
        job: whose encoder.
        split: with texts.
        name: of the split.

    Returns:
        The tokens.
    """
    questions = split.texts or ()
    unique = sorted(set(questions))
    row = {text: index for index, text in enumerate(unique)}
    with job.timed("encode"):
        own = job.encoder.text_tokens is not None
        tokens, mask = _by_encoder(job, unique, name) if own else _by_hash(unique)
    return Words(tokens, mask, torch.tensor([row[text] for text in questions]))


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


def _by_encoder(job: Job, texts: list[str], name: str) -> tuple[Rows, Bool[Tensor, "u l"]]:
    size = job.settings.batch_size
    first = job.encoder.encode_text_tokens(texts[:size])
    if len(texts) * first.tokens[0].nbytes > _WORDS_IN_MEMORY:
        return _stored(job, texts, name)
    rest = (job.encoder.encode_text_tokens(texts[i : i + size]) for i in range(size, len(texts), size))
    parts = [first, *rest]
    longest = max(int(part.mask.sum(dim=1).max()) for part in parts)
    tokens = torch.cat([part.tokens.cpu() for part in parts]).clone()
    mask = torch.cat([part.mask.cpu() for part in parts])
    fits = not bool(mask[:, longest:].any())
    return (tokens[:, :longest], mask[:, :longest]) if fits else (tokens, mask)


def _stored(job: Job, texts: list[str], name: str) -> tuple[Rows, Bool[Tensor, "u l"]]:
    """Tokens as rows that need not be in memory; each row has its mask as one channel more."""

    def encode(numbers: Tensor) -> Tensor:
        found = job.encoder.encode_text_tokens([texts[number] for number in numbers.tolist()])
        return torch.cat([found.tokens, found.mask[..., None].to(found.tokens)], dim=2)

    def progress(done: int, total: int) -> None:
        job.progress(f"encode {name} texts", done, total)

    digest = hashlib.sha256("\n".join(texts).encode()).hexdigest()
    size = job.settings.batch_size
    rows = job.features.encoded(f"texts-{name}", len(texts), size, encode, digest, progress)
    mask = torch.cat([rows[numbers][..., -1] > 0 for numbers in torch.split(torch.arange(len(texts)), size)])
    longest = int(mask.sum(dim=1).max())
    longest = mask.shape[1] if bool(mask[:, longest:].any()) else longest
    return _Places(rows, longest, -1), mask[:, :longest]


def _by_hash(texts: list[str]) -> tuple[Rows, Bool[Tensor, "u l"]]:
    """A fixed random vector per word and place: an encoder without a text side is tested on its eyes alone."""
    lengths = torch.tensor([len(text.split()) for text in texts])
    longest = int(lengths.max())

    def made(numbers: Tensor) -> Tensor:
        tokens = torch.zeros(len(numbers), longest, _WORD_WIDTH)
        for row, number in enumerate(numbers.tolist()):
            for place, word in enumerate(texts[number].split()):
                tokens[row, place] = _vector(word) + 0.5 * _vector(f"place {place}")
        return tokens

    rows = EncodedRows(made, len(texts), 1024)
    small = len(texts) * longest * _WORD_WIDTH * 4 <= _WORDS_IN_MEMORY
    return rows[:] if small else rows, torch.arange(longest) < lengths[:, None]


@lru_cache(maxsize=100_000)
def _vector(key: str) -> Float[Tensor, " d"]:
    seed = int.from_bytes(hashlib.sha256(key.encode()).digest()[:7], "big")
    return torch.randn(_WORD_WIDTH, generator=torch.Generator().manual_seed(seed))
