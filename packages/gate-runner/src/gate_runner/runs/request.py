"""What is to be run, and all that can be checked of it before an encoder is loaded."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gate_runner.benchmarks import Benchmark, resolve
from gate_runner.benchmarks.registry import PARTIAL, SWEPT, SWEPT_PACKS
from gate_runner.errors import DataError, UsageError, printable
from gate_runner.runs.item_subsets import chosen_of, is_adaptive
from gate_runner.runs.unit import EvalUnit
from gate_runner.settings import Settings
from gate_runner.tasks.registry import find_task_type
from gate_runner.tasks.shifting import refuse_unshifted
from vision_features.encoders.spec import parse_spec

if TYPE_CHECKING:
    from vision_features.encoders.encoder import Encoder


_LOG = logging.getLogger(__name__)

Names = str | Benchmark | Sequence[str | Benchmark]
"""A pack or benchmark, by name or as it is, or several."""


@dataclass(frozen=True)
class RunRequest:
    """What is to be run.

    Args:
        benchmarks: in order.
        encoder: a spec string, or an encoder that is there already (then ``isolate`` must be ``"none"``).
        output: the run folder.
        settings: how.

    Example:
        >>> request = RunRequest([], "micro-clip", Path("runs/x"))
        >>> request.changed(limit=100).settings.limit, request.spec
        (100, 'micro-clip')
    """

    benchmarks: Sequence[Benchmark]
    encoder: str | Encoder
    output: Path
    settings: Settings = field(default_factory=Settings)

    @property
    def spec(self) -> str:
        """The encoder's spec string."""
        return self.encoder if isinstance(self.encoder, str) else self.encoder.spec

    def changed(self, **options: Any) -> RunRequest:
        """The same with other settings."""
        return replace(self, settings=self.settings.changed(**options))


def make_request(
    names: Names,
    encoder: Any = "micro-clip",
    *,
    name: str | None = None,
    output: str | PathLike[str] | None = None,
    settings: Settings | None = None,
) -> RunRequest:
    """A request from what the command line, or a caller in Python, says.

    What is misspelt is found before torch is imported.
    """
    several = [names] if isinstance(names, str | Benchmark) else list(names)
    how = Settings() if settings is None else settings
    if any(name in SWEPT_PACKS for name in several):
        how = how.changed(**{axis: values for axis, values in SWEPT.items() if not getattr(how, axis)})
    benchmarks: dict[str, Benchmark] = {}
    for named in several:
        for benchmark in [named] if isinstance(named, Benchmark) else _present(named, how):
            benchmarks.setdefault(benchmark.id, benchmark)
    encoder_or_spec: str | Encoder
    if isinstance(encoder, str):
        if name is not None:
            raise UsageError(f"name {name!r} is for encoders that are objects; {encoder!r} has its own")
        encoder_or_spec = encoder
        parse_spec(encoder)
    else:
        from vision_features.encoders.own import adopt

        encoder_or_spec = adopt(encoder, name or getattr(encoder, "spec", None) or type(encoder).__name__)
    if how.num_processes > 1 and (not isinstance(encoder_or_spec, str) or encoder_or_spec.startswith("hf-detector:")):
        reason = "detectors train" if isinstance(encoder_or_spec, str) else "an encoder that is an object trains"
        raise UsageError(f"num_processes={how.num_processes}: {reason} in one process; give an encoder by its spec")
    for watched in resolve(how.keep_zero_shot):
        if not find_task_type(watched.task).class_prompts:
            raise UsageError(
                f"setting keep_zero_shot {watched.id}: {watched.task} has no class prompts; name image classification"
            )
    if how.shift:
        refuse_unshifted(how, list(benchmarks.values()))
    spec = encoder_or_spec if isinstance(encoder_or_spec, str) else encoder_or_spec.spec
    folder = (
        Path("runs") / folder_name(spec, how.limit, None if how.items is None else how.items.digest)
        if output is None
        else Path(output)
    )
    if any("\ud800" <= letter <= "\udfff" for letter in str(folder)):
        raise UsageError(
            f"output {str(folder)!r}: this locale cannot read the name; set a UTF-8 locale, as by LC_ALL=C.UTF-8"
        )
    if printable(str(folder)) != str(folder):
        raise UsageError(f"output {str(folder)!r}: expected a folder's name without control characters")
    return RunRequest(list(benchmarks.values()), encoder_or_spec, folder, how)


def as_values(request: RunRequest) -> dict[str, Any]:
    """What a manifest keeps of a request, to be given back by ``--config``: what differs from the defaults."""
    start, values = Settings().to_mapping(), request.settings.to_mapping()
    changed = {key: value for key, value in values.items() if value != start[key]}
    changed.pop("items", None)  # a file of its own
    names = [benchmark.sources.get("file", benchmark.id) for benchmark in request.benchmarks]
    return {"names": names, "encoder": request.spec, **changed}


def own_files(benchmarks: Iterable[Benchmark], output: Path) -> dict[str, dict[str, str]]:
    """Where files of one's own benchmarks lie, seen from the run folder: reports make their images again."""
    files = {
        benchmark.id: os.path.relpath(benchmark.sources["file"], output.absolute())
        for benchmark in benchmarks
        if "file" in benchmark.sources
    }
    return {"files": files} if files else {}


def _present(name: str, settings: Settings) -> list[Benchmark]:
    """What a name stands for; of a pack that few have all of, what the data root holds, with a warning of the rest."""
    if name == "coop":
        from gate_runner.tasks.coop.points import members

        name = members(name, settings.protocol)
    benchmarks = resolve([name])
    if name not in PARTIAL or settings.data_root is None:
        return benchmarks
    present = [benchmark for benchmark in benchmarks if benchmark.finds_files(settings.data_root)]
    absent = [benchmark.id for benchmark in benchmarks if benchmark not in present]
    if not present:
        raise DataError(f"{settings.data_root} holds no files of {name}: {', '.join(absent)}")
    if absent:
        _LOG.warning("not in %s, and not scored: %s", settings.data_root, ", ".join(absent))
    return present


def eval_units_of(request: RunRequest) -> list[EvalUnit]:
    """The parts of a run, each with the source that it uses."""
    settings = request.settings
    if not request.benchmarks:
        raise UsageError("nothing to run: name a pack or a benchmark")
    if settings.isolate != "none" and not isinstance(request.encoder, str):
        raise UsageError("an encoder that is an object runs in this process only: isolate='none'")
    if settings.data_root is not None and not settings.data_root.is_dir():
        raise DataError(f"data root {settings.data_root} is not a folder")
    if request.output.exists() and not request.output.is_dir():
        raise UsageError(f"output {request.output} is a file, expected a folder")
    for benchmark in request.benchmarks:
        if "file" in benchmark.sources:
            from gate_runner.benchmarks.own import refuse_among_classes

            refuse_among_classes(Path(benchmark.sources["file"]), request.output)
    parts: list[EvalUnit] = []
    checked: set[tuple[str, Path]] = set()
    for benchmark in request.benchmarks:
        if settings.tune in ("linear", "prompt") and benchmark.task != "detection":
            raise UsageError(f"--tune {settings.tune} trains detectors; {benchmark.id} is {benchmark.task}")
        if settings.save_heads and not find_task_type(benchmark.task).keeps_heads:
            raise UsageError(
                f"setting save_heads is for image classification; {benchmark.id!r} has task type {benchmark.task!r}"
            )
        for variant, seed in find_task_type(benchmark.task).variants(benchmark, settings):
            source = variant.choose_source(settings.source, settings.data_root)
            root = variant.root_of(source, settings.data_root)
            if root is not None and (variant.sources[source], root) not in checked:
                variant.check_files(root, skip_missing=settings.skip_unreadable)
                checked.add((variant.sources[source], root))
            unit = variant.trained_for(source)
            how = settings.of_unit(unit.training)
            parts.append(EvalUnit(unit, source, seed, request.spec, request.output, how))
    _check_items(parts, settings)
    return list({(part.name, part.seed): part for part in parts}.values())


def _check_items(parts: Sequence[EvalUnit], settings: Settings) -> None:
    adaptive = settings.items is not None and settings.items.adaptive
    if adaptive != (settings.until is not None):
        raise UsageError(
            "--items adaptive, or a file of 'eevee items --method adaptive', and --setting until=POINTS belong "
            f"together; {'until' if adaptive else 'such items'} is missing"
        )
    if adaptive and not any(is_adaptive(part) for part in parts):
        raise UsageError(
            "until: none of the benchmarks that are asked for has a score that is the mean over its test samples "
            f"({', '.join(dict.fromkeys(part.name for part in parts))})"
        )
    if adaptive:
        return
    if settings.items is not None and all(chosen_of(part) is None for part in parts):
        raise UsageError(
            f"--items: {settings.items} chose samples of {', '.join(settings.items.names)}; none of these is asked for "
            f"({', '.join(dict.fromkeys(part.name for part in parts))})"
        )


def folder_name(encoder: str, limit: int | None, items: str | None = None) -> str:
    """A folder's name from a spec."""
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", encoder).strip("-.")
    ends = ["" if limit is None else f"-limit{limit}", "" if items is None else f"-items-{items[:8]}"]
    return name + "".join(ends)
