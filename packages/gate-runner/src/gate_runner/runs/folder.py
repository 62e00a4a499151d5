"""The run folder: who computed what, one file per result, each written whole or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gate_runner.errors import DataError, UsageError
from gate_runner.runs.results import Result

MANIFEST_SCHEMA = "gate-runner/manifest/1"


@dataclass(frozen=True)
class RunFolder:
    """A folder that holds ``manifest.json``, ``results/``, ``samples/`` and, while a training runs, ``unfinished/``.

    Args:
        path: the folder; it is made when the first file is written.
    """

    path: Path

    def result_file(self, name: str, seed: int) -> Path:
        """Where the result of a benchmark lies.

        Example:
            >>> RunFolder(Path("r")).result_file("micro/mini", 0).as_posix()
            'r/results/micro-mini.seed0.json'
        """
        return self.path / "results" / f"{_stem(name, seed)}.json"

    def samples_file(self, name: str, seed: int) -> Path:
        """Where its per-sample outcomes lie."""
        return self.path / "samples" / f"{_stem(name, seed)}.npz"

    def unfinished_file(self, name: str, seed: int) -> Path:
        """Where a training that is under way keeps its state."""
        return self.path / "unfinished" / f"{_stem(name, seed)}.pt"

    def finished(self, name: str, seed: int) -> Result | None:
        """The result that is there, or None where it must be computed (also again, if it failed).

        Raises:
            DataError: a file that is there cannot be read.
        """
        path = self.result_file(name, seed)
        if not path.exists():
            return None
        result = Result.from_file(path)
        return result if result.status == "ok" else None

    def save(self, result: Result, samples: np.ndarray | None) -> None:
        """Write a result, and its per-sample outcomes first, so that a result is never without them."""
        if samples is not None:
            _write(self.samples_file(result.name, result.seed), _npz(samples))
        _write(self.result_file(result.name, result.seed), result.to_json().encode())
        self.unfinished_file(result.name, result.seed).unlink(missing_ok=True)

    def claim(self, identity: Mapping[str, Any], circumstances: Mapping[str, Any]) -> None:
        """Make the folder this run's, or check that it already is.

        Args:
            identity: what must not differ between runs that share a folder: encoder, limit, versions of the schema.
            circumstances: what may: machine, versions, time, the command.

        Raises:
            UsageError: the folder belongs to another run; the message says what differs. Nothing is changed.
            DataError: the manifest cannot be read.
        """
        path = self.path / "manifest.json"
        runs: list[Mapping[str, Any]] = []
        if path.exists():
            try:
                found = json.loads(path.read_text())
                theirs, runs = found["identity"], found["runs"]
            except (json.JSONDecodeError, KeyError, TypeError, UnicodeDecodeError) as error:
                raise DataError(f"{path} is not a manifest: {error!r}; choose another --output") from error
            for key in sorted({*theirs, *identity}):
                if theirs.get(key) != identity.get(key):
                    raise UsageError(
                        f"{self.path} holds a run with {key} {theirs.get(key)!r}, not {identity.get(key)!r}; "
                        "choose another --output"
                    )
        elif (self.path / "results").exists():
            raise UsageError(f"{self.path} holds results but no manifest.json; choose another --output")
        manifest = {"schema": MANIFEST_SCHEMA, "identity": dict(identity), "runs": [*runs, dict(circumstances)]}
        _write(path, (json.dumps(manifest, indent=2, sort_keys=True) + "\n").encode())


def _stem(name: str, seed: int) -> str:
    return f"{name.replace('/', '-')}.seed{seed}"


def _npz(samples: np.ndarray) -> bytes:
    import io

    buffer = io.BytesIO()
    np.savez_compressed(buffer, outcomes=samples)
    return buffer.getvalue()


def _write(path: Path, content: bytes) -> None:
    """Write to a file beside it and rename, so that a reader sees the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
