"""Dense read-outs: the tokens of a block's places under a head for maps or boxes, and the block that does best."""

from __future__ import annotations

import torch
from torch import Tensor

from gate_data.data import Split
from gate_runner.errors import UsageError
from gate_runner.tasks.job import Job
from gate_runner.tasks.readout_selection import ReadoutScore
from vision_adapters.losses import IGNORED
from vision_adapters.ridge import leave_one_out
from vision_adapters.training import FrozenFeatures
from vision_features.features import images_at
from vision_features.readouts import Readout

_PICTURES, _OF_EACH = 300, 8
"""Images of training and validation that blocks are judged by, and places drawn in each."""


def backbone_of(job: Job) -> FrozenFeatures:
    """Frozen features of a dense unit's read-out, ``block:N/places``."""
    block = Readout.parse(job.training["readout"]).block
    picture = images_at(job.data.train.images, torch.tensor([0]))
    blocks = job.encoder.encode_blocks(picture.reshape(-1, *picture.shape[-3:])[:1]).blocks
    if block > len(blocks):
        raise UsageError(f"encoder {job.encoder.spec!r} has {len(blocks)} blocks, so no block:{block}/places")
    kind = f"tokens:{block}"
    return FrozenFeatures(
        lambda name: job.encoded(getattr(job.data, name), kind, f"{name}-{kind}"), grid=blocks[block - 1].grid
    )


def worth(job: Job) -> dict[str, ReadoutScore]:
    """How well ridge regressions that never saw a place tell what is there, by read-out; no test sample is looked at.

    What is there is the class, the metres or the object at the middle of a place that was drawn.
    """
    generator = torch.Generator().manual_seed(job.seed)
    tokens: dict[str, list[Tensor]] = {}
    answers: dict[str, list[Tensor]] = {}
    for split, share in ((job.data.train, 2 / 3), (job.data.validation, 1 / 3)):
        drawn = torch.randperm(len(split), generator=generator)[: round(_PICTURES * share)]
        for rows in torch.split(drawn, job.settings.batch_size):
            images = images_at(split.images, rows)
            with job.timed("encode"):
                patches, blocks = job.encoder.encode_patches(images), job.encoder.encode_blocks(images).blocks
            read = {"last": (patches.tokens, patches.grid)}
            read |= {
                f"block:{number}/places": (block.places, block.grid) for number, block in enumerate(blocks, start=1)
            }
            where = torch.rand(len(rows), _OF_EACH, 2, generator=generator)
            for name, (places, grid) in read.items():
                cell = (where * torch.tensor(grid)).long()
                index = cell[..., 0] * grid[1] + cell[..., 1]
                tokens.setdefault(name, []).append(
                    torch.gather(places.float().cpu(), 1, index[..., None].expand(-1, -1, places.shape[2])).flatten(
                        0, 1
                    )
                )
                middle = (cell + 0.5) / torch.tensor(grid)
                answers.setdefault(name, []).append(_at(split, rows, middle).flatten())
    return {name: ReadoutScore(_told(torch.cat(tokens[name]), torch.cat(answers[name]))) for name in tokens}


def _told(features: Tensor, answers: Tensor) -> float:
    """Of the places where something is known."""
    known = answers != IGNORED
    if answers.is_floating_point():
        known = answers > 0
        return leave_one_out(features[known], answers[known].log()[:, None]).score
    return leave_one_out(features[known], answers[known]).score if len(torch.unique(answers[known])) > 1 else 0.0


def _at(split: Split, rows: Tensor, middle: Tensor) -> Tensor:
    """What a map says at shares of height and width ``[b, p, 2]``, or which class's box is there, 0 for none."""
    if not hasattr(split.targets, "padded"):
        maps = split.targets[rows]
        pixel = (middle * torch.tensor(maps.shape[1:])).long()
        answers: Tensor = maps[torch.arange(len(rows))[:, None], pixel[..., 0], pixel[..., 1]]
        return answers
    objects = split.targets.padded()[rows]
    label, centre, size = objects[..., 0], objects[..., [2, 1]], objects[..., [4, 3]]  # height and width, as places are
    near = (middle[:, :, None] - centre[:, None]).abs() <= size[:, None] / 2
    inside = near.all(dim=3) & (label >= 0)[:, None]
    return torch.where(inside, label[:, None] + 1, 0).amax(dim=2).long()
