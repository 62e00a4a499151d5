"""Winoground: two pictures and two captions of the same words in another order."""

from __future__ import annotations

from pathlib import Path

from gate_runner.benchmarks.original_files import Parts, Sample, from_lists
from gate_runner.errors import DataError
from gate_runner.readers import by_stem, place, table

_EXPECTED = "winoground/examples.jsonl and images/ (or images.zip)"


def parts(folder: Path) -> Parts:
    """All 400 are scored; nothing is trained."""
    pictures = by_stem([folder / "images", folder / "images.zip"])
    rows = list(table(folder / "examples.jsonl", ["image_0", "image_1", "caption_0", "caption_1"]))
    kinds = sorted({str(row.values.get("collapsed_tag") or "all") for row in rows})
    found = []
    for row in rows:
        for field in ("image_0", "image_1"):
            if Path(row.text(field)).stem not in pictures:
                raise DataError(f"{row.where}: {row.text(field)} is not there")
        both = tuple(pictures[Path(row.text(field)).stem] for field in ("image_0", "image_1"))
        kind = kinds.index(str(row.values.get("collapsed_tag") or "all"))
        found.append(Sample(both, kind, (row.text("caption_0"), row.text("caption_1"))))
    return Parts([], found, [], tuple(kinds))


ORIGINALS = from_lists(
    _EXPECTED, place(_EXPECTED, ("winoground",), "examples.jsonl"), parts, fit="whole", trained=False
)
