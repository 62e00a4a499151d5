"""Tables with quotes that are not closed, long fields and other separators: read whole, or one line with its number."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from gate_data.errors import DataError
from gate_data.own import OwnBenchmark
from gate_data.own.originals import originals_from
from gate_data.readers import table


def rows(cells: dict[int, str], delimiter: str = ",") -> str:
    """Twelve images with labels, some of them others."""
    return f"image{delimiter}label\n" + "".join(
        f"{row}.png{delimiter}{cells.get(row, 'red' if row % 2 else 'blue')}\n" for row in range(12)
    )


@pytest.mark.parametrize("ending", ["csv", "tsv"])
@pytest.mark.parametrize("windows", [False, True])
@pytest.mark.parametrize(
    ("cells", "line", "problem"),
    [
        ({5: '"red'}, 7, "a quote opens in it and is never closed"),
        ({11: '"red'}, 13, "a quote opens in it and is never closed"),
        ({3: '"red', 7: 'green"'}, 5, "holds the rows behind it, such as '4.png"),
        ({5: '"red" bird'}, 7, "a cell begins with a quote and goes on"),
        ({5: '"red', 8: '"green" bird'}, 7, "goes on behind the closing one"),
    ],
)
def test_a_quote_swallows_no_rows(
    tmp_path: Path, ending: str, windows: bool, cells: dict[int, str], line: int, problem: str
) -> None:
    path = tmp_path / f"labels.{ending}"
    text = rows(cells, "\t" if ending == "tsv" else ",")
    path.write_bytes((text.replace("\n", "\r\n") if windows else text).encode())
    with pytest.raises(DataError, match=rf"labels\.{ending}, line {line}\D.*{problem}"):
        list(table(path, ["image", "label"]))


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ('label,image\n"big,0.png\nfive",1.png\nsix,2.png\n', "big,0.png"),
        ('image,label\n0001,"big\n0002,x\n0003,five"\n0004,y\n', "0002,x"),
        ('image,label\nq_1,"big\nq_3,five"\nq_4,y\n', "q_3,five"),
    ],
)
def test_a_quote_swallows_no_row_of_another_form(tmp_path: Path, text: str, held: str) -> None:
    path = tmp_path / "labels.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=rf"labels\.csv, line 2: .*holds the rows behind it, such as '{held}"):
        list(table(path, ["image", "label"]))


def test_quotes_that_are_meant_are_read(tmp_path: Path) -> None:
    path = tmp_path / "captions.csv"
    path.write_text('image,caption\n\n0.png,a 6" pipe\n1.png,"a ""red"", thing\nin two lines, no row"\n2.png,"x"\n')
    read = [(row.line, row.text("caption")) for row in table(path, ["image", "caption"])]
    assert read == [(3, 'a 6" pipe'), (4, 'a "red", thing\nin two lines, no row'), (6, "x")]


def test_a_label_or_path_of_several_lines_is_refused(tmp_path: Path) -> None:
    for number in range(4):
        Image.new("RGB", (4, 4)).save(tmp_path / f"{number}.png")
    values = {"benchmark": {"id": "a"}, "data": {"kind": "table", "table": "t.csv"}}
    for text, problem in (
        ('label,image\na,0.png\n"b\nc",1.png\n', "field 'label' is .*expected a label on one line"),
        ('label,image\na,0.png\nb,"1.png\n\nx"\n', "field 'image' is .*expected a path on one line"),
    ):
        (tmp_path / "t.csv").write_text(text)
        with pytest.raises(DataError, match=rf"(?s)t\.csv, line 3: {problem}"):
            originals_from(OwnBenchmark.model_validate(values), tmp_path / "b.toml").check(tmp_path)


def test_long_fields_are_read_and_importing_sets_no_limit_for_others(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text(f"image,label\n0.png,{'x' * 200_000}\n")
    limit = csv.field_size_limit(131_072)
    try:
        assert [len(row.text("label")) for row in table(path, ["image"])] == [200_000]
    finally:
        csv.field_size_limit(limit)
    code = "import csv, gate_data.readers.tables; assert csv.field_size_limit() == 131_072"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("separator", [";", "|"])
def test_other_separators_are_named(tmp_path: Path, separator: str) -> None:
    path = tmp_path / "labels.csv"
    path.write_text(rows({}, separator))
    with pytest.raises(DataError, match=r"separated by ';'" if separator == ";" else "no field 'image'"):
        list(table(path, ["image"]))
