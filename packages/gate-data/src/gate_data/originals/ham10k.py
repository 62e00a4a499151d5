"""HAM10000: seven kinds of skin lesions; all pictures of a lesion stay on one side."""

from __future__ import annotations

from pathlib import Path

from gate_data.errors import DataError
from gate_data.original_files import Parts, Sample, from_lists
from gate_data.readers import by_stem, dealt, table

_EXPECTED = (
    "ham10k/HAM10000_images_part_1/, HAM10000_images_part_2/ (folders or .zip) and HAM10000_metadata.csv or .tab"
)
_CLASSES = ("bkl", "nv", "df", "mel", "vasc", "bcc", "akiec")
"""In the order of the paper's table."""
_LISTS = ("HAM10000_metadata.csv", "HAM10000_metadata.tab", "HAM10000_metadata")


def find(root: Path) -> Path:
    """The folder of the metadata."""
    for folder in (root / "ham10k", root / "HAM10000", root / "skin-cancer-mnist-ham10000", root):
        if any((folder / name).is_file() for name in _LISTS):
            return folder
    raise DataError(f"{root} does not hold its files ({_EXPECTED})")


def parts(folder: Path) -> Parts:
    """80, 5 and 15 % of the lesions, with the same shares of every class."""
    pictures = by_stem(
        folder / f"{name}_images_part_{part}{ending}"
        for name in ("HAM10000", "ham10000")
        for part in (1, 2)
        for ending in ("", ".zip")
    )
    index_of = {name: index for index, name in enumerate(_CLASSES)}
    samples, labels = [], []
    for row in table(
        next(folder / name for name in _LISTS if (folder / name).is_file()), ["lesion_id", "image_id", "dx"]
    ):
        label = row.one_of("dx", index_of)
        if row.text("image_id") not in pictures:
            raise DataError(f"{row.where}: {row.text('image_id')}.jpg is not there")
        one_hot = tuple(int(label == index_of_class) for index_of_class in range(len(_CLASSES)))
        samples.append(Sample(pictures[row.text("image_id")], one_hot, group=row.text("lesion_id")))
        labels.append(label)
    train, validation, test = (
        [samples[row] for row in part] for part in dealt([sample.group for sample in samples], (0.8, 0.05), labels)
    )
    return Parts(train, test, validation, _CLASSES)


ORIGINALS = from_lists(_EXPECTED, find, parts, target="labels")
