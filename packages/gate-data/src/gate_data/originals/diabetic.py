"""EyePACS' diabetic retinopathy: five grades; a patient's two eyes stay on one side."""

from __future__ import annotations

from pathlib import Path

from gate_data.errors import DataError
from gate_data.original_files import Parts, Sample, from_lists
from gate_data.readers import by_stem, dealt, place, table

_EXPECTED = (
    "diabetic/trainLabels.csv and train/ (or resized_train/resized_train/); "
    "for the official test retinopathy_solution.csv and test/"
)
_GRADES = ("none", "mild", "moderate", "severe", "proliferative")
_FOLDERS = ("train", "resized_train/resized_train", "resized_train", "resized_train_cropped/resized_train_cropped")


def parts(folder: Path) -> Parts:
    """With the official solution, all of it tests; without, 80, 5 and 15 % of the training patients."""
    lists = folder / "trainLabels.csv"
    samples = _labelled(lists if lists.is_file() else folder / "trainLabels_cropped.csv", folder, _FOLDERS)
    if (solution := folder / "retinopathy_solution.csv").is_file():
        return Parts(samples, _labelled(solution, folder, ("test", "resized_test")), classes=_GRADES)
    grades = [sample.target.index(1) for sample in samples]
    rows = dealt([sample.group for sample in samples], (0.8, 0.05), grades)
    train, validation, test = ([samples[row] for row in part] for part in rows)
    return Parts(train, test, validation, _GRADES, "15 % of the training patients test: the official test is not here")


def _labelled(path: Path, folder: Path, folders: tuple[str, ...]) -> list[Sample]:
    pictures = by_stem(folder / name for name in folders)
    samples = []
    for row in table(path, ["image", "level"]):
        name = row.text("image")
        if name not in pictures:
            raise DataError(f"{row.where}: {name}.jpeg is in none of {', '.join(folders)}")
        grade = row.integer("level", 0, 4)
        samples.append(
            Sample(pictures[name], tuple(int(grade == level) for level in range(5)), group=name.partition("_")[0])
        )
    return samples


def _find(root: Path) -> Path:
    try:
        return place(_EXPECTED, _NAMES, "trainLabels.csv")(root)
    except DataError:
        return place(_EXPECTED, _NAMES, "trainLabels_cropped.csv")(root)


_NAMES = ("diabetic", "diabetic-retinopathy-detection", "diabetic-retinopathy-resized")
ORIGINALS = from_lists(
    _EXPECTED,
    _find,
    parts,
    target="labels",
    share=0.05,
    grouped=True,
)
