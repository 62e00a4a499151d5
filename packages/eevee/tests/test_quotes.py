"""Tables of results whose quotes are not closed, whose cells are long, or whose separator is another."""

from __future__ import annotations

import csv

import pytest

from eevee.errors import EeveeError
from eevee.tables.reading import read_csv_text

ROWS = "".join(f"m{row},{row},{row + 1}\n" for row in range(7))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("model,a,b\n" + ROWS.replace("m4", '"m4'), "line 6: a quote opens in this row and is never closed"),
        ("model,a,b\n" + ROWS.replace("m4", '"m4').replace("m5", 'm5"'), "line 6: a quote opens in this row and holds"),
        ("model;a;b\n" + ROWS.replace(",", ";"), "line 1: cells are separated by ';'"),
        ("model,a,b\n" + ROWS.replace("5,6", "5,6,7"), "line 7: 4 cells; expected 3"),
    ],
)
def test_a_row_that_is_wrong_is_named_by_its_first_line(text: str, problem: str) -> None:
    with pytest.raises(EeveeError, match=problem):
        read_csv_text(text, name="t", direction="higher")


def test_a_long_cell_is_read() -> None:
    limit = csv.field_size_limit(131_072)
    try:
        text = "model,a,b\n" + ROWS.replace("m4", "m" * 200_000)
        assert len(read_csv_text(text, name="t", direction="higher").models[4]) == 200_000
    finally:
        csv.field_size_limit(limit)
