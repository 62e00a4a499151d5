"""Read-outs as an axis of units: features of one read-out, and the choice among all of them without test labels.

Whatever a task does with pooled features it does with those of its unit's read-out: `rows_of` asks here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from gate_data.imports import named
from gate_runner.errors import UsageError
from gate_runner.features import Kind, encode_pictures
from gate_runner.readouts import Readout
from gate_runner.tasks.job import Job, Outcome
from vision_adapters.clusters import agreement, cluster
from vision_adapters.compression import codec
from vision_adapters.neighbours import choose_neighbours, rank_gallery
from vision_adapters.rows import Rows
from vision_adapters.screening import leave_one_out
from vision_adapters.training import Scale

if TYPE_CHECKING:
    from gate_data.data import Split
    from gate_runner.tasks.task import Run

Worth = Callable[[Tensor, Tensor], float]
"""Features and targets of samples that are not tested to how well a read-out does on them; higher is better."""

_MOST_SCREENED = 5_000
"""Samples that a read-out is judged by, drawn from training and validation."""
LAST = Readout("last")


def linear(features: Tensor, targets: Tensor) -> float:
    """Accuracy (of numbers, R²) of a ridge regression that never saw the sample; of several questions, their mean."""
    if targets.is_floating_point():
        return leave_one_out(features, targets.reshape(len(targets), -1)).score
    questions = targets.reshape(len(targets), -1).T
    asked = [one for one in questions if len(torch.unique(one)) > 1]
    return sum(leave_one_out(features, one).score for one in asked) / max(1, len(asked))


def neighbours(features: Tensor, targets: Tensor) -> float:
    """Accuracy of the nearest other samples' votes."""
    from oven_retrieval.vectors import ArrayRows, exact_search

    unit = F.normalize(features, dim=1).numpy()
    found = exact_search(unit, ArrayRows(unit), min(51, len(unit)))
    others = found.rows != np.arange(len(unit))[:, None]
    others[others.all(axis=1), -1] = False  # of many equal ones, itself may not be among the nearest
    rows = found.rows[others].reshape(len(unit), -1)
    scores = found.scores[others].reshape(len(unit), -1)
    choice = choose_neighbours(targets.numpy()[rows], scores, targets.numpy(), int(targets.max()) + 1)
    return choice.accuracies[choice.k]


def ranking(features: Tensor, targets: Tensor) -> float:
    """Mean average precision of each sample's class among the others."""
    unit, labels = F.normalize(features, dim=1).numpy(), targets.numpy()
    return float(np.nanmean(rank_gallery(unit, unit, labels, labels, same=True).average_precision))


def clusters(features: Tensor, targets: Tensor) -> float:
    """Adjusted mutual information of clusters and classes."""
    found = cluster(F.normalize(features, dim=1).numpy(), len(torch.unique(targets)))
    return agreement("ami", found, targets.numpy(), resamples=0).value


def read_rows(job: Job, split: Split, name: str) -> Rows:
    """The features of a split by the read-out of the job's unit."""
    readout = Readout.parse(job.training["readout"])
    columns = _columns(job, readout)
    rows = _cut(_summaries(job, split, name), columns)
    if readout.norm or readout.code:
        training = _cut(_summaries(job, job.data.train, "train"), columns)
        changes = [Scale.of(training).forward if readout.norm == "z" else _NORMS[readout.norm]]
        if readout.code:
            shown = changes[0](training[_drawn(job, len(training), _MOST_SCREENED)].float())
            try:
                changes.append(codec(readout.code, shown).restored)
            except ValueError as error:
                raise UsageError(f"read-out {readout.name!r}: {error}") from error
        for change in changes:
            rows = _Each(rows, change)
    return rows


def choose_readout(job: Job, run: Run, screen: str) -> Outcome:
    """The outcome with the read-out that does best on training and validation samples; test labels choose nothing.

    Args:
        job: whose unit's read-out is ``"auto"`` or ``"all"``, which scores every read-out on the test split, too.
        run: of the task type.
        screen: the `Worth` that judges read-outs for it.
    """
    start = time.process_time()
    tried = {LAST.name: 0.0}
    note = ""
    if job.encoder.readouts().keys() == {"last"}:
        note = f"{job.encoder.spec} shows no blocks: its last output was taken"
    else:
        tried = _screened(job, named(screen), normed="linear" not in screen)
    spent = time.process_time() - start
    chosen = max(tried, key=lambda name: (tried[name], name == LAST.name))
    outcome = run(_with(job, chosen))
    about: dict[str, Any] = {"chosen": chosen, "worth": tried, "samples": _screened_count(job), "cpu_seconds": spent}
    if note:
        about["note"] = note
    if job.training["readout"] == "all":
        about["tested"] = _all_tested(job, run, tried, chosen, outcome)
    return replace(outcome, training={**outcome.training, "readout": about})


def _screened(job: Job, worth: Worth, normed: bool) -> dict[str, float]:
    """How much each read-out is worth: of every block class token and mean, and of the best block both together."""
    rows, targets = _for_screening(job)
    found: dict[str, float] = {}

    def judge(readout: Readout) -> None:
        with job.timed("train"):
            features = rows[:, _columns(job, readout)].reshape(len(rows), -1)
            if readout.norm == "z":
                features = Scale.of(features)(features)
            found[readout.name] = worth(features, targets)
        job.progress("choose read-out", len(found), len(parts))

    parts = [Readout(*name.split("/")) for name in job.encoder.readouts()]
    for readout in parts:
        judge(readout)
        if normed:
            judge(readout._replace(norm="z"))
    blocks = {name: value for name, value in found.items() if name.startswith("block:")}
    if blocks:
        best = Readout.parse(max(blocks, key=lambda name: blocks[name]))
        if f"{best.place}/cls" in job.encoder.readouts():
            judge(best._replace(pooling="cls+mean"))
    return found


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


def _screened_count(job: Job) -> int:
    return min(_MOST_SCREENED, len(job.data.train) + len(job.data.validation))


def _all_tested(job: Job, run: Run, tried: Mapping[str, float], chosen: str, outcome: Outcome) -> list[dict[str, Any]]:
    """The headline of every read-out on the test split, in the order of depth; a result says that none of it chose."""
    rows = []
    for name in tried:
        score = (outcome if name == chosen else run(_with(job, name))).scores[0]
        rows.append({"readout": name, score.metric: score.value, "low": score.low, "high": score.high})
    return rows


def _with(job: Job, readout: str) -> Job:
    """The job with one read-out, whose trainings keep states of their own."""
    state = job.checkpoint
    own = None if state is None else state.with_name(f"{state.name}.{readout.replace('/', '-')}")
    benchmark = replace(job.benchmark, training={**job.training, "readout": readout})
    return replace(job, benchmark=benchmark, checkpoint=own)


def _summaries(job: Job, split: Split, name: str) -> Rows:
    """One row a sample with all vectors, encoded in one pass; the last output alone where there are no blocks."""
    kind: Kind = "readouts" if len(job.encoder.readouts()) > 1 else "pooled"

    def progress(done: int, total: int) -> None:
        job.progress(f"encode {name}", done, total)

    with job.timed("encode"):
        return encode_pictures(
            job.features, job.encoder, split.images, kind, f"{name}-{kind}", job.settings.batch_size, progress
        )


def _columns(job: Job, readout: Readout) -> Tensor:
    """The columns of `_summaries` that a read-out takes."""
    starts, start = {}, 0
    for name, width in job.encoder.readouts().items():
        starts[name] = torch.arange(start, start + width)
        start += width
    missing = [part for part in readout.parts if part not in starts]
    if missing:
        raise UsageError(
            f"encoder {job.encoder.spec!r} has no read-out {readout.name!r}; it has: {', '.join(starts)}"
            + (", and cls+mean of a block" if any(name.endswith("/cls") for name in starts) else "")
        )
    return torch.cat([starts[part] for part in readout.parts])


def _cut(rows: Rows, columns: Tensor) -> Rows:
    return rows[..., columns] if isinstance(rows, Tensor) else _Each(rows, lambda some: some[..., columns])


class _Each:
    """Rows that a function changes one by one as they are asked for."""

    def __init__(self, rows: Rows, change: Callable[[Tensor], Tensor]) -> None:
        self.rows, self.change = rows, change

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, rows: Any, /) -> Tensor:
        return self.change(self.rows[rows].float())


_NORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "": lambda rows: rows,
    "l2": lambda rows: F.normalize(rows, dim=-1),
    "ln": lambda rows: F.layer_norm(rows, rows.shape[-1:]),
}
