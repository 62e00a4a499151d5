"""FGVCx Fungi 2018 for few-shot, with Meta-Dataset's classes; several categories share a name."""

from __future__ import annotations

from pathlib import Path

from gate_data.errors import DataError
from gate_data.original_files import Parts, Sample, by_class_split, from_lists
from gate_data.readers import Files, Row, place, records
from gate_data.tables import read_table

_EXPECTED = "fungi/images/, train.json and val.json"


def parts(folder: Path) -> Parts:
    """994, 200 and 200 categories; the pictures of both lists are pooled."""
    names = {row.integer("id"): f"{row.integer('id'):04}.{row.text('name')}" for row in _both(folder, "categories")}
    classes: dict[str, list[Sample]] = {names[number]: [] for number in sorted(names)}
    files = Files(folder)
    for path in (folder / "train.json", folder / "val.json"):
        images = {row.integer("id"): row for row in records(path, "images")}
        for row in records(path, "annotations"):
            image, label = row.integer("image_id"), row.integer("category_id")
            if image not in images:
                raise row.error("image_id", "the id of an image of this file")
            if label not in names:
                raise row.error("category_id", "the id of a category of this file")
            classes[names[label]].append(Sample(files.get(images[image].text("file_name"), images[image].where)))
    held = read_table("class_splits")["splits"]["fungi"]
    missing = [number for part in ("validation", "test") for number in held[part] if number not in names]
    if missing:
        raise DataError(f"{folder / 'train.json'} has no category {missing[0]}; expected 0 to 1393")
    return by_class_split(
        {name: own for name, own in classes.items() if own},
        {part: [names[number] for number in held[part]] for part in ("validation", "test")},
    )


def _both(folder: Path, field: str) -> list[Row]:
    return [row for name in ("train.json", "val.json") for row in records(folder / name, field)]


ORIGINALS = from_lists(
    _EXPECTED, place(_EXPECTED, ("fungi", "fgvcx_fungi", "fungi_train_val"), "train.json"), parts, few_shot=True
)
