"""Scores that others published, with their source, to hold a run's beside."""

from __future__ import annotations

import csv
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@lru_cache(maxsize=1)
def published_table() -> tuple[dict[str, str], ...]:
    """The rows of `published.csv`: suite, name, measure, model, percent and source."""
    text = resources.files("eqben_builder.suites").joinpath("published.csv").read_text("utf-8")
    return tuple(csv.DictReader(text.split("\n")))


def published_scores(suite: str, name: str, measure: str) -> dict[str, float]:
    """Model -> the score of a line of a table, in [0, 1]; of several sources the first."""
    scores: dict[str, float] = {}
    for row in published_table():
        if (row["suite"], row["name"], row["measure"]) == (suite, name, measure):
            scores.setdefault(row["model"], float(row["percent"]) / 100)
    return scores


def published_of(published: Mapping[str, float], model: str) -> tuple[str, float] | None:
    """The published score to hold beside a model's: its own where its name ends so, or OpenAI's ViT-B/32."""
    for name, value in published.items():
        if model.endswith(name):
            return name, value
    return next(iter(published.items()), None)
