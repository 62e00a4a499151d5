"""A quote that is opened by mistake, and the rows that its cell holds."""

from __future__ import annotations

import csv
import io
from itertools import permutations

import pytest

from wary_files.tables import held_row

HEADS = ("file", "name", "note")


def read(text: str, delimiter: str = ",") -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=delimiter))


@pytest.mark.parametrize("delimiter", [",", "\t"])
@pytest.mark.parametrize("held", [1, 2, 3])
@pytest.mark.parametrize("name_of", ["a{}.png", "{:04}", "Q{}", "img_{}_7"])
@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_rows_behind_a_quote_are_found_wherever_the_column_of_names_stands(
    order: tuple[int, ...], name_of: str, held: int, delimiter: str
) -> None:
    rows = [[name_of.format(number), "owl", "brown"] for number in range(8, 8 + held + 2)]
    rows[0][1], rows[held][1] = '"big owl', 'a disc of 5"'
    text = "\n".join(delimiter.join(row[column] for column in order) for row in rows)
    wrong, *after = read(text, delimiter)
    assert len(after) == 1, "the quote holds all rows but the last"
    assert held_row(wrong, delimiter)
    assert not held_row(after[0], delimiter)


@pytest.mark.parametrize(
    "cells",
    [
        ["a.png", "two\nlines, of text"],
        ["0017", "the first line\nthe second, and more"],
        ["Q1", "Alpha", "a bird.\nFound in Asia, Africa, and Europe"],
        ["Q1", "Alpha", "from 1900\nto 1950, say"],
        ["a.png", 'one "quoted" word, 5"', "b"],
        ["a.png", "line\r\n"],
        ["owl", "text\nowl, that is all"],
        ["cat", "Cat", "small,\nred, brown\nand white"],
        ["cat", "Cat", "1,000 of them\n2,000 of others,or 3"],
        ["cat", "it says\nleft,right\nand no more"],
    ],
)
def test_texts_of_several_lines_pass(cells: list[str]) -> None:
    assert held_row(cells) == ""


@pytest.mark.parametrize("quoted", ["description", "alias"])
def test_rows_of_words_behind_a_quote_are_found(quoted: str) -> None:
    rows = [["cat", "Cat", "12 inch pet"], ["dog", "Dog", "a hound"], ["owl", "Owl", "13 inch"], ["fox", "Fox", "red"]]
    if quoted == "alias":
        rows = [[name, text] for name, _, text in rows]
    rows[0][-1], rows[2][-1] = '"12 inch pet', '13 inch"'
    wrong, after = read("\n".join(map(",".join, rows)))
    assert held_row(wrong).startswith("dog,")
    assert not held_row(after)
