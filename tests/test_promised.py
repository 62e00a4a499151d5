"""What the papers' systems do: each row of the page names a test that is there, and no row is lost."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from website.promised import PAGE, PAPERS, STATES, functions_of, is_there, page, places_of, rows  # noqa: E402

ROWS_OF = {"elevater": 48, "oven": 33, "gate": 41, "eqben": 30}
"""Rows that each paper has: none may be taken out."""


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "out of date: python website/promised.py"


def test_no_row_is_lost() -> None:
    numbered = {paper: [row["number"] for row in rows() if row["paper"] == paper] for paper in PAPERS}
    assert numbered == {paper: list(range(1, count + 1)) for paper, count in ROWS_OF.items()}


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row['paper']}-{row['number']}")
def test_a_row_is_what_it_says(row: dict[str, Any]) -> None:
    assert row["state"] in STATES
    if row["state"] in ("works", "otherwise"):
        assert row["tests"], "name the test that runs it"
    if row["state"] != "works":
        assert row["reason"], "say how it differs, or what is missing"
        assert row["here"] or row["state"] == "missing", "say where it is"
    assert not [name for name in places_of(row["here"]) if not is_there(name)]
    for test in row["tests"]:
        path, _, name = test.partition("::")
        assert name in functions_of(ROOT / path), test


def test_a_place_that_is_not_there_is_seen() -> None:
    assert places_of("`eqsim.functional`, `eqsim.TopK(fraction=0.1)`; `eqben score`") == [
        "eqsim.functional",
        "eqsim.TopK",
    ]
    assert is_there("eqsim.functional")
    assert is_there("eqsim.TopK")
    assert not is_there("eqsim.functions")
    assert not is_there("eqsim.loss.nothing")
