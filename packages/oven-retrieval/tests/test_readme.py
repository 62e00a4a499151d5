"""The README's Python runs as it stands, from top to bottom."""

from __future__ import annotations

import re
from pathlib import Path

import pytest


def test_readme_runs(tmp_path, monkeypatch, capsys):
    readme = Path(__file__).parents[1] / "README.md"
    if not readme.is_file():
        pytest.skip("the README is not beside the tests")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", readme.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, str(readme), "exec"), names)  # our own text
    assert "Q2 folded name\nQ3 folded alias\nQ3 ngrams\nNone none\n" in capsys.readouterr().out
