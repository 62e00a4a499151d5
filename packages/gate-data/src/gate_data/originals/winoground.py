"""Winoground: two pictures and two captions of the same words in another order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gate_data.cards.sheet import Hub
from gate_data.errors import DataError
from gate_data.hub.tables import Tables, picture
from gate_data.original_files import Parts, Sample, from_lists
from gate_data.readers import Row, Source, by_stem, place, table

_EXPECTED = "winoground/examples.jsonl and images/ (or images.zip)"


def parts(folder: Path) -> Parts:
    """All 400 are scored; nothing is trained."""
    pictures = by_stem([folder / "images", folder / "images.zip"])
    rows = list(table(folder / "examples.jsonl", ["image_0", "image_1", "caption_0", "caption_1"]))
    kinds = _kinds(rows)
    samples = []
    for row in rows:
        for field in ("image_0", "image_1"):
            if Path(row.text(field)).stem not in pictures:
                raise DataError(f"{row.where}: {row.text(field)} is not there")
        pair = tuple(pictures[Path(row.text(field)).stem] for field in ("image_0", "image_1"))
        samples.append(_item(row, pair, kinds))
    return Parts([], samples, [], tuple(kinds))


def of_rows(tables: Tables, hub: Hub, count: int) -> Parts:
    """The hub's one split of 400 items."""
    del hub, count
    rows = tables["test"].rows
    kinds = _kinds(rows)
    fields = ("image_0", "image_1")
    samples = [_item(row, tuple(picture(row, field) for field in fields), kinds) for row in rows]
    return Parts([], samples, [], tuple(kinds))


def _kinds(rows: Sequence[Row]) -> list[str]:
    return sorted({str(row.values.get("collapsed_tag") or "all") for row in rows})


def _item(row: Row, pair: tuple[Source, ...], kinds: Sequence[str]) -> Sample:
    kind = kinds.index(str(row.values.get("collapsed_tag") or "all"))
    return Sample(pair, kind, (row.text("caption_0"), row.text("caption_1")))


ORIGINALS = from_lists(
    _EXPECTED, place(_EXPECTED, ("winoground",), "examples.jsonl"), parts, fit="whole", trained=False
)
