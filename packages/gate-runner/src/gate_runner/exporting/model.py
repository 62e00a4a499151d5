"""What an export is made of: the model's name, benchmarks' names, and texts by path."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from gate_runner.errors import UsageError
from gate_runner.runs.stored import StoredRun


def published(name: str, source: str) -> str:
    """A benchmark's name where others read it: one of one's own cannot pass for a public one."""
    return f"own/{name}" if source == "file" else name


@dataclass(frozen=True)
class Files:
    """What a form makes of a run: texts or bytes by path below the output folder, and what it has no room for."""

    contents: Mapping[str, str | bytes]
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class Exported:
    """What an export wrote: paths in order, and sentences on what the form has no room for."""

    files: tuple[Path, ...]
    left_out: tuple[str, ...]


class ModelName(NamedTuple):
    """A name as model hubs write it: who made the model, or the library that holds it, and its own name."""

    developer: str
    name: str

    @property
    def id(self) -> str:
        """``developer/name``."""
        return f"{self.developer}/{self.name}"


def model_name(run: StoredRun, identity: str | None = None) -> ModelName:
    """The name to export a run under, both parts of letters that a file name may have.

    It is the given ``DEVELOPER/NAME``, or derived from the encoder's spec: an ``hf:`` id as it is; else the part before
    the colon as the developer, and the rest as the name.
    """
    if identity is not None:
        developer, slash, name = identity.partition("/")
        if not (slash and _clean(developer) == developer and _clean(name) == name and developer and name):
            raise UsageError(f"model id {identity!r}: expected DEVELOPER/NAME of letters, digits, '.', '_' and '-'")
        return ModelName(developer, name)
    source, colon, path = run.encoder.partition(":")
    if source == "hf" and path.count("/") == 1 and not path.startswith((".", "/", "~")):
        developer, _, name = path.partition("/")
        return ModelName(_clean(developer), _clean(name))
    if not colon or "/" in source:
        return ModelName("gate-runner", _clean(run.encoder))
    return ModelName(_clean(source), _clean(path))


def _clean(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.") or "unnamed"
