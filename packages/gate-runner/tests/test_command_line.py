"""The command line as a user meets it."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ._command import call_here


def call(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """What it does in a process of its own."""
    code = "from gate_runner.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True, text=True, cwd=cwd, timeout=300, check=False,
        env={**os.environ, "COLUMNS": "150", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def here(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The same in this process, where what is asked does not depend on a new one."""
    done = call_here(*arguments, cwd=cwd)
    return subprocess.CompletedProcess(arguments, done.returncode, done.stdout.decode(), done.stderr.decode())


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from gate_runner.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'numpy', 'open_clip', 'timm', 'transformers', 'faiss', 'eevee', 'PIL', 'sklearn'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=60)


def test_help_takes_at_most_three_times_what_typer_takes() -> None:
    """In processor time, the least of several: what else runs on the machine adds to it, and takes nothing away."""

    def seconds(code: str) -> float:
        before = os.times()
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=60)
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    helping = "from gate_runner.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass"
    pairs: list[tuple[float, float]] = []
    ours = typers = math.inf
    while len(pairs) < 3 or (ours > 3 * typers and len(pairs) < 7):
        pairs.append((seconds(helping), seconds("import typer")))
        ours, typers = (min(column) for column in zip(*pairs, strict=True))
    assert ours <= 3 * typers, (ours, typers)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "smal"], "unknown pack or benchmark 'smal'; nearest: small"),
        (["run", "cifar10"], "nearest: cifar100"),
        (["run", "micro/minni"], "unknown pack or benchmark 'micro/minni'; nearest: micro/mini"),
        (["run", "small", "--encoder", "micro-klip"], "unknown encoder 'micro-klip'; nearest: micro-clip"),
        (
            ["run", "digits", "--encoder", "timm:resnet19/random", "--isolate", "none"],
            "unknown timm model 'resnet19'; nearest:",
        ),
        (["run", "digits", "--data-root", "nowhere"], "data root nowhere is not a folder"),
        (["run", "chestxray14"], "give --data-root"),
        (["run", "digits", "--setting", "time_limit=20x"], "'20x' is no duration; expected a number with s, m, h or d"),
        (["run", "digits", "--setting", "wise_ft=2"], "setting wise_ft is a share from 0 to 1, or best, not 2"),
        (["run", "digits", "--setting", "wiseft=2"], "unknown setting 'wiseft'; nearest: wise_ft"),
        (["plan", "smal"], "unknown pack or benchmark 'smal'; nearest: small"),
    ],
)
def test_a_mistake_is_one_line_and_status_2(arguments: list[str], message: str, tmp_path: Path) -> None:
    done = here(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "runs").exists()


def test_a_truncated_zip_stops_the_run_before_it_starts(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "omniglot"
    folder.mkdir(parents=True)
    for name in ("images_background_small1.zip", "images_background_small2.zip"):
        (folder / name).write_bytes(b"PK\x03\x04 and nothing more")
    done = call("run", "digits", "omniglot", "--data-root", "data", cwd=tmp_path)
    assert done.returncode == 2
    assert "images_background_small1.zip is not a whole zip file" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "runs").exists()


def test_a_run_prints_lines_and_a_table_and_fails_with_status_1(own: str, tmp_path: Path) -> None:
    words = ("--encoder", f"{own}:pooled_only", "--limit", "40", "--isolate", "none")
    done = here("run", "ade20k", "digits", *words, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    assert any(line.startswith("[1/2] digits seed 0: acc@1 0.") for line in lines)
    assert any(line.split()[:2] == ["micro/ade20k", "failed"] for line in lines)
    assert any(line.split()[0] == "digits" and "built-in" in line for line in lines)
    assert "\x1b" not in done.stdout
    manifest = json.loads((tmp_path / "runs" / f"{own}-pooled_only-limit40" / "manifest.json").read_text())
    assert manifest["runs"][-1]["command"][:4] == ["gate-runner", "run", "ade20k", "digits"]
    again = here("run", "digits", *words, cwd=tmp_path)
    assert again.returncode == 0
    assert "1 already there" in again.stdout


def test_lists(tmp_path: Path) -> None:
    for what, first in (
        ("packs", "small"),
        ("benchmarks", "cifar100"),
        ("tasks", "image-classification"),
        ("metrics", "accuracy"),
        ("encoders", "micro-clip"),
    ):
        plain, as_json = here("ls", what, cwd=tmp_path), here("ls", what, "--json", cwd=tmp_path)
        assert plain.stdout.splitlines()[1].startswith(first)
        assert len(json.loads(as_json.stdout)) == len(plain.stdout.splitlines()) - 1


def test_version() -> None:
    from gate_runner import __version__

    assert call("--version").stdout == f"gate-runner {__version__}\n"


def test_sigterm_is_an_interruption_and_not_silence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The system ended the process without a word."""
    from gate_runner.cli import main

    def ended(**_: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)

    monkeypatch.setattr("gate_runner.cli._command", lambda: ended)
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        with pytest.raises(SystemExit) as stopped:
            main([])
    finally:
        signal.signal(signal.SIGTERM, before)
    assert stopped.value.code == 130
    assert capsys.readouterr().err == "gate-runner: interrupted; the same command continues\n"
