"""Describable Textures for few-shot, with Meta-Dataset's classes."""

from __future__ import annotations

from pathlib import Path

from gate_data.original_files import Parts, Sample, by_class_split, from_lists
from gate_data.readers import files_of_classes, place
from gate_data.tables import read_table

_EXPECTED = "dtd/images/banded/ …"


def parts(folder: Path) -> Parts:
    """33, 7 and 7 of 47 classes with 120 pictures each."""
    classes = files_of_classes(folder / "images", (".jpg",))  # one class holds a stray .directory file
    held = read_table("class_splits")["splits"]["dtextures"]
    return by_class_split({name: [Sample(file) for file in files] for name, files in classes.items()}, held)


ORIGINALS = from_lists(_EXPECTED, place(_EXPECTED, ("dtd/dtd", "dtd"), "images/banded"), parts, few_shot=True)
