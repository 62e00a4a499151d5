"""What an export is made of, before and after it is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


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
