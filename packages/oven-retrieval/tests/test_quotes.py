"""CSV of entities whose quotes are not closed, whose cells are long, or whose separator is another."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from oven_retrieval.entity import EntityFileError
from oven_retrieval.text_files import csv_objects


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('id,name\nQ1,a\n\nQ2,"b\nQ3,c\n', ":4: expected CSV: a quote opens in this row and is never closed"),
        ('id,name\nQ1,a\nQ2,"b\nQ3,c\nQ4,"d" e\n', ":3: expected CSV: a cell begins with a quote and goes on"),
        ('id,name\nQ1,a\nQ2,"b\nQ3,c"\nQ4,d\n', ":3: a quote opens in this row and holds the row 'Q3,c'"),
        ('id,name\nowl,a\ncat,"b\ndog,c"\nfox,d\n', ":3: expected name on one line"),
        (
            'id,name,about\nQ1,a,"b\nQ2,c,d\nQ3,e,5"\nQ4,f,\n',
            ":2: a quote opens in this row and holds the row 'Q2,c,d'",
        ),
        ("id,name,name\nQ1,a,b\n", ":1: column 'name' comes twice"),
        ("id,name\nQ1,a\nQ2,b,c\n", ":3: expected 2 cells, got more"),
        ("id;name\nQ1;a\n", ":1: cells are separated by ';'"),
        ("", ":1: expected a header with id and name; the first line is empty"),
    ],
)
def test_a_row_that_is_wrong_is_named_by_its_first_line(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "entities.csv"
    path.write_text(text)
    with pytest.raises(EntityFileError, match=problem):
        list(csv_objects(path, required=("id", "name")))


def test_a_page_as_a_cell_is_read(tmp_path: Path) -> None:
    path = tmp_path / "entities.csv"
    path.write_text(f'id,name,description\nQ1,a,"{"x" * 200_000}\ny"\nQ2,b,\n')
    limit = csv.field_size_limit(131_072)
    try:
        read = list(csv_objects(path, required=("id", "name")))
    finally:
        csv.field_size_limit(limit)
    assert [(line, record["name"], len(record["description"])) for line, record in read] == [
        (2, "a", 200_002),
        (4, "b", 0),
    ]


def test_a_name_may_have_several_lines(tmp_path: Path) -> None:
    path = tmp_path / "entities.csv"
    path.write_text('id,name\nQ1,"a\nb"\n')
    assert [record["name"] for _, record in csv_objects(path, required=("id", "name"))] == ["a\nb"]
