"""What the encoder gives of a data set's pictures, before its projection and behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from gate_runner.tasks.features import rows_of

if TYPE_CHECKING:
    from gate_runner.encoders.encoder import Encoder
    from gate_runner.features import Kind
    from gate_runner.tasks.job import Job


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
    """

    train: Float[Tensor, "n b"]
    test: Float[Tensor, "m b"]
    train_labels: Tensor
    test_labels: Tensor
    projection: Float[Tensor, "b d"] | None
    classes: tuple[str, ...]

    def seen(self, projection: str, *, anchored: bool) -> tuple[Tensor, Tensor]:
        """Training and test features for a head of one projection or two."""
        if self.projection is None or (projection == "1p" and not anchored):
            return self.train, self.test
        if projection == "2p":
            return self.train @ self.projection, self.test @ self.projection
        complement = _complement(self.projection)
        if complement.shape[1] == 0:
            return self.train @ self.projection, self.test @ self.projection
        ahead = self.train @ self.projection
        behind = self.train @ complement
        # per dimension, both parts are of equal size: a projection's scale is arbitrary
        size = ahead.square().mean().sqrt() / behind.square().mean().sqrt().clamp_min(1e-12)
        return torch.cat([ahead, size * behind], 1), torch.cat(
            [self.test @ self.projection, size * self.test @ complement], 1
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
    basis: Tensor = u[:, rank:].to(projection)
    return basis


def projection_of(encoder: Encoder) -> Tensor | None:
    """The matrix from the backbone's features to the projected ones, or None where the encoder shows none."""
    projection = encoder.projection
    return None if projection is None or encoder.backbone is None else projection.detach().float().cpu()


def features_of(job: Job) -> Features:
    """Features of a job's training and test pictures, in memory."""
    projection, data = projection_of(job.encoder), job.data
    kind: Kind = "pooled" if projection is None else "backbone"
    train, test = (rows_of(job, getattr(data, side), kind, side)[:].clone() for side in ("train", "test"))
    labels = data.train.targets.long(), data.test.targets.long()
    return Features(train, test, *labels, projection, data.classes)
