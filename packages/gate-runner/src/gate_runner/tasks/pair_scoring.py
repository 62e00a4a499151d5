"""Pairs that differ in one thing, scored by the similarities of a dual encoder: nothing is trained."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from eqben_builder import WinogroundScores, winoground_scores
from eqsim.functional import equivariance_score
from gate_runner.tasks.features import embedded, pooled
from gate_runner.tasks.job import Job, Outcome, Score


def run(job: Job) -> Outcome:
    """Group, text and image score as in Winoground, with the chance of four random scores.

    The mean equivariance score (on cosines; 0 is best) and the group score of each kind of change stand beside them.
    """
    test = job.data.test
    images = F.normalize(pooled(job, test, "test")[:], dim=-1)
    texts = F.normalize(embedded(job, test.texts or ()), dim=-1).reshape(len(test), 2, -1)
    similarities = torch.einsum("ncd,nid->nci", texts, images)
    with job.timed("test"):
        scored = winoground_scores(similarities.double().numpy(), seed=job.seed)
        training = {
            "steps": 0,
            "ties": scored.ties,
            "equivariance": _equivariance(similarities),
            **_by_kind(job, scored),
        }
    scores = [
        Score(name, "higher", share.value, share.low, share.high, share.chance)
        for name, share in (("group", scored.group), ("text", scored.text), ("image", scored.image))
    ]
    chosen = similarities.argmax(dim=1).int().numpy()  # of each image, its caption
    return Outcome(tuple(scores), scored.outcomes[:, 2].astype(float), training, chosen)


def _equivariance(similarities: Float[Tensor, "n 2 2"]) -> float:
    """Mean over pairs; eqsim has images as rows."""
    scores = [equivariance_score(pair.T)[0] for pair in similarities.double()]
    return float(torch.stack(scores).mean())


def _by_kind(job: Job, scored: WinogroundScores) -> dict[str, float]:
    kinds = job.data.test.targets.numpy()
    return {
        f"group_{name}": float(scored.outcomes[kinds == index, 2].mean())
        for index, name in enumerate(job.data.classes)
        if (kinds == index).any()
    }
