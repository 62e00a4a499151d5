"""What an encoder scores that was never trained: shipped beside the packs, so that a reader can tell a good score."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from gate_runner.runs.results import SCHEMA, Result

ENCODER = "micro-clip/random"
"""Whose scores they are: micro-clip's architecture with random weights."""


def untrained(result: Result) -> float | None:
    """The headline that the untrained encoder reached on the same data with the same head.

    Example:
        >>> untrained(Result("digits", "digits", "image-classification", "built-in", 0, "failed", "no space")) is None
        True
    """
    score = result.headline
    if score is None or {name for name, value in result.settings.items() if name != "limit" and value}:
        return None
    found = _table().get((result.name, str(result.data.get("sha256")), score.metric))
    return None if found is None else float(found)


def said_of(results: Iterable[Result]) -> str:
    """What a reader must know of these figures, or that there are none.

    Example:
        >>> said_of([])
        ''
    """
    trained = [result for result in results if "/random" not in str(result.encoder.get("spec"))]
    scored = {result.name: untrained(result) for result in trained if result.headline is not None}
    lacking = sorted(name for name, value in scored.items() if value is None)
    if not scored:
        return ""
    if len(lacking) == len(scored):
        return f"No score of an untrained encoder is shipped for these data; --encoder {ENCODER} computes one."
    said = f"untrained: the same heads on {ENCODER}, whose weights are random."
    return f"{said} None is shipped for {', '.join(lacking)}." if lacking else said


def as_table(results: Iterable[Result]) -> dict[str, Any]:
    """The table's content from results of the untrained encoder.

    Example:
        >>> as_table([])["rows"]
        []
    """
    rows = [
        {
            "name": one.name,
            "data_sha256": str(one.data["sha256"]),
            "metric": one.scores[0].metric,
            "value": one.scores[0].value,
        }
        for one in results
        if one.scores
    ]
    return {"encoder": ENCODER, "schema": SCHEMA, "rows": rows}


@cache
def _table() -> Mapping[tuple[str, str, str], float]:
    """Values by name, digest and metric; empty where the table was made for other forms of results."""
    found = json.loads(files("gate_runner").joinpath("runs", "untrained.json").read_text(encoding="utf-8"))
    if found["schema"] != SCHEMA:
        return {}
    return {(row["name"], row["data_sha256"], row["metric"]): row["value"] for row in found["rows"]}
