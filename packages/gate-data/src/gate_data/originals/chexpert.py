"""CheXpert: five findings in chest radiographs; patients stay on one side."""

from __future__ import annotations

from pathlib import Path

from gate_data.errors import DataError
from gate_data.original_files import Parts, Sample, from_lists
from gate_data.readers import File, Files, Row, table

_EXPECTED = (
    "CheXpert-v1.0-small/{train,valid}/ with train.csv and valid.csv, "
    "or CheXpert-v1.0 in one folder or its four batches"
)
_CLASSES = ("Atelectasis", "Cardiomegaly", "Consolidation", "Edema", "Pleural Effusion")
_UNCERTAIN = {"Atelectasis": 1, "Edema": 1}
"""What -1 counts as, where it is not 0: a common choice."""
_BATCHES = ("batch 1 (validate & csv)", "batch 2 (train 1)", "batch 3 (train 2)", "batch 4 (train 3)")


def find(root: Path) -> Path:
    """The folder of ``train.csv``, or the one that holds the four batches."""
    for folder in (root / "CheXpert-v1.0-small", root / "CheXpert-v1.0", root / "chexpert", root):
        if _lists(folder) is not None:
            return folder
    raise DataError(f"{root} does not hold its files ({_EXPECTED})")


def parts(folder: Path) -> Parts:
    """Patients of ``train.csv``; the test is ``valid.csv``, or the official test where its labels are there."""
    lists = _lists(folder)
    assert lists is not None
    places = [Files(root) for root in _places(folder)]
    official = next(
        (root for root in (folder, lists) if (root / "groundtruth.csv").is_file()),
        None,
    )
    tested = lists / "valid.csv" if official is None else official / "groundtruth.csv"
    train, test = (
        [_sample(row, places) for row in table(path, ["Path", *_CLASSES])] for path in (lists / "train.csv", tested)
    )
    note = "not what the paper calls CheXpert: its rows are NIH ChestX-ray14"
    return Parts(train, test, classes=_CLASSES, note=note if official is None else f"official test labels; {note}")


def _lists(folder: Path) -> Path | None:
    return next(
        (root for root in _places(folder) if (root / "train.csv").is_file() and (root / "valid.csv").is_file()), None
    )


def _places(folder: Path) -> list[Path]:
    return [folder, *(folder / f"CheXpert-v1.0 {name}" for name in _BATCHES)]


def _sample(row: Row, places: list[Files]) -> Sample:
    name = row.text("Path")
    steps = name.split("/")
    patient = next((step for step in steps if step.startswith("patient")), "")
    if not patient:
        raise row.error("Path", "a path with the patient's folder")
    labels = []
    for finding in _CLASSES:
        value = row.number(finding, -1, 1, blank=0)
        labels.append(_UNCERTAIN.get(finding, 0) if value == -1 else int(value))
    return Sample(_file(row, steps, places), tuple(labels), group=patient)


def _file(row: Row, steps: list[str], places: list[Files]) -> File:
    """The path less the archive's name; in the batches, whose folders begin with the patients, less the split's too."""
    for less in (1, 2, 0):
        name = "/".join(steps[less:])
        for files in places:
            if name in files:
                return files.get(name, row.where)
    raise DataError(f"{row.where}: {'/'.join(steps)} is not there")


ORIGINALS = from_lists(_EXPECTED, find, parts, target="labels", share=0.05, grouped=True)
