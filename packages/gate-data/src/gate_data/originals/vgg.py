"""VGG Flowers for few-shot, with Meta-Dataset's classes; the archive numbers them and does not name them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gate_data.errors import DataError
from gate_data.original_files import Parts, Sample, by_class_split, from_lists
from gate_data.readers import Files, files_in, place
from gate_data.readers.arrays import read_matlab
from gate_data.tables import read_table

_EXPECTED = "flowers-102/jpg/image_00001.jpg … and imagelabels.mat"


def parts(folder: Path) -> Parts:
    """71, 15 and 16 of 102 classes; label i, from 1, is that of picture i."""
    path = folder / "imagelabels.mat"
    labels = np.asarray(read_matlab(str(path), "labels")).ravel()
    count = len(files_in(folder / "jpg", (".jpg",)))
    if len(labels) < count or labels.min() < 1 or labels.max() > 102:
        raise DataError(
            f"{path} has {len(labels)} labels from {labels.min()} to {labels.max()}, expected {count} from 1 to 102"
        )
    files = Files(folder / "jpg")
    classes: dict[str, list[Sample]] = {f"flower {number:03}": [] for number in range(1, 103)}
    for number, label in enumerate(labels, start=1):
        file = files.get(f"image_{number:05}.jpg", f"{path}, label {number}")
        classes[f"flower {int(label):03}"].append(Sample(file))
    held = read_table("class_splits")["splits"]["vgg"]
    return by_class_split(
        classes, {part: [f"flower {number:03}" for number in held[part]] for part in ("validation", "test")}
    )


ORIGINALS = from_lists(
    _EXPECTED, place(_EXPECTED, ("flowers-102", "vgg", "102flowers"), ("jpg", "imagelabels.mat")), parts, few_shot=True
)
