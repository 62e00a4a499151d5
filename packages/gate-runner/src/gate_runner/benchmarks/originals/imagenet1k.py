"""ImageNet-1k: folders of JPEG files per class, or the Kaggle download as it unpacks."""

from __future__ import annotations

import csv
from pathlib import Path

from gate_runner.benchmarks.benchmark import DataRequest
from gate_runner.benchmarks.data import Data, Split, as_targets
from gate_runner.benchmarks.originals.splits import folder, held_out, shuffled
from gate_runner.benchmarks.pictures import Pictures
from gate_runner.errors import DataError

EXPECTED = (
    "imagenet1k/train/n01440764/*.JPEG … and imagenet1k/val/n01440764/*.JPEG …, or Kaggle's ILSVRC/Data/CLS-LOC with "
    "LOC_val_solution.csv"
)
_NAMES = ("imagenet1k", "imagenet", "ILSVRC2012")
_KAGGLE = "ILSVRC/Data/CLS-LOC"
_VALIDATION = 0.01

Sample = tuple[Path, str]
"""A file and its class's WordNet id."""


def finds_files(root: Path) -> bool:
    """Whether either layout lies under the root."""
    return _layout(root) is not None


def check(root: Path) -> None:
    """Look whether both splits have the same classes.

    Raises:
        DataError: they have not; the message names a class that differs.
    """
    train, test = _parts(root)
    known = {path.name for path in train.iterdir() if path.is_dir()}
    found = set(test.values()) if isinstance(test, dict) else {path.name for path in test.iterdir() if path.is_dir()}
    if not known or not found <= known:
        extra = sorted(found - known)[:3]
        raise DataError(f"{train} has {len(known)} class folders, and none for {', '.join(extra) or 'any class'}")


def load(request: DataRequest) -> Data:
    """The official validation set is the test split; a hundredth of each training class validates.

    Images are scaled on the shorter side and cut to the middle.

    Args:
        request: root, size and limit.

    Returns:
        Three splits whose images stay in their files.

    Raises:
        DataError: files are missing; the message names what was expected.
    """
    assert request.root is not None
    train, test = _parts(request.root)
    classes = sorted(path.name for path in train.iterdir() if path.is_dir())
    number = {name: label for label, name in enumerate(classes)}
    samples = _of_folders(train)
    labels = [number[name] for _, name in samples]
    rows = held_out(labels, _VALIDATION)
    if isinstance(test, dict):
        tested = [
            (path, test[path.stem]) for path in sorted((train.parent / "val").glob("*.JPEG")) if path.stem in test
        ]
    else:
        tested = _of_folders(test)
    if not tested:
        raise DataError(f"imagenet1k: no images of the validation set under {train.parent}")

    def split(chosen: list[Sample]) -> Split:
        chosen = chosen[: request.limit]
        return Split(
            Pictures.of([path for path, _ in chosen], request.size), as_targets([number[name] for _, name in chosen])
        )

    return Data(
        split([samples[row] for row in rows[0]]),
        split([samples[row] for row in rows[1]]),
        split(shuffled(tested)),
        _class_names(request.root, train, classes),
    )


def _layout(root: Path) -> Path | None:
    if (plain := folder(root, _NAMES, "val")) is not None and (plain / "train").is_dir():
        return plain
    for place in (root / "imagenet1k", root):
        if (place / _KAGGLE / "train").is_dir() and (place / "LOC_val_solution.csv").is_file():
            return place / _KAGGLE
    return None


def _parts(root: Path) -> tuple[Path, Path | dict[str, str]]:
    """The training folder, and the folder of the test split or the class of each of its files."""
    if (layout := _layout(root)) is None:
        raise DataError(f"imagenet1k: {root} does not hold {EXPECTED}")
    if any(path.is_dir() for path in (layout / "val").iterdir()):
        return layout / "train", layout / "val"
    solution = layout.parents[2] / "LOC_val_solution.csv"
    if not solution.is_file():
        raise DataError(f"{layout / 'val'} has no class folders, and {solution} is not there to say the classes")
    with solution.open(newline="") as file:
        reader = csv.DictReader(file)
        answers = {}
        for row in reader:
            try:
                answers[row["ImageId"]] = row["PredictionString"].split()[0]
            except (KeyError, IndexError, AttributeError) as error:
                raise DataError(f"{solution}, line {reader.line_num}: expected ImageId,PredictionString") from error
    return layout / "train", answers


def _of_folders(place: Path) -> list[Sample]:
    return [
        (path, each.name)
        for each in sorted(place.iterdir())
        if each.is_dir()
        for path in sorted(each.iterdir())
        if path.suffix.lower() in (".jpeg", ".jpg", ".png")
    ]


def _class_names(root: Path, train: Path, classes: list[str]) -> tuple[str, ...]:
    for place in (root, root / "imagenet1k", train.parent, train.parents[2]):
        if (path := place / "LOC_synset_mapping.txt").is_file():
            lines = (line.partition(" ") for line in path.read_text().splitlines())
            words = {wnid: rest.partition(",")[0].strip() for wnid, _, rest in lines}
            return tuple(words.get(name, name) for name in classes)
    return tuple(classes)
