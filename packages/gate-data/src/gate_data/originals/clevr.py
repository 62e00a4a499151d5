"""CLEVR: questions with answers of six types about rendered scenes."""

from __future__ import annotations

from pathlib import Path

from gate_data.original_files import Parts, Sample, from_lists
from gate_data.readers import Files, place, records

_EXPECTED = "CLEVR_v1.0/images/{train,val}/ and questions/CLEVR_train_questions.json, CLEVR_val_questions.json"
_TYPES = {
    "colour": ("blue", "brown", "cyan", "gray", "green", "purple", "red", "yellow"),
    "shape": ("cube", "cylinder", "sphere"),
    "count": tuple(map(str, range(11))),
    "size": ("large", "small"),
    "yes/no": ("yes", "no"),
    "material": ("metal", "rubber"),
}
CLASSES = tuple(f"{kind}: {answer}" for kind, answers in _TYPES.items() for answer in answers)
"""28 answers, each with its type."""


def parts(folder: Path) -> Parts:
    """The answers of the official test are not public, so that ``val`` is the test split."""
    index_of = {name.partition(": ")[2]: index for index, name in enumerate(CLASSES)}
    lists = []
    for split in ("train", "val"):
        files = Files(folder / "images" / split)
        lists.append(
            [
                Sample(
                    files.get(row.text("image_filename"), row.where),
                    row.one_of("answer", index_of),
                    row.text("question"),
                    row.text("image_filename"),
                )
                for row in records(folder / "questions" / f"CLEVR_{split}_questions.json", "questions")
            ]
        )
    return Parts(lists[0], lists[1], classes=CLASSES)


ORIGINALS = from_lists(
    _EXPECTED,
    place(_EXPECTED, ("CLEVR_v1.0", "clevr/CLEVR_v1.0"), ("images/val", "questions/CLEVR_val_questions.json")),
    parts,
    grouped=True,
    fit="whole",
)
