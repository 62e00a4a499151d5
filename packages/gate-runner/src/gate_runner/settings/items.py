"""The test samples that `eevee items` chose, as a run's settings carry them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gate_runner.errors import DataError, UsageError

if TYPE_CHECKING:
    from eevee.items.subset import BenchmarkItems, ItemChoice


ADAPTIVE = "adaptive"
"""In place of a file: by blocks, without knowing anything of the items before."""


@dataclass(frozen=True)
class ChosenItems:
    """A file of `eevee items` with all that it says; runs that share its digest scored the same samples."""

    path: str
    digest: str
    content: Mapping[str, Any]

    def __str__(self) -> str:
        """The path, as the command line takes it."""
        return self.path

    @property
    def names(self) -> tuple[str, ...]:
        """The benchmarks that it chose samples of, by their names in reports."""
        return tuple(self.content["benchmarks"])

    def of(self, name: str) -> BenchmarkItems | None:
        """What was chosen of a benchmark; None where nothing was."""
        return self._read().benchmarks.get(name)

    @property
    def adaptive(self) -> bool:
        """Whether samples are asked by blocks until the score is known, with a bank of items or without."""
        return any(chosen["method"] == ADAPTIVE for chosen in self.content["benchmarks"].values()) or not self.names

    @property
    def level(self) -> float:
        """Share of new encoders that the intervals are meant to hold for."""
        return self._read().level

    def _read(self) -> ItemChoice:
        from eevee import ItemChoice

        return ItemChoice.from_mapping(self.content, self.path)


def items_in(value: str | PathLike[str] | Mapping[str, Any] | ChosenItems | None) -> ChosenItems | None:
    """Chosen items from their file."""
    if value is None or isinstance(value, ChosenItems):
        return value
    if isinstance(value, Mapping):
        return ChosenItems(**value)
    if str(value) == ADAPTIVE:
        return ChosenItems(ADAPTIVE, ADAPTIVE, {"result": "ItemChoice", "level": 0.9, "seed": 0, "benchmarks": {}})
    from eevee import EeveeError, read_items

    try:
        choice = read_items(Path(value))
    except EeveeError as error:
        raise DataError(f"--items: {error}") from None
    for name, chosen in choice.benchmarks.items():
        wrong = next((key for key in chosen.items if (place := place_of(key)) is None or place >= chosen.total), None)
        if wrong is not None or not chosen.digest:
            raise UsageError(
                f"--items: {value}: {name} has {'item ' + repr(wrong) if wrong else 'no digest of its data'}; expected "
                f"test/0, test/1, ... of {chosen.total} of known data: choose them from run folders of gate-runner"
            )
    content = json.loads(Path(value).read_text(encoding="utf-8"))
    digest = hashlib.sha256(json.dumps(content["benchmarks"], sort_keys=True).encode()).hexdigest()
    return ChosenItems(str(value), digest[:16], content)


def place_of(key: str) -> int | None:
    """The position in the test split that an item's id (``test/12``) says, or None."""
    split, _, number = key.partition("/")
    return int(number) if split == "test" and re.fullmatch("0|[1-9][0-9]{0,17}", number) else None
