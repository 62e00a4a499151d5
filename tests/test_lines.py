"""Lines of files end where editors end them: `str.splitlines` also cuts at U+2028 and form feeds inside a line."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_OF_FILES = re.compile(r"(read_text\([^()]*\)|\.decode\([^()]*\)|\btext)\.splitlines\(\)")
_OUR_OWN = ("resources.py", "revision.py")
"""Files that read what the kernel or Git writes."""


def cut_too_often(source: str) -> list[str]:
    """Calls that split a file's text at more than its line breaks."""
    code = "\n".join(line for line in source.split("\n") if ">>>" not in line)
    return [match[0] for match in _OF_FILES.finditer(code)]


def test_no_file_is_split_at_more_than_its_line_breaks() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {call}"
        for path in sorted(ROOT.glob("packages/*/src/**/*.py"))
        if path.name not in _OUR_OWN
        for call in cut_too_often(path.read_text(encoding="utf-8"))
    ]
    assert not wrong


def test_such_a_call_is_found() -> None:
    assert cut_too_often('path.read_text("utf-8").splitlines()') == ['read_text("utf-8").splitlines()']
    assert cut_too_often("lines = text.splitlines()") == ["text.splitlines()"]
    assert not cut_too_often("str(error).splitlines()")
