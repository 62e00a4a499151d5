"""iWildCam 2022: how many animals pass a camera trap in a short sequence of pictures."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from gate_data.errors import DataError
from gate_data.original_files import Parts, Sample, from_lists
from gate_data.readers import Files, Row, dealt, lines, middles, records, table

_EXPECTED = "iwildcam2022/metadata/ with train_sequence_counts.csv and iwildcam2022_train_annotations.json, and train/"
_FRAMES = 8
_COUNTS, _IMAGES = "train_sequence_counts.csv", "iwildcam2022_train_annotations.json"
_SHARES = (0.7, 0.1)
_SPLITS = ("train", "val", "test")


class Place(NamedTuple):
    """Folders of the lists and of the pictures."""

    lists: Path
    pictures: Path


def find(root: Path) -> Place:
    """Both folders; Kaggle's zip nests each twice."""
    for folder in (*(root / name for name in ("iwildcam2022", "iwildcam2022-fgvc9", "iwildcam")), root):
        for lists, pictures in (("metadata/metadata", "train/train"), ("metadata", "train")):
            location = Place(folder / lists, folder / pictures)
            if (
                (location.lists / _COUNTS).is_file()
                and (location.lists / _IMAGES).is_file()
                and location.pictures.is_dir()
            ):
                return location
    raise DataError(f"{root} does not hold its files ({_EXPECTED})")


def parts(location: Place) -> Parts:
    """The sequences of the training set that were counted (the test set's counts are not public).

    Cameras are dealt to the splits, 70, 10 and 20 % of them, so that no camera is in two; where ``splits/train.txt``,
    ``val.txt`` and ``test.txt`` name sequences, theirs are used.
    """
    counted = {row.text("seq_id"): row for row in table(location.lists / _COUNTS, ["seq_id", "count"])}
    counts = {name: row.number("count", 0) for name, row in counted.items()}
    files = Files(location.pictures)
    frames: dict[str, list[tuple[int, str]]] = defaultdict(list)
    camera: dict[str, str] = {}
    for row in records(location.lists / _IMAGES, "images"):
        sequence = row.text("seq_id")
        if sequence in counts:
            name = Path(row.text("file_name")).name
            frames[sequence].append((_number(row), str(files.get(name, row.where))))
            camera[sequence] = row.text("location")
    for name, row in counted.items():
        if name not in frames:
            raise row.error("seq_id", f"a sequence of which {_IMAGES} lists images")
    samples = {
        name: Sample(tuple(middles([file for _, file in sorted(own)], _FRAMES)), counts[name], group=camera[name])
        for name, own in sorted(frames.items())
    }
    if all((location.lists.parent / "splits" / f"{split}.txt").is_file() for split in _SPLITS):
        return _published(location.lists.parent / "splits", samples)
    sequences = list(samples.values())
    rows = dealt([sample.group for sample in sequences], _SHARES)
    lists = [[sequences[row] for row in part] for part in rows]
    return Parts(lists[0], lists[2], lists[1])


def _published(folder: Path, samples: dict[str, Sample]) -> Parts:
    lists = []
    for split in _SPLITS:
        path = folder / f"{split}.txt"
        for number, name in lines(path):
            if name not in samples:
                raise DataError(f"{path}, line {number}: {name!r} is no sequence that was counted")
        lists.append([samples[name] for _, name in lines(path)])
    return Parts(lists[0], lists[2], lists[1], note="sequences as splits/*.txt deal them: cameras are on both sides")


def _number(row: Row) -> int:
    """The file says ``seq_frame_num``, its description ``frame_num``."""
    return row.integer("seq_frame_num" if "seq_frame_num" in row.values else "frame_num", 0)


ORIGINALS = from_lists(_EXPECTED, find, parts, target="value", fit="whole")
