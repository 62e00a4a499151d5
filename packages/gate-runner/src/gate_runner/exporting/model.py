"""What other tools call the encoder of a run: an organisation and a name."""

from __future__ import annotations

import re
from typing import NamedTuple

from gate_runner.errors import UsageError
from gate_runner.runs.stored import StoredRun


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
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.")
