"""Plug-ins by entry point: the example project as an installer leaves it, and broken ones."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from gate_runner.benchmarks import BENCHMARKS, all_benchmarks, find_benchmark, resolve
from gate_runner.errors import UsageError
from gate_runner.executors import executor_names
from vision_features.encoders import load_encoder
from vision_features.encoders.spec import encoder_forms

from ._command import call_here

EXAMPLE = Path(__file__).parent / "example_plugin"
COOKING = """
from dataclasses import replace
from gate_runner.benchmarks import BENCHMARKS
def made():
    return [replace(BENCHMARKS['digits'], id='mine', task='cooking')]
"""


def install(site: Path, groups: dict[str, dict[str, str]], name: str = "gate-stripes") -> None:
    """What pip leaves behind for metadata: a dist-info folder."""
    folder = site / f"{name.replace('-', '_')}-0.1.0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n")
    lines = [
        f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in points.items())
        for group, points in groups.items()
    ]
    (folder / "entry_points.txt").write_text("\n".join(lines))


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    install(tmp_path / "site", project["entry-points"])
    monkeypatch.syspath_prepend(str(EXAMPLE / "src"))
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    return tmp_path / "site"


@pytest.mark.usefixtures("example")
def test_everything_in_the_example_is_found() -> None:
    assert find_benchmark("stripes").title == "Direction of stripes"
    assert [benchmark.id for benchmark in resolve(["stripes", "digits"])] == ["stripes", "digits"]
    assert list(all_benchmarks())[-2:] == ["stripes", "squares"]
    assert ("edges:…", "plug-in gate_stripes.encoder:edges") in encoder_forms()
    encoder = load_encoder("edges:4")
    assert (encoder.spec, encoder.image_size) == ("edges:4", 32)
    assert executor_names()[-1] == "backwards"


@pytest.mark.usefixtures("example")
def test_the_command_runs_all_three(tmp_path: Path) -> None:
    command = ["run", "stripes", "--encoder", "edges:4", "--executor", "backwards", "--seed", "0", "--seed", "1"]
    done = call_here(*command, "--output", str(tmp_path / "run"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.index(b"micro/stripes seed 1:") < done.stdout.index(b"micro/stripes seed 0:")
    result = json.loads((tmp_path / "run" / "results" / "micro-stripes.seed0.json").read_text())
    assert result["encoder"]["spec"] == "edges:4"
    assert result["scores"][0]["low"] > 0.5 > result["scores"][0]["chance"]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("raise RuntimeError('no licence')", "RuntimeError: no licence"),
        ("made = 3", "TypeError: 'int' object is not iterable"),
        ("made = ['stripes']", "TypeError: expected a Benchmark or several, got str"),
        (
            "from gate_runner.benchmarks import BENCHMARKS\nmade = BENCHMARKS['digits']",
            "a Benchmark 'digits' already",
        ),
    ],
)
def test_a_broken_benchmark_is_warned_about_and_left_out(
    code: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"broken_{abs(hash(code))}"
    (tmp_path / f"{module}.py").write_text(code)
    install(tmp_path, {"gate_runner.benchmarks": {"mine": f"{module}:made"}}, "broken")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.warns(RuntimeWarning, match=f"plug-in {module}:made is left out: .*{message}"):
        benchmarks = all_benchmarks()
    assert benchmarks == BENCHMARKS
    assert resolve(["digits"])[0].id == "digits"  # nothing of it is looked at for what is ours
    with pytest.warns(RuntimeWarning), pytest.raises(UsageError, match="unknown pack or benchmark 'mine'"):
        resolve(["mine"])


def test_a_benchmark_of_an_unknown_task_is_refused_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import gate_runner

    (tmp_path / "cooks.py").write_text(COOKING)
    install(tmp_path, {"gate_runner.benchmarks": {"mine": "cooks:made"}}, "cooks")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UsageError, match="unknown task type 'cooking'"):
        gate_runner.run("mine", output=tmp_path / "run")
    assert not (tmp_path / "run").exists()
