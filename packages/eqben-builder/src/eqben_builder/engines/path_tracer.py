"""What the engines that trace paths have in common: their objects, and how many samples they take."""

from __future__ import annotations

import os
from typing import Any

from eqben_builder.engines.assets import Asset, assets_digest, read_assets
from eqben_builder.engines.meshes import BUNDLED
from eqben_builder.engines.scene import COLOURS, MATERIALS

#: Without a denoiser.
MANY_SAMPLES = 256


class PathTracer:
    """The choices of an engine that renders.

    Args:
        meshes: A folder of OBJ or PLY meshes to use in place of the bundled objects; see `read_assets`.
        samples: Paths for each pixel, 1 to 4096; None for `usual`, or `MANY_SAMPLES` without the denoiser.
        denoise: Whether a denoiser cleans the pictures.
        usual: Samples that are enough before the denoiser.

    Raises:
        ValueError: `samples` out of range.
    """

    materials = MATERIALS
    colours = tuple(COLOURS)

    def __init__(
        self, meshes: str | os.PathLike[str] | None, samples: int | None, denoise: bool, *, usual: int
    ) -> None:
        samples = samples if samples is not None else usual if denoise else MANY_SAMPLES
        if not 1 <= samples <= 4096:
            raise ValueError(f"samples = {samples!r} lies outside 1 to 4096")
        self.samples, self.denoise = samples, denoise
        self._assets: dict[str, Asset] = {} if meshes is None else {asset.noun: asset for asset in read_assets(meshes)}
        self.shapes: tuple[str, ...] = tuple(self._assets) or BUNDLED
        self.textured = frozenset(noun for noun, asset in self._assets.items() if asset.texture is not None)

    def parameters(self) -> dict[str, Any]:
        """Everything that decides the pictures, besides scenes, size and seed."""
        known = {"samples": self.samples, "denoise": self.denoise, "objects": list(self.shapes)}
        return known | ({"meshes": assets_digest(tuple(self._assets.values()))} if self._assets else {})
