"""``adapt`` as a run: one's own labelled images as a benchmark, one unit of it, and the head that it keeps."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gate_data.own import OwnBenchmark, benchmark_text, guess, originals_from, read_benchmark, values_at
from gate_runner.benchmarks import Benchmark
from gate_runner.benchmarks.own import metrics_of, own_benchmark, refuse_among_classes, unknown_metric
from gate_runner.benchmarks.registry import is_taken
from gate_runner.errors import MissingCapabilityError, UsageError, unknown
from gate_runner.runs.request import RunRequest, eval_units_of, folder_name, make_request
from gate_runner.settings import Settings
from knowledge_prompts.class_words import ClassWords
from wary_files.folders import write

if TYPE_CHECKING:
    from vision_features.encoders.encoder import Encoder

METHODS = ("zeroshot", "probe", "finetune")


@dataclass(frozen=True)
class Adaptation:
    """What `adapt` runs: a request of one unit, by the unit's name and seed."""

    request: RunRequest
    name: str
    seed: int

    @property
    def head(self) -> Path:
        """Where its head will lie."""
        from gate_runner.runs.folder import RunFolder

        return RunFolder(self.request.output).head_folder(self.name, self.seed)


def adaptation(
    source: str | PathLike[str],
    method: str,
    encoder: str | Encoder | Any,
    *,
    name: str | None = None,
    output: str | PathLike[str] | None = None,
    metric: str | None = None,
    words: ClassWords | None = None,
    settings: Settings | None = None,
    save: Path | None = None,
) -> Adaptation:
    """The run that adapts an encoder to one's own images and keeps the head."""
    from gate_runner.tasks.recipes import checked
    from vision_features.encoders import load_encoder
    from vision_features.encoders.encoder import Encoder
    from vision_features.encoders.loading import device_for

    if method not in METHODS:
        raise unknown("method of adapting", method, METHODS)
    path = Path(source)
    own_file = path.suffix == ".toml" or (path / "benchmark.toml").is_file()
    values = None if own_file else guess(path, is_taken).values
    settings = (settings or Settings()).changed(save_heads=True, isolate="none")
    if len(settings.seeds) > 1:
        raise UsageError(f"adapt keeps one head: name one --seed, not {len(settings.seeds)}")
    if isinstance(encoder, str):
        encoder = load_encoder(encoder, device=device_for(settings.device))
    settings = _of_method(method, settings, texts=getattr(encoder, "text", None) is not None)
    if isinstance(encoder, Encoder) and encoder.text is None and asks_for_texts(method, settings):
        raise MissingCapabilityError(
            f"encoder {encoder.spec!r} has no text side, and this compares images with class texts: name another "
            "encoder, or take adapt probe alone"
        )
    if len(settings.readout) > 1:
        raise UsageError(f"adapt keeps one head: name one --readout, not {', '.join(settings.readout)}")
    axes = settings.axes()
    units = [] if axes is None else [variant.name for variant, _ in axes.units()]
    if len(units) > 1:
        raise UsageError(f"adapt keeps one head, and {len(units)} were asked for: {', '.join(units)}")
    checked(settings.recipe_fields)
    if metric is not None and metric not in metrics_of("image-classification"):
        raise unknown_metric("image-classification", metric)
    request = make_request([], encoder, name=name, settings=settings)
    if output is None:
        how = [settings.identity(), settings.shots, settings.init, settings.projection, settings.seeds]
        identity = [str(path.resolve()), values, how, metric, words and vars(words)]
        digest = hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()
        output = Path("runs") / f"{folder_name(request.spec, settings.limit)}-{method}-{digest[:8]}"
    file = _file_of(path, values, Path(output), words, save, skip_missing=settings.skip_unreadable)
    benchmark = _asked(own_benchmark(file), metric, words)
    request = replace(request, benchmarks=[benchmark], output=Path(output))
    (part,) = eval_units_of(request)
    return Adaptation(request, part.name, part.seed)


def asks_for_texts(method: str, settings: Settings) -> bool:
    """Whether a method needs an encoder that reads class texts."""
    from gate_runner.settings.axes import PROBES_WITHOUT_TEXTS

    return (
        method == "zeroshot"
        or settings.unlabelled
        or "language" in settings.init
        or bool(settings.knowledge)
        or settings.probe not in PROBES_WITHOUT_TEXTS
    )


def _of_method(method: str, settings: Settings, *, texts: bool) -> Settings:
    """The settings of the one unit that a method is."""
    tune = {"zeroshot": "frozen", "probe": "frozen"}.get(method)
    if tune is not None and settings.tune != tune:
        raise UsageError(f"adapt {method} leaves the encoder as it is: --tune {settings.tune} is for adapt finetune")
    if method == "finetune":
        return settings.changed(tune="full") if settings.tune == "frozen" else settings
    if method == "zeroshot":
        if settings.shots not in ((), ("0",)):
            raise UsageError(f"adapt zeroshot trains nothing: --shots {','.join(settings.shots)} is for adapt probe")
        return settings.changed(shots="0", init="language")
    if not (settings.shots or settings.sweeps):
        return settings
    init = settings.init or ("language" if texts else "random")
    return settings.changed(shots=settings.shots or "full", init=init, controls=False)


def _file_of(
    source: Path,
    values: Mapping[str, Mapping[str, Any]] | None,
    output: Path,
    words: ClassWords | None,
    save: Path | None,
    *,
    skip_missing: bool,
) -> Path:
    """The benchmark's file, whose data were looked at: the source's own, or one in the run folder."""
    folder = source if source.is_dir() else source.parent
    file = source if source.suffix == ".toml" else folder / "benchmark.toml"
    own = read_benchmark(file) if values is None else OwnBenchmark.model_validate(values)
    refuse_among_classes(file, output, save, own=own)
    originals = originals_from(own, file, skip_missing=skip_missing)
    originals.check(file.parent)
    if words is not None and originals.parts is not None:
        words.built(originals.parts(file.parent).classes)
    if values is None:
        return file
    file = output / "benchmark.toml"
    write(file, benchmark_text(values_at({name: dict(part) for name, part in values.items()}, folder, output)).encode())
    return file


def _asked(benchmark: Benchmark, metric: str | None, words: ClassWords | None) -> Benchmark:
    """The benchmark with another metric or other words for its classes."""
    if benchmark.task != "image-classification":
        raise UsageError(
            f"adapt keeps heads of image classification; {benchmark.id!r} is {benchmark.task}: gate-runner run takes it"
        )
    if metric is not None:
        benchmark = replace(benchmark, metrics=(metric,))
    if words is None:
        return benchmark
    wording: dict[str, Sequence[str] | str] = {
        "templates": words.templates,
        "prompts": words.prompts,
        "words": words.words,
        "knowledge": words.knowledge,
    }
    changed = {name: value for name, value in wording.items() if value}
    return replace(benchmark, training={**benchmark.training, **changed})
