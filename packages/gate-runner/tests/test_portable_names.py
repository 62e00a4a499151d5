"""Files of results are called what every system takes, and earlier folders are read on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gate_runner.benchmarks import BENCHMARKS
from gate_runner.executors import run
from gate_runner.runs import RunRequest
from gate_runner.runs.folder import RunFolder, portable
from gate_runner.runs.stored import read_run
from gate_runner.settings import Settings

FORBIDDEN = '<>:"/\\|?*'
NAME = "digits@readout=block:1/mean"


def test_names_stay_apart_and_none_holds_what_windows_refuses() -> None:
    names = [NAME, "digits@readout=block%3A1", "a<b", "a>b", "con", "%63on", 'a"b', "a|b", "a\\b", "a?b", "a*b"]
    files = [portable(name) for name in names]
    assert len(set(files)) == len(names)
    assert not [file for file in files if set(file) & set(FORBIDDEN) or file == "con"]


def test_a_result_with_a_colon_is_written_read_and_found_again(tmp_path: Path) -> None:
    request = RunRequest([BENCHMARKS["digits"]], "micro-clip/random:0", tmp_path / "run",
                         replace(Settings(device="cpu", limit=20), readout=("block:1/mean",)))  # fmt: skip
    (first,) = run(request)
    assert first.status == "ok", first.reason
    assert first.name == NAME
    folder = RunFolder(tmp_path / "run")
    written = folder.result_file(first.name, 0)
    assert written.name == "digits@readout=block%3A1-mean.seed0.json"
    assert not [path for path in (tmp_path / "run").rglob("*") if ":" in path.name]
    for part in ("results", "samples"):  # as 0.1 called them
        for path in (tmp_path / "run" / part).iterdir():
            path.rename(path.with_name(path.name.replace("%3A", ":")))
    (stored,) = read_run(tmp_path / "run").results
    assert stored == first
    assert len(read_run(tmp_path / "run").outcomes(stored)) == first.data["test"]
    (again,) = run(request)
    assert again == first  # nothing was computed again
    assert not (tmp_path / "run" / "results" / written.name).exists()
