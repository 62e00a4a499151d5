"""Compute one unit: in this process, under its lock, to its files."""

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

from gate_runner.errors import DataError, NotApplicableError, StorageError, UsageError
from gate_runner.files import DISK
from gate_runner.machine.energy import EnergyMeter
from gate_runner.machine.resources import PeakMemory, release, versions
from gate_runner.runs.asked import knowledge_digests
from gate_runner.runs.item_subsets import adaptive_test_of, chosen_of, in_blocks, in_full, narrowed
from gate_runner.runs.ranks import training_together
from gate_runner.runs.results import Result
from gate_runner.runs.unit import EvalUnit, halved, with_kept_sizes
from gate_runner.tasks.job import Phases
from knowledge_prompts.class_words import words_by_content
from vision_features.encoders.memory import is_out_of_memory

if TYPE_CHECKING:
    import numpy as np

    from gate_data.data import Data
    from gate_runner.tasks import Job, Outcome, Progress
    from vision_features.encoders.encoder import Encoder

_LOG = logging.getLogger(__name__)


def run_unit(
    unit: EvalUnit,
    encoder: Encoder,
    description: Mapping[str, Any],
    progress: Progress,
) -> Result:
    """Compute a unit and write its files; whatever goes wrong in it becomes its reason.

    Where memory does not suffice, the encoder's batch is halved, or a training batch is cut into twice as many
    micro-batches, until the unit fits or nothing can be halved any more; the sizes are kept for an interrupted unit.
    """
    folder = unit.folder
    with folder.working(unit.name, unit.seed):
        try:
            stored = unit.finished()
        except DataError:  # the caller knows of it and asked for it to be computed again
            stored = None
        if stored is not None:
            return stored
        folder.sweep(unit.name, unit.seed)
        unit = with_kept_sizes(unit)
        start = time.perf_counter()
        meter = EnergyMeter(str(encoder.device))
        while True:
            phases = Phases(meter.around)
            try:
                result, outcome, tested_rows = _compute(unit, encoder, description, progress, phases, start)
                return unit.save(
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
                return unit.save(
                    replace(unit.blank(description), status="skipped", reason=str(error), seconds=seconds), None
                )
            except Exception as error:
                if isinstance(error, OSError) and error.errno in DISK:
                    raise StorageError.about(Path(error.filename or unit.output), error) from error
                smaller = halved(unit, phases.latest) if is_out_of_memory(error) else None
                if smaller is None:
                    _LOG.debug("%s failed", unit.name, exc_info=True)
                    seconds = {**phases.seconds, "total": time.perf_counter() - start}
                    failed = replace(
                        unit.blank(description), reason=_reason(error), seconds=seconds, energy=meter.read()
                    )
                    return unit.save(failed, None, traceback.format_exc())
                unit = smaller
            release()  # outside of the except clause, where the traceback no longer holds the tensors


def _compute(
    unit: EvalUnit,
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
    from gate_runner.runs.tested import rows_by_file
    from gate_runner.tasks import Job, run_task
    from vision_features.encoders.probe import chosen_precision, rate
    from vision_features.features import FeatureCache, at_once

    memory = PeakMemory()
    progress("data", 0, 1)
    with phases.timed("data"):
        listing, asked_by = unit.listing(encoder.image_size), unit.asked(encoder.image_size)
        all_data, shared_units = _loaded(unit, encoder)
        data, test = all_data, None
        if unit.settings.items is not None:
            chosen, test = chosen_of(unit), adaptive_test_of(unit, all_data)
            data = all_data if chosen is None or test is not None else narrowed(all_data, all_data.digest(), chosen)
    phases.latest = "encode"  # from here on a smaller batch may help
    progress("images", 0, len(data.train) + len(data.validation) + len(data.test))
    progress("encode train", 0, 1)  # who watches must know it, should the first batch be too large
    checkpoint = unit.folder.unfinished_file(unit.name, unit.seed)
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    fingerprint = description.get("fingerprint")
    encoder.precision = chosen_precision(encoder, unit.settings.feature_precision, data)
    together = at_once(unit.settings.batch_size, encoder.device)
    how: dict[str, Any] = {"encoder_batch": together}  # to compute the same features again
    how |= {"micro_batches": unit.settings.micro_batches} if unit.settings.micro_batches > 1 else {}
    how |= {} if encoder.precision == "float32" else {"precision": encoder.precision}
    features = FeatureCache.of(encoder, fingerprint, cap=unit.settings.feature_cache)
    if features.folder is None:  # nobody could tell whose features they are: they go with the unit
        features.folder = unit.folder.features_folder(unit.name, unit.seed)
    job = Job(
        encoder=encoder,
        benchmark=unit.benchmark,
        data=data,
        settings=unit.settings,
        seed=unit.seed,
        checkpoint=checkpoint,
        progress=progress,
        phases=phases,
        features=features,
        keep_zero_shot=resolve(unit.settings.keep_zero_shot),
        together=lambda: training_together(unit, encoder.device),
        shared=shared_units,
    )
    frozen = unit.settings.tune == "frozen"
    preserved: AbstractContextManager[dict[str, Any]] = nullcontext({})
    if not frozen:
        from gate_runner.tasks.backbone import preserved_encoder

        preserved = preserved_encoder(encoder)
    with preserved as before:
        if test is not None:
            outcome, note, counts = in_blocks(job, test, run_task)
        elif unit.settings.items is not None:
            outcome, note, counts = in_full(unit, run_task(job), all_data)
        else:
            outcome, note, counts = run_task(job), "", {}
        of_slices = ""
        if data.test.columns:
            from gate_runner.runs.slicing import with_slices

            order = counts.get("test_items") if test is not None else None
            outcome, of_slices = with_slices(outcome, data, unit.benchmark.task, unit.seed, order)
        if unit.settings.shift:
            from gate_runner.tasks.shifted import with_shifts

            outcome = with_shifts(job, outcome)
        with phases.timed("data"):  # what the files hold is known from the bytes that were decoded
            digest, shared = all_data.digest(), shared_pictures(data, folded=unit.settings.folds is not None)
        remember_digest(listing, digest)
        if unit.settings.save_encoders:
            _keep_encoder(unit, encoder, before, outcome, digest)
        if unit.settings.save_heads:
            _keep_head(unit, job, fingerprint, outcome, shared.number)
    alone = {"one_image": 1 / rate(encoder, 1, seconds=0)} if frozen and features.rates else {}
    result = replace(
        unit.blank(description),
        status="ok",
        note="; ".join(filter(None, [data.note, note, of_slices, shared.sentence])),
        scores=outcome.scores,
        data={
            "train": len(data.train),
            "validation": len(data.validation),
            "test": len(data.test),
            "classes": len(data.classes),
            **unit.known_by(all_data, digest),
            **asked_by,
            "versions": dict(versions()),
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
    root = unit.benchmark.root_of(unit.source, None) if unit.source == "file" else None
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


def _loaded(unit: EvalUnit, encoder: Encoder) -> tuple[Data[Any], dict[str, Any]]:
    """A unit's data, and what other units on them left."""
    if {"variant", "coop"}.isdisjoint(unit.benchmark.training):
        _LOADED.clear()
        return unit.load(encoder.image_size), {}
    from gate_data.pictures import content_digests

    settings = unit.settings
    named = str(
        [words_by_content(unit.benchmark.training, content_digests), knowledge_digests(unit.benchmark, settings)]
    )
    how: tuple[Any, ...] = (
        settings.views,
        settings.transform,
        settings.probe,
        settings.knowledge_folder,
        settings.recipe,
        str(settings.recipe_fields),
        settings.save_heads,
    )
    key = (unit.same_data, unit.request(encoder.image_size), settings.batch_size, named, how)
    if not (_LOADED and _LOADED[0].key == key and _LOADED[0].encoder is encoder):
        _LOADED.clear()
        _LOADED.append(_Loaded(key, encoder, unit.load(encoder.image_size), {}))
    return _LOADED[0].data, _LOADED[0].shared


def _keep_encoder(unit: EvalUnit, encoder: Encoder, before: Mapping[str, Any], outcome: Outcome, digest: str) -> None:
    """The trained encoder, with a card that says where it comes from and what it scored."""
    from vision_features.encoders.tuned import save_tuned

    about = {
        "trained": {**unit.settings.identity(), "seed": unit.seed, "recipe": outcome.training.get("recipe")},
        "data": {"benchmark": unit.name, "task": unit.benchmark.task, "sha256": digest},
        "scores": [asdict(score) for score in outcome.scores],
    }
    save_tuned(encoder, before, unit.folder.encoder_folder(unit.name, unit.seed), about)


def _keep_head(unit: EvalUnit, job: Job, fingerprint: str | None, outcome: Outcome, shared: int) -> None:
    """The head, with a card that says what it scored, and with the encoder's weights where it was trained."""
    from vision_features.heads.fitted import marks_of_images
    from vision_features.heads.saved import save_head

    head, score, data = outcome.head, outcome.scores[0], job.data
    assert head is not None  # requests keep heads of tasks that have some
    method = outcome.training.get("chosen", {}).get("method") or unit.settings.tune
    by_texts = method == "zero_shot" and not outcome.training.get("draw")  # no image was drawn for it
    about = {
        "method": method,
        "transform": "" if job.transform is None else job.transform.description,
        "classes": list(head.classes or data.classes),
        "scores": {name: getattr(score, name) for name in ("metric", "value", "low", "high")},
        "images": {"train": len(data.train), "test": len(data.test), "shared": shared},
        "details": outcome.training,
        "fitted_on": None if by_texts else marks_of_images(data),
    }
    save_head(head, job.encoder, unit.folder.head_folder(unit.name, unit.seed), about, start=fingerprint)


def _reason(error: Exception) -> str:
    text = next(iter(str(error).splitlines()), "") or "no message"
    return text if isinstance(error, UsageError) else f"{type(error).__name__}: {text}"
