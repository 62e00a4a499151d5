"""The New Yorker's caption contest: which of five captions is the cartoon's."""

from __future__ import annotations

from pathlib import Path

from gate_data.cards.sheet import Hub
from gate_data.errors import DataError
from gate_data.hub.tables import Tables, picture, texts
from gate_data.original_files import Parts, Sample, from_lists
from gate_data.readers import by_stem, records

_EXPECTED = "nycc/tasks/contest_matching_split=0_cleaned.json and all_contest_images/ (or .zip)"
_TASKS = ("tasks/contest_matching_split=0_cleaned.json", "contest_matching_split=0_cleaned.json")
CHOICES = 5
_NAMES = tuple(f"caption {letter}" for letter in "ABCDE")
_NOTE = "not what the paper calls NYCC: its rows are Flickr30k's"


def find(root: Path) -> Path:
    """The file of the matching task."""
    for folder in (root / "nycc", root / "newyorker", root):
        for name in _TASKS:
            if (folder / name).is_file():
                return folder / name
    raise DataError(f"{root} does not hold its files ({_EXPECTED})")


def parts(path: Path) -> Parts:
    """The official split by contest."""
    folder = path.parent.parent if path.parent.name == "tasks" else path.parent
    pictures = by_stem(folder / name for name in ("all_contest_images", "all_contest_images.zip", "images"))
    lists = []
    for split in ("train", "val", "test"):
        samples = []
        for row in records(path, split):
            contest = row.text("contest_number")
            if contest not in pictures:
                raise DataError(f"{row.where} of {split}: {contest}.jpeg is not there")
            choices = row.values.get("choices")
            held = choices if isinstance(choices, list) else []
            captions = [entry.get("clean_caption") for entry in held if isinstance(entry, dict)]
            if len(captions) != CHOICES or not all(isinstance(entry, str) and entry.strip() for entry in captions):
                raise row.error("choices", f"{CHOICES} captions with a 'clean_caption'")
            right = row.integer("correct_idx", 0, CHOICES - 1)
            samples.append(Sample(pictures[contest], right, tuple(str(entry) for entry in captions), contest))
        lists.append(samples)
    return Parts(lists[0], lists[2], lists[1], _NAMES, _NOTE)


def of_rows(tables: Tables, hub: Hub, count: int) -> Parts:
    """The hub's three splits, which are the official ones."""
    letters = dict(zip("ABCDE", range(count), strict=True))
    lists = {
        role: [
            Sample(
                picture(row, hub.image),
                row.one_of(hub.target, letters),
                texts(row, "caption_choices", count),
                row.text("contest_number"),
            )
            for row in table.rows
        ]
        for role, table in tables.items()
    }
    return Parts(lists["train"], lists["test"], lists["validation"], _NAMES, _NOTE)


ORIGINALS = from_lists(_EXPECTED, find, parts, fit="whole")
