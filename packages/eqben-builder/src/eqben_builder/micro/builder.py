"""Pairs of the micro world as a builder, and the check of what it wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import PIL
from numpy.typing import NDArray

from eqben_builder.building.builder import Dropped, Made
from eqben_builder.building.evidence import pixel_change, token_edits
from eqben_builder.micro.minimal import Pair, generator_at
from eqben_builder.micro.pairs import KINDS, Kind, certify, minimal_pair
from eqben_builder.micro.raster import render
from eqben_builder.micro.scene import Scene

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eqben_builder.formats import PairRow


class MicroBuilder:
    """Certified minimal pairs of the micro world.

    Args:
        aspects: Some of `eqben_builder.micro.KINDS`; all by default.
        seed: At least 0.
        size: Side of the images in pixels, 8 to 4096.
        duplicate_bits: As in `PairHashes`; None keeps near-duplicates.

    Raises:
        ValueError: The argument that is out of range, and what was expected.

    Example:
        >>> MicroBuilder(aspects=["count"], size=32).make(0).aspect
        'count'
    """

    subset = "micro"
    licence = "CC0-1.0"
    count = None

    def __init__(
        self, *, aspects: Sequence[str] | None = None, seed: int = 0, size: int = 224, duplicate_bits: int | None = 2
    ) -> None:
        unknown = [name for name in aspects or () if name not in KINDS]
        if unknown:
            raise ValueError(f"aspect {unknown[0]!r} is not one of {', '.join(KINDS)}")
        if not isinstance(seed, int) or seed < 0 or not 8 <= size <= 4096:
            raise ValueError(f"seed = {seed!r}, size = {size!r}: expected at least 0, and 8 to 4096")
        self.kinds: tuple[Kind, ...] = tuple(kind for kind in KINDS if kind in (aspects or KINDS))
        self.aspects: tuple[str, ...] = self.kinds
        self.seed, self.size, self.duplicate_bits = seed, size, duplicate_bits

    def parameters(self) -> dict[str, Any]:
        """Everything that decides what is made."""
        return {"aspects": list(self.aspects), "seed": self.seed, "size": self.size}

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> MicroBuilder:
        """The builder that has these `parameters`."""
        return cls(**parameters)

    def versions(self) -> dict[str, str]:
        """NumPy's and Pillow's."""
        return {"numpy": np.__version__, "pillow": PIL.__version__}

    def make(self, index: int) -> Made | Dropped:
        """The pair of this index."""
        kind = self.kinds[index % len(self.kinds)]
        pair = minimal_pair(generator_at(self.seed, index), kind)
        first, second = render([pair.scene0, pair.scene1], self.size).images
        graphs = {"scene0": pair.scene0.to_dict(), "scene1": pair.scene1.to_dict()}
        certificate = _certificate(pair, first, second)
        return Made((first, second), pair.captions, kind, graphs, certificate)


def _certificate(pair: Pair[Scene], first: NDArray[np.uint8], second: NDArray[np.uint8]) -> dict[str, Any]:
    difference = certify(pair)
    return {
        "difference": {"kind": difference.kind, "field": difference.field, "items": list(difference.items)},
        "token_edits": token_edits(*pair.captions),
        "pixels": pixel_change(first, second),
    }


def certificate_of(
    record: PairRow, image0: NDArray[np.uint8], image1: NDArray[np.uint8], mask: NDArray[np.bool_] | None
) -> dict[str, Any]:
    """The certificate made again from a record and its images."""
    scenes = [Scene.from_dict(record.source[name]) for name in ("scene0", "scene1")]
    field = str(record.certificate.get("difference", {}).get("field"))
    pair = Pair(scenes[0], scenes[1], record.caption0, record.caption1, record.aspect, field)
    for side, (scene, image) in enumerate(zip(scenes, (image0, image1), strict=True)):
        if not np.array_equal(render([scene], len(image)).images[0], image):
            raise ValueError(f"image {side} is not that of its scene graph")
    return _certificate(pair, image0, image1)
