"""Features of one's own images, kept between commands: by what a file holds, under the encoder's fingerprint."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from gate_runner.errors import DataError
from gate_runner.runs.folder import write

if TYPE_CHECKING:
    from gate_runner.encoders.encoder import Encoder


class Known(NamedTuple):
    """Features of an image, and the digest of the pixels that they were made from."""

    features: Float[Tensor, " d"]
    pixels: bytes


@dataclass
class FeatureCache:
    """A file of features for one encoder and one kind of its features.

    Args:
        path: of the file; it need not be there.
        known: by the digest of an image file's content.

    Example:
        >>> import tempfile
        >>> cache = FeatureCache(Path(tempfile.mkdtemp()) / "a.safetensors")
        >>> cache.known[bytes(16)] = Known(torch.ones(3), bytes(16))
        >>> cache.save()
        >>> FeatureCache.read(cache.path).known[bytes(16)].features
        tensor([1., 1., 1.])
    """

    path: Path
    known: dict[bytes, Known] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path, encoder: Encoder, *, before: bool) -> FeatureCache | None:
        """That of an encoder; None where its weights cannot be seen, so that nobody can tell whose features they are.

        Args:
            folder: of all caches, to be made.
            encoder: whose features.
            before: those before the projection into the texts' space.

        Raises:
            DataError: the file is damaged; the message names it.
        """
        weights = encoder.fingerprint()
        if weights is None:
            return None
        said = (
            f"{encoder.spec} {weights} {encoder.image_size} {encoder.mean} {encoder.std} {encoder.device.type} {before}"
        )
        return cls.read(folder / f"{hashlib.sha256(said.encode()).hexdigest()[:32]}.safetensors")

    @classmethod
    def read(cls, path: Path) -> FeatureCache:
        """What a file holds; nothing where it is not there.

        Raises:
            DataError: the file is damaged; the message names it.
        """
        from safetensors import SafetensorError
        from safetensors.torch import load

        try:
            held = load(path.read_bytes())
            rows = zip(_rows(held["files"]), held["features"], _rows(held["pixels"]), strict=True)
            return cls(path, {file: Known(features, pixels) for file, features, pixels in rows})
        except FileNotFoundError:
            return cls(path)
        except (OSError, SafetensorError, KeyError, ValueError) as error:
            raise DataError(f"{path} holds no features: {error}; remove it") from error

    def save(self) -> None:
        """Write all that is known.

        Raises:
            StorageError: it cannot be written.
        """
        from safetensors.torch import save

        self.path.parent.mkdir(parents=True, exist_ok=True)
        features = torch.stack([one.features for one in self.known.values()])
        digests = {"files": list(self.known), "pixels": [one.pixels for one in self.known.values()]}
        write(self.path, save({"features": features, **{name: _tensor(each) for name, each in digests.items()}}))


def _tensor(digests: list[bytes]) -> UInt8[Tensor, "n 16"]:
    return torch.frombuffer(bytearray(b"".join(digests)), dtype=torch.uint8).reshape(len(digests), -1)


def _rows(digests: UInt8[Tensor, "n 16"]) -> list[bytes]:
    return [row.numpy().tobytes() for row in digests]
