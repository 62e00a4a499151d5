"""Features in fewer bytes: float16, int8, one bit a channel, the first channels, principal components."""

from __future__ import annotations

import re
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

CODES = ("float32", "float16", "int8", "binary", "dimsK", "pcaK")


class Codec(NamedTuple):
    """A way to keep features, learnt from training rows.

    `centre` and `scale` are by channel (int8: half of its range / 127; binary: 1), `basis` [d, k] of PCA; `keep`
    channels are kept, `bytes` is what one row takes.
    """

    code: str
    centre: Float[Tensor, " d"]
    scale: Float[Tensor, " d"]
    basis: Float[Tensor, "d k"] | None
    keep: int
    bytes: int

    def restored(self, features: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
        """Features as they come back after they were kept: what a search or a head then sees, in float32."""
        rows = features.float()
        if self.code == "float16":
            return rows.half().float()
        if self.code == "int8":
            return ((rows - self.centre) / self.scale).round().clamp(-127, 127) * self.scale + self.centre
        if self.code == "binary":
            return torch.where(rows > self.centre, 1.0, -1.0)
        if self.basis is not None:
            return (rows - self.centre) @ self.basis
        return rows[..., : self.keep]


def codec(code: str, training: Float[Tensor, "n d"]) -> Codec:
    """Learn what a code needs from rows that are not tested.

    ``"float32"``, ``"float16"``, ``"int8"`` (linear over each channel's range), ``"binary"`` (above or below each
    channel's mean), ``"dims64"`` (the first 64 channels, for Matryoshka features) or ``"pca64"``.

    Source: Jégou et al., 2011, compare codes by bytes as here; Kusupati et al., 2022 (first dimensions).
    """
    rows = training.reshape(-1, training.shape[-1]).float()
    channels, form = rows.shape[1], re.fullmatch(r"(float32|float16|int8|binary)|(dims|pca)([1-9]\d*)", code)
    if form is None:
        raise ValueError(f"code {code!r} is unknown; expected one of {', '.join(CODES)} with a number for K")
    centre, scale, basis, keep = rows.mean(dim=0), torch.ones(channels), None, int(form[3] or channels)
    most = min(channels, len(rows)) if form[2] == "pca" else channels
    if keep > most:
        raise ValueError(f"code {code!r}: there are {channels} channels of {len(rows)} samples, so at most {most}")
    if code == "int8":
        low, high = rows.amin(dim=0), rows.amax(dim=0)
        centre, scale = (low + high) / 2, ((high - low) / 254).clamp_min(1e-12)
    if form[2] == "pca":
        _, _, vectors = torch.linalg.svd(rows - centre, full_matrices=False)
        basis = vectors[:keep].T.contiguous()
    size = {"float16": 2 * channels, "int8": channels, "binary": -(-channels // 8)}.get(code, 4 * keep)
    return Codec(code, centre, scale, basis, keep, size)
