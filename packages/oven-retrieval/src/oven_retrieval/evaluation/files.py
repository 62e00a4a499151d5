"""References and predictions in OVEN's own jsonl formats."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from oven_retrieval.entity import EntityFileError
from oven_retrieval.text_files import json_objects, text_field

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Reference:
    """One question of OVEN: `data_split` is for example `val_seen` or `val_unseen`.

    Example:
        >>> Reference("a", "Q1", "val_seen").data_split
        'val_seen'
    """

    data_id: str
    entity_id: str
    data_split: str
    image_id: str = ""
    question: str = ""
    entity_text: str = ""


@dataclass(frozen=True, slots=True)
class Prediction:
    """One answer; an empty `entity_id` is an answer that names no entity; `score` how sure the model was, if known.

    Example:
        >>> Prediction("a", "Q1", score=0.7).entity_id
        'Q1'
    """

    data_id: str
    entity_id: str
    score: float | None = None


def _read(path: str | Path, make: Callable[[dict[str, Any]], Item]) -> list[Item]:
    items = []
    for line, record in json_objects(path):
        try:
            items.append(make(record))
        except ValueError as error:
            raise EntityFileError(path, line, str(error)) from None
    return items


def read_references(path: str | Path) -> list[Reference]:
    """Read a reference file (`data_id image_id question entity_id entity_text data_split`)."""

    def make(record: dict[str, Any]) -> Reference:
        split = text_field(record, "data_split")
        if "_seen" not in split and "_unseen" not in split:
            raise ValueError(f"data_split: expected a name with _seen or _unseen in it, got {split!r}")
        entity = text_field(record, "entity_id")
        if not entity.strip():
            raise ValueError(f"entity_id: expected a text that is not blank, got {entity!r}")
        return Reference(
            text_field(record, "data_id"),
            entity,
            split,
            *(text_field(record, field, required=False) for field in ("image_id", "question", "entity_text")),
        )

    return _read(path, make)


def read_predictions(path: str | Path) -> list[Prediction]:
    """Read a prediction file (`data_id pred_entity_id`, `score` if any); null is an answer without an entity."""

    def make(record: dict[str, Any]) -> Prediction:
        if "pred_entity_id" not in record:
            raise ValueError(f"pred_entity_id: missing; the fields are {list(record)[:12]}")
        score = record.get("score")
        if score is not None:
            try:
                score = math.nan if isinstance(score, bool | str) else float(score)
            except (TypeError, OverflowError):
                score = math.nan
            if math.isnan(score):
                raise ValueError(f"score: expected a number, got {record['score']!r:.80}")
        return Prediction(text_field(record, "data_id"), text_field(record, "pred_entity_id", required=False), score)

    return _read(path, make)
