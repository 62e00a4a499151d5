"""FGVC-Aircraft for few-shot, cut to its boxes (which takes the photographer's banner away), Meta-Dataset's classes."""

from __future__ import annotations

from pathlib import Path

from gate_data.errors import DataError
from gate_data.original_files import Parts, Sample, by_class_split, from_lists
from gate_data.readers import Cut, Files, Row, pairs, place
from gate_data.tables import read_table

_EXPECTED = "fgvc-aircraft-2013b/data/images/, images_box.txt and images_variant_train.txt, _val.txt, _test.txt"


def parts(folder: Path) -> Parts:
    """70, 15 and 15 of 100 variants."""
    boxes = {name: (line, box) for line, name, box in pairs(folder / "images_box.txt")}
    files = Files(folder / "images")
    classes: dict[str, list[Sample]] = {}
    for part in ("train", "val", "test"):
        path = folder / f"images_variant_{part}.txt"
        for line, name, variant in pairs(path):
            if name not in boxes:
                raise DataError(f"{path}, line {line}: {name} has no box in images_box.txt")
            file = files.get(f"{name}.jpg", f"{path}, line {line}")
            classes.setdefault(variant, []).append(Sample(_cut(folder, str(file), *boxes[name])))
    return by_class_split(dict(sorted(classes.items())), read_table("class_splits")["splits"]["aircraft"])


def _cut(folder: Path, file: str, line: int, box: str) -> Cut:
    """``xmin ymin xmax ymax``, the first pixel being (1, 1)."""
    names = ("xmin", "ymin", "xmax", "ymax")
    row = Row(folder / "images_box.txt", line, dict(zip(names, box.split(), strict=False)))
    left, top, right, bottom = (row.integer(name, 1) for name in names)
    return Cut(file, (left - 1, top - 1, right, bottom))


ORIGINALS = from_lists(
    _EXPECTED,
    place(_EXPECTED, ("fgvc-aircraft-2013b/data", "aircraft/data", "aircraft"), "images_box.txt"),
    parts,
    few_shot=True,
    fit="whole",
)
