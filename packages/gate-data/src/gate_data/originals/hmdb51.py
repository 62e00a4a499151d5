"""HMDB51's first split; whole source films are held out."""

from __future__ import annotations

from pathlib import Path

from gate_data.errors import DataError
from gate_data.original_files import Parts, Sample, from_lists
from gate_data.readers import lines, place
from gate_data.readers.videos import Videos

_EXPECTED = "hmdb51/CLASS/NAME.avi (or frames, CLASS/NAME/img_00001.jpg) and testTrainMulti_7030_splits/"
_LISTS = ("testTrainMulti_7030_splits", "test_train_splits/testTrainMulti_7030_splits", "splits")
_END = "_test_split1.txt"


def parts(folder: Path) -> Parts:
    """3,570 and 1,530 clips; 1 trains, 2 tests, 0 is in neither."""
    lists = next(folder / name for name in _LISTS if (folder / name).is_dir())
    files = sorted(lists.glob(f"*{_END}"))
    if not files:
        raise DataError(f"{lists} holds no *{_END}")
    clips = next((folder / name for name in ("videos", "hmdb51_org", "rawframes") if (folder / name).is_dir()), folder)
    videos = Videos(clips)
    dealt: dict[str, list[Sample]] = {"1": [], "2": []}
    for label, path in enumerate(files):
        name = path.name.removesuffix(_END)
        for number, line in lines(path):
            clip, _, side = line.rpartition(" ")
            if side not in ("0", "1", "2"):
                raise DataError(f"{path}, line {number}: expected a clip and 0, 1 or 2, found {line[:80]!r}")
            if side == "0":
                continue
            source = videos.get(f"{name}/{clip.strip()}")
            if source is None:
                raise DataError(f"{path}, line {number}: {clips / name / clip.strip()} is not there")
            dealt[side].append(Sample(source, label, group=clip.rpartition(f"_{name}_")[0] or clip))
    classes = tuple(path.name.removesuffix(_END).replace("_", " ") for path in files)
    return Parts(dealt["1"], dealt["2"], classes=classes)


def _find(root: Path) -> Path:
    for lists in _LISTS:
        try:
            return place(_EXPECTED, ("hmdb51", "HMDB51"), lists)(root)
        except DataError:
            continue
    raise DataError(f"{root} does not hold its files ({_EXPECTED})")


ORIGINALS = from_lists(_EXPECTED, _find, parts, grouped=True, fit="whole")
