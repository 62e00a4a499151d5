"""Read-outs as an axis of units: features of one read-out, and the choice among all of them without test labels.

Whatever a task does with pooled features it does with those of its unit's read-out: `rows_of` asks here.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from gate_data.imports import named
from gate_runner.errors import UsageError
from gate_runner.tasks.job import Job, Outcome
from vision_adapters.clusters import agreement, cluster
from vision_adapters.compression import codec
from vision_adapters.neighbours import choose_neighbours, rank_gallery
from vision_adapters.ridge import leave_one_out
from vision_adapters.rows import Rows
from vision_adapters.training import Scale
from vision_features.features import ChangedRows, cut
from vision_features.heads.reading import Reading, columns_of
from vision_features.readouts import Readout

if TYPE_CHECKING:
    from gate_data.data import Split
    from gate_runner.tasks.task import Run


_LOG = logging.getLogger(__name__)


class ReadoutScore(NamedTuple):
    """How well a read-out does on samples that are not tested, and on each of them; higher is better."""

    score: float
    outcomes: Tensor | None = None


ScoreReadout = Callable[[Tensor, Tensor], ReadoutScore]
"""Features and targets of samples that are not tested to how well a read-out does on them."""

_MOST_SCREENED = 5_000
"""Samples that a read-out is judged by, drawn from training and validation."""
_WIDEST = 8_192
"""Numbers of a sample, at most, that are put side by side."""
LAST, CONCAT = Readout("last"), Readout("concat")


def linear(features: Tensor, targets: Tensor) -> ReadoutScore:
    """Accuracy (of numbers, R²) of a ridge regression that never saw the sample; of several questions, their mean."""
    if targets.is_floating_point():
        left_out = leave_one_out(features, targets.reshape(len(targets), -1))
        return ReadoutScore(left_out.score, -left_out.outcomes)
    questions = targets.reshape(len(targets), -1).T
    results = [leave_one_out(features, labels) for labels in questions if len(torch.unique(labels)) > 1]
    if not results:
        return ReadoutScore(0.0)
    outcomes = torch.stack([left_out.outcomes for left_out in results]).mean(dim=0)
    return ReadoutScore(sum(left_out.score for left_out in results) / len(results), outcomes)


def neighbours(features: Tensor, targets: Tensor) -> ReadoutScore:
    """Accuracy of the nearest other samples' votes."""
    from oven_retrieval.vectors import ArrayRows, exact_search

    unit = F.normalize(features, dim=1).numpy()
    nearest = exact_search(unit, ArrayRows(unit), min(51, len(unit)))
    foreign = nearest.rows != np.arange(len(unit))[:, None]
    foreign[foreign.all(axis=1), -1] = False  # of many equal ones, itself may not be among the nearest
    rows = nearest.rows[foreign].reshape(len(unit), -1)
    scores = nearest.scores[foreign].reshape(len(unit), -1)
    choice = choose_neighbours(targets.numpy()[rows], scores, targets.numpy(), int(targets.max()) + 1)
    return ReadoutScore(choice.accuracies[choice.k])


def ranking(features: Tensor, targets: Tensor) -> ReadoutScore:
    """Mean average precision of each sample's class among the others."""
    unit, labels = F.normalize(features, dim=1).numpy(), targets.numpy()
    precision = rank_gallery(unit, unit, labels, labels, same=True).average_precision
    return ReadoutScore(float(np.nanmean(precision)), torch.from_numpy(np.nan_to_num(precision)))


def clusters(features: Tensor, targets: Tensor) -> ReadoutScore:
    """Adjusted mutual information of clusters and classes."""
    assigned = cluster(F.normalize(features, dim=1).numpy(), len(torch.unique(targets)))
    return ReadoutScore(agreement("ami", assigned, targets.numpy(), resamples=0).value)


def read_rows(job: Job, split: Split, name: str) -> Rows:
    """The features of a split by the read-out of the job's unit."""
    readout = Readout.parse(job.training["readout"])
    rows = cut(_summaries(job, split, name), _columns(job, readout))
    return ChangedRows(rows, reading_of(job).changed) if readout.norm or readout.code else rows


def reading_of(job: Job) -> Reading:
    """The read-out of the job's unit, with what its norm and its code learn from the training split."""
    readout = Readout.parse(job.training["readout"])
    reading = Reading(readout, job.encoder.readouts())
    training = cut(_summaries(job, job.data.train, "train"), _columns(job, readout))
    scale = Scale.of(training) if readout.norm == "z" else None
    if scale is not None:
        reading = Reading(readout, job.encoder.readouts(), scale)
    if not readout.code:
        return reading
    shown = training[_drawn(job, len(training), _MOST_SCREENED)].float()
    try:
        return Reading(readout, job.encoder.readouts(), scale, codec(readout.code, reading.changed(shown)))
    except ValueError as error:
        raise UsageError(f"read-out {readout.name!r}: {error}") from error


def choose_readout(job: Job, run: Run, screen: str) -> Outcome:
    """The outcome with the read-out that does best on training and validation samples; test labels choose nothing.

    A linear probe is given a block beside the last output or not at all: what stands beside it can only add, and in its
    place blocks were chosen by luck. They are judged alone as well, for the curve over depth.
    """
    start = time.process_time()
    judged = {LAST.name: ReadoutScore(0.0)}
    note = ""
    if job.encoder.readouts().keys() == {"last"}:
        note = f"{job.encoder.spec} shows no blocks: its last output was taken"
        _LOG.warning("%s: %s", job.benchmark.id, note)
    else:
        dense = screen.startswith("gate_runner.tasks.dense_readouts:")
        judged = named(screen)(job) if dense else _screened(job, named(screen), joins="linear" in screen)
    spent = time.process_time() - start
    joined = [name for name in judged if name.startswith("last+")]
    eligible = [LAST.name, *joined, *({CONCAT.name} & judged.keys())] if joined else list(judged)
    chosen = max(eligible, key=lambda name: (judged[name].score, name == LAST.name))
    outcome = run(_with(job, chosen))
    about: dict[str, Any] = {
        "chosen": chosen,
        "worth": {name: result.score for name, result in judged.items()},
        "samples": min(_MOST_SCREENED, len(job.data.train) + len(job.data.validation)),
        "cpu_seconds": spent,
    }
    if note:
        about["note"] = note
    if (gain := _gain(judged[chosen], judged[LAST.name])) and chosen != LAST.name:
        about["against_last"] = gain
    if job.training["readout"] == "all":
        about["tested"] = _all_tested(job, run, list(judged), chosen, outcome)
    return replace(outcome, training={**outcome.training, "readout": about})


def _gain(chosen: ReadoutScore, last: ReadoutScore) -> list[float]:
    """What a read-out gains on the last output on the samples that it was chosen by, and the paired interval's ends."""
    if chosen.outcomes is None or last.outcomes is None:
        return []
    differences = (chosen.outcomes - last.outcomes).double()
    mean, error = float(differences.mean()), float(differences.std(correction=0)) / len(differences) ** 0.5
    return [mean, mean - 1.96 * error, mean + 1.96 * error]


def _screened(job: Job, worth: ScoreReadout, joins: bool) -> dict[str, ReadoutScore]:
    """How much each read-out is worth: each block's class token and mean, and more that follows from these.

    Where a linear probe judges, each block beside the last output, and all side by side; elsewhere each on the scale of
    its channels, and of the best block class token and mean together.
    """
    rows, targets = _for_screening(job)
    widths = job.encoder.readouts()
    judged: dict[str, ReadoutScore] = {}

    def judge(readout: Readout) -> None:
        with job.timed("train"):
            features = rows[:, _columns(job, readout)].reshape(len(rows), -1)
            if readout.norm == "z":
                features = Scale.of(features)(features)
            judged[readout.name] = worth(features, targets)
        job.progress("choose read-out", len(judged), 2 * len(widths))

    for name in widths:
        readout = Readout.parse(name)
        judge(readout)
        if not joins:
            judge(readout._replace(norm="z"))
    blocks: dict[int, Readout] = {}
    for readout in map(Readout.parse, list(judged)):
        best = blocks.get(readout.block)
        if readout.pooling and (best is None or judged[readout.name].score > judged[best.name].score):
            blocks[readout.block] = readout
    if joins:
        for readout in blocks.values():
            judge(readout._replace(place=f"last+block:{readout.block}"))
        if blocks and sum(widths[part] for part in CONCAT.parts(widths)) <= _WIDEST:
            judge(CONCAT)
    elif blocks:
        best = max(blocks.values(), key=lambda readout: judged[readout.name].score)
        if f"{best.place}/cls" in widths:
            judge(best._replace(pooling="cls+mean"))
    return judged


def _for_screening(job: Job) -> tuple[Tensor, Tensor]:
    """Vectors and targets of training and validation samples, at most `_MOST_SCREENED` of them."""
    parts, targets = [], []
    share = min(1.0, _MOST_SCREENED / (len(job.data.train) + len(job.data.validation)))
    for name, split in (("train", job.data.train), ("validation", job.data.validation)):
        count = max(1, round(share * len(split))) if len(split) else 0
        if not count:
            continue
        drawn = _drawn(job, len(split), count)
        parts.append(_summaries(job, split, name)[drawn].float())
        targets.append(split.targets[drawn])
    vectors = torch.cat(parts)
    return (vectors.mean(dim=1) if vectors.ndim == 3 else vectors), torch.cat(targets)


def _drawn(job: Job, rows: int, most: int) -> Tensor:
    """Numbers of at most so many rows, in order."""
    return torch.randperm(rows, generator=torch.Generator().manual_seed(job.seed))[:most].sort().values


def _all_tested(job: Job, run: Run, tried: Sequence[str], chosen: str, outcome: Outcome) -> list[dict[str, Any]]:
    """The headline of every read-out on the test split, in the order of depth; a result says that none of it chose."""
    rows = []
    for name in tried:
        score = (outcome if name == chosen else run(_with(job, name))).scores[0]
        rows.append({"readout": name, score.metric: score.value, "low": score.low, "high": score.high})
    return rows


def _with(job: Job, readout: str) -> Job:
    """The job with one read-out, whose trainings keep states of their own."""
    state = job.checkpoint
    own = None if state is None else state.with_name(f"{state.name}.{readout.replace('/', '-').replace(':', '%3A')}")
    benchmark = replace(job.benchmark, training={**job.training, "readout": readout})
    return replace(job, benchmark=benchmark, checkpoint=own)


def _summaries(job: Job, split: Split, name: str) -> Rows:
    """One row a sample with all vectors, encoded in one pass; the last output alone where there are no blocks."""
    kind = "readouts" if len(job.encoder.readouts()) > 1 else "pooled"
    return job.encoded(split, kind, f"{name}-{kind}", transform=job.transform)


def _columns(job: Job, readout: Readout) -> Tensor:
    """The columns of `_summaries` that a read-out takes."""
    return columns_of(readout, job.encoder.readouts(), job.encoder.spec)
