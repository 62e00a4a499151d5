"""Classification heads that learn in steps: behind the encoder, with it, or attentive on places of a block."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from torch import Tensor, nn

from gate_runner.tasks.backbone import make_backbone
from gate_runner.tasks.head_initialisation import solved_probe, starts_at_solved, starts_at_texts, text_head
from gate_runner.tasks.job import Job, Outcome
from gate_runner.tasks.predicted import best
from gate_runner.tasks.training import train_and_test
from vision_adapters.heads import AttentiveHead, InitializedHead, LinearHead, fixed_head, seeded
from vision_adapters.training import Backbone, FrozenFeatures
from vision_features.features import Kind
from vision_features.heads.reading import Reading
from vision_features.heads.saved import KeptHead
from vision_features.readouts import Readout

if TYPE_CHECKING:
    from gate_runner.tasks.fitting import Loss

_ATTENTIVE = {
    "lr": 1e-3, "steps": 400, "batch_size": 128, "validate_every": 40, "schedule": "cosine", "rates": (1.0, 0.3, 3.0),
}  # fmt: skip


def train(job: Job, blind: Tensor, loss: Loss) -> Outcome:
    """Train a head, behind the encoder or with it, from where the settings have it start."""
    if starts_at_solved(job):
        probe = solved_probe(job)
        backbone = make_backbone(job, probe.kind)
        head: nn.Module = probe.head(backbone.scale)
        outcome = train_and_test(job, backbone, head, loss, blind, answer=best)
        outcome = replace(outcome, training={**outcome.training, "features": probe.features})
        return replace(outcome, head=_kept(job, head, backbone, probe.kind))
    backbone = make_backbone(job, "pooled")
    prompts, width, classes = starts_at_texts(job), backbone.width, len(job.data.classes)
    head = text_head(job, backbone.scale) if prompts else seeded(lambda: LinearHead(width, classes), job.seed)
    outcome = train_and_test(job, backbone, head, loss, blind, answer=best)
    return replace(outcome, head=_kept(job, head, backbone, "pooled"))


def train_attentive(job: Job, blind: Tensor, loss: Loss) -> Outcome:
    """A head that learns which places of a block to look at, trained on the frozen tokens."""
    block = Readout.parse(job.training["readout"]).block
    kind, own = f"tokens:{block}", job.transform
    data = job.data
    splits = {"train": data.train, "validation": data.validation, "test": data.test}
    tokens = {name: job.encoded(split, kind, f"{name}-{kind}", transform=own) for name, split in splits.items()}
    backbone = FrozenFeatures(tokens.__getitem__)
    heads = max(number for number in (1, 2, 4) if backbone.width % number == 0)
    head = seeded(lambda: AttentiveHead(backbone.width, len(job.data.classes), heads=heads), job.seed)
    benchmark = replace(job.benchmark, training={**_ATTENTIVE, **job.training})
    outcome = train_and_test(replace(job, benchmark=benchmark), backbone, head, loss, blind, answer=best)
    if not job.settings.save_heads:
        return outcome
    reading = Reading(Readout.parse(job.training["readout"]), job.encoder.readouts(), backbone.scale)
    return replace(outcome, head=KeptHead(head.cpu(), "readout", job.data.classes, reading=reading))


def read_at(job: Job, head: KeptHead) -> KeptHead:
    """The head with the read-out of the job's unit, where it has one."""
    if "readout" not in job.training:
        return head
    from gate_runner.tasks.readout_selection import reading_of

    return replace(head, features="readout", reading=reading_of(job))


def _kept(job: Job, head: nn.Module, backbone: Backbone, kind: Kind) -> KeptHead | None:
    """The head as a layer on the encoder's features as they come, with the encoder's weights where it was trained."""
    if not job.settings.save_heads:
        return None
    if isinstance(head, InitializedHead):
        module = fixed_head(head.weight.detach().cpu(), head.bias.detach().cpu(), "l2", head.factor)
    else:
        assert isinstance(head, LinearHead)
        weight = head.weight / backbone.scale.std.to(head.weight)
        bias = head.bias - weight @ backbone.scale.mean.to(weight)
        module = fixed_head(weight.detach().cpu(), bias.detach().cpu(), "raw")
    head_record = KeptHead(module, "backbone" if kind == "backbone" else "projected", job.data.classes)
    encoder, tune = job.encoder.module, job.settings.tune
    if tune == "frozen" or encoder is None:
        return read_at(job, head_record)
    state = {name: value.detach().cpu().clone() for name, value in encoder.state_dict().items()}
    return replace(head_record, part=tune, encoder=state)
