"""Videos: actions in HMDB51, Kinetics-400 and UCF-101, and how many animals pass a camera trap."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from pathlib import Path

from gate_data.errors import DataError
from gate_data.original_files import Parts, Sample, of_card
from gate_data.readers import Clip, Files, Row, dealt, fields, files_in, first_of, lines, records, table
from gate_data.readers.clips import VIDEOS, middles
from gate_data.readers.source import Source

_NUMBERED = re.compile(r"img_\d{5}")
_FRAMES = 8
"""Of a clip."""


class Videos:
    """Clips under a folder, video files or folders of frames, by their paths without an ending."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._seen: dict[str, dict[str, str]] = {}

    def get(self, name: str) -> tuple[Source, ...] | None:
        """A clip's sources, or None where neither its file nor its folder of frames is there."""
        folder, _, last = name.rpartition("/")
        stem = os.path.splitext(last)[0] if last.lower().endswith(VIDEOS) else last  # noqa: PTH122 - text paths
        entry = self._listed(folder).get(stem)
        if entry is None:
            return None
        path = self.root / folder / entry
        if entry.lower().endswith(VIDEOS):
            return (Clip(str(path)),)
        frames = files_in(path)
        for number, frame in enumerate(frames, start=1):
            name = Path(str(frame)).stem
            if _NUMBERED.fullmatch(name) and int(name[4:]) != number:
                raise DataError(f"{path} has no img_{number:05}, expected a frame of every number up to {name}")
        return tuple(middles(frames, _FRAMES))

    def of(self, name: str, where: str) -> tuple[Source, ...]:
        """The sources of a clip that a list names."""
        sources = self.get(name)
        if sources is None:
            raise DataError(f"{where}: {self.root / name} is not there")
        return sources

    def _listed(self, folder: str) -> dict[str, str]:
        if folder not in self._seen:
            path = self.root / folder
            entries = os.scandir(path) if os.path.isdir(path) else ()  # noqa: PTH112 - no error over a name of any length
            stems = ((*os.path.splitext(entry.name), entry) for entry in entries)  # noqa: PTH122 - text paths
            self._seen[folder] = {
                stem if ending.lower() in VIDEOS else entry.name: entry.name
                for stem, ending, entry in stems
                if ending.lower() in VIDEOS or entry.is_dir()
            }
        return self._seen[folder]


def _clips(folder: Path, *names: str) -> Path:
    """The folder of clips: one of these, or the data set's own."""
    return next((folder / name for name in names if (folder / name).is_dir()), folder)


_LISTS = ("testTrainMulti_7030_splits", "test_train_splits/testTrainMulti_7030_splits", "splits")
_END = "_test_split1.txt"


@of_card("hmdb51")
def hmdb51(folder: Path) -> Parts:
    """3,570 and 1,530 clips of the first split (1 trains, 2 tests, 0 is in neither); whole films are held out."""
    lists = first_of(folder, _LISTS)
    files = sorted(lists.glob(f"*{_END}"))
    if not files:
        raise DataError(f"{lists} holds no *{_END}")
    videos = Videos(_clips(folder, "videos", "hmdb51_org", "rawframes"))
    sides: dict[int, list[Sample]] = {1: [], 2: []}
    for label, path in enumerate(files):
        name = path.name.removesuffix(_END)
        for row in fields(path, "clip", "side", last=True):
            clip = row.text("clip")
            if side := row.integer("side", 0, 2):
                source = videos.of(f"{name}/{clip}", row.where)
                sides[side].append(Sample(source, label, group=clip.rpartition(f"_{name}_")[0] or clip))
    classes = tuple(path.name.removesuffix(_END).replace("_", " ") for path in files)
    return Parts(sides[1], sides[2], classes=classes)


_PER_CLASS = 5
_LOST = str.maketrans(dict.fromkeys("'()"))


@of_card("kinetics")
def kinetics(folder: Path) -> Parts:
    """As CVDF hands them out: ``val`` tests; five clips of each class are held out of ``train``.

    About a twentieth of the videos is gone or broken: missing files are counted, never replaced.
    """
    fields = ("label", "youtube_id", "time_start", "time_end")
    rows = {split: list(table(folder / "annotations" / f"{split}.csv", fields)) for split in ("train", "val")}
    names = sorted({row.text("label") for split in rows.values() for row in split})
    index_of = {name: label for label, name in enumerate(names)}
    samples: dict[str, list[Sample]] = {}
    missing = 0
    for split, own in rows.items():
        videos = Videos(folder / split)
        clips = [(row, _kinetics_clip(videos, row)) for row in own]
        samples[split] = [Sample(source, row.one_of("label", index_of)) for row, source in clips if source is not None]
        missing += len(own) - len(samples[split])
    if not all(samples.values()):
        raise DataError(f"{folder} holds none of the videos that its annotations list")
    train: list[Sample] = []
    validation: list[Sample] = []
    counts = [0] * len(names)
    for sample in samples["train"]:
        counts[sample.target] += 1
        (validation if counts[sample.target] <= _PER_CLASS else train).append(sample)
    note = f"{missing} of {sum(map(len, rows.values()))} listed videos are not there" if missing else ""
    return Parts(train, samples["val"], validation, tuple(names), note)


def _kinetics_clip(videos: Videos, row: Row) -> tuple[Source, ...] | None:
    """Flat, or in folders of classes: as named, with ``_`` for blanks, without ``'()``, or both, as by torchvision."""
    label = row.text("label")
    stem = f"{row.text('youtube_id')}_{row.integer('time_start'):06}_{row.integer('time_end'):06}"
    joined, bare = label.replace(" ", "_"), label.translate(_LOST)
    folders = dict.fromkeys((label, joined, bare, joined.translate(_LOST)))
    sources = (videos.get(name) for name in (stem, *(f"{folder}/{stem}" for folder in folders)))
    return next((source for source in sources if source is not None), None)


@of_card("ucf")
def ucf(folder: Path) -> Parts:
    """9,537 and 3,783 clips of the first split; whole groups are held out, for the clips of a group are one scene.

    The class is the folder's: file names spell one of them otherwise.
    """
    lists = folder / "ucfTrainTestlist"
    names = [row.text("name") for row in fields(lists / "classInd.txt", "number", "name")]
    index_of = {name: label for label, name in enumerate(names)}
    videos = Videos(_clips(folder, "UCF-101", "videos", "rawframes"))

    def side(path: Path) -> list[Sample]:
        samples = []
        for row in fields(path, "class", "clip", separator="/"):
            label, clip = row.one_of("class", index_of), row.text("clip").split()[0]
            source = videos.of(f"{row.text('class')}/{clip}", row.where)
            samples.append(Sample(source, label, group=f"{row.text('class')} {clip.split('_')[-2]}"))
        return samples

    return Parts(side(lists / "trainlist01.txt"), side(lists / "testlist01.txt"), classes=tuple(names))


_COUNTS, _SHOTS = "train_sequence_counts.csv", "iwildcam2022_train_annotations.json"
_SPLITS = ("train", "val", "test")


@of_card("iwildcam")
def iwildcam(folder: Path) -> Parts:
    """The sequences of the training set that were counted (the test set's counts are not public).

    Cameras are dealt to the splits, 70, 10 and 20 % of them, so that no camera is in two; where ``splits/train.txt``,
    ``val.txt`` and ``test.txt`` name sequences, theirs are used.
    """
    lists = first_of(folder, (f"metadata/metadata/{_COUNTS}", f"metadata/{_COUNTS}")).parent  # Kaggle's zip nests twice
    counted = {row.text("seq_id"): row for row in table(lists / _COUNTS, ["seq_id", "count"])}
    counts = {name: row.number("count", 0) for name, row in counted.items()}
    files = Files(first_of(folder, ("train/train", "train")))
    frames: dict[str, list[tuple[int, str]]] = defaultdict(list)
    camera: dict[str, str] = {}
    for row in records(lists / _SHOTS, "images"):
        sequence = row.text("seq_id")
        if sequence in counts:  # the file says seq_frame_num, its description frame_num
            number = row.integer("seq_frame_num" if "seq_frame_num" in row.values else "frame_num", 0)
            frames[sequence].append((number, str(files.get(Path(row.text("file_name")).name, row.where))))
            camera[sequence] = row.text("location")
    for name, row in counted.items():
        if name not in frames:
            raise row.error("seq_id", f"a sequence of which {_SHOTS} lists images")
    samples = {
        name: Sample(tuple(middles([file for _, file in sorted(own)], _FRAMES)), counts[name], group=camera[name])
        for name, own in sorted(frames.items())
    }
    published = [lists.parent / "splits" / f"{split}.txt" for split in _SPLITS]
    if all(path.is_file() for path in published):
        train, validation, test = (_listed(path, samples) for path in published)
        return Parts(train, test, validation, note="sequences as splits/*.txt deal them: cameras are on both sides")
    sequences = list(samples.values())
    rows = dealt([sample.group for sample in sequences], (0.7, 0.1))
    train, validation, test = ([sequences[row] for row in part] for part in rows)
    return Parts(train, test, validation)


def _listed(path: Path, samples: dict[str, Sample]) -> list[Sample]:
    for number, name in lines(path):
        if name not in samples:
            raise DataError(f"{path}, line {number}: {name!r} is no sequence that was counted")
    return [samples[name] for _, name in lines(path)]
