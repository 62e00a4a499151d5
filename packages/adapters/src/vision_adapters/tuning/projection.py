"""ProLIP: the visual projection alone is trained, held near where it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import nn

from vision_adapters.tuning.baselines import unit_texts
from vision_adapters.tuning.data import Tuned, TuningData

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

STEPS, RATE = 300, 1e-3


class MappedHead(nn.Module):
    r"""Scores $s \cos(x A, v_c)$.

    Args:
        mapping: A, [d, d].
        texts: class texts at length 1.
        scale: s.
    """

    def __init__(self, mapping: Tensor, texts: Tensor, scale: float) -> None:
        super().__init__()
        self.mapping = nn.Parameter(mapping.clone())
        self.register_buffer("texts", texts)
        self.scale = scale

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
        """Scores of each class."""
        return self.scale * F.normalize(x @ self.mapping, dim=1) @ self.get_buffer("texts").T


def tune_prolip(data: TuningData) -> Tuned:
    r"""Train a square matrix on the features, held near the identity; the class texts stay.

    The mean cross-entropy of $s\cos(xA, v_c)$ plus $\lambda \lVert A - I\rVert_F^2$ with $\lambda$ the inverse of the
    images per class; 300 steps of Adam on all samples, at a rate that falls from .001 along a cosine. Nothing is
    validated.

    Args:
        data: with class embeddings, one label per sample. On projected features, A follows the projection; on the
            backbone's, turned so that the projected come first, the whole projection moves.

    Source:
        Fahes et al., Fine-tuning CLIP's last visual projector (2024): the objective and its parameter-free penalty.
        Its matrix is the encoder's own projection; after it stands one here, which is the same family of functions on
        projected features. Its learning rates are for that matrix's scale; ours is for the identity's.
    """
    texts = unit_texts(data, "prolip")
    unit, labels = F.normalize(data.features, dim=1), data.labels
    penalty = data.classes / len(labels)
    start = torch.eye(unit.shape[1], dtype=unit.dtype)
    head = MappedHead(start, texts, data.logit_scale)
    optimiser = torch.optim.Adam(head.parameters(), lr=RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, STEPS)
    for _ in range(STEPS):
        optimiser.zero_grad()
        loss = F.cross_entropy(head(unit), labels) + penalty * (head.mapping - start).square().sum()
        torch.autograd.backward(loss)
        optimiser.step()
        schedule.step()
    return Tuned("prolip", {"penalty": penalty}, None, head.eval(), (), data.metric)
