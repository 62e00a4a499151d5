"""The label audit: a page with hostile names, its keys in a browser, and decisions applied to the data."""

from __future__ import annotations

import base64
import csv
import hashlib
import html
import io
import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import gate_runner
from gate_data.own import read_benchmark
from gate_data.own.originals import parts_of
from gate_runner.cli import main
from gate_runner.errors import UsageError
from gate_runner.reports.audit import audit_page, audited
from gate_runner.runs.results import Result
from gate_runner.runs.stored import read_runs
from wary_files.locks import held

NAMES = ("<img src=x onerror=alert(1)>", "=1+1'\"&amp;")
HOSTILE = '"><script>alert(1)<_script>.png'
SWAPPED = (10, 51, 77)
TEXT = '[benchmark]\nid = "colours"\n# mine\n[data]  # a table\nkind = "table"\ntable = "colours.csv"\n'


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data, of which three labels are swapped, and a run over folds of them."""
    folder = tmp_path_factory.mktemp("audit")
    rng = np.random.default_rng(0)
    rows = [["image", "label", "camera"]]
    (folder / "data").mkdir()
    for at in range(120):
        pixels = rng.integers(0, 80, (24, 24, 3))
        pixels[..., 2 * (at % 2)] += 150
        name = HOSTILE if at == 51 else f"{at}.png"
        Image.fromarray(pixels.astype(np.uint8)).save(folder / "data" / name)
        rows.append([name, NAMES[at % 2 if at not in SWAPPED else 1 - at % 2], "one"])
    with (folder / "data" / "colours.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    (folder / "data" / "benchmark.toml").write_text(TEXT)
    file = str(folder / "data" / "benchmark.toml")
    gate_runner.run(file, encoder="micro-dense", output=folder / "run", folds=2, show=False)
    return folder


@pytest.fixture
def data(audit: Path, tmp_path: Path) -> Path:
    """A copy of the data, to be corrected."""
    shutil.copytree(audit / "data", tmp_path / "data")
    return tmp_path / "data"


def page_of(audit: Path) -> str:
    made = audit_page(read_runs([audit / "run"])[0], data_root=audit / "data")
    assert (made.shown, made.total) == (3, 3)
    assert made.accuracy == (117 / 120, 1.0)
    return made.text


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def decided(path: Path, *rows: tuple[str, str, str, str]) -> Path:
    """A table of decisions: file, label, decision and correction."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        writer.writerow(["benchmark", "data_sha256", "file", "label", "decision", "correction"])
        writer.writerows(["colours", "", *row] for row in rows)
    return path


def applied(*arguments: object, status: int = 0) -> None:
    with pytest.raises(SystemExit, match=rf"^{status}$"):
        main(["audit", "apply", *map(str, arguments)])


def test_the_page_runs_its_own_script_alone_and_escapes_names(audit: Path) -> None:
    text = page_of(audit)
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in text
    assert "<img src=x" not in text
    assert text.count("<script") == 1
    assert {html.unescape(name) for name in re.findall(r'data-file="([^"]*)"', text)} == {HOSTILE, "10.png", "77.png"}
    assert text.count('src="data:image/jpeg') == 3


def test_other_pages_have_no_script(audit: Path) -> None:
    text = gate_runner.report(audit / "run")
    assert "<script" not in text
    assert "script-src" not in text


def test_keys_decide_in_a_browser(audit: Path, tmp_path: Path) -> None:
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("there is no chromium here")
    extra = (
        "for (const key of ['a', 'r', 'x', 'k', 'u', 'j']) document.dispatchEvent(new KeyboardEvent('keydown', {key}));"
        "URL.createObjectURL = (blob) => { blob.text().then((table) => { document.body.dataset.table = table; });"
        " return '#'; }; document.getElementById('save').click();"
    )
    digest = base64.b64encode(hashlib.sha256(extra.encode()).digest()).decode()
    text = page_of(audit).replace("; script-src ", f"; script-src 'sha256-{digest}' ")
    page = tmp_path / "audit.html"
    page.write_text(text.replace("</body>", f"<script>{extra}</script></body>"))
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    command = [program, *options, "--virtual-time-budget=2000", "--dump-dom", page.as_uri()]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    (raw,) = re.findall(r'data-table="([^"]*)"', shown)
    rows = list(csv.DictReader(io.StringIO(html.unescape(raw))))
    files = [html.unescape(name) for name in re.findall(r'data-file="([^"]*)"', shown)]
    # x was decided last and stays the current one; k goes to the second, whose decision u takes back
    assert [(row["file"], row["decision"]) for row in rows] == [(files[0], "accept"), (files[2], "drop")]
    assert rows[0]["correction"] != rows[0]["label"]


def test_decisions_change_labels_and_leave_out(
    audit: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = NAMES
    table = decided(
        tmp_path / "labels.csv",
        ("10.png", "'" + second, "accept", first),
        (HOSTILE, first, "accept", "'" + second),
        ("77.png", first, "drop", ""),
        ("3.png", "'" + second, "reject", "'" + second),
    )
    applied(table, data, "--run", audit / "run", "--dry-run")
    shown = capsys.readouterr().out
    assert "2 labels corrected, 1 image left out, 1 label confirmed" in shown
    assert "accuracy 0.975" in shown
    assert "1.000" in shown
    assert "nothing was written" in shown
    assert not (data / "corrections.csv").exists()
    applied(table, data)
    assert (data / "benchmark.toml").read_text() == TEXT.replace(
        "# a table\n", '# a table\ncorrections = "corrections.csv"\n'
    )
    own = read_benchmark(data / "benchmark.toml")
    parts = parts_of(own, data)
    labels = {Path(sample.source).name: parts.classes[sample.target]
              for sample in (*parts.train, *(parts.validation or ()), *parts.test)}  # fmt: skip
    assert len(labels) == 119
    assert (labels["10.png"], labels[HOSTILE], "77.png" in labels) == (first, second, False)
    assert "2 labels corrected, 1 image left out by corrections" in parts.note


def test_a_correction_is_corrected_again_and_taken_back(data: Path, tmp_path: Path) -> None:
    first, second = NAMES
    applied(decided(tmp_path / "a.csv", ("10.png", "'" + second, "accept", first)), data)
    applied(decided(tmp_path / "b.csv", ("10.png", first, "accept", "'" + second)), data)
    assert (data / "corrections.csv").read_text().count("\n") == 1
    own = read_benchmark(data / "benchmark.toml")
    assert parts_of(own, data).note.count("corrected") == 0


def test_decisions_that_leave_nothing_to_load_are_not_written(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = [(row["image"], row["label"]) for row in rows_of(data / "colours.csv")]
    shown = {NAMES[0]: NAMES[0], NAMES[1]: "'" + NAMES[1]}
    every = [(name, shown[label], "drop", "") for name, label in labels]
    applied(decided(tmp_path / "d.csv", *every), data, status=2)
    assert "there is nothing to tell apart" in capsys.readouterr().err
    assert (data / "benchmark.toml").read_text() == TEXT
    assert not (data / "corrections.csv").exists()
    applied(tmp_path / "d.csv", data, "--table", tmp_path / "out.csv", status=2)
    assert "leave out every row" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["colours.csv", "benchmark.toml", "../data/colours.csv"])
def test_a_corrected_table_goes_over_no_file_of_the_data(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    decisions = decided(tmp_path / "d.csv", ("10.png", "'" + NAMES[1], "accept", NAMES[0]))
    before = (data / name).read_bytes()
    applied(decisions, data, "--table", data / name, status=2)
    assert "is the data's own file" in capsys.readouterr().err
    assert (data / name).read_bytes() == before


def test_decisions_wait_for_another_writer(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("gate_runner.commands.audit.WAIT", 0)
    decisions = decided(tmp_path / "d.csv", ("10.png", "'" + NAMES[1], "accept", NAMES[0]))
    with held(data / ".benchmark.toml.lock"):
        applied(decisions, data, status=2)
    assert "benchmark.toml.lock" in capsys.readouterr().err
    assert not (data / "corrections.csv").exists()


def test_corrections_outside_of_the_data_are_not_written(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other.csv").write_text('"file","label","correction"\n')
    (data / "benchmark.toml").write_text(TEXT + 'corrections = "../other.csv"\n')
    applied(decided(tmp_path / "d.csv", ("10.png", "'" + NAMES[1], "accept", NAMES[0])), data, status=2)
    assert "outside of" in capsys.readouterr().err
    assert (tmp_path / "other.csv").read_text().count("\n") == 1


def test_a_corrected_table_keeps_its_columns(data: Path, tmp_path: Path) -> None:
    first, second = NAMES
    before = rows_of(data / "colours.csv")
    table = decided(tmp_path / "a.csv", ("10.png", "'" + second, "accept", first), ("77.png", first, "drop", ""))
    applied(table, data, "--table", tmp_path / "new.csv")
    after = rows_of(tmp_path / "new.csv")
    expected = [{**row, "label": first} if row["image"] == "10.png" else row for row in before]
    assert after == [row for row in expected if row["image"] != "77.png"]
    assert (data / "benchmark.toml").read_text() == TEXT


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (("10.png", "=1", "accept", NAMES[0]), "line 2: field 'label' is '=1', expected a class"),
        (("10.png", NAMES[0], "accept", "'" + NAMES[1]), "is labelled"),
        (("no.png", NAMES[0], "drop", ""), "image no.png is not there"),
        (("10.png", "'" + NAMES[1], "maybe", ""), "expected one of accept, reject, other, drop"),
        (("10.png", "'" + NAMES[1], "reject", NAMES[0]), "expected the label"),
        (("10.png", "'" + NAMES[1], "accept", "'" + NAMES[1]), "expected another class than the label"),
    ],
)
def test_decisions_of_other_data_are_one_line(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], row: tuple[str, str, str, str], expected: str
) -> None:
    applied(decided(tmp_path / "labels.csv", row), data, status=2)
    shown = capsys.readouterr().err
    assert expected in shown
    assert shown.count("\n") == 1
    assert not (data / "corrections.csv").exists()


def test_two_decisions_on_an_image_that_is_called_in_two_ways_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "colours"
    for number, label in enumerate(("blue", "green", "red")):
        for split in ("train", "val", "test"):
            (folder / split / label).mkdir(parents=True)
            for copy in range(2):
                picture = Image.new("RGB", (8, 8), (80 * number, 9 * copy, len(split)))
                picture.save(folder / split / label / f"{split}-{label}{copy}.png")
    folders = '[data]\nkind = "folders"\n[splits]\ntrain = "train"\nvalidation = "val"\ntest = "test"\n'
    (folder / "benchmark.toml").write_text(
        '[benchmark]\nid = "colours"\ntitle = "colours"\ntask = "image-classification"\n' + folders
    )
    long, short = "test/red/test-red0.png", "test-red0.png"
    for other in (("accept", "green"), ("drop", ""), ("reject", "red")):
        applied(
            decided(tmp_path / "labels.csv", (long, "red", "accept", "blue"), (short, "red", *other)), folder, status=2
        )
        assert f"line 3: field 'decision' is {other[0]!r}, expected one decision for {long}" in capsys.readouterr().err
        assert not (folder / "corrections.csv").exists()
    applied(decided(tmp_path / "labels.csv", (long, "red", "accept", "blue"), (short, "red", "accept", "blue")), folder)
    assert "1 label corrected" in capsys.readouterr().out


def test_corrections_of_other_labels_stop_a_run(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (data / "corrections.csv").write_text(f"file,label,correction\n9.png,{NAMES[0]},\n")
    (data / "benchmark.toml").write_text(TEXT + 'corrections = "corrections.csv"\n')
    with pytest.raises(SystemExit, match=r"^1$"):
        main(["check-data", str(data)])
    assert "corrections.csv, line 2: 9.png is labelled" in capsys.readouterr().out


def test_runs_without_probabilities_are_refused(audit: Path) -> None:
    (run,) = read_runs([audit / "run"])
    with pytest.raises(UsageError, match="holds no classification of your own images with probabilities"):
        audited(replace(run, results=()))
    with pytest.raises(UsageError, match=r"benchmark 'colour'.*colours"):
        audited(run, "colour")


def test_page_as_json(audit: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "audit.html"
    with pytest.raises(SystemExit, match=r"^0$"):
        main(
            ["audit", "page", str(audit / "run"), "--output", str(output), "--data-root", str(audit / "data"), "--json"]
        )
    assert json.loads(capsys.readouterr().out)["total"] == 3
    assert output.stat().st_size > 10_000


def test_of_several_results_one_is_named(
    audit: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(audit / "run", tmp_path / "run")
    (path,) = (tmp_path / "run" / "results").glob("*.json")
    few = replace(Result.from_file(path), benchmark="colours@5-shot", name="colours@5-shot")
    path.with_name("colours@5-shot.seed0.json").write_text(few.to_json())
    samples = tmp_path / "run" / "samples"
    shutil.copy(samples / f"{path.stem}.npz", samples / "colours@5-shot.seed0.npz")
    table = decided(tmp_path / "labels.csv", ("10.png", "'" + NAMES[1], "accept", NAMES[0]))
    applied(table, data, "--run", tmp_path / "run", "--dry-run", status=2)
    message = capsys.readouterr().err
    assert "holds several results of colours: --benchmark one of colours, colours@5-shot" in message
    applied(table, data, "--run", tmp_path / "run", "--dry-run", "--benchmark", "colours@5-shot")
    assert "accuracy 0.975" in capsys.readouterr().out
    applied(table, data, "--run", tmp_path / "run", "--dry-run", "--benchmark", "other", status=2)
    assert "other" in capsys.readouterr().err
    applied(table, data, "--dry-run", "--benchmark", "colours", status=2)
    assert "give --run, too" in capsys.readouterr().err
