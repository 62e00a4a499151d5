"""One pair of a benchmark: two pictures, two captions, where they came from, and what makes the pair minimal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any

#: EqBen's five, the micro world, and "own" for pairs of a builder that is not of this package.
SUBSETS: tuple[str, ...] = ("ag", "gebc", "youcook2", "kubric", "sd", "micro", "own")
_TEXTS = ("id", "aspect", "caption0", "caption1", "licence")
_PICTURES = ("image0", "image1")
_MAPPINGS = ("source", "certificate")


@dataclass(frozen=True)
class PairRecord:
    """One row of `pairs.jsonl`.

    Args:
        id: Unique in its folder, such as "kubric-000012".
        subset: One of `SUBSETS`.
        aspect: What changes, such as "attribute"; the subset's own name where it has one aspect only.
        image0: Path of the first picture, relative to the folder, with forward slashes.
        image1: Path of the second.
        caption0: True of the first picture, false of the second.
        caption1: The reverse.
        source: JSON-ready: video and times, or seed and scene graphs, or prompts; whatever makes the pair again.
        certificate: JSON-ready: what was checked, with the figures.
        licence: Of the pictures and captions, as an SPDX name where there is one.

    Raises:
        ValueError: The field and its value: an empty text, an unknown subset, a path that leads out of the folder, two
            captions or two pictures that are the same.

    Example:
        >>> record = PairRecord("micro-000000", "micro", "count", "a.png", "b.png", "one star", "two stars")
        >>> PairRecord.from_dict(record.to_dict()) == record
        True
    """

    id: str
    subset: str
    aspect: str
    image0: str
    image1: str
    caption0: str
    caption1: str
    source: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    certificate: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    licence: str = "CC-BY-4.0"

    def __post_init__(self) -> None:
        for name in (*_TEXTS, *_PICTURES):
            value = getattr(self, name)
            if not isinstance(value, str) or not value.strip():
                raise ValueError(f"field {name!r} should be a text that is not empty, found {value!r}")
        if self.subset not in SUBSETS:
            raise ValueError(f"field 'subset' is {self.subset!r}, expected one of {', '.join(SUBSETS)}")
        for name in _PICTURES:
            path = PurePosixPath(getattr(self, name))
            if path.is_absolute() or ".." in path.parts or "\\" in str(path) or ":" in path.parts[0]:
                raise ValueError(f"field {name!r} leads out of the folder: {getattr(self, name)!r}")
        for name in _MAPPINGS:
            if not isinstance(getattr(self, name), Mapping):
                raise ValueError(f"field {name!r} should be an object, found {getattr(self, name)!r}")
        if self.image0 == self.image1:
            raise ValueError(f"fields 'image0' and 'image1' are the same: {self.image0!r}")
        if " ".join(self.caption0.split()).lower() == " ".join(self.caption1.split()).lower():
            raise ValueError(f"fields 'caption0' and 'caption1' say the same: {self.caption0!r}")

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON-ready values, fields in the order of the class."""
        row = {column.name: getattr(self, column.name) for column in fields(self)}
        return row | {name: dict(row[name]) for name in _MAPPINGS}

    @classmethod
    def from_dict(cls, row: object, *, where: str = "record") -> PairRecord:
        """Read what `to_dict` wrote.

        Args:
            row: One parsed JSON object.
            where: File and line, for the message.

        Raises:
            ValueError: `where`, and the field that is missing, unknown or wrong, with its value.
        """
        if not isinstance(row, dict):
            raise ValueError(f"{where}: expected an object, found {type(row).__name__}")
        names = [column.name for column in fields(cls)]
        for name in names:
            if name not in row:
                raise ValueError(f"{where}: field {name!r} is missing")
        unknown = sorted(map(str, set(row) - set(names)))
        if unknown:
            raise ValueError(f"{where}: unknown field {unknown[0]!r}, expected {', '.join(names)}")
        try:
            return cls(**row)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from error
