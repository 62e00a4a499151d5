"""Image classification: a linear head on pooled features, solved where the encoder is frozen."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from torch import Tensor, nn

from gate_runner.features import Kind
from gate_runner.heads.kept import KeptHead
from gate_runner.readouts import Readout
from gate_runner.tasks.backbone import make_backbone
from gate_runner.tasks.classes import with_classes
from gate_runner.tasks.features import places_of
from gate_runner.tasks.fitting import Loss
from gate_runner.tasks.job import Job, Outcome
from gate_runner.tasks.predicted import best
from gate_runner.tasks.probing import cross_validated, solve_and_test
from gate_runner.tasks.started import solvable, solved_probe, starts_at_solved, starts_at_texts, text_head
from gate_runner.tasks.targets import frequencies
from gate_runner.tasks.training import train_and_test
from vision_adapters.heads import AttentiveHead, InitializedHead, LinearHead, fixed_head, seeded
from vision_adapters.losses import class_balance, cross_entropy
from vision_adapters.training import Backbone, FrozenFeatures

_ATTENTIVE = {
    "lr": 1e-3, "steps": 400, "batch_size": 128, "validate_every": 40, "schedule": "cosine", "rates": (1.0, 0.3, 3.0),
}  # fmt: skip


def run(job: Job) -> Outcome:
    """Chance: the training split's most frequent classes, whatever the image.

    The head of an encoder that is trained starts at the class prompts, at the probe of the frozen features, or at
    random, as the settings have it.
    """
    classes = len(job.data.classes)
    blind = frequencies(job.data.train.targets, classes).expand(len(job.data.test), -1)
    return with_classes(job, _run(job, blind))


def _run(job: Job, blind: Tensor) -> Outcome:
    classes = len(job.data.classes)
    loss: Loss = cross_entropy
    if job.settings.class_weight == "balanced":
        loss = partial(cross_entropy, weight=class_balance(job.data.train.targets, classes))
    if str(job.training.get("readout", "")).endswith("/attentive"):
        return _attentive(job, blind, loss)
    if job.settings.folds is not None:
        return cross_validated(job, blind)
    if job.settings.tune == "frozen" and solvable(job):
        return solve_and_test(job, blind)
    if starts_at_solved(job):
        probe = solved_probe(job)
        backbone = make_backbone(job, probe.kind)
        head: nn.Module = probe.head(backbone.scale)
        outcome = train_and_test(job, backbone, head, loss, blind, answer=best)
        outcome = replace(outcome, training={**outcome.training, "features": probe.features})
        return replace(outcome, head=_kept(job, head, backbone, probe.kind))
    backbone = make_backbone(job, "pooled")
    prompts, width = starts_at_texts(job), backbone.width
    head = text_head(job, backbone.scale) if prompts else seeded(lambda: LinearHead(width, classes), job.seed)
    outcome = train_and_test(job, backbone, head, loss, blind, answer=best)
    return replace(outcome, head=_kept(job, head, backbone, "pooled"))


def _attentive(job: Job, blind: Tensor, loss: Loss) -> Outcome:
    """A head that learns which places of a block to look at, trained on the frozen tokens."""
    block = Readout.parse(job.training["readout"]).block
    tokens = {name: places_of(job, getattr(job.data, name), block, name) for name in ("train", "validation", "test")}
    backbone = FrozenFeatures(tokens.__getitem__)
    heads = max(number for number in (1, 2, 4) if backbone.width % number == 0)
    head = seeded(lambda: AttentiveHead(backbone.width, len(job.data.classes), heads=heads), job.seed)
    benchmark = replace(job.benchmark, training={**_ATTENTIVE, **job.training})
    return train_and_test(replace(job, benchmark=benchmark), backbone, head, loss, blind, answer=best)


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
    kept = KeptHead(module, "backbone" if kind == "backbone" else "projected", job.data.classes)
    encoder, tune = job.encoder.module, job.settings.tune
    if tune == "frozen" or encoder is None:
        return kept
    state = {name: value.detach().cpu().clone() for name, value in encoder.state_dict().items()}
    return replace(kept, part=tune, encoder=state)
