"""Outcomes of models on the single items of benchmarks: from run folders, an archive of arrays, or in memory."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from eevee.errors import EeveeError
from eevee.tables.record import read_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float

FEWEST_MODELS = 5
FEWEST_ITEMS = 20


@dataclass(frozen=True, eq=False)
class Outcomes:
    """What each model made of each item of one benchmark.

    Args:
        benchmark: its id.
        models: ids, unique, at least five.
        items: ids, unique, at least twenty.
        values: floats of shape (models, items) in 0 to 1: right or wrong, or a share; NaN where not measured.
        unit: what a score of 1 is called: 1, or 100 for percent.
        digest: of the data, so that items are taken from that very test set; "" where unknown.

    Raises:
        EeveeError: shapes that do not fit, ids that repeat, too few of them, values outside 0 to 1, or all equal; the
            message shows it.

    Example:
        >>> values = (np.arange(150).reshape(5, 30) % 7 > 2).astype(float)
        >>> toy = Outcomes("toy", tuple("abcde"), tuple(map(str, range(30))), values)
        >>> toy.scores().round(2).tolist()
        [0.53, 0.57, 0.6, 0.57, 0.53]
    """

    benchmark: str
    models: tuple[str, ...]
    items: tuple[str, ...]
    values: Float[np.ndarray, "models items"]
    unit: float = 1.0
    digest: str = ""

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=np.float64)
        values.setflags(write=False)
        object.__setattr__(self, "values", values)
        where = f"benchmark {self.benchmark!r}"
        if values.shape != (len(self.models), len(self.items)):
            raise EeveeError(
                f"{where}: outcomes have the shape {values.shape}; expected {(len(self.models), len(self.items))} "
                f"(models, items)"
            )
        for kind, ids, least in (("models", self.models, FEWEST_MODELS), ("items", self.items, FEWEST_ITEMS)):
            if len(ids) < least:
                raise EeveeError(f"{where}: {len(ids)} {kind}; expected at least {least}")
            if len(set(ids)) < len(ids):
                twice = next(key for key in ids if ids.count(key) > 1)
                raise EeveeError(f"{where}: {kind[:-1]} {twice!r} appears twice; ids must be unique")
        with np.errstate(invalid="ignore"):
            wrong = (values < 0) | (values > 1)
        if wrong.any():
            row, column = (int(i) for i in np.argwhere(wrong)[0])
            raise EeveeError(
                f"{where}, model {self.models[row]!r}, item {self.items[column]!r}: outcome {values[row, column]:g}; "
                f"expected a number from 0 to 1"
            )
        for kind, ids, axis in (("model", self.models, 1), ("item", self.items, 0)):
            empty = np.isnan(values).all(axis=axis)
            if empty.any():
                raise EeveeError(f"{where}: {kind} {ids[int(np.argmax(empty))]!r} has no outcome at all; leave it out")
        if np.nanmax(values) == np.nanmin(values):
            raise EeveeError(f"{where}: all outcomes are {np.nanmax(values):g}; there is nothing to tell models apart")

    def scores(self) -> Float[np.ndarray, " models"]:
        """Mean over items of each model, 0 to 1."""
        return np.asarray(np.nanmean(self.values, axis=1))


def read_outcomes(sources: Sequence[str | Path]) -> dict[str, Outcomes]:
    """Outcomes by benchmark from run folders of gate-runner, or from one `.npz` archive.

    Args:
        sources: folders that `gate-runner run` wrote, one for each model (several seeds of one are averaged); or one
            archive with, for each benchmark, an array `BENCHMARK` (models, items) and optionally `BENCHMARK.items`, and
            an array `models` of names.

    Returns:
        For each benchmark with outcomes that are numbers from 0 to 1 for single items; what else a folder holds (masks,
        pairs of pairs) has no such items and is left out.

    Raises:
        EeveeError: what cannot be read, models that were run on different data, or no benchmark that all have; the
            message names file and benchmark.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "outcomes.npz"
        >>> values = (np.arange(150).reshape(5, 30) % 7 > 2).astype(float)
        >>> np.savez(path, models=np.array(list("abcde")), toy=values)
        >>> read_outcomes([path])["toy"].models
        ('a', 'b', 'c', 'd', 'e')
    """
    paths = [Path(source) for source in sources]
    if len(paths) == 1 and paths[0].is_file():
        return _from_archive(paths[0])
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
        for path, part in zip(paths, parts, strict=True):
            if part[1] != parts[0][1] or len(part[0]) != len(parts[0][0]):
                raise EeveeError(f"{path}: {key} was run on other data than in {paths[0]}; expected the same test set")
        ids = tuple(f"test/{i}" for i in range(len(parts[0][0])))
        outcomes[key] = Outcomes(
            key, tuple(labels), ids, np.stack([part[0] for part in parts]), parts[0][2], parts[0][1]
        )
    return outcomes


_MOST = 1 << 30
"""Bytes of a file of arrays once it is unpacked: a few kilobytes may stand for any number."""


def _arrays(path: Path) -> dict[str, np.ndarray]:
    if path.exists() and not path.is_file():
        raise EeveeError(f"{path}: a folder or a pipe")
    with zipfile.ZipFile(path) as archive:
        size = sum(member.file_size for member in archive.infolist())
    if size > _MOST:
        raise EeveeError(f"{path}: {size:,} bytes once it is unpacked, more than {_MOST:,}")
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


def _read_run(path: Path) -> tuple[str, dict[str, tuple[np.ndarray, str, float]]]:
    """An encoder's name, and for each benchmark its outcomes (mean over seeds), the data's digest, and the unit."""
    if not (path / "manifest.json").is_file():
        raise EeveeError(f"{path}: holds no manifest.json; expected a folder that 'gate-runner run' wrote")
    try:
        name = str(read_json(path / "manifest.json")["identity"]["encoder"]["spec"])
        seeds: dict[str, list[tuple[np.ndarray, str, float]]] = {}
        for file in sorted((path / "results").glob("*.json")):
            result = read_json(file)
            samples = path / "samples" / f"{file.stem}.npz"
            if result["status"] != "ok" or not samples.is_file():
                continue
            held = _arrays(samples)
            values = held["outcomes"].astype(np.float64) if "outcomes" in held else np.zeros((0, 2))
            if result["settings"].get("items"):
                raise EeveeError(f"{file}: holds outcomes of chosen items alone; expected a whole run")
            if len(values) != result["data"].get("test", len(values)):
                continue  # outcomes of episodes or volumes, which are no test samples
            score = float(result["scores"][0]["value"])
            unit = _unit(values, score)
            if unit:
                seeds.setdefault(result["name"], []).append((values, str(result["data"].get("sha256", "")), unit))
    except EeveeError:
        raise
    except Exception as error:  # as above; and what a run's files may lack
        raise EeveeError(f"{path}: not a whole run folder ({type(error).__name__}: {error})") from error
    averaged = {}
    for key, parts in seeds.items():
        if any(len(part[0]) != len(parts[0][0]) or part[1] != parts[0][1] for part in parts):
            raise EeveeError(f"{path}: the seeds of {key} were run on different data; expected the same test set")
        averaged[key] = (np.mean([part[0] for part in parts], axis=0), parts[0][1], parts[0][2])
    return name, averaged


def _unit(values: np.ndarray, score: float) -> float:
    """100 or 1 where the score is the mean outcome in that unit, 0 where outcomes are of another kind."""
    if values.ndim != 1 or not np.isfinite(values).all() or values.min() < 0 or values.max() > 1:
        return 0.0
    for unit in (100.0, 1.0):
        if abs(values.mean() * unit - score) <= 1e-3 * unit:
            return unit
    return 0.0
