"""A named module comes from the working folder; what nobody named does not."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from wary_files.working_folder import import_named


def test_a_named_module_and_what_it_imports_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "named_here.py").write_text("import beside_it\nvalue = beside_it.value\n")
    (tmp_path / "beside_it.py").write_text("value = 3\n")
    (tmp_path / "unnamed_here.py").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry not in ("", str(tmp_path))])
    try:
        assert import_named("named_here").value == 3
        with pytest.raises(ImportError):
            importlib.import_module("unnamed_here")
        with pytest.raises(ImportError):
            import_named("lacking_here")
    finally:
        for name in ("named_here", "beside_it"):
            sys.modules.pop(name, None)


def test_an_installed_module_goes_before_one_of_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "colorsys.py").write_text("raise AssertionError\n")
    monkeypatch.chdir(tmp_path)
    assert import_named("colorsys").__name__ == "colorsys"
