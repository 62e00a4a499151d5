"""The parsers that loaders share, on whatever a file may hold: values, or one line that names the file."""

from __future__ import annotations

import csv
import io
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gate_data.errors import DataError
from gate_data.readers import fields, lines, records, table
from gate_data.readers.arrays import read_matlab
from gate_data.readers.captions import karpathy, numbered
from gate_data.readers.tables import read_json

FEW = settings(max_examples=80, deadline=None)
PARSERS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "csv": (".csv", lambda path: list(table(path, ["image"]))),
    "tab": (".tab", lambda path: list(table(path, ["image"]))),
    "jsonl": (".jsonl", lambda path: list(table(path, ["image"]))),
    "json": (".json", read_json),
    "records": (".json", lambda path: list(records(path, "images"))),
    "lines": (".txt", lambda path: list(lines(path))),
    "fields": (".txt", lambda path: list(fields(path, "first", "rest"))),
    "last fields": (".txt", lambda path: list(fields(path, "file", "label", last=True))),
    "karpathy": (".json", lambda path: list(karpathy(path))),
    "numbered": (".token", lambda path: list(numbered(path))),
    "matlab": (".mat", lambda path: read_matlab(str(path), "S")),
}


def mat(values: Any) -> bytes:
    io_ = pytest.importorskip("scipy.io")
    buffer = io.BytesIO()
    io_.savemat(buffer, {"S": values, "names": np.array(["a", "b"], dtype=object)}, do_compression=True)
    return buffer.getvalue()


WHOLE = {
    "csv": b'image,level\n"a, b.jpg",0\nc.jpg,1\n',
    "tab": b"image\tlevel\na.jpg\t0\n",
    "jsonl": b'{"image": "a.jpg", "level": 1}\n{"image": "b.jpg"}\n',
    "json": b'{"train": ["a", {"b": 1.5}]}',
    "records": b'{"info": {}, "images": [{"id": 1}, {"id": 2, "x": [null, true]}]}',
    "lines": b"a\n b \n",
    "fields": b"1 a b.jpg\n2 c.jpg\n",
    "last fields": b"a b.jpg 3\nc.jpg 4\n",
    "karpathy": b'{"images": [{"filename": "a.jpg", "split": "test", "sentences": [{"raw": "A dog ."}]}]}',
    "numbered": b"a.jpg#0\tA dog .\na.jpg#1\tTwo .\n",
}


def read(kind: str, content: bytes) -> Any:
    """What a parser makes of a file, or None where it says in one line, with the file's name, what is wrong."""
    ending, parse = PARSERS[kind]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"given{ending}"
        path.write_bytes(content)
        try:
            return parse(path)
        except DataError as error:
            text = str(error)
        assert path.name in text
        assert "\n" not in text, text
        return None


@pytest.mark.parametrize("kind", PARSERS)
@given(content=st.one_of(st.binary(max_size=200), st.text(max_size=100).map(str.encode)))
@example(content=b"")
@example(content=b"\xef\xbb\xbf")
@example(content=b"\0")
@example(content=b"[" * 100_000)
@example(content=b'{"images": [{"a": ' + b"9" * 5000 + b"}]}")
@example(content=b'image\n"never closed\n')
@example(content=b'"two\nlines",level\na,0\n')
@example(content="image\n\u2028\x85\x0b".encode())
@FEW
def test_whatever_a_file_holds(kind: str, content: bytes) -> None:
    read(kind, content)


@pytest.mark.parametrize("kind", PARSERS)
@given(data=st.data())
@FEW
def test_a_good_file_that_was_damaged(kind: str, data: st.DataObject) -> None:
    whole = WHOLE.get(kind) or mat(np.arange(12, dtype=np.uint8).reshape(3, 4))
    assert read(kind, whole) is not None
    cut = data.draw(st.integers(0, len(whole)))
    put = data.draw(st.binary(max_size=4))
    skipped = data.draw(st.integers(0, len(whole) - cut))
    read(kind, whole[:cut] + put + whole[cut + skipped :])


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), min_size=1).filter(
    lambda text: text.strip() == text and text != ""
)


@given(
    rows=st.lists(st.tuples(TEXT, st.integers(0, 4)), min_size=1),
    delimiter=st.sampled_from([(".csv", ","), (".tab", "\t")]),
)
@FEW
def test_tables_are_read_as_they_were_written(rows: list[tuple[str, int]], delimiter: tuple[str, str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"given{delimiter[0]}"
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, delimiter=delimiter[1], quoting=csv.QUOTE_ALL)
            writer.writerows([("image", "level"), *rows])
        parsed = [(row.text("image"), row.integer("level", 0, 4)) for row in table(path, ["image", "level"])]
    assert parsed == rows


NAMES = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Z")), min_size=1)


@given(entries=st.lists(st.tuples(NAMES, NAMES, NAMES), min_size=1))
@FEW
def test_lists_of_pairs_are_read_as_they_were_written(entries: list[tuple[str, str, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "given.txt"
        path.write_text("".join(f"{a} {b} {c}\n" for a, b, c in entries), encoding="utf-8")
        rows = [(row.line, row.text("first"), row.text("rest")) for row in fields(path, "first", "rest")]
    assert rows == [(line, a, f"{b} {c}") for line, (a, b, c) in enumerate(entries, start=1)]


@given(captions=st.lists(NAMES, min_size=1, max_size=5), name=NAMES.filter(lambda name: "|" not in name))
@FEW
def test_captions_in_both_forms_are_the_same(captions: list[str], name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tokens, path = Path(folder) / "given.token", Path(folder) / "given.json"
        tokens.write_text("".join(f"{name}#{at}\t{caption}\n" for at, caption in enumerate(captions)), encoding="utf-8")
        sentences = [{"raw": caption} for caption in captions]
        path.write_text(json.dumps({"images": [{"filename": name, "split": "val", "sentences": sentences}]}))
        (first,), (second,) = list(numbered(tokens)), list(karpathy(path))
    assert (first.file, first.captions) == (second.file, second.captions) == (name, tuple(captions))


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (3, 4), (0, 2)])
@pytest.mark.parametrize("kind", ["u1", "u2", "i4", "f8"])
def test_matlab_variables_are_read_as_they_were_written(shape: tuple[int, ...], kind: str) -> None:
    values = np.arange(int(np.prod(shape))).reshape(shape).astype(kind)
    assert np.array_equal(read("matlab", mat(values)), values)
