"""Files of questions about images: OVEN's jsonl, the images beside it, and a split into seen and unseen entities."""

from __future__ import annotations

import os
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np

from oven_retrieval.entity import EntityFileError
from oven_retrieval.kb import KnowledgeBase
from oven_retrieval.text_files import json_objects, text_field
from oven_retrieval.tokens import hash64

if TYPE_CHECKING:
    from jaxtyping import Int64

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp"})


@dataclass(frozen=True, slots=True)
class Question:
    """A question about an image: where it stands, what is asked, and the entity that answers it (if known).

    `image` is None for models of text alone; `seen` is what `data_split` says (None where it does not say).

    Example:
        >>> Question("d1", Path("images/1.jpg"), "what bird is this?", "Q1").seen is None
        True
    """

    data_id: str
    image: Path | None
    text: str
    entity_id: str = ""
    seen: bool | None = None


def _stem(name: str) -> str:
    path = PurePosixPath(name)
    return path.stem if path.suffix.lower() in SUFFIXES else name


class ImageFolder:
    """Image files below folders, by their name without the ending; folders are walked once.

    Numerics:
        About 40 bytes per file: a hash of each name, its folder's number, and the file's name in one text.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> (folder / "00").mkdir()
        >>> (folder / "00" / "oven_1.jpg").touch()
        >>> ImageFolder(folder).find("oven_1").relative_to(folder).as_posix()
        '00/oven_1.jpg'
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.is_dir():
            raise FileNotFoundError(f"{self.path}: expected a folder of images")
        self._folders: list[str] = []
        folder_of, ends, hashes = array("i"), array("q"), array("Q")
        written = bytearray()
        for folder, _, names in os.walk(self.path):
            chosen = [name for name in names if os.path.splitext(name)[1].lower() in SUFFIXES]  # noqa: PTH122 - millions
            if not chosen:
                continue
            for name in chosen:
                written += os.fsencode(name)
                ends.append(len(written))
            hashes.frombytes(hash64([os.path.splitext(name)[0] for name in chosen]).tobytes())  # noqa: PTH122
            folder_of.extend([len(self._folders)] * len(chosen))
            self._folders.append(folder)
        keys = np.frombuffer(hashes, np.uint64) if hashes else np.zeros(0, np.uint64)
        order = np.argsort(keys, kind="stable")
        self._keys, self._order = keys[order], order.astype(np.int32)
        self._folder_of, self._ends, self._written = folder_of, ends, bytes(written)
        self._count = int(np.count_nonzero(np.diff(self._keys))) + 1 if len(self._keys) else 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, name: str) -> bool:
        return bool(self._files(name) or self._files(_stem(name)))

    def _files(self, stem: str) -> list[Path]:
        """The files with this name before the ending."""
        first, last = (int(np.searchsorted(self._keys, hash64([stem])[0], side)) for side in ("left", "right"))
        files = []
        for number in self._order[first:last].tolist():
            start = self._ends[number - 1] if number else 0
            file = Path(self._folders[self._folder_of[number]], os.fsdecode(self._written[start : self._ends[number]]))
            if file.stem == stem:
                files.append(file)
        return sorted(files)

    def find(self, name: str) -> Path:
        """The file of this name; `name` may carry an ending.

        Raises:
            LookupError: none, or several (two are shown).
        """
        files = self._files(name) or self._files(_stem(name))
        if len(files) != 1:
            several = f"; there are {len(files)}, such as {files[0]} and {files[1]}" if files else ""
            raise LookupError(f"{self.path}: expected one image file named {name!r}{several}")
        return files[0]


def read_questions(
    path: str | Path, images: ImageFolder | None, *, answered: bool = True, skip_missing: bool = False
) -> tuple[list[Question], int]:
    """Read OVEN's jsonl: data_id, image_id, question, entity_id, data_split.

    Args:
        path: the file; `.gz` too.
        images: where the images are, named by image_id; None where none are needed.
        answered: whether each line must have an entity_id.
        skip_missing: leave out questions whose image is missing, instead of refusing the file.

    Returns:
        The questions, and how many were left out.

    Raises:
        EntityFileError: file, line and field of the first row that cannot be used.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> (folder / "oven_1.jpg").touch()
        >>> row = '{"data_id": "a", "image_id": "oven_1", "question": "?", "entity_id": "Q1", "data_split": "val_seen"}'
        >>> _ = (folder / "val.jsonl").write_text(row, encoding="utf-8")
        >>> questions, left_out = read_questions(folder / "val.jsonl", ImageFolder(folder))
        >>> questions[0].seen, left_out
        (True, 0)
    """
    questions, ids, left_out = [], set[str](), 0
    for line, record in json_objects(path):
        try:
            data_id, text = _text(record, "data_id"), _text(record, "question")
            entity = _text(record, "entity_id") if answered else str(record.get("entity_id") or "")
            if data_id in ids:
                raise ValueError(f"data_id: {data_id!r} occurs twice")
            ids.add(data_id)
            image = None if images is None else images.find(_text(record, "image_id"))
        except LookupError as error:
            if not skip_missing:
                raise EntityFileError(path, line, f"image_id: {error}") from None
            left_out += 1
            continue
        except ValueError as error:
            raise EntityFileError(path, line, str(error)) from None
        split = str(record.get("data_split") or "")
        seen = True if "_seen" in split else False if "_unseen" in split else None
        questions.append(Question(data_id, image, text, entity, seen))
    if not questions:
        raise EntityFileError(path, 1, f"data_id: expected at least one question, got none ({left_out} left out)")
    return questions, left_out


def image_files(questions: Sequence[Question]) -> list[Path]:
    """The image of each question; one without is an error."""
    files = [question.image for question in questions if question.image is not None]
    if len(files) < len(questions):
        raise ValueError(f"questions: expected an image for each of {len(questions)}, got {len(files)}")
    return files


def _text(record: dict[str, Any], field: str) -> str:
    value = text_field(record, field)
    if not value.strip():
        raise ValueError(f"{field}: expected a text, got {value!r:.80}")
    return value


def answer_rows(kb: KnowledgeBase, questions: Sequence[Question]) -> Int64[np.ndarray, " q"]:
    """Row of each question's entity."""
    rows = kb.rows([question.entity_id for question in questions])
    lacking = np.flatnonzero(rows < 0)
    if len(lacking):
        names = sorted({questions[i].entity_id for i in lacking.tolist()})
        raise ValueError(
            f"entity_id: {len(lacking)} of {len(questions)} questions ask for entities that {kb.path} lacks, such as "
            f"{names[:3]}"
        )
    return rows


def known_questions(kb: KnowledgeBase, questions: Sequence[Question]) -> list[Question]:
    """The questions whose entity the knowledge base has.

    Example:
        >>> import tempfile
        >>> from oven_retrieval import Entity, build_kb
        >>> kb = build_kb([Entity("Q1", "Wood duck")], Path(tempfile.mkdtemp()) / "kb")
        >>> questions = [Question("a", Path("1.jpg"), "what?", "Q1"), Question("b", Path("2.jpg"), "what?", "Q9")]
        >>> [question.data_id for question in known_questions(kb, questions)]
        ['a']
    """
    rows = kb.rows([question.entity_id for question in questions])
    return [question for question, row in zip(questions, rows.tolist(), strict=True) if row >= 0]


def hold_out(questions: Sequence[Question], share: float = 0.1, seed: int = 0) -> tuple[list[Question], list[Question]]:
    """Split into training questions, and validation questions of seen and of unseen entities.

    A share of the entities is unseen: all their questions are for validation. Of the others, the same share of the
    questions, but never an entity's last one.

    Args:
        questions: all of them, answered.
        share: above 0 and below 1/2.
        seed: of the choice.

    Returns:
        Training questions; validation questions with `seen` set.

    Raises:
        ValueError: fewer than four entities, or no question is left for one of the sides.

    Example:
        >>> questions = [Question(f"d{e}{n}", Path("i.jpg"), "what?", f"Q{e}") for e in range(10) for n in range(3)]
        >>> train, validation = hold_out(questions, share=0.2)
        >>> len(train), [sum(question.seen is kind for question in validation) for kind in (True, False)]
        (19, [5, 6])
    """
    if not 0 < share < 0.5:
        raise ValueError(f"share: expected above 0 and below 0.5, got {share!r}")
    entities = sorted({question.entity_id for question in questions})
    if len(entities) < 4:
        raise ValueError(f"questions: expected at least 4 entities to hold some out, got {len(entities)}")
    rng = np.random.default_rng(seed)
    unseen = {entities[i] for i in rng.permutation(len(entities))[: max(1, round(share * len(entities)))]}
    remaining = Counter(question.entity_id for question in questions)
    held_out = np.zeros(len(questions), dtype=np.bool_)
    candidates = [i for i, question in enumerate(questions) if question.entity_id not in unseen]
    quota = max(1, round(share * len(candidates)))
    for i in rng.permutation(candidates).tolist():
        if quota and remaining[questions[i].entity_id] > 1:
            held_out[i], quota = True, quota - 1
            remaining[questions[i].entity_id] -= 1
    validation = [
        replace(q, seen=q.entity_id not in unseen)
        for q, is_held_out in zip(questions, held_out.tolist(), strict=True)
        if is_held_out or q.entity_id in unseen
    ]
    if not held_out.any():
        raise ValueError("questions: expected an entity with two questions at least, to hold one out; each has one")
    return [
        q
        for q, is_held_out in zip(questions, held_out.tolist(), strict=True)
        if not is_held_out and q.entity_id not in unseen
    ], validation


def entity_images(kb: KnowledgeBase, images: ImageFolder | None) -> dict[int, Path]:
    """Image file of each row that has one: a file named by the entity's id, else by the last part of its `image`.

    Example:
        >>> import tempfile
        >>> from oven_retrieval import Entity, build_kb
        >>> folder = Path(tempfile.mkdtemp())
        >>> kb = build_kb([Entity("Q1", "Wood duck"), Entity("Q2", "Goose", image="http://h/goose.png")], folder / "kb")
        >>> for name in ("Q1.jpg", "goose.png"):
        ...     (folder / name).touch()
        >>> {row: file.name for row, file in entity_images(kb, ImageFolder(folder)).items()}
        {0: 'Q1.jpg', 1: 'goose.png'}
    """
    if images is None:
        return {}
    files = {}
    for row in range(len(kb)):
        for name in (kb.ids[row], PurePosixPath(kb.images[row]).name):
            if name and name in images:
                files[row] = images.find(name)
                break
    return files
