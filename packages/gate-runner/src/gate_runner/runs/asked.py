"""What a result depends on besides its data and settings: what its benchmark says, and files that either names."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from knowledge_prompts.class_words import WORDS, words_by_content

if TYPE_CHECKING:
    from gate_runner.benchmark import Benchmark
    from gate_runner.settings import Settings

_OURS = ("gate_data", "gate_runner", "eqben_builder", "oven_retrieval")
"""Packages whose functions read and make data by their version alone."""


def asked_digest(benchmark: Benchmark, source: str, settings: Settings, seed: int) -> str:
    """Return what results of a benchmark are known by besides `Data.digest` and `Settings.identity`.

    It covers the task, metrics and training of the benchmark, classes of class maps, and the contents of files: of
    words for the classes, of knowledge, of lists of shots, and of the code of a plug-in's data or of a language model.
    Files are known by what they hold, wherever they are.
    """
    from gate_data.pictures import content_digests

    training = {name: value for name, value in benchmark.training.items() if name not in WORDS}
    content: list[Any] = [benchmark.task, benchmark.metrics, training]
    content += [words_by_content(benchmark.training, content_digests), *_class_maps(benchmark)]
    content += [_knowledge(benchmark, settings), _shots(benchmark, source, settings, seed)]
    content += _code(benchmark.sources[source], settings)
    if training.get("features") == "proxyclip" and settings.proxy is not None:
        content.append(_described(settings.proxy))
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=_plain).encode()).hexdigest()[:16]


def _class_maps(benchmark: Benchmark) -> list[Any]:
    """Which value or colour of one's own class maps is which class, and which counts nowhere."""
    form = benchmark.originals.form if "file" in benchmark.sources else None
    if form is None or form.maps is None:
        return []
    maps = form.maps
    colours = sorted((*colour, value) for colour, value in (maps.colours or {}).items())
    return [sorted(maps.classes.items()), sorted(maps.ignored), maps.others, colours]


def knowledge_digests(benchmark: Benchmark, settings: Settings) -> Sequence[str]:
    """Digests of ELEVATER's files of knowledge about a benchmark's classes; empty if no folder of them is named."""
    folder = settings.knowledge_folder
    if folder is None:
        return ()
    from gate_data.pictures import content_digests
    from knowledge_prompts.sources.elevater_files import stored_files

    return content_digests([str(file) for file in stored_files(folder, benchmark.id.partition("@")[0])])


def _knowledge(benchmark: Benchmark, settings: Settings) -> Sequence[str]:
    """The same of a sweep's unit that reads them."""
    variant = benchmark.training.get("variant", {"knowledge": "none"})
    return () if variant["knowledge"] == "none" else knowledge_digests(benchmark, settings)


def _shots(benchmark: Benchmark, source: str, settings: Settings, seed: int) -> list[Any]:
    """ELEVATER's own lists of few images, which a detection set of ODinW may have beside its images."""
    training, root = benchmark.training, settings.data_root
    shots = str(training.get("shots", "full"))
    if "odinw" not in training or root is None or source != "local" or not shots.isdecimal():
        return []
    from gate_data.originals.odinw import prepared
    from gate_runner.detection.shots import VALIDATION

    counts = {"train": int(shots), "val": VALIDATION.get(shots, 1)}
    lists = [prepared(root, training["odinw"], split, count, seed) for split, count in counts.items()]
    return [None if listed is None else [listed[0].name, listed[1]] for listed in lists]


def _code(named: str, settings: Settings) -> list[str]:
    """Digests of the code of another package that makes the data, and of a model that reads captions."""
    module, colon, _ = ("", "", "") if named.endswith(".toml") else named.partition(":")  # the hub's have none
    modules = [module] if colon and module.partition(".")[0] not in _OURS else []
    modules += [settings.language_model.partition(":")[0]] if settings.language_model else []
    return [_digest_of_code(name) for name in modules]


def _digest_of_code(module: str) -> str:
    from vision_features.encoders.code import digest_of_module
    from wary_files.working_folder import import_named

    try:
        import_named(module)
    except Exception:  # noqa: BLE001 - whoever needs it says what is wrong with it
        return ""
    return digest_of_module(module)


def _described(spec: str) -> Mapping[str, Any]:
    """What the second encoder of ``proxyclip`` is: its weights, transform and code."""
    from vision_features.encoders import load_encoder

    return load_encoder(spec, device="cpu").describe()


def _plain(value: Any) -> Any:
    """A value that JSON does not have, as one that it has."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Path):
        return str(value)
    return list(value) if isinstance(value, Iterable) else getattr(value, "__qualname__", repr(value))
