"""A run folder as it lies on disk, for readers that compute nothing: comparison, report, prediction."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from gate_data.ragged import Outcomes, Ragged
from gate_runner.errors import DataError, UsageError
from gate_runner.runs.folder import (
    PREDICTED,
    TESTED,
    RunFolder,
    read_manifest,
    read_predicted,
    read_samples,
    read_tested,
    refuse_other_encoder,
)
from gate_runner.runs.results import Result, samples_digest
from wary_files.limits import refuse_special


@dataclass(frozen=True)
class StoredRun:
    """A finished or unfinished run, read from its folder."""

    path: Path
    label: str  # what tables and pages call it: the encoder's spec, made unique among the runs that are read together
    results: tuple[Result, ...]  # in the order of names, then seeds
    manifest: dict[str, Any]
    stored_as: Mapping[str, str] = field(default_factory=dict)  # names of results that are called otherwise here

    @property
    def encoder(self) -> str:
        """The spec that made the encoder."""
        return str(self.manifest["identity"]["encoder"]["spec"])

    def own_file(self, benchmark: str, data_root: Path | None = None) -> Path | None:
        """Return the TOML file of a benchmark of one's own, as the manifest names it; None for any other.

        Variants (``photos@readout=auto``) have their benchmark's.

        Raises:
            DataError: the file, or what it names in turn, is neither below the run folder nor below ``data_root``: a
                manifest, which may be a stranger's, does not choose what is opened.
        """
        benchmark = benchmark.partition("@")[0]
        for run in reversed(self.manifest.get("runs", [])):
            if benchmark in run.get("files", {}):
                file = self.path / str(run["files"][benchmark])
                roots = [root.resolve() for root in (data_root, self.path) if root is not None]
                place = next(_outside(file, roots, trusted=data_root is not None), None)
                if place is not None:
                    place = Path(os.path.normpath(place))
                    folder = place if place.is_dir() else place.parent
                    raise DataError(f"{place} is outside of {self.path}: give --data-root {folder}")
                return file
        return None

    def only(self, name: str, seeds: Collection[int]) -> StoredRun:
        """The run with the results of one benchmark and these seeds: a folder may hold those of earlier calls."""
        return replace(self, results=tuple(row for row in self.named(name) if row.seed in seeds))

    def named(self, name: str) -> tuple[Result, ...]:
        """Results of one benchmark, one per seed."""
        return self._by_name.get(name, ())

    @cached_property
    def _by_name(self) -> Mapping[str, tuple[Result, ...]]:
        listed: dict[str, list[Result]] = {}
        for result in self.results:
            listed.setdefault(result.name, []).append(result)
        return {name: tuple(results) for name, results in listed.items()}

    def outcomes(self, result: Result) -> Outcomes:
        """Per-sample outcomes of a result's headline metric: float64 with samples along the first axis, or `Ragged`."""
        if result.imported:
            raise UsageError(
                f"{result.name} of {self.label} was imported from another tool: it has no outcomes to test"
            )
        path = RunFolder(self.path).samples_file(self.stored_as.get(result.name, result.name), result.seed)
        outcomes = read_samples(path)
        if samples_digest(outcomes) != result.samples_sha256:
            raise DataError(f"{path} was changed after its result was written; run again with --setting recompute=true")
        return outcomes if isinstance(outcomes, Ragged) else outcomes.astype(np.float64)

    def predicted(self, result: Result) -> np.ndarray | None:
        """What was predicted of each test sample: a class index, labels, a value, see ``RESULTS.md``."""
        expected = result.training.get(PREDICTED)
        if expected is None:
            return None
        path = RunFolder(self.path).samples_file(self.stored_as.get(result.name, result.name), result.seed)
        predicted = read_predicted(path)
        if predicted is None or samples_digest(predicted) != expected:
            raise DataError(f"{path} was changed after its result was written; run again with --setting recompute=true")
        return predicted

    def tested(self, result: Result) -> dict[str, np.ndarray]:
        """Return the files of one's own test images, truths and confidences; empty for other data."""
        expected = result.training.get(TESTED)
        if expected is None:
            return {}
        return read_tested(
            RunFolder(self.path).samples_file(self.stored_as.get(result.name, result.name), result.seed), str(expected)
        )


def at_readouts(run: StoredRun) -> list[StoredRun]:
    """A run for each read-out of a run (``last``, ``auto``, ``block:9`` …), whose results are called as without it."""
    results: dict[str, list[Result]] = {}
    names: dict[str, dict[str, str]] = {}
    for result in run.results:
        plain, sign, readout = result.name.partition("readout=")
        name, readout = (plain.rstrip("@,"), readout) if sign else (result.name, "last")
        results.setdefault(readout, []).append(replace(result, name=name))
        names.setdefault(readout, {})[name] = result.name
    return [
        replace(run, label=f"{run.label} at {readout}", results=tuple(listed), stored_as=names[readout])
        for readout, listed in results.items()
    ]


def _outside(file: Path, roots: Sequence[Path], *, trusted: bool) -> Iterator[Path]:
    """A benchmark's file, and what is there of what it names, as far as they are below none of the roots.

    Args:
        file: the TOML file.
        roots: resolved.
        trusted: the user has named the first root: a file below that may name anything.
    """
    if not any(file.resolve().is_relative_to(root) for root in roots):
        yield file
        return
    if trusted and file.resolve().is_relative_to(roots[0]):
        return
    try:
        refuse_special(file)
        texts = list(_texts(tomllib.loads(file.read_text(encoding="utf-8-sig"))))
    except (OSError, ValueError, RecursionError):
        return  # its reader says what is wrong
    for text in texts:
        for name in {text, text.rpartition("=")[2]}:
            place = file.parent / name
            with suppress(OSError, ValueError):
                if place.exists() and not any(place.resolve().is_relative_to(root) for root in roots):
                    yield place


def _texts(value: object) -> Iterator[str]:
    """All texts in a TOML value, keys left out."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for entry in value.values() if isinstance(value, dict) else value:
            yield from _texts(entry)


class HasFolder(Protocol):
    """What `gate_runner.run` returns."""

    @property
    def folder(self) -> Path:
        """The run folder."""


Stored = StoredRun | HasFolder | str | PathLike[str]
"""A run, or its folder."""


@contextmanager
def explain_malformed(runs: Sequence[StoredRun]) -> Iterator[None]:
    """Say in one line what fails over results that hold something else than gate-runner writes.

    The fields that all results have are checked when they are read; what a task type notes of a training is not.
    """
    try:
        yield
    except (TypeError, KeyError, IndexError, AttributeError, OverflowError) as error:
        folders = ", ".join(str(run.path) for run in runs)
        raise DataError(
            f"{folders}: what a result says of its training, data or time is not as gate-runner writes it "
            f"({type(error).__name__}: {error}); --setting recompute=true computes it again"
        ) from error


def read_run(path: Path) -> StoredRun:
    """Read a run folder."""
    if not path.is_dir():
        raise UsageError(f"run {path} is not a folder; expected one that 'gate-runner run' wrote")
    folder = RunFolder(path)
    manifest_file = folder.manifest_file
    if not manifest_file.is_file():
        head = f"; a head goes into a file by: gate-runner adapt export {path} FILE.onnx"
        raise UsageError(
            f"{path} holds no manifest.json; expected a folder that 'gate-runner run' wrote"
            + (head if (path / "head.safetensors").is_file() else "")
            + (f"; it holds run folders: give {path}/*" if _holds_runs(path) else "")
        )
    manifest = read_manifest(manifest_file)
    if manifest["identity"].get("kind") == "grid":
        raise UsageError(
            f"{path} holds a grid as gate-runner 0.1 wrote it; report it with that version, or run the same command "
            "into another folder"
        )
    spec = manifest["identity"]["encoder"]["spec"]
    results = []
    for file in sorted(folder.place("results").glob("*.json")):
        result = Result.from_file(folder.place("results", file.name))
        expected = folder.result_file(result.name, result.seed)
        if file != expected:  # a copy would count as one seed more
            raise DataError(f"{file} is of {result.name} seed {result.seed}, whose file is {expected.name}: remove it")
        refuse_other_encoder(file, result, manifest)
        results.append(result)
    if not results:
        raise UsageError(f"{path} holds no results yet")
    results.sort(key=lambda result: (result.name, result.seed))
    tune = manifest["identity"].get("tune", "frozen")
    label = str(spec) if tune == "frozen" else f"{spec} ({tune})"
    return StoredRun(path, label, tuple(results), manifest)


def runs_among(paths: Sequence[Path]) -> tuple[list[Path], list[str]]:
    """Separate run folders from pages, logs and folders of runs, which a shell's ``runs/*`` names, too.

    A path that is not there is kept, as a name that was mistyped. Without any run folder all paths are.

    Returns:
        The run folders in their order, and a line for each path that is left out.
    """
    strange = [path for path in paths if path.exists() and not RunFolder(path).manifest_file.is_file()]
    if len(strange) == len(paths):
        return list(paths), []
    lines = [
        f"left out: {path} is not a run folder{f'; it holds some: {path}/*' if _holds_runs(path) else ''}"
        for path in strange
    ]
    return [path for path in paths if path not in strange], lines


def _holds_runs(path: Path) -> bool:
    """Whether the folders in a folder are those of runs."""
    return any(path.glob("*/manifest.json"))


def folder_of(source: Stored) -> Path:
    """Where a run lies."""
    if isinstance(source, StoredRun):
        return source.path
    if isinstance(source, str | PathLike):
        return Path(source)
    if not hasattr(source, "folder"):
        raise UsageError(f"a run is given as {source!r:.80}; expected its folder or a Run, each an argument of its own")
    return source.folder


def read_runs(sources: Sequence[Stored]) -> list[StoredRun]:
    """Read several runs, with labels that tell them apart; those that were read already stay as they are."""
    if all(isinstance(source, StoredRun) for source in sources):
        return [source for source in sources if isinstance(source, StoredRun)]
    paths = [folder_of(source) for source in sources]
    resolved = [path.resolve() for path in paths]
    for index, path in enumerate(resolved):
        if path in resolved[:index]:
            raise UsageError(f"run {paths[index]} is given twice")
    runs = [read_run(path) for path in paths]
    labels = [run.label for run in runs]
    if len(set(labels)) < len(labels):
        labels = [
            label if labels.count(label) == 1 else f"{label} ({run.path.name})"
            for label, run in zip(labels, runs, strict=True)
        ]
    if len(set(labels)) < len(labels):
        labels = [f"{run.label} ({run.path})" for run in runs]
    return [StoredRun(run.path, label, run.results, run.manifest) for run, label in zip(runs, labels, strict=True)]
