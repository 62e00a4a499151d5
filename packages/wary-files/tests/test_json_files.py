"""A JSON file is read, or refused in one line that names it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from wary_files.json_files import JsonFileError, read_json


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_a_byte_order_mark_changes_nothing(mark: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(mark + '{"gull": "Möwe"}'.encode())
    assert read_json(tmp_path / "a.json") == {"gull": "Möwe"}


@pytest.mark.parametrize(
    ("content", "line", "reason"),
    [
        (b"", 1, "not JSON (Expecting value)"),
        (b'{"a": 1,\n oops}', 2, "not JSON (Expecting property name enclosed in double quotes)"),
        (b"[1]\n\n[2]", 3, "not JSON (Extra data)"),
        (b'["a",\n"\xff"]', 2, "not UTF-8 (byte 0xff)"),
        (b"[" * 100_000, None, "nested too deeply"),
        (b'{"label": 1, "label": 2}', None, "the key 'label' comes twice in one object"),
        (b'{"a": ' + b"9" * 5000 + b"}", None, "Exceeds the limit (4300"),
    ],
)
def test_what_is_wrong_is_one_line(content: bytes, line: int | None, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(JsonFileError) as error:
        read_json(path)
    assert error.value.line == line
    assert error.value.reason.startswith(reason)
    assert str(error.value) == f"{path}{'' if line is None else f', line {line}'}: {error.value.reason}"


def test_no_file_of_bytes_is_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    for path in (tmp_path, tmp_path / "pipe.json"):
        with pytest.raises(JsonFileError, match="a folder or a pipe, expected a file"):
            read_json(path)
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "none.json")


def test_a_file_above_the_limit_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.json").write_text("[1, 2, 3]")
    monkeypatch.setenv("WARY_FILES_MAX_BYTES", "5")
    with pytest.raises(JsonFileError, match="the file has 9 bytes, more than 5; WARY_FILES_MAX_BYTES"):
        read_json(tmp_path / "a.json")
