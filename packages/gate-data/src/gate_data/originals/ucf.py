"""UCF-101's first split; whole groups are held out, for the clips of a group are one scene."""

from __future__ import annotations

from pathlib import Path

from gate_data.errors import DataError
from gate_data.original_files import Parts, Sample, from_lists
from gate_data.readers import lines, pairs, place
from gate_data.readers.videos import Videos

_EXPECTED = "UCF-101/CLASS/NAME.avi (or frames) and ucfTrainTestlist/classInd.txt, trainlist01.txt, testlist01.txt"


def parts(folder: Path) -> Parts:
    """9,537 and 3,783 clips. The class is the folder's: file names spell one of them otherwise."""
    lists = folder / "ucfTrainTestlist"
    names = [name for _, _, name in pairs(lists / "classInd.txt")]
    index_of = {name: label for label, name in enumerate(names)}
    clips = next((folder / name for name in ("UCF-101", "videos", "rawframes") if (folder / name).is_dir()), folder)
    videos = Videos(clips)
    by_list: dict[str, list[Sample]] = {"trainlist01.txt": [], "testlist01.txt": []}
    for part, samples in by_list.items():
        for number, line in lines(lists / part):
            clip = line.split()[0]
            name, _, last = clip.partition("/")
            source = videos.get(clip)
            if name not in index_of or source is None:
                problem = (
                    f"class {name!r} is not in classInd.txt" if name not in index_of else f"{clips / clip} is not there"
                )
                raise DataError(f"{lists / part}, line {number}: {problem}")
            samples.append(Sample(source, index_of[name], group=f"{name} {last.split('_')[-2]}"))
    return Parts(by_list["trainlist01.txt"], by_list["testlist01.txt"], classes=tuple(names))


ORIGINALS = from_lists(
    _EXPECTED,
    place(_EXPECTED, ("ucf101", "UCF101", "ucf"), "ucfTrainTestlist/classInd.txt"),
    parts,
    grouped=True,
    fit="whole",
)
