"""Images through sliding windows in batches, and the windows' scores as lines of an image: never all of it at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from gate_data.request import height_width
from gate_runner.tasks.segmenting.presets import LONGEST, Preset
from vision_features.encoders.encoder import Encoder
from vision_features.encoders.patch_features import Variant
from vision_features.encoders.positions import patch_side, taking
from vision_features.encoders.surgery import Surgery

if TYPE_CHECKING:
    from jaxtyping import Float, UInt8


class Cutting(NamedTuple):
    """How images are cut, in pixels: a preset's numbers with the encoder's own where the preset names none."""

    side: int
    window: int  # 0: the image whole
    stride: int
    patch: int
    antialias: bool

    @classmethod
    def of(cls, preset: Preset, encoder: Encoder) -> Cutting:
        """Return a preset's numbers for an encoder."""
        own = min(height_width(encoder.image_size))
        window = own if preset.window is None else preset.window
        stride = max(1, window // 2) if preset.stride is None else preset.stride
        side = own if preset.side is None else preset.side
        return cls(side, window, stride, patch_side(encoder), preset.antialias)

    def shape(self, high: int, wide: int) -> tuple[int, int]:
        """Return height and width of an image after scaling, its longer side at most `LONGEST`."""
        factor = min(self.side / min(high, wide), LONGEST / max(high, wide))
        if self.window:
            return max(self.window, int(high * factor + 0.5)), max(self.window, int(wide * factor + 0.5))
        scaled = (max(1, round(length * factor / self.patch)) * self.patch for length in (high, wide))
        return next(scaled), next(scaled)

    def places(self, high: int, wide: int) -> list[tuple[int, int]]:
        """Return the upper left corner of each window of a scaled image; the last ones end with the image."""
        if not self.window:
            return [(0, 0)]
        return [(top, left) for top in self._starts(high) for left in self._starts(wide)]

    def _starts(self, length: int) -> list[int]:
        count = max(length - self.window + self.stride - 1, 0) // self.stride + 1
        return [max(0, min(number * self.stride, length - self.window)) for number in range(count)]

    def windows(self, high: int, wide: int) -> int:
        """Return how many windows an image has."""
        return len(self.places(*self.shape(high, wide)))


def between(maps: Float[Tensor, "*k h w"], length: int, first: int, last: int) -> Float[Tensor, "*k r w"]:
    """Return lines ``first`` to ``last`` of maps stretched to ``length`` lines, linear between the middles of lines."""
    had = maps.shape[-2]
    at = (torch.arange(first, last, device=maps.device, dtype=torch.float32) + 0.5) * (had / length) - 0.5
    at = at.clamp(0, had - 1)
    low = at.floor().long()
    high = (low + 1).clamp(max=had - 1)
    share = (at - low).to(maps.dtype)[:, None]
    return maps[..., low, :] * (1 - share) + maps[..., high, :] * share


def stretched(maps: Float[Tensor, "k h w"], size: tuple[int, int], first: int, last: int) -> Float[Tensor, "k r w2"]:
    """Return lines ``first`` to ``last`` of maps stretched to a size, bilinear (``align_corners`` off)."""
    lines = between(maps, size[0], first, last)
    if lines.shape[-1] == size[1]:
        return lines
    return between(lines.transpose(-1, -2), size[1], 0, size[1]).transpose(-1, -2)


@dataclass(frozen=True, eq=False)
class Scored:
    """The scores of an image's windows, patch by patch.

    Args:
        patches: of each window, each word's score of each patch.
        places: the upper left corner of each window.
        window: height and width of a window.
        size: height and width of the scaled image.
        shape: height and width of the image as it is.
    """

    patches: Float[Tensor, "n k h w"]
    places: list[tuple[int, int]]
    window: tuple[int, int]
    size: tuple[int, int]
    shape: tuple[int, int]

    def scaled_lines(self, words: slice, first: int, last: int) -> Float[Tensor, "k r w"]:
        """Return lines of the scaled image: the mean over windows that hold a pixel."""
        patches = self.patches[:, words]
        total = patches.new_zeros(patches.shape[1], last - first, self.size[1])
        count = patches.new_zeros(last - first, self.size[1])
        high, wide = self.window
        for scores, (top, left) in zip(patches, self.places, strict=True):
            begin, end = max(first, top), min(last, top + high)
            if begin < end:
                part = slice(begin - first, end - first), slice(left, left + wide)
                total[:, *part] += stretched(scores, self.window, begin - top, end - top)
                count[part] += 1
        return total / count

    def lines(self, words: slice, first: int, last: int) -> Float[Tensor, "k r w"]:
        """Return lines of the image as it is."""
        scaled, wanted = self.size[0], self.shape[0]
        low = int(max(0.0, (first + 0.5) * scaled / wanted - 0.5))
        high = min(scaled, int((last - 0.5) * scaled / wanted - 0.5) + 2)
        part = self.scaled_lines(words, low, max(high, low + 1))
        at = (torch.arange(first, last, device=part.device, dtype=torch.float32) + 0.5) * (scaled / wanted) - 0.5
        at = at.clamp(0, scaled - 1)
        upper = at.floor().long()
        share = (at - upper).to(part.dtype)[:, None]
        lower = (upper + 1).clamp(max=scaled - 1)
        across = between(part.transpose(-1, -2), self.shape[1], 0, self.shape[1]).transpose(-1, -2)
        return across[:, upper - low] * (1 - share) + across[:, lower - low] * share


class Scorer:
    """Scores the patches of images by words, window by window, in batches.

    Args:
        surgery: the encoder, opened.
        variant: of patch features.
        weights: vectors of words ``[k, d]``, which cosines are taken with.
        cutting: how images are cut.
        batch: windows that pass through the encoder together.
        proxy: the second encoder, where the variant needs one.
        bias: added to the scores of each word ``[k]``, or None.
    """

    def __init__(
        self,
        surgery: Surgery,
        variant: Variant,
        weights: Float[Tensor, "k d"],
        cutting: Cutting,
        batch: int,
        proxy: Encoder | None = None,
        bias: Float[Tensor, " k"] | None = None,
    ) -> None:
        self.surgery, self.variant, self.cutting = surgery, variant, cutting
        self.batch, self.proxy = batch, proxy
        device = surgery.encoder.device
        self.weights = weights.to(device)
        self.bias = None if bias is None else bias.to(device)

    def with_weights(self, weights: Float[Tensor, "k d"], bias: Float[Tensor, " k"] | None = None) -> Scorer:
        """Return the same with other weights."""
        return Scorer(self.surgery, self.variant, weights, self.cutting, self.batch, self.proxy, bias)

    def scaled(self, image: UInt8[Tensor, "3 h w"]) -> Float[Tensor, "3 h2 w2"]:
        """Return an image at the preset's size, 0 to 1, bilinear."""
        size = self.cutting.shape(*image.shape[-2:])
        pixels = image[None].to(self.surgery.encoder.device).float() / 255
        if pixels.shape[-2:] == size:
            return pixels[0]
        return F.interpolate(pixels, size, mode="bilinear", align_corners=False, antialias=self.cutting.antialias)[0]

    @torch.no_grad()
    def features(self, windows: Float[Tensor, "n 3 h w"]) -> tuple[Float[Tensor, "n t d"], tuple[int, int]]:
        """Return each patch's vector of length 1, and the grid of patches."""
        encoder = self.surgery.encoder
        other = None if self.proxy is None or not self.variant.proxy else self.proxy.encode_patches(windows)
        given = self.surgery.encode(encoder.prepare(windows), self.variant, other)
        return F.normalize(given.tokens, dim=-1), given.grid

    @torch.no_grad()
    def over(self, images: Iterable[UInt8[Tensor, "3 h w"]]) -> Iterator[Scored]:
        """Yield the scores of images, in order."""
        waiting: list[_Waiting] = []
        pending: list[tuple[_Waiting, Tensor]] = []
        for image in images:
            pixels = self.scaled(image)
            size = (int(pixels.shape[-2]), int(pixels.shape[-1]))
            shape = (int(image.shape[-2]), int(image.shape[-1]))
            window = (self.cutting.window, self.cutting.window) if self.cutting.window else size
            entry = _Waiting(self.cutting.places(*size), window, size, shape, [])
            if pending and pending[0][0].window != window:
                self._pass(pending)
                pending = []
            waiting.append(entry)
            for top, left in entry.places:
                pending.append((entry, pixels[:, top : top + window[0], left : left + window[1]]))
                if len(pending) == self.batch:
                    self._pass(pending)
                    pending = []
            while waiting and waiting[0].done:
                yield waiting.pop(0).scored()
        if pending:
            self._pass(pending)
        for entry in waiting:
            yield entry.scored()

    def _pass(self, pending: list[tuple[_Waiting, Tensor]]) -> None:
        """Encode windows, and give each image the scores of its own."""
        window = pending[0][0].window
        with self.sized(window):
            features, grid = self.features(torch.stack([pixels for _, pixels in pending]))
        scores = features @ self.weights.T
        if self.bias is not None:
            scores = scores + self.bias
        maps = scores.transpose(1, 2).reshape(len(pending), -1, *grid)
        for (entry, _), rows in zip(pending, maps, strict=True):
            entry.scores.append(rows)

    def sized(self, window: tuple[int, int]) -> AbstractContextManager[None]:
        """Have the encoder take windows."""
        encoder = self.surgery.encoder
        return nullcontext() if window == height_width(encoder.image_size) else taking(encoder, window)


@dataclass(eq=False)
class _Waiting:
    """An image some of whose windows may still have to pass."""

    places: list[tuple[int, int]]
    window: tuple[int, int]
    size: tuple[int, int]
    shape: tuple[int, int]
    scores: list[Tensor]

    @property
    def done(self) -> bool:
        """Whether all windows have passed."""
        return len(self.scores) == len(self.places)

    def scored(self) -> Scored:
        """Return the scores of all windows."""
        return Scored(torch.stack(self.scores), self.places, self.window, self.size, self.shape)
