"""Food-101: folders of classes and two lists; training labels are noisy on purpose, the test is cleaned."""

from __future__ import annotations

from pathlib import Path

from gate_data.errors import DataError
from gate_data.original_files import Parts, Sample, from_lists
from gate_data.readers import Files, place, read_json

_EXPECTED = "food-101/images/ and food-101/meta/train.json, test.json"


def parts(folder: Path) -> Parts:
    """750 and 250 pictures of each class; a class's index is its place among the sorted names."""
    files = Files(folder / "images")
    lists = {name: read_json(folder / "meta" / f"{name}.json") for name in ("train", "test")}
    for name, listed in lists.items():
        if not isinstance(listed, dict) or not all(isinstance(own, list) for own in listed.values()):
            raise DataError(f"{folder / 'meta'}/{name}.json is no object of lists, class to pictures")
    classes = sorted(lists["train"])
    if sorted(lists["test"]) != classes:
        raise DataError(f"{folder / 'meta'}: train.json and test.json name different classes")
    train, test = (
        [
            Sample(files.get(f"{picture}.jpg", f"{folder / 'meta'}/{name}.json"), label)
            for label, food in enumerate(classes)
            for picture in listed[food]
        ]
        for name, listed in lists.items()
    )
    return Parts(train, test, classes=tuple(name.replace("_", " ") for name in classes))


ORIGINALS = from_lists(
    _EXPECTED, place(_EXPECTED, ("food-101/food-101", "food-101", "food101"), ("images", "meta/train.json")), parts
)
