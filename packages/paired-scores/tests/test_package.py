"""The README's lines run, and importing the package loads NumPy alone."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"


def loaded_by(statement: str) -> set[str]:
    code = f"{statement}; import sys; print(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_it_loads_numpy_alone() -> None:
    names = loaded_by("from paired_scores import *")
    assert "numpy" in names
    assert not names & {"scipy", "torch", "sklearn", "jaxtyping", "wary_files", "vision_adapters"}
    assert "scipy" in loaded_by("import scipy")


def test_the_readmes_lines_run(capsys: pytest.CaptureFixture[str]) -> None:
    if not README.exists():
        pytest.skip("the README is not beside the tests")
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    exec(compile(code, str(README), "exec"), {})
    assert "p 0." in capsys.readouterr().out
