"""No name of a class, file, benchmark or run makes a terminal, a table or a page obey it: every writer is run."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from gate_runner.charts.table import Table
from gate_runner.cli import main
from gate_runner.errors import printable
from gate_runner.runs.folder import RunFolder
from gate_runner.runs.stored import read_run

CLASSES = ("cat\x1b[2J", "dog\u202egnp", "o\rwl", "=cmd\x07")
OBEYED = [chr(code) for code in (*range(9), *range(11, 32), *range(127, 160), 0x202A, 0x202D, 0x202E, 0x2066, 0x2067)]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="files cannot be called so")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs over folders of classes with such names, whose notes and reasons say them, too."""
    monkeypatch.chdir(tmp_path)
    images, labels = load_digits(return_X_y=True)
    for number, name in enumerate(CLASSES):
        for row, pixels in enumerate(images[labels == number][:16]):
            path = Path("mine") / ("train" if row < 8 else "test") / name / f"{row}\x1b]0;x\x07\u202e.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.rint(pixels.reshape(8, 8) * 255 / 16).astype(np.uint8)).save(path)
    return tmp_path


def command(*words: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    assert ended.value.code in (0, None), words


def obeyed(text: str) -> list[str]:
    return [sign for sign in OBEYED if sign in text]


def test_printable_keeps_what_people_write() -> None:
    assert printable("naïve\u00a0名前\u3000می\u200cخواهم 👩\u200d🔬") == "naïve\u00a0名前\u3000می\u200cخواهم 👩\u200d🔬"
    assert printable("a\x1b[31m\u202eb\nc\td", "\n") == r"a\x1b[31m\u202eb" + "\n" + r"c\td"


def test_every_writer_shows_control_characters_and_obeys_none(
    here: Path, own: str, capfd: pytest.CaptureFixture[str]
) -> None:
    encoders = (f"{own}:grid", f"{own}:pooled_only")
    command("new", "mine", "--dry-run")
    command("new", "mine")
    runs = ("runs/a", "runs/b")
    for encoder, run in zip(encoders, runs, strict=True):
        command("run", "mine/benchmark.toml", "--encoder", encoder, "--output", run, "--setting", "isolate=none")
        stored = read_run(Path(run))
        (result,) = stored.results
        noted = replace(result, note="no\x1b[2Jte\u202e\rx")
        RunFolder(Path(run)).save(noted, stored.outcomes(result), predicted=stored.predicted(result))
    shown = capfd.readouterr()
    assert r"cat\x1b[2J" in shown.out
    assert obeyed(shown.out + shown.err) == []
    for words in (
        *(("report", *runs, "--format", form) for form in ("md", "csv", "latex")),
        ("report", *runs, "--output", "page.html"),
        ("compare", *runs),
        ("compare", *runs, "--json"),
        ("trade", *runs),
        ("power", *runs),
        ("ls", "encoders"),
        ("check-data", "mine"),
        *(("export", runs[0], "--to", form, "--output", f"to-{form}") for form in ("csv", "every-eval-ever")),
        ("plan", "mine/benchmark.toml", "--encoder", encoders[0]),
        ("adapt", "probe", "mine", "--encoder", encoders[0], "--save", "head"),
        ("adapt", "zeroshot", "mine", "--output", "zero"),
        ("adapt", "predict", "head", "mine/test", "--encoder", encoders[0], "--top", "2"),
        ("adapt", "predict", "head", "mine/test", "--encoder", encoders[0], "--output", "predicted.csv"),
        ("adapt", "predict", "head", "--encoder", encoders[0], "--labels", "mine", "--output", "predicted2.csv"),
        ("choose", "mine", "--encoders", ",".join(encoders), "--output", "chosen", "--readout", "last"),
    ):
        command(*words)
        shown = capfd.readouterr()
        assert obeyed(shown.out + shown.err) == [], words
    written = [path for ending in ("html", "csv", "md", "yaml", "yml", "tex") for path in here.rglob(f"*.{ending}")]
    assert {path.name for path in written} >= {"page.html", "trade.html", "choice.html", "predicted.csv", "results.csv"}
    for path in written:
        assert obeyed(path.read_text(encoding="utf-8")) == [], path
    assert r"cat\x1b[2J" in Path("page.html").read_text(encoding="utf-8")
    assert r"dog\u202egnp" in Path("predicted.csv").read_text(encoding="utf-8")


def test_an_escape_in_a_table_for_latex_is_no_command() -> None:
    table = Table("a", "", ("run", "\x1b[31m"), (("\u202eb", "1"),), warning="\x1b")
    text = table.as_latex()
    assert r"run & \textbackslash{}x1b[31m" in text
    assert r"\textbackslash{}u202eb & 1" in text
    assert r"\textbackslash{}x1b} \\" in text
