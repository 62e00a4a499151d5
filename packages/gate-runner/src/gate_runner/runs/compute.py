"""Compute one part: in this process, under its lock, to its files."""

from __future__ import annotations

import logging
import statistics
import time
import traceback
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gate_runner.class_words import WORDS
from gate_runner.energy import EnergyMeter
from gate_runner.errors import DataError, NotApplicableError, StorageError, UsageError
from gate_runner.files import DISK
from gate_runner.machine import PeakMemory, is_out_of_memory, release
from gate_runner.runs.estimated import adaptive_test_of, chosen_of, in_blocks, in_full, narrowed
from gate_runner.runs.part import Part, halved, with_kept_sizes
from gate_runner.runs.ranks import training_together
from gate_runner.runs.results import Result
from gate_runner.tasks.job import Phases

if TYPE_CHECKING:
    import numpy as np

    from gate_data.data import Data
    from gate_runner.encoders.encoder import Encoder
    from gate_runner.tasks import Job, Outcome, Progress

_LOG = logging.getLogger(__name__)


def run_part(
    part: Part,
    encoder: Encoder,
    description: Mapping[str, Any],
    progress: Progress,
) -> Result:
    """Compute a part and write its files; whatever goes wrong in it becomes its reason.

    Where memory does not suffice, the encoder's batch is halved, or a training batch is cut into twice as many
    micro-batches, until the part fits or nothing can be halved any more; the sizes are kept for an interrupted part.
    """
    folder = part.folder
    with folder.working(part.name, part.seed):
        try:
            stored = part.finished()
        except DataError:  # the caller knows of it and asked for it to be computed again
            stored = None
        if stored is not None:
            return stored
        folder.sweep(part.name, part.seed)
        part = with_kept_sizes(part)
        start = time.perf_counter()
        meter = EnergyMeter(str(encoder.device))
        while True:
            phases = Phases(meter.around)
            try:
                result, outcome, tested_rows = _compute(part, encoder, description, progress, phases, start)
                return folder.save(
                    replace(result, energy=meter.read()),
                    outcome.samples,
                    predicted=outcome.predicted,
                    probabilities=outcome.probabilities,
                    tested=tested_rows,
                )
            except StorageError:
                raise
            except NotApplicableError as error:
                seconds = {**phases.seconds, "total": time.perf_counter() - start}
                return folder.save(
                    replace(part.blank(description), status="skipped", reason=str(error), seconds=seconds), None
                )
            except Exception as error:
                if isinstance(error, OSError) and error.errno in DISK:
                    raise StorageError.about(Path(error.filename or part.output), error) from error
                smaller = halved(part, phases.latest) if is_out_of_memory(error) else None
                if smaller is None:
                    _LOG.debug("%s failed", part.name, exc_info=True)
                    seconds = {**phases.seconds, "total": time.perf_counter() - start}
                    failed = replace(
                        part.blank(description), reason=_reason(error), seconds=seconds, energy=meter.read()
                    )
                    return folder.save(failed, None, traceback.format_exc())
                part = smaller
            release()  # outside of the except clause, where the traceback no longer holds the tensors


def _compute(
    part: Part,
    encoder: Encoder,
    description: Mapping[str, Any],
    progress: Progress,
    phases: Phases,
    start: float,
) -> tuple[Result, Outcome, dict[str, np.ndarray]]:
    import torch

    from gate_data.remembered import remember_digest
    from gate_data.shared import shared_pictures
    from gate_runner.benchmarks.resolving import resolve
    from gate_runner.encoders.probe import chosen_precision, rate
    from gate_runner.features import FeatureCache
    from gate_runner.runs.tested import rows_by_file
    from gate_runner.tasks import Job, run_task
    from gate_runner.tasks.backbone import untouched

    memory = PeakMemory()
    progress("data", 0, 1)
    with phases.timed("data"):
        listing = part.listing(encoder.image_size)
        all_data, shared_units = _loaded(part, encoder)
        data, test = all_data, None
        if part.settings.items is not None:
            chosen, test = chosen_of(part), adaptive_test_of(part, all_data)
            data = all_data if chosen is None or test is not None else narrowed(all_data, all_data.digest(), chosen)
    phases.latest = "encode"  # from here on a smaller batch may help
    progress("images", 0, len(data.train) + len(data.validation) + len(data.test))
    progress("encode train", 0, 1)  # who watches must know it, should the first batch be too large
    checkpoint = part.folder.unfinished_file(part.name, part.seed)
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    fingerprint = description.get("fingerprint")
    encoder.precision = chosen_precision(encoder, part.settings, data)
    how: dict[str, Any] = {"encoder_batch": part.settings.batch_size}  # to compute the same features again
    how |= {"micro_batches": part.settings.micro_batches} if part.settings.micro_batches > 1 else {}
    how |= {} if encoder.precision == "float32" else {"precision": encoder.precision}
    features = FeatureCache.of(encoder, fingerprint, cap=part.settings.feature_cache)
    if features.folder is None:  # nobody could tell whose features they are: they go with the unit
        features.folder = part.folder.features_folder(part.name, part.seed)
    job = Job(
        encoder=encoder,
        benchmark=part.benchmark,
        data=data,
        settings=part.settings,
        seed=part.seed,
        checkpoint=checkpoint,
        progress=progress,
        phases=phases,
        features=features,
        keep_zero_shot=resolve(part.settings.keep_zero_shot),
        together=lambda: training_together(part, encoder.device),
        shared=shared_units,
    )
    frozen = part.settings.tune == "frozen"
    preserved: AbstractContextManager[dict[str, Any]] = nullcontext({}) if frozen else untouched(encoder)
    with preserved as before:
        if test is not None:
            outcome, note, counts = in_blocks(job, test, run_task)
        elif part.settings.items is not None:
            outcome, note, counts = in_full(part, run_task(job), all_data)
        else:
            outcome, note, counts = run_task(job), "", {}
        of_slices = ""
        if data.test.columns:
            from gate_runner.runs.slicing import with_slices

            order = counts.get("test_items") if test is not None else None
            outcome, of_slices = with_slices(outcome, data, part.benchmark.task, part.seed, order)
        if part.settings.shift:
            from gate_runner.tasks.shifted import with_shifts

            outcome = with_shifts(job, outcome)
        with phases.timed("data"):  # what the files hold is known from the bytes that were decoded
            digest, shared = all_data.digest(), shared_pictures(data, folded=part.settings.folds is not None)
        remember_digest(listing, digest)
        if part.settings.save_encoders:
            _keep_encoder(part, encoder, before, outcome, digest)
        if part.settings.save_heads:
            _keep_head(part, job, fingerprint, outcome, shared.number)
    alone = {"one_image": 1 / rate(encoder, 1, seconds=0)} if frozen and features.rates else {}
    result = replace(
        part.blank(description),
        status="ok",
        note="; ".join(filter(None, [data.note, note, of_slices, shared.sentence])),
        scores=outcome.scores,
        data={
            "train": len(data.train),
            "validation": len(data.validation),
            "test": len(data.test),
            "classes": len(data.classes),
            "sha256": digest,
            **({"asked": part.own_digest} if part.source == "file" else {}),
            **counts,
            **({"shared": shared.number} if shared.number else {}),
        },
        training={**outcome.training, **how},
        seconds={**phases.seconds, **features.spent, **alone, "total": time.perf_counter() - start},
        memory={
            **memory.read(),
            "encoded": features.encoded.total(),
            "reused": features.reused.total(),
            **({"images_per_second": round(statistics.median(features.rates))} if features.rates else {}),
            "threads": torch.get_num_threads(),
        },
    )
    root = part.benchmark.root_of(part.source, None) if part.source == "file" else None
    order = counts.get("test_items") if test is not None else None
    return result, outcome, {} if root is None else rows_by_file(data, outcome, root, order)


class _Loaded(NamedTuple):
    """What the unit of a sweep before this one loaded, and what its task left for the next."""

    key: tuple[Any, ...]
    encoder: Encoder
    data: Data[Any]
    shared: dict[str, Any]


_LOADED: list[_Loaded] = []
"""The data of the last unit of a sweep in this process, which the next one most often has, too."""


def forget() -> None:
    """Let go of the data and the encoder that the last unit of a sweep left for the next one."""
    if _LOADED:
        _LOADED.clear()
        release()


def _loaded(part: Part, encoder: Encoder) -> tuple[Data[Any], dict[str, Any]]:
    """A unit's data, and what other units on them left."""
    if {"variant", "coop"}.isdisjoint(part.benchmark.training):
        _LOADED.clear()
        return part.load(encoder.image_size), {}
    settings = part.settings
    words = str([part.benchmark.training.get(name) for name in WORDS])
    how: tuple[Any, ...] = (
        settings.views,
        settings.transform,
        settings.probe,
        settings.knowledge_folder,
        settings.recipe,
        str(settings.recipe_fields),
        settings.save_heads,
    )
    key = (part.same_data, part.request(encoder.image_size), settings.batch_size, words, how)
    if not (_LOADED and _LOADED[0].key == key and _LOADED[0].encoder is encoder):
        _LOADED.clear()
        _LOADED.append(_Loaded(key, encoder, part.load(encoder.image_size), {}))
    return _LOADED[0].data, _LOADED[0].shared


def _keep_encoder(part: Part, encoder: Encoder, before: Mapping[str, Any], outcome: Outcome, digest: str) -> None:
    """The trained encoder, with a card that says where it comes from and what it scored."""
    from gate_runner.encoders.tuned import save_tuned

    about = {
        "trained": {**part.settings.identity(), "seed": part.seed, "recipe": outcome.training.get("recipe")},
        "data": {"benchmark": part.name, "task": part.benchmark.task, "sha256": digest},
        "scores": [asdict(score) for score in outcome.scores],
    }
    save_tuned(encoder, before, part.folder.encoder_folder(part.name, part.seed), about)


def _keep_head(part: Part, job: Job, fingerprint: str | None, outcome: Outcome, shared: int) -> None:
    """The head, with a card that says what it scored, and with the encoder's weights where it was trained."""
    from gate_runner.heads.saved import save_head

    head, score, data = outcome.head, outcome.scores[0], job.data
    assert head is not None  # requests keep heads of tasks that have some
    about = {
        "method": outcome.training.get("chosen", {}).get("method") or part.settings.tune,
        "transform": "" if job.transform is None else job.transform.description,
        "classes": list(head.classes or data.classes),
        "scores": {name: getattr(score, name) for name in ("metric", "value", "low", "high")},
        "images": {"train": len(data.train), "test": len(data.test), "shared": shared},
        "details": outcome.training,
    }
    save_head(head, job.encoder, part.folder.head_folder(part.name, part.seed), about, start=fingerprint)


def _reason(error: Exception) -> str:
    text = next(iter(str(error).splitlines()), "") or "no message"
    return text if isinstance(error, UsageError) else f"{type(error).__name__}: {text}"
