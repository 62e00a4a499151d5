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
    """A benchmark's name where others read it.

    Example:
        >>> published("birds", "file"), published("cifar100", "local")
        ('own/birds', 'cifar100')
    """
    return f"own/{name}" if source == "file" else name


@dataclass(frozen=True)
class Files:
    """What a form makes of a run.

    Args:
        contents: texts by path below the output folder.
        left_out: what the form has no room for, a sentence each.
    """

    contents: Mapping[str, str]
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class Exported:
    """What an export wrote.

    Args:
        files: paths, in order.
        left_out: what the form has no room for, a sentence each.

    Example:
        >>> Exported((Path("card.md"),), ("intervals of seeds: the form has no room for them",)).files[0].name
        'card.md'
    """

    files: tuple[Path, ...]
    left_out: tuple[str, ...]


class ModelName(NamedTuple):
    """A name as model hubs write it.

    Args:
        developer: who made the model, or the library that holds it.
        name: of the model.

    Example:
        >>> ModelName("openai", "clip-vit-base-patch32").id
        'openai/clip-vit-base-patch32'
    """

    developer: str
    name: str

    @property
    def id(self) -> str:
        """``developer/name``."""
        return f"{self.developer}/{self.name}"


def model_name(run: StoredRun, identity: str | None = None) -> ModelName:
    """The name to export a run under.

    Args:
        run: a run.
        identity: ``developer/name``, or None to derive it from the encoder's spec: an ``hf:`` id as it is; else the
            part before the colon as the developer, and the rest as the name.

    Returns:
        Both parts, which hold nothing that a file name could not.

    Raises:
        UsageError: the identity is not of two parts; the message shows it.

    Example:
        >>> from pathlib import Path
        >>> run = StoredRun(Path("r"), "", (), {"identity": {"encoder": {"spec": "timm:resnet18/random:1"}}})
        >>> model_name(run).id, model_name(run, "mylab/clip").id
        ('timm/resnet18-random-1', 'mylab/clip')
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
