"""How alike images are by an encoder's features, and from which likeness on one is a copy of another."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from gate_data.near import Likeness

if TYPE_CHECKING:
    from gate_data.readers.source import Source
    from vision_features.encoders.encoder import Encoder

PLANTED = 100
"""Copies that are planted to find the threshold."""
_LOST = 5
"""Percent of the planted copies that may stay below it."""


def likeness_by(encoder: Encoder, *, seed: int = 0) -> Callable[[Sequence[Source]], Likeness]:
    """Return what gives images' features and the threshold, for `gate_data.near.near_copies`.

    The threshold is the 5th percentile of the cosines between drawn images and copies of them: JPEG at quality 70, 5 %
    of both sides cut off, half the size, mirrored, and brighter or darker, in equal parts.

    Args:
        encoder: with pooled features.
        seed: of the images that are copied.
    """

    def likeness(sources: Sequence[Source]) -> Likeness:
        from gate_data.near_planted import plant

        features = unit_features(encoder, sources)
        with tempfile.TemporaryDirectory() as folder:
            planted = plant(sources, Path(folder), PLANTED, seed)
            copies = unit_features(encoder, [copy.file for copy in planted])
        cosines = (features[[copy.original for copy in planted]] * copies).sum(axis=1)
        return Likeness(features, float(np.percentile(cosines, _LOST)) if len(cosines) else 1.0)

    return likeness


def unit_features(encoder: Encoder, sources: Sequence[Source]) -> Float[np.ndarray, "n d"]:
    """Return an encoder's pooled features of images, each of length 1; those in the feature cache are reused."""
    from gate_data.pictures import Pictures
    from vision_features.features import FeatureCache, encode_pictures

    if not sources:
        return np.zeros((0, 1), np.float32)
    pictures = Pictures.of(list(sources), encoder.image_size)
    cache = FeatureCache.of(encoder, encoder.fingerprint())
    rows = encode_pictures(
        cache, encoder, pictures, "pooled", "images", 64, lambda done, total: None, transform=encoder.transform
    )[:]
    features: np.ndarray = np.asarray(rows.float().cpu())
    unit: np.ndarray = features / np.linalg.norm(features, axis=1, keepdims=True).clip(1e-12)
    return unit
