"""What is encoded: digests that tell inputs apart, and the inputs themselves, read ahead of the encoder."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Sequence
from dataclasses import fields
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from gate_data.maps import Maps
from gate_data.pictures import Pictures

WIDTH = 16
"""Bytes of a digest."""

Digests = np.ndarray[Any, np.dtype[np.bytes_]]
"""One digest of `WIDTH` bytes for each thing that is encoded, ``[n]``."""
Encode = Callable[[Tensor], Tensor]
"""Row numbers to their features, one row each."""


def digest_of(*parts: Any) -> bytes:
    """A digest of bytes, without the zeros at its end, as NumPy keeps it."""
    digest = hashlib.blake2b(digest_size=WIDTH)
    for part in parts:
        digest.update(part)
    return digest.digest().rstrip(b"\0")


def digests_of(inputs: Tensor | Pictures | Maps | Sequence[str]) -> Digests:
    """What tells each input apart: pixels in memory, the content of files with how they are read, or texts."""
    if isinstance(inputs, Tensor):
        rows = inputs.cpu().contiguous()
        about = f"{rows.dtype} {tuple(rows.shape[1:])} ".encode()
        digests = [digest_of(about, row.reshape(-1).view(torch.uint8).numpy().data) for row in rows]
    elif isinstance(inputs, Pictures | Maps):
        about = how_read(inputs)
        digests = [digest_of(about, content) for content in inputs.contents]
    else:
        digests = [digest_of(b"text ", text.encode("utf-8", "surrogatepass")) for text in inputs]
    return np.array(digests, dtype=f"S{WIDTH}")


def how_read(inputs: Pictures | Maps, transform: str = "") -> bytes:
    """What besides the content of its file decides what a sample looks like."""
    how = {option.name: getattr(inputs, option.name) for option in fields(inputs) if option.name != "files"}
    return f"{how} {tuple(inputs.shape[1:])}{transform}".encode()


class Inputs(Protocol):
    """Samples that are encoded in batches; ``spent`` are seconds of the threads that read them."""

    spent: dict[str, float]

    def __len__(self) -> int:
        """The number of samples."""

    def digests(self) -> Digests | None:
        """One for each sample; None where a file would have to be read for it."""

    @property
    def mark(self) -> bytes:
        """What stands for all digests where they are not known."""

    def read(
        self, numbers: Sequence[int], is_missing: Callable[[bytes], bool], ahead: int
    ) -> Generator[tuple[bytes, Any]]:
        """Digest and input of each sample, in order; None where it is not wanted."""

    def encode(self, inputs: Sequence[Any]) -> Tensor:
        """Features of some inputs, one row each."""


class Numbered:
    """Samples that are encoded by their numbers."""

    def __init__(self, digests: Digests, function: Encode) -> None:
        self._digests, self.function = digests, function
        self.spent: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._digests)

    def digests(self) -> Digests:
        """All of them."""
        return self._digests

    @property
    def mark(self) -> bytes:
        """Never asked for."""
        return self._digests.tobytes()

    def read(
        self, numbers: Sequence[int], is_missing: Callable[[bytes], bool], ahead: int
    ) -> Generator[tuple[bytes, int | None]]:
        """The numbers."""
        del ahead
        for number in numbers:
            digest = bytes(self._digests[number])
            yield digest, number if is_missing(digest) else None

    def encode(self, inputs: Sequence[int]) -> Tensor:
        """Features of the samples with these numbers."""
        return self.function(torch.tensor(inputs, dtype=torch.long))
