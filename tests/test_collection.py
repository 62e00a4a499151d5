"""Every example in a source file is a test that runs: no folder is skipped for its name."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def files_with_examples(places: list[Path]) -> set[Path]:
    """Source files that hold a doctest's prompt."""
    return {path for folder in places for path in folder.rglob("*.py") if ">>> " in path.read_text(encoding="utf-8")}


def collected_files(root: Path, places: list[Path]) -> set[Path]:
    """Files in which pytest, with the settings of a root, finds at least one test."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(
        [*command, *map(str, places)], cwd=root, env=environ, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode in (0, 5), done.stdout[-3000:] + done.stderr[-3000:]
    return {root / line.split("::")[0] for line in done.stdout.splitlines() if "::" in line}


def test_every_source_file_that_holds_an_example_is_collected(request: pytest.FixtureRequest) -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    searched = {path for pattern in settings["testpaths"] for path in ROOT.glob(pattern)}
    sources = sorted(ROOT.glob("packages/*/src"))
    assert set(sources) <= searched
    collected = {item.path for item in request.session.items}
    if not collected >= files_with_examples(sources):  # these are a part of the tests: all are asked for anew
        collected = collected_files(ROOT, sources)
    assert collected >= files_with_examples(sources)


def test_a_folder_that_the_settings_leave_out_is_noticed(tmp_path: Path) -> None:
    folder = tmp_path / "src" / "training"
    folder.mkdir(parents=True)
    (folder / "fit.py").write_text('def f():\n    """One.\n\n    >>> 1\n    1\n    """\n')
    settings = '[tool.pytest.ini_options]\naddopts = "--import-mode=importlib --doctest-modules"\n'
    for excluded, expected in (("training", set()), ("elsewhere", {folder / "fit.py"})):
        (tmp_path / "pyproject.toml").write_text(f'{settings}norecursedirs = ["{excluded}"]\n')
        assert collected_files(tmp_path, [tmp_path / "src"]) == expected
    assert files_with_examples([tmp_path / "src"]) == {folder / "fit.py"}


def test_a_module_of_a_tests_folder_is_gone_in_the_next_file(tmp_path: Path) -> None:
    shutil.copy(ROOT / "conftest.py", tmp_path)
    for number in (1, 2):
        (tmp_path / f"test_{number}.py").write_text(
            "def test_own(tmp_path, monkeypatch):\n"
            f"    (tmp_path / 'of_one_name.py').write_text('value = {number}')\n"
            "    monkeypatch.syspath_prepend(str(tmp_path))\n"
            "    import of_one_name\n"
            f"    assert of_one_name.value == {number}\n"
        )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--rootdir", "."]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=300, check=False)
    assert "2 passed" in done.stdout, done.stdout[-3000:] + done.stderr[-3000:]
