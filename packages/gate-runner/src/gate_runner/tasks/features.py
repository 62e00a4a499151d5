"""Every image through the frozen encoder once."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gate_data.data import Split
from gate_runner.tasks.job import Job
from vision_adapters.rows import Rows
from vision_features.features import EncodedRows, Kind, digests_of

_LOG = logging.getLogger(__name__)
_WORD_WIDTH = 64
_WORDS_IN_MEMORY = 256_000_000
"""Bytes of a split's text tokens above which they are kept as features are."""


def pooled(job: Job, split: Split, name: str) -> Rows:
    """Pooled features ``[n, d]``; of videos, one per frame ``[n, f, d]``."""
    return rows_of(job, split, "pooled", name)


def rows_of(job: Job, split: Split, kind: Kind, name: str) -> Rows:
    """Features of a kind of all samples of a split, each different image encoded once; see `encode_pictures`."""
    if kind == "pooled" and "readout" in job.training:
        from gate_runner.tasks.readout_selection import read_rows

        return read_rows(job, split, name)
    return job.encoded(split, kind, name, transform=job.transform)


def kinds_to_probe(job: Job) -> dict[str, Kind]:
    """Kinds of features that a classifier may be fitted to, by what results call them."""
    if "readout" in job.training:
        return {str(job.training["readout"]): "pooled"}
    kinds: dict[str, Kind] = {"projected": "pooled"}
    if job.encoder.backbone is not None:
        kinds["backbone"] = "backbone"
        if job.encoder.projection is None:  # a pass over the images for each: who says how long it takes must know
            data = job.data
            job.progress("images", 0, len(kinds) * (len(data.train) + len(data.validation) + len(data.test)))
    return kinds


def cut_texts(job: Job, texts: Iterable[str]) -> dict[str, str]:
    """Return what a result says of texts that the encoder does not read to their ends; warn of them, too."""
    words = job.encoder.cut_texts(texts)
    if words and words not in job.shared.setdefault("cut texts", set()):
        job.shared["cut texts"].add(words)
        _LOG.warning("%s: %s", job.benchmark.id, words)
    return {"cut_texts": words} if words else {}


def embedded(job: Job, texts: Sequence[str]) -> Float[Tensor, "n d"]:
    """Pooled text features, in the order of the texts."""
    cut_texts(job, texts)
    with job.timed("encode"):
        size = job.settings.batch_size
        return torch.cat([job.encoder.encode_text(texts[i : i + size]).cpu() for i in range(0, len(texts), size)])


def captions_encoded(job: Job, texts: list[str]) -> Rows:
    """Text features of many captions, in order; they are kept, so that a run that is broken off goes on."""
    cut_texts(job, texts)

    def encode(numbers: Tensor) -> Tensor:
        return job.encoder.encode_text([texts[number] for number in numbers.tolist()])

    def progress(done: int, total: int) -> None:
        job.progress("encode captions", done, total)

    with job.timed("encode"):
        return job.features.rows("captions", "text", digests_of(texts), job.settings.batch_size, encode, progress)


class Embedder:
    """Encodes texts, each once, whoever asks."""

    def __init__(self, encode: Callable[[Sequence[str]], Tensor]) -> None:
        self.encode = encode
        self.rows: dict[str, np.ndarray] = {}

    def __call__(self, texts: Sequence[str]) -> Float[np.ndarray, "n d"]:
        """Features of texts, in order."""
        new = [text for text in dict.fromkeys(texts) if text not in self.rows]
        if new:
            self.rows.update(zip(new, self.encode(new).cpu().numpy(), strict=True))
        return np.stack([self.rows[text] for text in texts])


def different_texts(split: Split) -> tuple[list[str], Int[Tensor, " n"]]:
    """The different texts of a split in order, and which of them each sample's is."""
    rows = {text: row for row, text in enumerate(sorted(set(split.texts or ())))}
    return list(rows), torch.tensor([rows[text] for text in split.texts or ()])


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
        tokens: Tensor = self.rows[rows][:, : self.places, : self.width]
        return F.pad(tokens, (0, 0, 0, self.places - tokens.shape[1])).contiguous()


def words(job: Job, split: Split, name: str) -> Words:
    """Text tokens of the questions, from the encoder's text side or, where it has none, from fixed random vectors.

    Tokens of many texts are kept as features of images are, see `FeatureCache`.
    """
    different, rows = different_texts(split)
    if job.encoder.text_tokens is not None:
        cut_texts(job, different)
    with job.timed("encode"):
        own = job.encoder.text_tokens is not None
        tokens, mask = _by_encoder(job, different, name) if own else _by_hash(different)
    return Words(tokens, mask, rows)


def _by_encoder(job: Job, texts: list[str], name: str) -> tuple[Rows, Bool[Tensor, "u l"]]:
    size = job.settings.batch_size
    first = job.encoder.encode_text_tokens(texts[:size])
    if len(texts) * first.tokens[0].nbytes > _WORDS_IN_MEMORY:
        return _stored(job, texts, name)
    batches = (job.encoder.encode_text_tokens(texts[i : i + size]) for i in range(size, len(texts), size))
    parts = [first, *batches]
    longest = max(int(part.mask.sum(dim=1).max()) for part in parts)
    tokens = torch.cat([part.tokens.cpu() for part in parts]).clone()
    mask = torch.cat([part.mask.cpu() for part in parts])
    fits = not bool(mask[:, longest:].any())
    return (tokens[:, :longest], mask[:, :longest]) if fits else (tokens, mask)


def _stored(job: Job, texts: list[str], name: str) -> tuple[Rows, Bool[Tensor, "u l"]]:
    """Tokens as rows that need not be in memory; each row has its mask as one channel more."""

    def encode(numbers: Tensor) -> Tensor:
        tokens = job.encoder.encode_text_tokens([texts[number] for number in numbers.tolist()])
        return torch.cat([tokens.tokens, tokens.mask[..., None].to(tokens.tokens)], dim=2)

    def progress(done: int, total: int) -> None:
        job.progress(f"encode {name} texts", done, total)

    size = job.settings.batch_size
    together = hashlib.sha256("\n".join(texts).encode()).hexdigest()[:32]  # of one length, which other texts may not be
    rows = job.features.rows(f"texts-{name}", f"tokens-{together}", digests_of(texts), size, encode, progress)
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
            for position, word in enumerate(texts[number].split()):
                tokens[row, position] = _vector(word) + 0.5 * _vector(f"place {position}")
        return tokens

    rows = EncodedRows(made, len(texts), 1024)
    small = len(texts) * longest * _WORD_WIDTH * 4 <= _WORDS_IN_MEMORY
    return rows[:] if small else rows, torch.arange(longest) < lengths[:, None]


@lru_cache(maxsize=100_000)
def _vector(key: str) -> Float[Tensor, " d"]:
    seed = int.from_bytes(hashlib.sha256(key.encode()).digest()[:7], "big")
    return torch.randn(_WORD_WIDTH, generator=torch.Generator().manual_seed(seed))


MOST_BYTES = 4_000_000_000
"""That the features and scores of a solved probe may take; larger sets are trained on in batches."""
_COPIES = 4
"""Of features and of scores, that are in memory at the same time while a probe is solved."""
_WIDTH = 2048
"""Of features, in that count: few encoders have wider ones."""


def solvable(job: Job) -> bool:
    """Whether a job's probe is solved: its training names no steps, and it fits into memory."""
    train, validation = job.data.train.targets, job.data.validation.targets
    rows = len(train) + len(validation)
    fits = 4 * _COPIES * rows * (_WIDTH + len(job.data.classes)) <= MOST_BYTES
    return (
        "steps" not in job.training
        and fits
        and len(torch.unique(train)) > 1
        and bool(torch.isin(validation, train).any())
    )
