"""How the commands come by encoders and images: by default from ``MODULE:FUNCTION``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from wary_files.working_folder import made_by

if TYPE_CHECKING:
    from jaxtyping import UInt8
    from torch import Tensor

    from oven_retrieval.models import Tower
    from oven_retrieval.pictures import Size

Towers = Callable[[], "tuple[Tower, Tower]"]


class DualEncoder(Protocol):
    """Features of images and of texts."""

    spec: str
    image_size: Size

    def encode_image(self, images: UInt8[Tensor, "n 3 h w"], /) -> Any:
        """Features ``[n, d]``."""

    def encode_text(self, texts: list[str], /) -> Any:
        """Features ``[n, d]``."""

    def fingerprint(self) -> str | None:
        """What tells its weights from others."""


class _Own:
    """What ``MODULE:FUNCTION`` made, with what the commands ask of it besides."""

    def __init__(self, spec: str, encoder: Any) -> None:
        self.spec, self._encoder = spec, encoder
        self.image_size: Size = getattr(encoder, "image_size", 224)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._encoder, name)

    def fingerprint(self) -> str | None:
        own = getattr(self._encoder, "fingerprint", None)
        return None if own is None else str(own())


def load_own(spec: str, device: str) -> DualEncoder:
    """What the function of ``MODULE:FUNCTION`` returns, called with the device where it takes one."""
    encoder = made_by(spec, "encoder", device=device)
    for method in ("encode_image", "encode_text"):
        if not callable(getattr(encoder, method, None)):
            raise ValueError(f"encoder {spec!r}: what it makes has no {method}")
    return _Own(spec, encoder)


def towers_of_own(spec: str, device: str) -> Towers:
    """A function that makes the encoder anew, and gives its attributes ``image_tower`` and ``text_tower``."""

    def make() -> tuple[Tower, Tower]:
        encoder: Any = load_own(spec, device)
        try:
            return encoder.image_tower, encoder.text_tower
        except AttributeError as error:
            raise ValueError(
                f"encoder {spec!r} has no {error.name}: training takes oven_retrieval.models.Tower as image_tower and "
                "text_tower"
            ) from error

    return make


def read_middles(paths: Sequence[Path], size: Size) -> UInt8[Tensor, "n 3 h w"]:
    """Images as one batch: the middle of each, at the encoder's size."""
    import numpy as np
    import torch
    from PIL import Image, ImageOps

    from oven_retrieval.pictures import height_width, read_rgb

    middles, (high, wide) = [], height_width(size)
    for path in paths:
        try:
            picture = read_rgb(path)
        except (OSError, ValueError) as error:
            raise ValueError(f"{path}: {error}") from error
        middles.append(np.asarray(ImageOps.fit(picture, (wide, high), Image.Resampling.BICUBIC)))
    return torch.from_numpy(np.stack(middles)).permute(0, 3, 1, 2)


def refused(spec: str, file: Path) -> str:
    """A spec out of a file: what runs code is said by the user, not by a file."""
    raise ValueError(
        f"{file} names the encoder {spec!r}: a file does not choose code; say --encoder {spec} if you trust it"
    )


@dataclass(frozen=True)
class Encoders:
    """How the commands come by encoders.

    Args:
        load: (spec, device) -> an encoder.
        of_file: (spec, file) -> the spec that a file may choose; it raises a ``ValueError`` where it may not.
        towers: (spec, device) -> a function that loads the encoder anew, as an image tower and a text tower.
        read: (paths, size) -> images ``[n, 3, h, w]``, ``uint8``.

    Example:
        >>> Encoders().load("nowhere", "cpu")
        Traceback (most recent call last):
        ...
        ValueError: encoder 'nowhere': expected MODULE:FUNCTION
    """

    load: Callable[[str, str], DualEncoder] = load_own
    of_file: Callable[[str, Path], str] = refused
    towers: Callable[[str, str], Towers] = towers_of_own
    read: Callable[[Sequence[Path], Size], UInt8[Tensor, "n 3 h w"]] = read_middles


def encoder_name(encoder: DualEncoder) -> str:
    """The encoder's name with its weights: features of other weights are refused."""
    return f"{encoder.spec}@{(encoder.fingerprint() or 'unknown')[:12]}"
