"""A sample of one's own data before its class has a number."""

from __future__ import annotations

from typing import NamedTuple

from gate_data.readers.source import Member, Source, Turned, file_of

MISSING = "none"
"""The slice of samples that have no value."""


class Entry(NamedTuple):
    """A sample before its class has a number; a tuple, of which a million are made in half the time."""

    source: Source | tuple[Source, ...]
    target: str | float | Member | Turned
    split: str
    where: str
    text: str | tuple[str, ...] = ""
    group: str = ""
    slices: tuple[str, ...] = ()  # of columns, "" where a row has no value

    @property
    def paths(self) -> list[str]:
        """Files that have to be there."""
        sources = self.source if type(self.source) is tuple else (self.source,)
        return [file_of(source) for source in sources]  # type: ignore[arg-type]  # a plain tuple holds sources
