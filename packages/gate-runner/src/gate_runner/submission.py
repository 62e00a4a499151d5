"""ELEVATER's submission files: written from a grid, read, checked, and scored with ELEVATER's order of classes.

One JSON a data set, with ``predictions[seed][image][class]``, six decimals; a zip holds ``all_predictions.json`` with
``{"data": [entry, …]}``. Rows follow the test index, columns ELEVATER's order of classes, which is the grid's own.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from gate_data.cards import ICINW
from gate_data.readers.limits import within
from gate_runner.axes import Variant
from gate_runner.errors import DataError
from gate_runner.files import read_arrays, write
from gate_runner.runs.folder import RunFolder
from gate_runner.runs.results import Result
from gate_runner.runs.stored import read_run
from gate_runner.tasks.elevater.record import Record, records_of

MEMBER = "all_predictions.json"
_KEYS = (
    "model_name", "dataset_name", "num_trainable_params", "num_params", "num_visual_params", "num_backbone_params",
    "n_shot", "rnd_seeds", "predictions",
)  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """One data set of a submission.

    Args:
        dataset: ELEVATER's name.
        model: what it calls the model.
        shots: 0 for zero-shot, -1 for all images.
        seeds: one for each of ``predictions``.
        predictions: ``[seeds, images, classes]``, probabilities.
        parameters: the four counts, by ELEVATER's names.
    """

    dataset: str
    model: str
    shots: int
    seeds: tuple[int, ...]
    predictions: Float[np.ndarray, "s n k"]
    parameters: Mapping[str, float] = field(default_factory=dict)

    def to_mapping(self) -> dict[str, Any]:
        """ELEVATER's fields."""
        return {
            "model_name": self.model,
            "dataset_name": self.dataset,
            **{key: self.parameters.get(key, 0) for key in _KEYS[2:6]},
            "n_shot": self.shots,
            "rnd_seeds": list(self.seeds),
            "predictions": [[[round(float(p), 6) for p in row] for row in shot_rows] for shot_rows in self.predictions],
        }


def entries_of(
    folder: Path, *, model: str, shots: int, tune: str, init: str, projection: str, knowledge: str
) -> list[Entry]:
    """The entries that a grid's run folder holds for one way to adapt."""
    variant, run = Variant(shots, tune, init, projection, knowledge), read_run(folder)
    by_set: dict[str, list[tuple[Record, Result]]] = {}
    swept = [result for result in run.results if result.task == "elevater"]
    for record, result in zip(records_of(swept), swept, strict=True):
        if record.status == "ok" and record.cell.variant == variant:
            by_set.setdefault(record.cell.dataset, []).append((record, result))
    if not by_set:
        raise DataError(f"{folder} has no results with a score of {variant.name}")
    parameters = run.manifest["identity"]["encoder"].get("parameters") or 0
    entries = []
    for dataset, pairs in by_set.items():
        stacked = np.stack([_predictions(RunFolder(folder).predictions_file(result.name, result.seed))
                            for _, result in pairs])  # fmt: skip
        trained = sum(record.trained for record, _ in pairs) / len(pairs)
        counts = {"num_trainable_params": trained, "num_params": parameters + trained, "num_visual_params": parameters,
                  "num_backbone_params": parameters}  # fmt: skip
        entries.append(Entry(dataset, model, shots, tuple(record.cell.seed for record, _ in pairs), stacked, counts))
    return entries


def _predictions(path: Path) -> np.ndarray:
    try:
        predictions = read_arrays(path)["predictions"]
    except Exception as error:  # zipfile and NumPy raise errors of every kind over broken files
        raise DataError(f"{path} is not there: the same command with --predictions keeps them") from error
    return predictions


def write_submission(entries: Sequence[Entry], path: Path) -> None:
    """Write a zip as ELEVATER's merging makes it.

    Example:
        >>> import tempfile
        >>> entry = Entry("mnist", "a model", 0, (0,), np.full((1, 2, 10), 0.1))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_submission([entry], Path(folder, "all.zip"))
        ...     [entry.dataset for entry in read_submission(Path(folder, "all.zip"), whole=False)]
        ['mnist']
    """
    for entry in entries:
        check(entry, str(path))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(MEMBER, json.dumps({"data": [entry.to_mapping() for entry in entries]}))
    write(path, buffer.getvalue())


def read_submission(path: Path, *, whole: bool = True) -> list[Entry]:
    """Read a zip, or one data set's JSON.

    Example:
        >>> import tempfile
        >>> entry = Entry("mnist", "a model", 5, (0, 1), np.full((2, 3, 10), 0.1))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "mnist.json")
        ...     _ = path.write_text(json.dumps(entry.to_mapping()))
        ...     read_submission(path)[0].predictions.shape
        (2, 3, 10)
    """
    raw = _content(path)
    listed = raw["data"] if isinstance(raw, dict) and isinstance(raw.get("data"), list) else [raw]
    entries: dict[str, Entry] = {}
    for number, line in enumerate(listed, start=1):
        entry = _entry(line, f"{path}, entry {number}")
        if entry.dataset in entries:
            raise DataError(f"{path}: data set {entry.dataset!r} comes twice")
        check(entry, str(path))
        entries[entry.dataset] = entry
    missing = [name for name in ICINW if name not in entries]
    if whole and missing and path.suffix == ".zip":
        raise DataError(f"{path} lacks {len(missing)} of {len(ICINW)} data sets: {', '.join(missing)}")
    return list(entries.values())


def _content(path: Path) -> Any:
    try:
        if path.suffix != ".zip":
            within(path.stat().st_size, "bytes", str(path))
            return json.loads(path.read_text())
        with zipfile.ZipFile(path) as file:
            names = [member.filename for member in file.infolist() if not member.is_dir()]
            if names != [MEMBER]:
                raise DataError(f"{path} holds {', '.join(names[:5]) or 'nothing'}; expected {MEMBER} alone")
            within(file.getinfo(MEMBER).file_size, "bytes", f"{path}: {MEMBER}")
            return json.loads(file.read(MEMBER))
    except DataError:
        raise
    except Exception as error:  # zipfile raises errors of every kind over broken files
        raise DataError(f"{path} is not a submission: {type(error).__name__}: {error}") from error


def _entry(raw: Any, where: str) -> Entry:
    if not isinstance(raw, dict):
        raise DataError(f"{where} is a {type(raw).__name__}, expected an object")
    missing = [key for key in _KEYS if key not in raw]
    if missing:
        raise DataError(f"{where} lacks {', '.join(missing)}")
    name = str(raw["dataset_name"])
    try:
        predictions = np.array(raw["predictions"])
        if predictions.dtype.kind not in "iuf":
            raise ValueError(f"{predictions.dtype.name} where numbers are expected")
        predictions = predictions.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(
            f"{where}, {name}: predictions are no numbers [seed][image][class] of one shape: {error}"
        ) from error
    try:
        if not isinstance(raw["rnd_seeds"], list):
            raise ValueError(f"rnd_seeds are {str(raw['rnd_seeds'])[:80]!r}, expected a list of whole numbers")
        seeds, shots = tuple(_whole("rnd_seeds", seed) for seed in raw["rnd_seeds"]), _whole("n_shot", raw["n_shot"])
        counts = {key: float(raw[key]) for key in _KEYS[2:6]}
        odd = (key for key in counts if type(raw[key]) not in (int, float) or not 0 <= counts[key] < math.inf)
        if key := next(odd, ""):
            raise ValueError(f"{key} is {str(raw[key])[:80]}, expected a number from 0")
        if not isinstance(raw["model_name"], str):
            raise ValueError(f"model_name is {str(raw['model_name'])[:80]}, expected a text")
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{where}, {name}: {error}") from error
    return Entry(name, str(raw["model_name"]), shots, seeds, predictions, counts)


def _whole(key: str, value: object) -> int:
    if type(value) is not int:
        raise ValueError(f"{key} holds {str(value)[:80]!r}, expected a whole number")
    return value


def check(entry: Entry, where: str) -> None:
    """Refuse what ELEVATER's validator refuses, and what it lets pass and cannot score."""
    name, predictions = entry.dataset, entry.predictions
    sheet = ICINW.get(name)
    if sheet is None:
        raise DataError(f"{where}: data set {name!r} is none of ELEVATER's 20: {', '.join(ICINW)}")
    if predictions.ndim != 3:
        raise DataError(f"{where}, {name}: predictions have shape {predictions.shape}, expected [seed][image][class]")
    if len(entry.seeds) != len(predictions) or len(set(entry.seeds)) != len(entry.seeds):
        raise DataError(f"{where}, {name}: seeds {list(entry.seeds)} for {len(predictions)} sets of predictions")
    if predictions.shape[2] != sheet.classes:
        raise DataError(f"{where}, {name}: {predictions.shape[2]} classes, expected {sheet.classes}")
    bad = ~np.isfinite(predictions)
    if bad.any():
        seed, image, label = (int(at) for at in np.argwhere(bad)[0])
        raise DataError(f"{where}, {name}: NaN or infinity at seed {entry.seeds[seed]}, image {image}, class {label}")
    sums = predictions.sum(2)
    off = (predictions.min(2) < 0) | (predictions.max(2) > 1) | (np.abs(sums - 1) > 1e-3)
    if off.any():
        seed, image = (int(at) for at in np.argwhere(off)[0])
        row = predictions[seed, image]
        raise DataError(
            f"{where}, {name}: row of seed {entry.seeds[seed]}, image {image} is no distribution: from {row.min():.6f} "
            f"to {row.max():.6f}, sum {row.sum():.6f}"
        )


@dataclass(frozen=True)
class EntryScore:
    """What one data set's predictions reach.

    Args:
        dataset: ELEVATER's name.
        metric: that was taken.
        values: one for each seed.
        warning: that the columns seem to be in another order, or empty.
    """

    dataset: str
    metric: str
    values: tuple[float, ...]
    warning: str = ""

    @property
    def mean(self) -> float:
        """Over seeds."""
        return math.fsum(self.values) / len(self.values)


def score_entry(entry: Entry, labels: Int[np.ndarray, n * k], classes: Sequence[str]) -> EntryScore:
    """Score an entry against the labels of the test split, in its order.

    Example:
        >>> entry = Entry("mnist", "a model", 0, (0,), np.eye(10)[None, [3, 7]])
        >>> score_entry(entry, np.array([3, 8]), [str(digit) for digit in range(10)]).mean
        0.5
    """
    import torch

    from vision_adapters.metrics import evaluate

    sheet = ICINW[entry.dataset]
    if entry.predictions.shape[1] != len(labels):
        raise DataError(
            f"{entry.dataset}: predictions for {entry.predictions.shape[1]} images, the test has {len(labels)}"
        )
    truth = torch.as_tensor(labels)

    def taken(order: Sequence[int]) -> tuple[float, ...]:
        ordered = (torch.as_tensor(scores[:, list(order)]) for scores in entry.predictions)
        return tuple(evaluate(sheet.metric, scores, truth, resamples=0).value for scores in ordered)

    values, warning = taken(range(len(classes))), ""
    for name, order in _other_orders(classes).items():
        matched = taken(order)
        if matched[0] > values[0] + 0.1 and matched[0] > 2 * values[0]:
            warning = f"columns seem to be in {name}: they would score {matched[0]:.4f} instead of {values[0]:.4f}"
    return EntryScore(entry.dataset, sheet.metric, values, warning)


def _other_orders(classes: Sequence[str]) -> dict[str, list[int]]:
    """Where our columns lie in other orders: class i's place among the names sorted as they are, or without case."""
    orders: dict[str, list[int]] = {}
    for name, key in (("alphabetical order", str), ("alphabetical order regardless of case", str.casefold)):
        names = sorted(classes, key=key)
        order = [names.index(label) for label in classes]
        if order != list(range(len(classes))) and order not in orders.values():
            orders[name] = order
    return orders
