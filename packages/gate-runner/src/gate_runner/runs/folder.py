"""The run folder: who computed what, one file per result, each written whole or not at all.

One file of more than 400 lines: what a folder's files hold is written and checked in one place.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from functools import partialmethod
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from gate_data.ragged import Outcomes, Ragged
from gate_runner.errors import DataError, UsageError
from gate_runner.files import inside, read_arrays
from gate_runner.runs.results import Result, samples_digest, validated
from vision_features.encoders.spec import agree
from wary_files.folders import discard, write
from wary_files.limits import refuse_special
from wary_files.locks import held

PREDICTED = "predicted_sha256"
"""In a result's ``training``: the digest of what was predicted of each sample; not there where nothing was kept."""
TESTED = "tested_sha256"
"""In a result's ``training``: the digest of test files, truths and confidences, see `runs.tested`."""
_TESTED = ("column_names", "column_values", "files", "truth", "classes", "confidence", "distributions")
_ROUNDING = 1e-5
_LARGEST = 1e15
"""Of outcomes of a sample: sums of their squares stay numbers."""
_NOT_IN_FILES = re.compile(r'[%<>:"\\|?*\x00-\x1f]')
_DEVICES = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\.|$)", re.IGNORECASE)
MANIFEST_SCHEMA = "gate-runner/manifest/3"


@dataclass(frozen=True)
class RunFolder:
    """``manifest.json``, ``results/``, ``samples/`` and, while something is computed, ``unfinished/`` and ``locks/``.

    What failed leaves its traceback in ``failures/`` until it succeeds. The folder is made with its first file. It may
    be a stranger's: no place in it may be a link, which would lead to files of the user.
    """

    path: Path

    def place(self, *names: str) -> Path:
        """Return a place in the folder; a ``StorageError`` where it is a link, or lies behind one."""
        return inside(self.path, *names)

    def _place(self, folder: str, ending: str, name: str, seed: int) -> Path:
        place = self.place(folder, f"{_stem(name, seed)}{ending}")
        earlier = f"{name.replace('/', '-')}.seed{seed}{ending}"  # as folders of 0.1 have it
        if place.name != earlier and (self.path / folder / earlier).exists():
            return self.place(folder, earlier)
        return place

    @property
    def manifest_file(self) -> Path:
        """Where identity, machine and request of the runs lie."""
        return self.place("manifest.json")

    @property
    def plan_file(self) -> Path:
        """Where a plan lies."""
        return self.place("plan.json")

    result_file = partialmethod(_place, "results", ".json")
    """Where the result of a benchmark lies."""
    samples_file = partialmethod(_place, "samples", ".npz")
    """Where its per-sample outcomes lie."""
    predictions_file = partialmethod(_place, "predictions", ".npz")
    """Where its probabilities lie, where they were to be kept."""
    failure_file = partialmethod(_place, "failures", ".txt")
    """Where the traceback of a unit that failed lies, until it succeeds."""
    encoder_folder = partialmethod(_place, "encoders", "")
    """Where the encoder lies that a unit trained, if it was to be kept."""
    head_folder = partialmethod(_place, "heads", "")
    """Where the head of a unit lies, if heads were to be kept."""
    lock_file = partialmethod(_place, "locks", ".lock")
    """The file that a process holds while it computes a unit."""
    unfinished_file = partialmethod(_place, "unfinished", ".pt")
    """Where a training that is under way keeps its state."""
    sizes_file = partialmethod(_place, "unfinished", ".json")
    """Where the smaller batches of a unit are kept that ran out of memory."""
    features_folder = partialmethod(_place, "unfinished", ".features")
    """Where the encoder's answers are kept while a unit is unfinished."""

    def working(self, name: str, seed: int, *, wait: float = 0.0) -> AbstractContextManager[None]:
        """Keep other processes from computing the same unit while a block runs."""
        return held(self.lock_file(name, seed), wait=wait)

    def finished(self, name: str, seed: int, *, recompute: bool = False) -> Result | None:
        """The result that is there, or None where it must be computed (also again, if it failed)."""
        path = self.result_file(name, seed)
        if not path.exists():
            return None
        try:
            result = Result.from_file(path)
            if (result.name, result.seed) != (name, seed):
                raise UsageError(
                    f"{path} is of {result.name} seed {result.seed}, not of {name} seed {seed}; choose another --output"
                )
            if self.manifest_file.exists():
                refuse_other_encoder(path, result, read_manifest(self.manifest_file))
            if result.status == "ok":
                self._check_samples(result)
        except DataError:
            if recompute:
                return None
            raise
        return result if result.status == "ok" else None

    def _check_samples(self, result: Result) -> None:
        path = self.samples_file(result.name, result.seed)
        if samples_digest(read_samples(path)) != result.samples_sha256:
            raise DataError(
                f"{path} does not belong to its result: its digest differs; --setting recompute=true computes it again"
            )

    def save(
        self,
        result: Result,
        samples: Outcomes | None,
        traceback: str = "",
        predicted: np.ndarray | None = None,
        probabilities: Outcomes | None = None,
        tested: Mapping[str, np.ndarray] | None = None,
    ) -> Result:
        """Write a result, and its per-sample outcomes first, so that a result is never without them."""
        if samples is not None:
            # Digests of what an earlier file held, and this one does not, go.
            training = {name: value for name, value in result.training.items() if name not in (PREDICTED, TESTED)}
            if predicted is not None:
                training[PREDICTED] = samples_digest(predicted)
            if tested:
                training[TESTED] = _rows_digest(tested)
            result = replace(result, samples_sha256=samples_digest(samples), training=training)
            write(self.samples_file(result.name, result.seed), _npz(samples, predicted, tested=tested or {}))
        if probabilities is not None:
            write(self.predictions_file(result.name, result.seed), _npz(probabilities, name="predictions"))
        failure = self.failure_file(result.name, result.seed)
        if traceback:
            write(failure, traceback.encode())
        else:
            discard(failure)
        write(self.result_file(result.name, result.seed), result.to_json().encode())
        if result.status == "ok":
            state = self.unfinished_file(result.name, result.seed)
            for path in (state, *state.parent.glob(f"{state.name}.*"), self.sizes_file(result.name, result.seed)):
                discard(path)
            discard(self.features_folder(result.name, result.seed))
        return result

    def sweep(self, name: str, seed: int) -> None:
        """Remove what a killed process left half-written of a unit; to be called while `working` on it."""
        stem = _stem(name, seed)
        for folder, pattern in (
            (self.place("results"), f".{stem}.json.*"),
            (self.place("samples"), f".{stem}.npz.*"),
            (self.place("unfinished"), f".{stem}.json.*"),
            (self.place("unfinished"), f"{stem}.pt.*.partial"),
            (self.place("unfinished", f"{stem}.features"), "*.partial"),
        ):
            for path in folder.glob(pattern):
                discard(path)

    def claim(self, identity: Mapping[str, Any], circumstances: Mapping[str, Any]) -> None:
        """Make the folder this run's, or check that it already is."""
        with held(self.place(".manifest.lock"), wait=30):
            self.check(identity)
            owner, runs = self._manifest()
            for unfinished in self.path.glob(".manifest.json.*"):
                discard(unfinished)
            stored = owner or dict(identity)  # the outputs of the first run stay: later ones must not drift
            manifest = {"schema": MANIFEST_SCHEMA, "identity": stored, "runs": [*runs, dict(circumstances)]}
            write(self.manifest_file, (json.dumps(manifest, indent=2, sort_keys=True) + "\n").encode())

    def check(self, identity: Mapping[str, Any]) -> None:
        """See whether a run may use the folder, and change nothing."""
        owner, runs = self._manifest()
        if not runs:
            return
        before, now = owner.get("outputs"), identity.get("outputs")
        for key in sorted({*owner, *identity} - {"outputs"}):
            if owner.get(key) != identity.get(key):
                first, second = _apart(owner.get(key), identity.get(key))
                if isinstance(second, Mapping) and {*second} <= {"code"}:
                    raise UsageError(
                        f"{self.path} holds a run of {identity[key].get('spec')!r} with other source files, tokenizer "
                        "or configuration (field code): choose another --output"
                    )
                raise UsageError(f"{self.path} holds a run {_otherwise(key, first, second)}; choose another --output")
        try:
            same = not (before and now) or agree(before, now)
        except (TypeError, AttributeError) as error:
            raise DataError(f"{self.path / 'manifest.json'}: field 'outputs' is {before!r:.60}, no features") from error
        if not same:
            raise UsageError(
                f"{self.path} holds a run of {identity['encoder']['spec']!r} when it gave other features for the same "
                "images or texts: its code or its weights were changed, or it draws at random; choose another --output"
            )

    def _manifest(self) -> tuple[dict[str, Any], list[Mapping[str, Any]]]:
        """Whose the folder is, and the runs that used it so far; empty where there are none."""
        path = self.manifest_file
        if not path.exists():
            if self.place("results").exists():
                raise UsageError(f"{self.path} holds results but no manifest.json; choose another --output")
            return {}, []
        manifest = read_manifest(path)
        return dict(manifest["identity"]), list(manifest["runs"])


def _otherwise(key: str, first: Any, second: Any) -> str:
    """Say what differs: a setting that is left out has no value."""
    if first is None:
        return f"without {key}, not with {key} {second!r}"
    return f"with {key} {first!r}, not {'without it' if second is None else repr(second)}"


class _Encoder(BaseModel):
    model_config = ConfigDict(extra="allow")
    spec: str
    fingerprint: str | None = None
    parameters: int | None = None
    provides: list[str] = []


class _Identity(BaseModel):
    model_config = ConfigDict(extra="allow")
    encoder: _Encoder
    tune: str = "frozen"
    recipe: str = "quick"


class _Hardware(BaseModel):
    model_config = ConfigDict(extra="allow")
    gpus: list[Any] = []


class _Circumstances(BaseModel):
    model_config = ConfigDict(extra="allow")
    command: list[str] = []
    versions: dict[str, str] = {}
    hardware: _Hardware = _Hardware()
    files: dict[str, str] = {}


class _Manifest(BaseModel):
    model_config = ConfigDict(extra="allow")
    identity: _Identity
    runs: list[_Circumstances]


def read_manifest(path: Path) -> dict[str, Any]:
    """What a manifest holds."""
    refuse_special(path)
    try:
        content = json.loads(path.read_text())
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{path} is not a manifest: {type(error).__name__}: {error}; choose another --output"
        ) from error
    validated(_Manifest, content, str(path))
    if content.get("schema", MANIFEST_SCHEMA) != MANIFEST_SCHEMA:
        raise DataError(
            f"{path}: schema is {content['schema']!r:.60}, expected {MANIFEST_SCHEMA!r}; choose another --output"
        )
    manifest: dict[str, Any] = content
    return manifest


def refuse_other_encoder(path: Path, result: Result, manifest: Mapping[str, Any]) -> None:
    """Refuse a result of another encoder than the folder's, as folders that are copied into one another hold.

    Raises:
        DataError: spec or weights differ; shows the file and both.
    """
    owner = manifest["identity"]["encoder"]
    for field in ("spec", "fingerprint"):
        first, second = owner.get(field), result.encoder.get(field)
        if None not in (first, second) and first != second:
            raise DataError(
                f"{path} is of another encoder than its folder: {field} {str(second)[:80]!r}, and {str(first)[:80]!r} "
                "in manifest.json; give each run a folder of its own"
            )


_OWN = (
    "manifest.json", "plan.json", "results", "samples", "predictions", "failures", "encoders", "heads", "unfinished",
    "locks", "slurm",
)  # fmt: skip
"""What a run folder holds of its own."""


def refuse_in_run(path: Path) -> None:
    """Refuse to write a page or table over a file of a run.

    Raises:
        UsageError: shows the path and the run.
    """
    place = path.resolve()
    for folder in place.parents:
        if place.relative_to(folder).parts[0] in _OWN and (folder / "manifest.json").is_file():
            with suppress(UsageError, OSError):
                read_manifest(folder / "manifest.json")
                break
    else:
        return
    raise UsageError(f"{path} belongs to the run {folder}; name another file, such as {folder / 'report.html'}")


def stored_plan(output: Path) -> dict[tuple[str, int], float]:
    """The seconds that a plan in a run folder expects."""
    path = RunFolder(output).plan_file
    try:
        refuse_special(path)
        units = json.loads(path.read_text())["parts"]
        expected = {(unit["name"], unit["seed"]): float(unit["seconds"]) for unit in units if not unit["reason"]}
    except (OSError, ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return {}
    return {key: seconds for key, seconds in expected.items() if 0 <= seconds < math.inf}


def portable(name: str) -> str:
    """A name as every system takes it for a file: what Windows refuses is percent-encoded, '/' is '-'.

    Example:
        >>> portable("micro/cifar10@readout=block:9"), portable("aux")
        ('micro-cifar10@readout=block%3A9', '%61ux')
    """
    encoded = _NOT_IN_FILES.sub(lambda match: f"%{ord(match.group()):02X}", name.replace("/", "-"))
    if _DEVICES.match(encoded):
        encoded = f"%{ord(encoded[0]):02X}{encoded[1:]}"
    return encoded


def _stem(name: str, seed: int) -> str:
    return f"{portable(name)}.seed{seed}"


def _apart(first: Any, second: Any) -> tuple[Any, Any]:
    """Two values, or of two mappings what differs in them."""
    if not (isinstance(first, Mapping) and isinstance(second, Mapping)):
        return first, second
    keys = [key for key in second if first.get(key) != second[key]]
    if "spec" in keys:  # another encoder: what else it is follows from that
        return first.get("spec"), second["spec"]
    return {key: first.get(key) for key in keys}, {key: second[key] for key in keys}


def _npz(
    samples: Outcomes,
    predicted: np.ndarray | None = None,
    name: str = "outcomes",
    tested: Mapping[str, np.ndarray] | None = None,
) -> bytes:
    arrays: dict[str, Any] = samples.to_arrays() if isinstance(samples, Ragged) else {name: samples}
    if predicted is not None:
        arrays["predicted"] = predicted
    arrays |= tested or {}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def read_samples(path: Path) -> Outcomes:
    """Per-sample outcomes from their file."""
    arrays = _arrays(path)
    try:
        if "outcomes" in arrays:
            _require_numbers(arrays["outcomes"])
            return arrays["outcomes"]
        return Ragged.from_arrays(arrays)
    except (KeyError, ValueError) as error:
        raise _not_outcomes(path, error) from error


def _require_numbers(outcomes: np.ndarray) -> None:
    """NaN says that a sample counts for nothing; all else that is no number is no outcome."""
    if outcomes.dtype.kind not in "biuf" or outcomes.ndim == 0:
        raise ValueError(
            f"values {outcomes.dtype} of shape {outcomes.shape}, expected a number or more for each sample"
        )
    if bool((np.abs(outcomes) > _LARGEST).any()):
        raise ValueError(f"an outcome is beyond {_LARGEST:g}")


def read_predicted(path: Path) -> np.ndarray | None:
    """What was predicted of each sample, from the file of their outcomes; None where it holds none."""
    return _arrays(path).get("predicted")


def read_tested(path: Path, expected: str) -> dict[str, np.ndarray]:
    """Read whose outcomes a file holds, see `gate_runner.runs.tested`.

    Raises:
        DataError: the digest is not ``expected``.
    """
    arrays = _arrays(path)
    rows = {name: arrays[name] for name in _TESTED if name in arrays}
    if _rows_digest(rows) != expected:
        raise DataError(f"{path} was changed after its result was written; run again with --setting recompute=true")
    _check_rows(path, rows, arrays)
    return rows


def _check_rows(path: Path, rows: Mapping[str, np.ndarray], every: Mapping[str, np.ndarray]) -> None:
    """Refuse arrays that do not fit together: a digest is no proof that gate-runner wrote them."""
    count, columns, classes = (
        sum(rows[name].shape[:1]) if name in rows else 0 for name in ("files", "column_names", "classes")
    )
    expected: dict[str, tuple[str, tuple[int, ...], float]] = {
        "files": ("U", (count,), 0),
        "classes": ("U", (classes,), 0),
        "column_names": ("U", (columns,), 0),
        "column_values": ("U", (columns, count), 0),
        "truth": ("iu", (count,), classes - 1),
        "confidence": ("f", (count,), 1),
        "distributions": ("f", (count, classes), 1),
    }
    arrays = dict(rows)
    if "predicted" in every and "truth" in rows:
        arrays["predicted"], expected["predicted"] = every["predicted"], expected["truth"]
    if "outcomes" in every and every["outcomes"].shape[:1] != (count,):
        outcomes = sum(every["outcomes"].shape[:1])
        raise DataError(f"{path}: {outcomes} outcomes for {count} files; run again with --setting recompute=true")
    for name, values in arrays.items():
        kinds, shape, most = expected[name]
        is_right = values.dtype.kind in kinds and values.shape == shape
        if is_right and kinds != "U":
            is_right = bool(((values >= 0) & (values <= most + _ROUNDING)).all())
        if not is_right:
            raise DataError(
                f"{path}: array {name!r} is {values.dtype} of shape {values.shape} or has values that there are not, "
                f"for {count} files and {classes} classes; run again with --setting recompute=true"
            )


def _rows_digest(rows: Mapping[str, np.ndarray]) -> str:
    every = "".join(f"{name} {samples_digest(rows[name])}\n" for name in sorted(rows))
    return hashlib.sha256(every.encode()).hexdigest()


def _arrays(path: Path) -> dict[str, np.ndarray]:
    try:
        return read_arrays(path)
    except DataError:
        raise
    except Exception as error:  # zipfile and NumPy raise errors of every kind over broken files
        raise _not_outcomes(path, error) from error


def _not_outcomes(path: Path, error: Exception) -> DataError:
    return DataError(
        f"{path} does not hold per-sample outcomes: {type(error).__name__}: {error}; run again with "
        "--setting recompute=true"
    )
