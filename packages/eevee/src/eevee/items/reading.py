"""Read outcomes of models on single items: from run folders, files of arrays, or tables that others publish."""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from eevee.errors import EeveeError
from eevee.items.outcomes import Outcomes
from eevee.items.published import JOBLIB, is_unibench, read_joblib, read_unibench
from eevee.tables.runs import read_results, run_folders
from wary_files.errors import DataError
from wary_files.limits import within

if TYPE_CHECKING:
    from collections.abc import Sequence


def read_outcomes(sources: Sequence[str | Path]) -> dict[str, Outcomes]:
    """Outcomes by benchmark from run folders of gate-runner, one `.npz` archive, or tables that others publish.

    Args:
        sources: one of these, of which but the first take higher outcomes for better:

            - folders that `gate-runner run` wrote, one for each model (several seeds of one are averaged); among
              several, what is no run folder is left out and named in the log, as a shell's ``runs/*`` names it;
            - one archive with, for each benchmark, an array `BENCHMARK` (models, items) and optionally
              `BENCHMARK.items`, and an array `models` of names;
            - benchmark-prediction's `NAME.jbl`, arrays (models, items), with `NAME_models.jbl` next to them;
            - the output folder of UniBench (`MODEL/BENCHMARK.f`), or folders of its models.

    Returns:
        For each benchmark with outcomes that are numbers from 0 to 1 for single items; what else a folder holds (masks,
        pairs of pairs) has no such items and is left out.

    Raises:
        EeveeError: what cannot be read, models that were run on different data or scored by different metrics, or no
            benchmark that all have; the message names file and benchmark.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "outcomes.npz"
        >>> values = (np.arange(150).reshape(5, 30) % 7 > 2).astype(float)
        >>> np.savez(path, models=np.array(list("abcde")), toy=values)
        >>> read_outcomes([path])["toy"].models
        ('a', 'b', 'c', 'd', 'e')
    """
    paths = [Path(source) for source in sources]
    if paths and all(path.suffix in JOBLIB for path in paths):
        return read_joblib(paths)
    if paths and all(is_unibench(path) for path in paths):
        return read_unibench(paths)
    if len(paths) == 1 and paths[0].is_file():
        return _from_archive(paths[0])
    paths = list(run_folders(paths))
    runs = [_read_run(path) for path in paths]
    names = [name for name, _ in runs]
    labels = [
        name if names.count(name) == 1 else f"{name} ({path.name})" for name, path in zip(names, paths, strict=True)
    ]
    shared = [key for key in (runs[0][1] if runs else {}) if all(key in run for _, run in runs)]
    if not shared:
        raise EeveeError(
            f"{len(paths)} run folders have no benchmark in common with an outcome from 0 to 1 for each sample"
        )
    outcomes = {}
    for key in shared:
        parts = [run[key] for _, run in runs]
        first = parts[0]
        for path, part in zip(paths, parts, strict=True):
            if part.digest != first.digest or len(part.values) != len(first.values):
                raise EeveeError(f"{path}: {key} was run on other data than in {paths[0]}; expected the same test set")
            if (part.metric, part.direction) != (first.metric, first.direction):
                raise EeveeError(
                    f"{path}: {key} is scored by {part.metric} ({part.direction} is better), and in {paths[0]} by "
                    f"{first.metric} ({first.direction} is better); expected one metric"
                )
        ids = tuple(f"test/{i}" for i in range(len(first.values)))
        unit = max(parts, key=lambda part: float(part.values.mean())).unit  # of a mean of 0 there is nothing to tell it
        values = np.stack([part.values for part in parts])
        outcomes[key] = Outcomes(key, tuple(labels), ids, values, unit, first.digest, first.direction)
    return outcomes


def _arrays(path: Path) -> dict[str, np.ndarray]:
    if path.exists() and not path.is_file():
        raise EeveeError(f"{path}: a folder or a pipe")
    with zipfile.ZipFile(path) as archive:
        size = sum(member.file_size for member in archive.infolist())
    try:
        within(size, "bytes", f"{path}, once it is unpacked,")
    except DataError as error:
        raise EeveeError(str(error)) from None
    with np.load(path, allow_pickle=False) as arrays:
        return dict(arrays)


def _from_archive(path: Path) -> dict[str, Outcomes]:
    try:
        arrays = _arrays(path)
    except EeveeError:
        raise
    except Exception as error:  # zipfile and NumPy raise errors of every kind over broken files
        raise EeveeError(f"{path}: not an archive of arrays ({error})") from error
    names = [key for key in arrays if key != "models" and not key.endswith(".items")]
    if "models" not in arrays or not names:
        raise EeveeError(f"{path}: arrays {', '.join(arrays) or 'none'}; expected models and one for each benchmark")
    models = tuple(map(str, arrays["models"].tolist()))
    outcomes = {}
    for key in names:
        ids = arrays.get(f"{key}.items")
        if arrays[key].ndim != 2 or arrays[key].dtype.kind not in "biuf":
            raise EeveeError(
                f"{path}: {key} is {arrays[key].dtype} of shape {arrays[key].shape}; expected numbers (models, items)"
            )
        items = tuple(map(str, range(arrays[key].shape[1]))) if ids is None else tuple(map(str, ids.tolist()))
        outcomes[key] = Outcomes(key, models, items, arrays[key])
    return outcomes


@dataclass(frozen=True, eq=False)
class _Part:
    """One run's outcomes of a benchmark."""

    values: np.ndarray
    digest: str
    unit: float
    metric: str
    direction: str


def _read_run(path: Path) -> tuple[str, dict[str, _Part]]:
    """An encoder's name, and for each benchmark what it made of it (mean over seeds)."""
    try:
        name, results = read_results(path)
        seeds: dict[str, list[_Part]] = {}
        for file, result in results:
            samples, digest = path / "samples" / f"{file.stem}.npz", result.get("samples_sha256", "")
            if result["status"] != "ok" or not (digest or samples.is_file()):  # imported ones have no outcomes
                continue
            if not samples.is_file():
                raise EeveeError(f"{samples} is not there, with the outcomes of {file.name}: copy the whole run folder")
            held = _arrays(samples)
            if digest and "outcomes" in held and _digest(held["outcomes"]) != digest:
                raise EeveeError(f"{samples} does not belong to {file.name}: its digest differs")
            values = held["outcomes"].astype(np.float64) if "outcomes" in held else np.zeros((0, 2))
            if result["settings"].get("items"):
                raise EeveeError(f"{file}: holds outcomes of chosen items alone; expected a whole run")
            if len(values) != result["data"].get("test", len(values)):
                continue  # outcomes of episodes or volumes, which are no test samples
            score = result["scores"][0]
            unit = _unit(values, float(score["value"]))
            if unit:
                metric, direction = str(score.get("metric", "score")), str(score.get("direction", "higher"))
                part = _Part(values, str(result["data"].get("sha256", "")), unit, metric, direction)
                seeds.setdefault(result["name"], []).append(part)
    except EeveeError:
        raise
    except Exception as error:  # as above; and what a run's files may lack
        raise EeveeError(f"{path}: not a whole run folder ({type(error).__name__}: {error})") from error
    averaged: dict[str, _Part] = {}
    for key, parts in seeds.items():
        of = {(len(part.values), part.digest, part.metric, part.direction) for part in parts}
        if len(of) > 1:
            raise EeveeError(f"{path}: the seeds of {key} were run on different data; expected the same test set")
        averaged[key] = replace(parts[0], values=np.mean([part.values for part in parts], axis=0))
    return name, averaged


def _digest(outcomes: np.ndarray) -> str:
    """The digest that gate-runner notes of outcomes: over their type, shape and values."""
    digest = hashlib.sha256(f"{outcomes.dtype.str} {outcomes.shape}".encode())
    digest.update(np.ascontiguousarray(outcomes).tobytes())
    return digest.hexdigest()


def _unit(values: np.ndarray, score: float) -> float:
    """100 or 1 where the score is the mean outcome in that unit, 0 where outcomes are of another kind."""
    if values.ndim != 1 or not np.isfinite(values).all() or values.min() < 0 or values.max() > 1:
        return 0.0
    unit = min((100.0, 1.0), key=lambda unit: abs(values.mean() - score / unit))
    return unit if abs(values.mean() - score / unit) <= 1e-3 else 0.0
