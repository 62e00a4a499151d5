"""Names of files and classes that are not UTF-8, and names that a plain locale cannot show."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ._command import call_here
from ._small_towers import with_small_towers

ENCODER = ("--encoder", "micro-clip/random")
CHEAP = ("--encoder", "micro-dense/random")
"""For other processes, where the first is as large as ever."""
PLAIN = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""}


def photos(folder: Path, classes: tuple[bytes, bytes], name: bytes) -> None:
    for label, colour in zip(classes, ((0, 0, 200), (200, 0, 0)), strict=True):
        place = os.fsencode(folder) + b"/" + label
        os.makedirs(place)  # noqa: PTH103 - bytes
        for number in range(12):
            picture = np.full((8, 8, 3), colour, dtype=np.uint8)
            picture[0, 0] = number
            with open(place + b"/%d" % number + name, "wb") as file:  # noqa: PTH123 - bytes
                Image.fromarray(picture).save(file, "PNG")


@pytest.mark.parametrize(
    ("classes", "name"),
    [
        ((b"blue", b"r\xffd"), b"\xfe.png"),
        pytest.param((b"blue", b"r\xffd"), b".png", marks=pytest.mark.again),
        pytest.param((b"blue", b"red"), b"\xfe.png", marks=pytest.mark.again),
    ],
)
def test_names_that_are_not_utf_8_are_run_shown_and_predicted(
    classes: tuple[bytes, bytes], name: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_small_towers(monkeypatch)
    try:
        photos(tmp_path / "photos", classes, name)
    except OSError:
        pytest.skip("this file system takes no such name")
    for words in (
        ("run", "--data", "photos", *ENCODER, "--isolate", "none", "--output", "run"),
        ("adapt", "probe", "photos", *ENCODER, "--output", "probe", "--save", "head"),
        ("adapt", "predict", "head", "photos", "--output", "x.csv"),
        ("adapt", "predict", "head", "photos", "--output", "x.jsonl"),
        ("adapt", "embed", "photos", *ENCODER, "--output", "x.npz"),
        ("report", "run", "--data-root", "photos"),
        ("report", "run", "--format", "classes"),
        ("report", "run", "--format", "mistakes"),
        ("export", "run", "--to", "csv"),
        ("check-data", "photos"),
        (
            "choose",
            "photos",
            "--encoders",
            "micro-clip/random,micro-clip/random:1",
            "--readout",
            "last",
            "--output",
            "chosen",
        ),
    ):
        done = call_here(*words, cwd=tmp_path)
        assert done.returncode == 0, (words, done.stderr.decode())
    shown = classes[1].decode("utf-8", "backslashreplace")
    (file,) = (tmp_path / "run" / "results").iterdir()
    rows = json.loads(file.read_text())["training"]["by_class"]["rows"]
    assert {row["class"] for row in rows} == {"blue", shown}
    predicted = list(csv.DictReader((tmp_path / "x.csv").read_text().splitlines()))
    assert len(predicted) == 24
    assert {row["class1"] for row in predicted} <= {"blue", shown}
    for line in (tmp_path / "x.jsonl").read_text().splitlines():
        assert (tmp_path / json.loads(line)["file"]).is_file()  # the name comes back


@pytest.fixture(scope="module")
def plain_locale(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes, bytes]:
    """Predict, embed and run in a plain locale: the folder, and what each of the two commands prints."""
    folder = tmp_path_factory.mktemp("plain")
    photos(folder / "photos", ("blü".encode(), "röt".encode()), "é.png".encode())
    done = call_here("adapt", "probe", "photos", *CHEAP, "--output", "probe", "--save", "head", cwd=folder)
    assert done.returncode == 0, done.stderr.decode()
    words = [
        ["run", "--data", "photos", *CHEAP, "--isolate", "none", "--output", "plain"],
        ["report", "plain", "--format", "classes"],
    ]
    code = (
        "from vision_features.cli import main\n"
        "for name in ('x.csv', None):\n"
        "    assert main(['predict', 'head', 'photos', *(['--output', name] if name else [])]) == 0\n"
        f"assert main(['embed', 'photos', '--output', 'x.npz', *{CHEAP!r}]) == 0\n"
        "print('gate-runner:', flush=True)\n"
        "from gate_runner.cli import main\n"
        f"for words in {words!r}:\n"
        "    try: main(words)\n"
        "    except SystemExit as end: assert not end.code\n"
    )
    plain = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=folder, env={**os.environ, **PLAIN}, capture_output=True, check=False
    )
    assert plain.returncode == 0, plain.stderr.decode()
    first, _, second = plain.stdout.partition(b"gate-runner:")
    return folder, first, second


def test_a_plain_locale_gives_what_utf_8_gives(plain_locale: tuple[Path, bytes, bytes], tmp_path: Path) -> None:
    folder, _, printed = plain_locale
    done = call_here(
        *("run", "--data", str(folder / "photos"), *CHEAP, "--isolate", "none", "--output", "here"), cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr.decode()
    first, second = (
        json.loads(next((run / "results").iterdir()).read_text()) for run in (tmp_path / "here", folder / "plain")
    )
    assert first["data"]["sha256"] == second["data"]["sha256"]
    assert first["scores"] == second["scores"]
    assert first["training"]["by_class"] == second["training"]["by_class"]
    assert "röt".encode() in printed


def test_predictions_in_a_plain_locale_name_files_as_utf_8_does(plain_locale: tuple[Path, bytes, bytes]) -> None:
    folder, printed, _ = plain_locale
    rows = csv.DictReader((folder / "x.csv").read_text(encoding="utf-8").splitlines())
    files = {row["file"] for row in rows}
    assert len(files) == 24
    assert all((folder / file).is_file() for file in files)
    assert set(np.load(folder / "x.npz")["files"].tolist()) == files
    assert b"\\xfc" in printed  # a terminal that has no such letter


def test_a_folder_whose_name_is_not_utf_8_gets_a_whole_file_or_none(tmp_path: Path) -> None:
    """An empty benchmark.toml was left in it, and stopped each later command."""
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/by\xfftes"))
    try:
        photos(folder, (b"blue", b"red"), b".png")
    except OSError:
        pytest.skip("this file system takes no such name")
    done = call_here("adapt", "probe", str(folder), *ENCODER, "--output", "probe", cwd=tmp_path)
    assert done.returncode == 2
    assert b"which is not UTF-8: rename that file or folder" in done.stderr
    assert not (folder / "benchmark.toml").exists()
    for words in (
        ("adapt", "embed", str(folder), *ENCODER, "--output", "x.parquet"),
        ("run", "--data", str(folder), *ENCODER, "--isolate", "none", "--output", "run"),
        ("run", "--data", str(folder), *ENCODER, "--isolate", "none", "--output", "run"),  # its manifest holds the path
        ("report", "run", "--format", "md"),
        ("export", "run", "--to", "csv"),
        ("export", "run", "--to", "every-eval-ever"),
        ("report", "run", "--output", "page.html"),
    ):
        done = call_here(*words, cwd=tmp_path)
        assert done.returncode == 0, (words, done.stderr.decode())
    assert tomllib.loads((folder / "benchmark.toml").read_text())["benchmark"]["title"] == "by\\xfftes"
