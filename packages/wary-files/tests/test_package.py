"""Each module loads no more than it needs: a command's first second is not spent here."""

from __future__ import annotations

import subprocess
import sys

import pytest


def loaded_by(module: str) -> set[str]:
    code = f"import {module}, sys; print(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("name", ["durable", "errors", "limits", "text", "working_folder", "archives"])
def test_a_module_of_files_loads_no_numpy(name: str) -> None:
    names = loaded_by(f"wary_files.{name}")
    assert "wary_files" in names
    assert not names & {"numpy", "filelock", "PIL", "torch"}


def test_an_import_would_be_seen() -> None:
    assert {"numpy"} <= loaded_by("wary_files.pickles")
    assert {"filelock"} <= loaded_by("wary_files.locks")
