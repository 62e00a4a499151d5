"""What the encoder gives of a data set's pictures, encoded once and kept beside the cells."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from gate_runner.features import Kind, encode_pictures
from gate_runner.runs.folder import write

if TYPE_CHECKING:
    from gate_runner.benchmarks.data import Split
    from gate_runner.encoders.encoder import Encoder
    from gate_runner.features import FeatureCache
    from gate_runner.icinw.sets import GridSet, Pair
    from gate_runner.tasks.job import Progress


@dataclass(frozen=True)
class Features:
    """Two splits as the encoder sees them, with their labels.

    Args:
        train: before the projection ``[n, b]``, or, where the encoder has none, its pooled features.
        test: likewise.
        train_labels: classes, or 0/1 of each.
        test_labels: likewise.
        projection: ``[b, d]`` into the texts' space, or None.
        classes: names.
        note: what a reader must know of the data.
    """

    train: Float[Tensor, "n b"]
    test: Float[Tensor, "m b"]
    train_labels: Tensor
    test_labels: Tensor
    projection: Float[Tensor, "b d"] | None
    classes: tuple[str, ...]
    note: str = ""

    def seen(self, projection: str, *, anchored: bool) -> tuple[Tensor, Tensor]:
        """Training and test features for a head of one projection or two.

        Args:
            projection: ``"1p"`` or ``"2p"``.
            anchored: for 1p, whether class texts must keep their place: then the features are turned so that those
                that the texts are compared with come first, and the rest of the backbone's space behind. A linear head
                on these is one on the backbone's features, which starts at the merged projection and texts.

        Returns:
            Two matrices with the same columns.
        """
        if self.projection is None or (projection == "1p" and not anchored):
            return self.train, self.test
        if projection == "2p":
            return self.train @ self.projection, self.test @ self.projection
        rest = _complement(self.projection)
        if rest.shape[1] == 0:
            return self.train @ self.projection, self.test @ self.projection
        ahead = self.train @ self.projection
        behind = self.train @ rest
        # per dimension, both parts are of equal size: a projection's scale is arbitrary
        size = ahead.square().mean().sqrt() / behind.square().mean().sqrt().clamp_min(1e-12)
        return torch.cat([ahead, size * behind], 1), torch.cat(
            [self.test @ self.projection, size * self.test @ rest], 1
        )

    def texts(self, weights: Tensor, projection: str) -> Tensor:
        """Class texts beside `seen`'s anchored features."""
        if projection == "2p" or self.projection is None:
            return weights
        return F.pad(weights, (0, _complement(self.projection).shape[1]))


def _complement(projection: Float[Tensor, "b d"]) -> Float[Tensor, "b r"]:
    """An orthonormal basis of what a projection does not see."""
    u, sizes, _ = torch.linalg.svd(projection.double(), full_matrices=True)
    rank = int((sizes > sizes.max() * 1e-6).sum())
    rest: Tensor = u[:, rank:].to(projection)
    return rest


def projection_of(encoder: Encoder) -> Tensor | None:
    """The matrix from the backbone's features to the projected ones, or None where the encoder shows none."""
    found = encoder.projection
    return None if found is None or encoder.backbone is None else found.detach().float().cpu()


def encode(
    encoder: Encoder, dataset: GridSet, pair: Pair, cache: FeatureCache, counts: Path, batch: int, progress: Progress
) -> Features:
    """Features of both splits.

    Args:
        encoder: frozen.
        dataset: whose they are.
        pair: its pictures.
        cache: of the encoder.
        counts: file that says how often a picture went through the encoder.
        batch: pictures at a time.
        progress: told how many are done.

    Returns:
        The features, in memory.

    Raises:
        EncoderError: NaN or infinity; the message says where.
    """
    projection = projection_of(encoder)
    kind: Kind = "pooled" if projection is None else "backbone"
    features: dict[str, Tensor] = {}
    for side in ("train", "test"):
        split: Split = getattr(pair, side)
        before = cache.encoded[kind]
        tell = partial(progress, f"{dataset.name}: encode {side}")
        name = f"{dataset.name}'s {side}"
        try:
            rows = encode_pictures(cache, encoder, split.images, kind, name, batch, tell)
        finally:
            _count(counts, side, len(split), cache.encoded[kind] - before)
        features[side] = rows[:].clone()  # out of inference mode
    targets, asked = pair.train.targets.long(), pair.test.targets.long()
    return Features(features["train"], features["test"], targets, asked, projection, pair.classes, pair.note)


def _count(path: Path, side: str, images: int, encoded: int) -> None:
    """Add to the file how many pictures of a split there are, and how many were encoded."""
    counts = encoded_counts(path)
    before = counts.get(side, {}).get("encoded", 0)
    counts[side] = {"images": images, "encoded": before + encoded}
    write(path, json.dumps(counts).encode())


def encoded_counts(path: Path) -> dict[str, dict[str, int]]:
    """What `encode` counted; empty where nothing was."""
    try:
        found: dict[str, dict[str, int]] = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found
