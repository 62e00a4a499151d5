"""Scores that others published, with their source, to hold a run's beside."""

from __future__ import annotations

import csv
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Published(NamedTuple):
    """One published score, in [0, 1].

    suite, name, measure: As in a `SuiteTable`'s lines and averages.
    model: As open_clip or the authors call it.
    source: Whose table.

    Example:
        >>> Published("winoground", "all", "group", "ViT-B-32/openai", 0.0875, "vl_compo").value
        0.0875
    """

    suite: str
    name: str
    measure: str
    model: str
    value: float
    source: str


@lru_cache(maxsize=1)
def published_table() -> tuple[Published, ...]:
    """All of them.

    Example:
        >>> {row.model for row in published_table() if row.suite == "mmvp"} >= {"ViT-L-14/openai"}
        True
    """
    text = resources.files("eqben_builder.suites").joinpath("published.csv").read_text("utf-8")
    return tuple(
        Published(row["suite"], row["name"], row["measure"], row["model"], float(row["percent"]) / 100, row["source"])
        for row in csv.DictReader(text.splitlines())
    )


def published_scores(suite: str, name: str, measure: str) -> dict[str, float]:
    """Model -> the score of a line, in [0, 1]; of several sources the first.

    Example:
        >>> published_scores("winoground", "all", "group")["ViT-B-32/openai"]
        0.0875
    """
    scores: dict[str, float] = {}
    for row in published_table():
        if (row.suite, row.name, row.measure) == (suite, name, measure):
            scores.setdefault(row.model, row.value)
    return scores


def published_of(published: Mapping[str, float], model: str) -> tuple[str, float] | None:
    """The published score to hold beside a model's: its own where its name ends so, or OpenAI's ViT-B/32."""
    for name, value in published.items():
        if model.endswith(name):
            return name, value
    return next(iter(published.items()), None)
