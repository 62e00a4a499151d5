"""The page on test items: its lines of Python run, and print what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "test-on-fewer-items.md"


@pytest.mark.skipif(not PAGE.exists(), reason="the page is not in the package")
def test_the_lines_of_the_page_run(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 2
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)
    count, holds, last = capsys.readouterr().out.splitlines()
    assert count.startswith("100 0.0")
    assert holds == "True"
    assert int(last.split()[0]) < 1000
    low, high = map(float, re.findall(r"[\[ ](\d\.\d+)[,\]]", last))
    assert low < names["new"].mean() < high  # type: ignore[attr-defined]
