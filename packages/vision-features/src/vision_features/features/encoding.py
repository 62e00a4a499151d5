"""Images through a frozen encoder: each different one once, and nothing but finite numbers."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from gate_data.pictures import Pictures
from vision_adapters.rows import Rows
from vision_features.errors import EncoderError
from vision_features.features.cache import FeatureCache, cut
from vision_features.features.inputs import WIDTH, Digests, Numbered, digest_of, digests_of, how_read
from wary_files.errors import UsageError, whole_numbers

if TYPE_CHECKING:
    from vision_features.encoders.encoder import Encoder
    from vision_features.encoders.transforms import OwnTransform

Kind = Literal["pooled", "backbone", "patches", "readouts"]
"""Features of whole images or frames, the same before the projection into the texts' space, of places, of blocks."""


@whole_numbers("batch_size")
def encode_pictures(
    cache: FeatureCache,
    encoder: Encoder,
    images: Tensor | Pictures,
    kind: str,
    name: str,
    batch_size: int,
    progress: Callable[[int, int], None] = lambda done, total: None,
    watch: Callable[[Tensor, Tensor], None] = lambda numbers, shown: None,
    transform: OwnTransform | None = None,
) -> Rows:
    """Features of images ``[n, d]``, of places ``[n, t, d]``, of videos with an axis of frames behind the first.

    Where more of these images were encoded for read-outs than for themselves, they are columns of those rows.

    Raises:
        UsageError: images that are neither a tensor nor `Pictures`, an unknown kind, or a batch size below 1.
        EncoderError: images on another scale, or features with NaN or infinity.

    Example:
        >>> import torch
        >>> from vision_features import FeatureCache, load_encoder
        >>> encoder = load_encoder("micro-clip/random")
        >>> images = torch.zeros(2, 3, 64, 64, dtype=torch.uint8)
        >>> rows = encode_pictures(FeatureCache(), encoder, images, "pooled", "test", 2)
        >>> rows[:].shape
        torch.Size([2, 128])
    """
    _check_request(images, kind, batch_size)
    inputs = _inputs_of(images, kind, transform, encoder)
    columns = encoder.gives_with_blocks(kind) if kind in ("pooled", "backbone") else None
    if columns is not None:
        own = "both" if encoder.backbone is not None and encoder.projection is not None else kind
        if cache.has_more(inputs, "readouts", own):
            return cut(
                encode_pictures(cache, encoder, images, "readouts", name, batch_size, progress, watch, transform),
                columns,
            )
    if kind in ("pooled", "backbone") and encoder.backbone is not None and encoder.projection is not None:
        side_by_side = encode_pictures(cache, encoder, images, "both", name, batch_size, progress, watch, transform)
        width = encoder.projection.shape[1]
        return cut(side_by_side, slice(width) if kind == "pooled" else slice(width, None))
    frames = images.shape[1:-3]

    def encode(numbers: Tensor, shown: Tensor) -> Tensor:
        watch(numbers, shown)
        flat = features_of_kind(encoder, kind, shown.reshape(-1, *shown.shape[-3:]))
        features = flat.reshape(len(shown), *frames, *flat.shape[1:])
        bad = (~torch.isfinite(features)).flatten(1).any(dim=1)
        if bool(bad.any()):
            raise EncoderError(
                f"encoder {encoder.spec!r} gave NaN or infinity for {int(bad.sum())} of {len(features)} images "
                f"encoded together, the first at index {int(numbers[int(bad.int().argmax())])} of the {name} split"
            )
        return features

    size = max(1, at_once(batch_size, encoder.device) // frames.numel())
    if isinstance(inputs, _Files):
        inputs.function = encode
        return cache.encoded_rows(name, kind, inputs, size, progress)
    assert isinstance(images, Tensor)
    return cache.rows(name, kind, inputs.digests(), size, lambda numbers: encode(numbers, images[numbers]), progress)


def at_once(batch_size: int, device: torch.device | str) -> int:
    """How many of a batch's images go through a model together: on a CPU 16, or 8 a thread, where that is more.

    What lies between a model's layers then stays in the processor's caches. A batch of 128 on one thread takes
    EfficientNet-Lite0 .59 of the time and micro-clip .85; the features are the same bits (benchmarks/batches.py).

    Example:
        >>> at_once(128, "cuda:0"), at_once(4, "cpu")
        (128, 4)
    """
    most = max(_AT_LEAST, _A_THREAD * torch.get_num_threads()) if torch.device(device).type == "cpu" else batch_size
    return min(batch_size, most)


_AT_LEAST, _A_THREAD = 16, 8
_KINDS = (*get_args(Kind), "both")


def _check_request(images: object, kind: str, batch_size: int) -> None:
    """Refuse what would end in an error of the library, or in features of another kind."""
    if not isinstance(images, Tensor | Pictures):
        raise UsageError(
            f"images are a {type(images).__module__}.{type(images).__name__}, expected a torch.Tensor [n, 3, h, w] or "
            "`gate_data.pictures.Pictures`"
        )
    block = kind.removeprefix("tokens:")
    if kind not in _KINDS and not (block != kind and block.isdecimal() and int(block) > 0):
        raise UsageError(f"unknown kind of features {kind!r}, expected {', '.join(_KINDS)} or tokens:N, N > 0")
    if batch_size < 1:
        raise UsageError(f"batch_size must be at least 1, not {batch_size}")


def _inputs_of(
    images: Tensor | Pictures, kind: str, transform: OwnTransform | None, encoder: Encoder
) -> _Files | Numbered:
    """Images by what they hold, which is all that the cache knows them by."""
    if isinstance(images, Pictures):
        return _Files(images, _not_yet, transform if images.fit == "crop" and kind != "patches" else None, encoder)
    return Numbered(digests_of(images), lambda numbers: _not_yet(numbers, numbers))


def _not_yet(numbers: Tensor, shown: Tensor) -> Tensor:
    raise AssertionError("no function encodes these inputs")


class _Files:
    """Images in files, read ahead of the encoder; what each holds is known from the bytes that are decoded."""

    def __init__(
        self,
        pictures: Pictures,
        function: Callable[[Tensor, Tensor], Tensor],
        transform: OwnTransform | None,
        encoder: Encoder,
    ) -> None:
        self.pictures, self.function, self.transform = pictures, function, transform
        self.pin = encoder.device.type == "cuda"
        self.spent = {"read": 0.0, "decode": 0.0}
        self.about = how_read(pictures, "" if transform is None else f" {transform.description}")

    def __len__(self) -> int:
        return len(self.pictures)

    def digests(self) -> Digests | None:
        contents = self.pictures.known_contents()
        if contents is None:
            return None
        return np.array([digest_of(self.about, content) for content in contents], dtype=f"S{WIDTH}")

    @property
    def mark(self) -> bytes:
        return self.about + self.pictures.listing

    def read(
        self, numbers: Sequence[int], is_missing: Callable[[bytes], bool], ahead: int
    ) -> Generator[tuple[bytes, tuple[int, Any] | None]]:
        def wants(content: bytes) -> bool:
            return is_missing(digest_of(self.about, content))

        looked = self.pictures.stream(numbers, wants, self.transform, ahead)
        with closing(looked):
            for number, (content, pixels, reading, decoding) in zip(numbers, looked, strict=True):
                self.spent["read"] += reading
                self.spent["decode"] += decoding
                yield digest_of(self.about, content), None if pixels is None else (number, pixels)

    def encode(self, inputs: Sequence[tuple[int, Any]]) -> Tensor:
        shown = torch.from_numpy(np.stack([pixels for _, pixels in inputs]))
        if self.pin:
            shown = shown.pin_memory()
        return self.function(torch.tensor([number for number, _ in inputs]), shown)


def features_of_kind(encoder: Encoder, kind: str, images: UInt8[Tensor, "n 3 s s"]) -> Tensor:
    """What the frozen encoder gives of a batch of images."""
    if kind == "pooled":
        return encoder.encode_image(images)
    if kind == "readouts":
        return encoder.encode_readouts(images)
    if kind == "both":  # the projection is no second pass
        assert encoder.projection is not None
        with torch.inference_mode():
            before = encoder.encode_backbone(images)
            return torch.cat([before @ encoder.projection.to(before), before], dim=1)
    if kind.startswith("tokens:"):
        blocks, number = encoder.encode_blocks(images).blocks, int(kind.removeprefix("tokens:"))
        if number > len(blocks):
            raise UsageError(f"encoder {encoder.spec!r} has {len(blocks)} blocks, so no block:{number}/attentive")
        return blocks[number - 1].places.float().cpu()
    return encoder.encode_backbone(images) if kind == "backbone" else encoder.encode_patches(images).tokens


def images_at(images: Tensor | Pictures, rows: Tensor) -> UInt8[Tensor, "b *frames 3 s s"]:
    """Images by their numbers, in memory or from their files."""
    if isinstance(images, Pictures):
        return replace(images, files=tuple(images.files[row] for row in rows.tolist()))[:]
    return images[rows]
