"""Kinetics-400 as CVDF hands it out; about a twentieth of its videos is gone or broken, and counted."""

from __future__ import annotations

from pathlib import Path

from gate_data.errors import DataError
from gate_data.original_files import Parts, Sample, from_lists
from gate_data.readers import Row, Source, place, table
from gate_data.readers.videos import Videos

_EXPECTED = "kinetics400/train/, val/ and annotations/train.csv, val.csv"
_PER_CLASS = 5
_LOST = str.maketrans(dict.fromkeys("'()"))


def parts(folder: Path) -> Parts:
    """``val`` tests; five clips of each class are held out of ``train``. Missing files are counted, never replaced."""
    rows = {split: list(table(folder / "annotations" / f"{split}.csv", _FIELDS)) for split in ("train", "val")}
    names = sorted({row.text("label") for split in rows.values() for row in split})
    index_of = {name: label for label, name in enumerate(names)}
    samples: dict[str, list[Sample]] = {}
    missing = 0
    for split, own in rows.items():
        videos = Videos(folder / split)
        clips = [(row, _source(videos, row)) for row in own]
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


_FIELDS = ("label", "youtube_id", "time_start", "time_end")


def _source(videos: Videos, row: Row) -> tuple[Source, ...] | None:
    """Flat, or in folders of classes: as named, with ``_`` for blanks, without ``'()``, or both, as by torchvision."""
    label = row.text("label")
    stem = f"{row.text('youtube_id')}_{row.integer('time_start'):06}_{row.integer('time_end'):06}"
    joined, bare = label.replace(" ", "_"), label.translate(_LOST)
    folders = dict.fromkeys((label, joined, bare, joined.translate(_LOST)))
    for name in (stem, *(f"{folder}/{stem}" for folder in folders)):
        if (source := videos.get(name)) is not None:
            return source
    return None


ORIGINALS = from_lists(
    _EXPECTED,
    place(_EXPECTED, ("kinetics400", "k400", "kinetics"), ("annotations/train.csv", "annotations/val.csv")),
    parts,
    fit="whole",
    probed=True,
)
