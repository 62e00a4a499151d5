"""Questions, captions and pairs: CLEVR, CLEVR-Math, Flickr30k, the New Yorker's caption contest, Winoground."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from gate_data.cards import Hub
from gate_data.errors import DataError
from gate_data.hub.tables import Tables, picture, texts
from gate_data.original_files import Parts, Sample, of_card
from gate_data.readers import Files, Row, by_stem, first_of, lines, records, table
from gate_data.readers.captions import Captioned, karpathy, numbered
from gate_data.readers.source import Source

_ANSWERS = {
    "colour": ("blue", "brown", "cyan", "gray", "green", "purple", "red", "yellow"),
    "shape": ("cube", "cylinder", "sphere"),
    "count": tuple(map(str, range(11))),
    "size": ("large", "small"),
    "yes/no": ("yes", "no"),
    "material": ("metal", "rubber"),
}
_TYPED = tuple(f"{kind}: {answer}" for kind, answers in _ANSWERS.items() for answer in answers)
"""28 answers, each with its type."""


@of_card("clevr")
def clevr(folder: Path) -> Parts:
    """The answers of the official test are not public, so that ``val`` is the test split."""
    index_of = {name.partition(": ")[2]: index for index, name in enumerate(_TYPED)}

    def side(name: str) -> list[Sample]:
        files, samples = Files(folder / "images" / name), []
        for row in records(folder / "questions" / f"CLEVR_{name}_questions.json", "questions"):
            image = row.text("image_filename")
            answer = row.one_of("answer", index_of)
            samples.append(Sample(files.get(image, row.where), answer, row.text("question"), image))
        return samples

    return Parts(side("train"), side("val"), classes=_TYPED)


_CLEVR_TEST = 15_000
"""Images in CLEVR's own test set: the same names, other scenes."""


class _MathPlace(NamedTuple):
    """Where questions and images lie."""

    questions: Path
    images: Path
    test_images: Path


def _find_math(root: Path) -> _MathPlace | None:
    """The questions' folder, that of ``train`` and ``val``, and that in which the test's ``test`` lies."""
    for questions in (root / "clevr-math", root / "clevr_math", root):
        if all((questions / f"clevr-math-{split}.json").is_file() for split in ("train", "val", "test")):
            images = [folder / "CLEVR_v1.0" / "images" for folder in (questions, root)]
            own = [folder / "clevr-math-test-images" / "CLEVR_v1.0" / "images" for folder in (questions, root)]
            trained = next((folder for folder in images if (folder / "train").is_dir()), None)
            tested = next((folder for folder in (*own, *images) if (folder / "test").is_dir()), None)
            if trained is not None and tested is not None:
                return _MathPlace(questions, trained, tested)
    return None


@of_card("clevr-math", _find_math)
def clevr_math(layout: _MathPlace) -> Parts:
    """The three published splits: sums and differences from 0 to 10, in the test about newly rendered images."""
    if len(os.listdir(layout.test_images / "test")) >= _CLEVR_TEST:  # noqa: PTH208 - names alone are wanted
        raise DataError(
            f"{layout.test_images / 'test'} holds CLEVR's own test images, which these questions are not about; "
            "expected those of clevr-math-test-images.zip"
        )

    def side(split: str, images: Path) -> list[Sample]:
        files, samples = Files(images), []
        for row in records(layout.questions / f"clevr-math-{split}.json", "questions"):
            image = row.text("image_filename")
            file = files.get(f"{row.text('split')}/{image}", row.where)
            samples.append(Sample(file, row.integer("answer", 0, 10), row.text("question"), image))
        return samples

    train, validation = side("train", layout.images), side("val", layout.images)
    return Parts(train, side("test", layout.test_images), validation, tuple(map(str, range(11))))


_IMAGES = ("flickr30k-images", "flickr30k_images/flickr30k_images", "flickr30k_images", "images")
_CAPTIONS = ("dataset_flickr30k.json", "results_20130124.token", "results.csv", "flickr30k_images/results.csv")
_SPLITS = ("train", "val", "test")
CAPTIONS = 5


@of_card("flickr30k")
def flickr30k(folder: Path) -> Parts:
    """29,000, 1,014 and 1,000 images in Karpathy's split (Flickr30k Entities': 29,783, 1,000 and 1,000)."""
    files, path = Files(first_of(folder, _IMAGES)), first_of(folder, _CAPTIONS)
    karpathys = path.suffix == ".json"
    lists: dict[str, list[Sample]] = {split: [] for split in _SPLITS}
    for entry in karpathy(path) if karpathys else _of_entities(folder, path):
        if entry.split not in lists:
            raise DataError(f"{path}: {entry.file} is in the split {entry.split!r}, expected train, val or test")
        if len(entry.captions) != CAPTIONS:
            raise DataError(f"{path}: {entry.file} has {len(entry.captions)} captions, expected {CAPTIONS}")
        lists[entry.split].append(Sample(files.get(entry.file, str(path)), 0, entry.captions))
    note = "" if karpathys else "split of Flickr30k Entities"
    return Parts(lists["train"], lists["test"], lists["val"], note=note)


def flickr30k_rows(tables: Tables, hub: Hub, count: int) -> Parts:
    """The hub's one split, each row of which says where it belongs in Karpathy's."""
    del count
    number = {split: index for index, split in enumerate(_SPLITS)}
    lists: list[list[Sample]] = [[], [], []]
    for row in tables["test"].rows:
        captions = texts(row, hub.target, CAPTIONS)
        lists[row.one_of("split", number)].append(Sample(picture(row, hub.image), 0, captions))
    return Parts(lists[0], lists[2], lists[1])


def _of_entities(folder: Path, captions: Path) -> list[Captioned]:
    """Entities' lists name image stems; images in none of them are left out."""
    captioned = {picture.file: picture for picture in numbered(captions)}
    pictures = []
    for name in _SPLITS:
        path = folder / f"{name}.txt"
        for line, stem in lines(path):
            if f"{stem}.jpg" not in captioned:
                raise DataError(f"{path}, line {line}: {stem}.jpg has no captions in {captions.name}")
            pictures.append(captioned[f"{stem}.jpg"]._replace(split=name))
    return pictures


_TASKS = ("tasks/contest_matching_split=0_cleaned.json", "contest_matching_split=0_cleaned.json")
_CHOICES = tuple(f"caption {letter}" for letter in "ABCDE")
_NOTE = "not what the paper calls NYCC: its rows are Flickr30k's"


@of_card("nycc")
def nycc(folder: Path) -> Parts:
    """Which of five captions is the cartoon's; the official split by contest."""
    path = first_of(folder, _TASKS)
    beside = path.parent.parent if path.parent.name == "tasks" else path.parent
    pictures = by_stem(beside / name for name in ("all_contest_images", "all_contest_images.zip", "images"))

    def side(split: str) -> list[Sample]:
        samples = []
        for row in records(path, split):
            contest = row.text("contest_number")
            if contest not in pictures:
                raise DataError(f"{row.where} of {split}: {contest}.jpeg is not there")
            choices = row.values.get("choices")
            held = choices if isinstance(choices, list) else []
            captions = [entry.get("clean_caption") for entry in held if isinstance(entry, dict)]
            if len(captions) != len(_CHOICES) or not all(isinstance(text, str) and text.strip() for text in captions):
                raise row.error("choices", f"{len(_CHOICES)} captions with a 'clean_caption'")
            right = row.integer("correct_idx", 0, len(_CHOICES) - 1)
            samples.append(Sample(pictures[contest], right, tuple(map(str, captions)), contest))
        return samples

    train, validation = side("train"), side("val")
    return Parts(train, side("test"), validation, _CHOICES, _NOTE)


def nycc_rows(tables: Tables, hub: Hub, count: int) -> Parts:
    """The hub's three splits, which are the official ones."""
    letters = dict(zip("ABCDE", range(count), strict=True))

    def side(role: str) -> list[Sample]:
        samples = []
        for row in tables[role].rows:
            image, right = picture(row, hub.image), row.one_of(hub.target, letters)
            samples.append(Sample(image, right, texts(row, "caption_choices", count), row.text("contest_number")))
        return samples

    return Parts(side("train"), side("test"), side("validation"), _CHOICES, _NOTE)


_PAIR = ("image_0", "image_1")


@of_card("winoground")
def winoground(folder: Path) -> Parts:
    """Two images, and two captions of the same words in another order: all 400 are scored, nothing is trained."""
    pictures = by_stem([folder / "images", folder / "images.zip"])
    rows = list(table(folder / "examples.jsonl", [*_PAIR, "caption_0", "caption_1"]))
    for row in rows:
        for field in _PAIR:
            if Path(row.text(field)).stem not in pictures:
                raise DataError(f"{row.where}: {row.text(field)} is not there")
    return _pairs(rows, [tuple(pictures[Path(row.text(field)).stem] for field in _PAIR) for row in rows])


def winoground_rows(tables: Tables, hub: Hub, count: int) -> Parts:
    """The hub's one split of 400 items."""
    del hub, count
    rows = tables["test"].rows
    return _pairs(rows, [tuple(picture(row, field) for field in _PAIR) for row in rows])


def _pairs(rows: Sequence[Row], pairs: Sequence[tuple[Source, ...]]) -> Parts:
    tags = [str(row.values.get("collapsed_tag") or "all") for row in rows]
    kinds = sorted(set(tags))
    samples = [
        Sample(pair, kinds.index(tag), (row.text("caption_0"), row.text("caption_1")))
        for row, pair, tag in zip(rows, pairs, tags, strict=True)
    ]
    return Parts([], samples, [], tuple(kinds))
