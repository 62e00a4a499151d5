"""NIH ChestX-ray14 with the five findings that the paper's table calls CheXpert's."""

from __future__ import annotations

from pathlib import Path

from gate_data.errors import DataError
from gate_data.original_files import Parts, Sample, from_lists
from gate_data.readers import by_stem, lines, place, table

_EXPECTED = "nih/images_001/images/ … or images/, Data_Entry_2017_v2020.csv, train_val_list.txt and test_list.txt"
_CLASSES = ("Cardiomegaly", "Mass", "Nodule", "Pneumothorax", "Edema")
_ENTRIES = ("Data_Entry_2017_v2020.csv", "Data_Entry_2017.csv")
_SPLITS = {"train": "train_val_list.txt", "test": "test_list.txt"}


def parts(folder: Path) -> Parts:
    """Pictures with at least one of the five; the official lists, whose patients are disjoint."""
    entries = next((folder / name for name in _ENTRIES if (folder / name).is_file()), folder / _ENTRIES[0])
    pictures = by_stem([folder / "images", *(folder / f"images_{part:03}" / "images" for part in range(1, 13))])
    files_by_name = {}
    for row in table(entries, ["Image Index", "Finding Labels", "Patient ID"]):
        findings = row.text("Finding Labels").split("|")
        labels = tuple(int(name in findings) for name in _CLASSES)
        files_by_name[row.text("Image Index")] = (labels, row.text("Patient ID"))
    lists = []
    for name in _SPLITS.values():
        samples = []
        for line, image in lines(folder / name):
            if image not in files_by_name:
                raise DataError(f"{folder / name}, line {line}: {image} is not in {entries.name}")
            labels, patient = files_by_name[image]
            if any(labels):
                if Path(image).stem not in pictures:
                    raise DataError(f"{folder / name}, line {line}: {image} is not there")
                samples.append(Sample(pictures[Path(image).stem], labels, group=patient))
        lists.append(samples)
    return Parts(lists[0], lists[1], classes=_CLASSES, note="pictures without any of the five findings are left out")


ORIGINALS = from_lists(
    _EXPECTED,
    place(_EXPECTED, ("nih", "NIH", "chestxray14", "ChestX-ray14"), tuple(_SPLITS.values())),
    parts,
    target="labels",
    share=0.05,
    grouped=True,
)
