"""What cannot be read is one line that names the file, whichever package reads it and whatever the file holds."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eevee import load_table
from eqben_builder.scoring import read_scores
from gate_data import guess, load, read_benchmark
from gate_runner.runs.folder import read_manifest
from gate_runner.settings.configuration import read_configuration
from gate_runner.settings.values import recipe_in
from knowledge_prompts import ClassPrompts, load_class_prompts, named_sources
from knowledge_prompts.sources.elevater_files import read_external
from oven_retrieval import build_kb_from_file
from oven_retrieval.models.trained import MODEL, read_config
from vision_adapters import load_head as load_adapters_head
from vision_features.encoders.named import read_card
from vision_features.heads import load_head

LONG = b"9" * 5000
"""More digits than Python reads of one number."""
TOML, JSON = b"a = " + LONG + b"\n", b'{"word": "owl", "lang_code": "en", "a": ' + LONG + b"}"
PROMPTS = ClassPrompts("birds", ["a {}."], ["owl"])


def wiktextract(path: Path) -> object:
    return [source.items("owl") for source in named_sources(f"wiktionary={path}", PROMPTS)]


READERS: dict[str, tuple[str, Callable[[Path], Any], list[bytes]]] = {
    "adapters: a head": ("card.json", lambda path: load_adapters_head(path.parent), [JSON]),
    "gate-data: a benchmark": ("a.toml", read_benchmark, [TOML]),
    "gate-data: a folder's benchmark": ("benchmark.toml", lambda path: load(path.parent), [TOML]),
    "gate-runner: a head": ("card.json", lambda path: load_head(path.parent), [JSON]),
    "gate-runner: a trained encoder": ("card.json", lambda path: read_card(path.parent), [JSON]),
    "gate-runner: a manifest": ("manifest.json", read_manifest, [JSON]),
    "gate-runner: a configuration": ("a.toml", read_configuration, [TOML]),
    "gate-runner: a recipe": ("a.toml", lambda path: recipe_in(str(path), {}), [TOML]),
    "eevee: a table": (
        "a.csv",
        lambda path: load_table(path, direction="higher"),
        [b"model,a,b\nm," + LONG + b",1\n", b"model,a,b\nm,x" + LONG + b",1\n"],
    ),
    "gate-data: a table": ("a.csv", guess, [LONG + b",label\n1,2\n"]),
    "oven-retrieval: entities": (
        "a.csv",
        lambda path: list(build_kb_from_file(path, path.parent / "kb")),
        [b"id," + LONG + b"\nQ1,a\n"],
    ),
    "eqben-builder: scores": (
        "a.csv",
        read_scores,
        [b"id,c0_i0,c0_i1,c1_i0,c1_i1\na," + LONG + b",2,3\n", b"id,c0_i0," + LONG + b"\na,1,2\n"],
    ),
    "knowledge-prompts: knowledge": ("a.json", read_external, [b"[" + JSON + b"]"]),
    "knowledge-prompts: prompts": ("a.json", load_class_prompts, [JSON]),
    "knowledge-prompts: Wiktextract": ("a.jsonl", wiktextract, [JSON]),
    "oven-retrieval: a trained model": (MODEL, lambda path: read_config(path.parent), [JSON]),
}
OTHER_BYTES = b'{"name": "caf\xe9 owl", "text": "' + b"a " * 3000 + b'"}\n'


@pytest.mark.parametrize(
    ("reader", "content"),
    [(name, content) for name, (_, _, own) in READERS.items() for content in (OTHER_BYTES, *own)],
)
def test_a_file_that_cannot_be_read_is_one_line_with_its_name(tmp_path: Path, reader: str, content: bytes) -> None:
    name, read, _ = READERS[reader]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=name) as caught:
        read(tmp_path / name)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 500 + len(str(tmp_path)), message[:300]


@pytest.mark.parametrize(
    ("package", "inner", "name"),
    [
        ("gate_runner.cli", "_command", "gate-runner"),
        ("eqben_builder.cli", "make_app", "eqben"),
        ("oven_retrieval.cli", "make_app", "oven"),
        ("knowledge_prompts.cli", "make_app", "prompts"),
        ("vision_features.cli", "parser", "vision-features"),
        ("eevee.cli", "parser", "eevee"),
    ],
)
def test_a_file_of_another_user_is_one_line_that_says_what_to_do(
    package: str, inner: str, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise PermissionError(13, "Permission denied", "runs/a\u001b.json")

    cli = importlib.import_module(package)
    monkeypatch.setattr(cli, inner, refuse)
    try:
        status = getattr(cli, "main", getattr(cli, "console", None))(["--version"])
    except SystemExit as stopped:
        status = stopped.code
    shown = capsys.readouterr().err
    assert status == 2
    assert shown.startswith(f"{name}: runs/a")
    assert shown.endswith(
        ".json: Permission denied; ask its owner for the right, or use a copy or folder of your own\n"
    )
    assert "\u001b" not in shown


PLAIN = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""}


@pytest.mark.parametrize(
    ("call", "words", "expected"),
    [
        ("eevee.cli import main", "check --table t.csv --direction higher", "12 models in 12 groups"),
        (
            "eevee.cli import main",
            "report --table t\u00e4.csv --direction higher -k 2 --output r",
            "cannot be written as utf-8: name it in a UTF-8 locale",
        ),
        ("knowledge_prompts.cli import console as main", "show k\u00e4fer", "in a UTF-8 locale, as by LC_ALL=C.UTF-8"),
        ("gate_runner.cli import main", "run digits --output \u00fc", "this locale cannot read the name"),
    ],
)
def test_names_that_a_plain_locale_lacks_are_shown_or_one_line(
    call: str, words: str, expected: str, tmp_path: Path
) -> None:
    """A container without a locale: Python reads and writes ASCII."""
    rows = "".join(f"m\u00f6{row},{row},{row * row % 7},{row * 3 % 5}\n" for row in range(12))
    for name in ("t.csv", "t\u00e4.csv"):
        (tmp_path / name).write_text("model,\u00e9,b,c\n" + rows, encoding="utf-8")
    code = f"import sys\nfrom {call}\nsys.exit(main(sys.argv[1:]))"
    environment = {**os.environ, **PLAIN}
    command = [sys.executable, "-P", "-c", code, *words.split()]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=False)
    shown = (done.stdout + done.stderr).decode("ascii")
    assert "Traceback" not in shown
    assert expected in shown, shown


@pytest.mark.parametrize(
    ("module", "function", "arguments"),
    [
        ("gate_runner.cli", "main", ["run", "micro/digits", "--output", ""]),
        ("gate_runner.cli", "main", ["run", "--data", ""]),
        ("gate_runner.cli", "main", ["new", ""]),
        ("gate_runner.cli", "main", ["eevee", "select", "gate", "--json="]),
        ("eevee.cli", "main", ["report", "gate", "--output="]),
        ("eqben_builder.cli", "main", ["build", "micro", "--output", ""]),
        ("knowledge_prompts.cli", "console", ["gather", "--output", ""]),
        ("oven_retrieval.cli", "main", ["build", "a.csv", "--output", ""]),
        ("vision_features.cli", "main", ["embed", ".", "--output", ""]),
    ],
)
def test_an_empty_path_is_one_line_and_nothing_is_written(
    module: str,
    function: str,
    arguments: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """An unset variable of a shell: the current folder is not what it means."""
    monkeypatch.chdir(tmp_path)
    try:
        status = getattr(importlib.import_module(module), function)(arguments)
    except SystemExit as end:
        status = end.code
    assert status == 2
    option = next((word for word in arguments if word.startswith("--")), "").rstrip("=")
    expected = f"{option} is empty; expected a path" if option else "an argument is empty; expected a name or a path"
    assert capsys.readouterr().err.endswith(f": {expected}\n")
    assert not list(tmp_path.iterdir())
