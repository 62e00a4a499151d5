"""A page of near copies: each group's images beside one another, those across splits first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from gate_data.errors import DataError
from gate_data.near_splits import NearSplits
from gate_data.readers.decode import decode
from gate_data.readers.source import Source, described
from gate_runner.charts.markup import Section, document, joined, note, piece
from gate_runner.reports.pictures import Example, encoded

if TYPE_CHECKING:
    from collections.abc import Sequence

_SIDE = 128
_GROUPS, _IMAGES = 200, 12
"""Groups of a data set, and images of a group, that are shown."""


def near_page(copies: Mapping[str, NearSplits]) -> str:
    """Return a page of the groups of near copies of each data set."""
    sections = [Section(name, name, _groups(of_set)) for name, of_set in copies.items()]
    total = sum(len(of_set.groups) for of_set in copies.values())
    leaked = sum(len(of_set.leaked) for of_set in copies.values())
    lede = f"{total:,} groups; {leaked:,} test images have a near copy that is trained or validated on."
    return document("Near copies", lede, sections=sections)


def _groups(copies: NearSplits) -> str:
    crossing = copies.crossing
    ordered = [*crossing, *(group for group in copies.groups if group not in crossing)]
    parts = [note(f"{len(copies.groups):,} groups among {copies.compared:,} images, {len(crossing):,} across splits.")]
    parts += [piece("pictures", _examples(group)) for group in ordered[:_GROUPS]]
    if len(ordered) > _GROUPS:
        parts.append(note(f"{len(ordered) - _GROUPS:,} further groups are not drawn; --json lists them."))
    return joined(parts)


def _examples(group: Sequence[tuple[str, Source]]) -> list[Example]:
    shown = []
    for split, source in group[:_IMAGES]:
        try:
            image = decode(source, _SIDE)
        except DataError:
            continue
        image.thumbnail((_SIDE, _SIDE))
        shown.append(Example(*encoded(np.asarray(image)), 0, f"{split}: {described(source)}", "", ""))
    return shown
