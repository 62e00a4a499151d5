"""OVEN's own files as a benchmark: questions about images, and the entities of Wikipedia that answer them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import torch

from gate_data.data import Data, Split
from gate_data.original_files import Originals
from gate_data.pictures import Pictures
from gate_data.request import DataRequest, Size
from gate_runner.errors import DataError
from oven_retrieval.entity import Entity
from oven_retrieval.models.questions import ImageFolder, Question, read_questions
from oven_retrieval.readers import read_entities
from wary_files.text import number_of

_BASES = ("Wiki6M_ver_1_0.jsonl", "Wiki6M_ver_1_0_title_only.jsonl", "entities.jsonl")
_IMAGES, _PICTURES = ("images", "oven_images"), ("wikipedia_images", "entity_images")
_OTHERS = 10
"""With a limit, entities that nobody asks for, for each question."""


@dataclass(frozen=True)
class Place:
    """Where the files of one of OVEN's two splits are."""

    train: Path
    test: Path
    base: Path
    images: Path
    pictures: Path | None  # of entities, where there is a folder


def originals_of(kind: str) -> Originals[Place]:
    """Return how the files of a split are found and read: ``entity`` or ``query``."""
    expected = (
        f"oven/ with oven_{kind}_train.jsonl, oven_{kind}_val.jsonl, {_BASES[0]} (or {_BASES[1]}), images/ named by "
        "image_id, and wikipedia_images/ named by entity, where there are any"
    )
    return Originals(expected, partial(_find, kind, expected), _check, _load)


def _find(kind: str, expected: str, root: Path) -> Place:
    for folder in (root / "oven", root):
        questions = [_first(folder, (f"oven_{kind}_{part}.jsonl",)) for part in ("train", "val")]
        base, images = _first(folder, _BASES), _first(folder, _IMAGES)
        if questions[0] and questions[1] and base and images:
            return Place(questions[0], questions[1], base, images, _first(folder, _PICTURES))
    raise DataError(f"{root} does not hold OVEN's files: expected {expected}")


def _first(folder: Path, names: Sequence[str]) -> Path | None:
    """The first of some files and folders that is there, compressed or not."""
    places = (folder / f"{name}{ending}" for name in names for ending in ("", ".gz"))
    return next((place for place in places if place.exists()), None)


def _check(place: Place) -> None:
    """Read both files of questions, look for each question's image, and read the entities."""
    _load(place, DataRequest())


def _load(place: Place, request: DataRequest) -> Data[Any]:
    try:
        return _read(place, request)
    except (ValueError, OSError) as error:
        raise DataError(str(error)) from error


def _read(place: Place, request: DataRequest) -> Data[Any]:
    images = ImageFolder(place.images)
    skip = request.skip_unreadable
    (all_train, without), (all_test, left_out) = (
        read_questions(path, images, skip_missing=skip) for path in (place.train, place.test)
    )
    train, test = limited(all_train, all_test, request.limit)
    wanted = {question.entity_id for question in (*train, *test)}
    others = None if request.limit is None else _OTHERS * request.limit
    entities = _entities(place.base, wanted, others)
    row_of = {entity.id: row for row, entity in enumerate(entities)}
    lacking = sorted(wanted - row_of.keys())
    if lacking:
        raise DataError(
            f"{place.base}: {len(lacking)} of {len(wanted)} entities that are asked for are not in it, such as "
            f"{', '.join(lacking[:3])}: give the whole knowledge base"
        )
    trained = {question.entity_id for question in train}
    marked = sum(question.seen is not None and question.seen != (question.entity_id in trained) for question in test)
    notes = [
        f"{len(entities):,} entities" + ("" if others is None else ", fewer than the whole knowledge base"),
        f"{number_of(without + left_out, 'question')} without an image left out" if without + left_out else "",
        f"{marked:,} questions are marked otherwise than their entity's training questions say" if marked else "",
    ]
    return Data(
        _split(train, row_of, request.size),
        _pictured(entities, place.pictures, request.size),
        _split(test, row_of, request.size),
        tuple(entity.name for entity in entities),
        "; ".join(filter(None, notes)),
    )


def limited(
    train: Sequence[Question], test: Sequence[Question], limit: int | None
) -> tuple[Sequence[Question], Sequence[Question]]:
    """Return the first training questions, and test questions of seen and of unseen entities in turn.

    Seen are entities of those training questions that stay; those of the others are left out of the test.
    """
    if limit is None:
        return train, test
    all_trained = {question.entity_id for question in train}
    train = train[:limit]
    trained = {question.entity_id for question in train}
    seen = [question for question in test if question.entity_id in trained]
    unseen = [question for question in test if question.entity_id not in all_trained]
    each = max(1, limit // 2)
    return train, [*seen[:each], *unseen[:each]]


def _entities(base: Path, wanted: set[str], others: int | None) -> list[Entity]:
    """All entities, or those that are asked for and the first others; in order of the file."""
    rows: Iterable[Any] = read_entities(base)
    entities: list[Entity] = []
    numbers = set[str]()
    more = 0
    for line, entity, _ in rows:
        if entity.id in numbers:
            raise DataError(f"{base}:{line}: entity {entity.id!r} comes twice")
        if entity.id not in wanted:
            if others is not None and more >= others:
                continue
            more += 1
        numbers.add(entity.id)
        entities.append(entity)
    return entities


def _split(questions: Sequence[Question], row_of: dict[str, int], size: Size) -> Split:
    files = [question.image for question in questions if question.image is not None]
    targets = torch.tensor([row_of[question.entity_id] for question in questions], dtype=torch.long)
    return Split(Pictures.of(files, size), targets, tuple(question.text for question in questions))


def _pictured(entities: Sequence[Entity], folder: Path | None, size: Size) -> Split:
    """Entities' images: a file named by the entity's id, else by the last part of its address."""
    files: list[Path] = []
    rows: list[int] = []
    images = None if folder is None else ImageFolder(folder)
    for row, entity in enumerate(entities if images is not None else ()):
        for name in (entity.id, PurePosixPath(entity.image or "").name):
            if images is not None and name and name in images:
                files.append(images.find(name))
                rows.append(row)
                break
    return Split(Pictures.of(files, size), torch.tensor(rows, dtype=torch.long), ("",) * len(rows))


entity = originals_of("entity")
query = originals_of("query")
