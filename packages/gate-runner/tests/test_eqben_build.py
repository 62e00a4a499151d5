"""`gate-runner eqben build` and `verify`, in a process of their own where the exit status matters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ._command import call_here


def call(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    code = "from gate_runner.cli import main\nif __name__ == '__main__':\n    main()"
    (cwd / "call.py").write_text(code)
    return subprocess.run(
        [sys.executable, str(cwd / "call.py"), "eqben", *arguments],
        capture_output=True, text=True, cwd=cwd, timeout=300, check=False,
        env={**os.environ, "COLUMNS": "150", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def here(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The same in this process."""
    done = call_here("eqben", *arguments, cwd=cwd)
    return subprocess.CompletedProcess(arguments, done.returncode, done.stdout.decode(), done.stderr.decode())


def hashes(folder: Path) -> str:
    return json.loads((folder / "manifest.json").read_text())["hash"]


def test_pairs_are_built_verified_and_left_alone_when_they_are_whole(tmp_path: Path) -> None:
    options = ["--pairs", "4", "--size", "64", "--seed", "2"]
    first = here("build", "kubric", "a", "--engine", "raster", "--workers", "1", *options, cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    assert "12 pairs in a (4 attribute, 4 counting, 4 location)" in first.stdout
    second = call("build", "kubric", "b", "--engine", "raster", "--workers", "2", *options, cwd=tmp_path)
    assert second.returncode == 0, second.stderr
    assert hashes(tmp_path / "a") == hashes(tmp_path / "b")
    again = here("build", "kubric", "a", "--engine", "raster", *options, cwd=tmp_path)
    assert again.stdout == first.stdout
    good = here("verify", "a", cwd=tmp_path)
    assert (good.returncode, good.stdout) == (0, "12 pairs, 12 certified again from their sources, 0 failures\n")
    picture = next((tmp_path / "a" / "images").rglob("*_0.png"))
    picture.write_bytes(picture.read_bytes()[:-1])
    bad = call("verify", "a", cwd=tmp_path)
    assert bad.returncode == 1
    assert f"images/000/{picture.name}: hash: is not" in bad.stdout
    assert "Traceback" not in bad.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["build", "mikro", "x"], "unknown subset 'mikro'; nearest: micro"),
        (["build", "micro", "x", "--engine", "raster"], "--engine is no option of the subset 'micro'"),
        (["build", "micro", "x", "--aspect", "mood"], "aspect 'mood' is not one of attribute, count, relation"),
        (["build", "kubric", "x", "--engine", "rasta"], "engine 'rasta' is not one of mitsuba, raster"),
        (["build", "sd", "x"], "the subset 'sd' needs --model"),
        (["verify", "nowhere"], "nowhere is no build folder: it holds no manifest.json"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_written(arguments: list[str], message: str, tmp_path: Path) -> None:
    done = call_here("eqben", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr.decode()
    assert len(done.stderr.decode().strip().splitlines()) == 1
    assert not (tmp_path / "x").exists()


def test_another_build_is_not_overwritten(tmp_path: Path) -> None:
    command = ["eqben", "build", "micro", "a", "--pairs", "1"]
    assert call_here(*command, "--size", "16", "--workers", "1", cwd=tmp_path).returncode == 0
    done = call_here(*command, "--size", "32", cwd=tmp_path)
    assert done.returncode == 2
    assert "a holds another build: its parameters.size is 16, now it is 32" in done.stderr.decode()
