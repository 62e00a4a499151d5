"""Image classification: a linear head on pooled features, or an attentive one on places.

Where the encoder is frozen, the probe is solved, not stepped: a benchmark must not measure its own optimiser.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from gate_runner.features import Kind
from gate_runner.heads.saved import KeptHead
from gate_runner.readouts import Readout
from gate_runner.tasks import predicted
from gate_runner.tasks.backbone import make_backbone
from gate_runner.tasks.cross_validation import cross_validated
from gate_runner.tasks.features import kinds_to_probe, rows_of, solvable
from gate_runner.tasks.fitting import Loss
from gate_runner.tasks.job import Job, Outcome
from gate_runner.tasks.predicted import best, with_classes
from gate_runner.tasks.started import solved_probe, starts_at_solved, starts_at_texts, text_head
from gate_runner.tasks.training import score, train_and_test
from vision_adapters.heads import AttentiveHead, InitializedHead, LinearHead, fixed_head, seeded
from vision_adapters.losses import class_balance, cross_entropy
from vision_adapters.rows.counting import log_frequencies
from vision_adapters.training import Backbone, FrozenFeatures
from vision_adapters.tuning import Fold, Tuned, TuningData, tune

if TYPE_CHECKING:
    from gate_data.data import Split


_ATTENTIVE = {
    "lr": 1e-3, "steps": 400, "batch_size": 128, "validate_every": 40, "schedule": "cosine", "rates": (1.0, 0.3, 3.0),
}  # fmt: skip


def run(job: Job) -> Outcome:
    """Chance: the training split's most frequent classes, whatever the image.

    The head of an encoder that is trained starts at the class prompts, at the probe of the frozen features, or at
    random, as the settings have it.
    """
    classes = len(job.data.classes)
    blind = log_frequencies(job.data.train.targets, classes).expand(len(job.data.test), -1)
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
    kind, own = f"tokens:{block}", job.transform
    tokens = {name: job.encoded(split, kind, f"{name}-{kind}", transform=own) for name, split in _splits(job)}
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
    head_record = KeptHead(module, "backbone" if kind == "backbone" else "projected", job.data.classes)
    encoder, tune = job.encoder.module, job.settings.tune
    if tune == "frozen" or encoder is None:
        return head_record
    state = {name: value.detach().cpu().clone() for name, value in encoder.state_dict().items()}
    return replace(head_record, part=tune, encoder=state)


class _Solved(NamedTuple):
    kind: str
    tuned: Tuned
    test: Tensor


def solve_and_test(job: Job, blind: Tensor) -> Outcome:
    """Logistic regression on standardised features, its strength chosen on validation, then fitted on both splits.

    Where the encoder shows features before its projection, they are tried, too, and taken where they validate better.
    """
    present, metric = torch.unique(job.data.train.targets), job.benchmark.metrics[0]
    kinds, solutions = kinds_to_probe(job), []
    for number, (kind, of) in enumerate(kinds.items()):
        features = {name: rows_of(job, split, of, f"{name}-{kind}")[:].float() for name, split in _splits(job)}
        with job.timed("train"):
            data = _tuning_data(job, features["train"], features["validation"], present)
            solutions.append(_Solved(kind, tune(data), features["test"]))
            job.progress("train", number + 1, len(kinds))
    best = max(solutions, key=lambda solution: solution.tuned.validation or 0.0)
    with job.timed("test"):
        logits = best.tuned.scores(best.test)
        scores = logits.new_full((len(logits), len(job.data.classes)), float(logits.min()) - 1.0)
        scores[:, present] = logits
        judged = score(job, scores, job.data.test.targets, blind)
    training = {
        "head_parameters": best.tuned.trained_parameters(),
        "steps": 0,
        "features": best.kind,
        **_way(best.tuned.best_params),
        "tried": [
            {"features": solution.kind, **_way(row), metric: row["validation"]}
            for solution in solutions
            for row in solution.tuned.candidates
        ],
    }
    head_record = None
    if job.settings.save_heads:
        classes = [job.data.classes[index] for index in present.tolist()]
        head_record = KeptHead(best.tuned.head, "backbone" if kinds[best.kind] == "backbone" else "projected", classes)
    outcomes = judged[0][1].outcomes
    return Outcome(tuple(scored for scored, _ in judged), outcomes, training, predicted.best(scores), head=head_record)


def _way(row: Mapping[str, Any]) -> dict[str, Any]:
    """The kind of head and its numbers."""
    return {name: value for name, value in row.items() if name not in ("validation", "loss")}


def _splits(job: Job) -> list[tuple[str, Split]]:
    return [("train", job.data.train), ("validation", job.data.validation), ("test", job.data.test)]


def _tuning_data(job: Job, train: Tensor, held: Tensor, present: Tensor) -> TuningData:
    """Training and validation rows of the classes that training shows, numbered anew."""
    counts = torch.isin(job.data.validation.targets, present)
    labels = torch.cat([job.data.train.targets, job.data.validation.targets[counts]])
    rows = torch.cat([train, held[counts]])
    fold = Fold(torch.arange(len(train)), torch.arange(len(train), len(rows)))
    named = torch.searchsorted(present, labels)
    return TuningData(rows, named, len(present), None, 100.0, job.benchmark.metrics[0], (fold,), job.class_weight)
