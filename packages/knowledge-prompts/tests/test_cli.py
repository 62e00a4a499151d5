"""The command line, in processes of its own where it matters what is imported."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("typer")

from typer.testing import CliRunner

import knowledge_prompts
from knowledge_prompts import ClassPrompts, StoredKnowledge, build_prompts, concept_map, coverage, show_prompts
from knowledge_prompts.cli import console, make_app
from knowledge_prompts.encoding.diversity import draw_map
from knowledge_prompts.encoding.truncation import truncation_report
from knowledge_prompts.gather import BuiltKnowledge


def lengths(name, device):
    assert (name, device) == ("lengths", "cpu")
    return lambda texts: [[len(text), 1.0] for text in texts]


def run(*arguments):
    return CliRunner().invoke(make_app(lengths, encoder="lengths"), list(arguments))


@pytest.mark.parametrize("command", [[], ["show"], ["build"], ["coverage"], ["diversity"]])
def test_help_imports_neither_torch_nor_numpy(command):
    code = f"""
import sys
from knowledge_prompts.cli import console
try:
    console({[*command, "--help"]!r})
except SystemExit as done:
    assert not done.code, done.code
assert not {{"torch", "numpy", "httpx", "matplotlib"}} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert " ".join(["Usage: prompts", *command, "[OPTIONS]"]) in done.stdout


def test_show_build_and_coverage_of_own_classes(tiny_wordnet, tmp_path):
    (tmp_path / "birds.txt").write_text("sunflower\nzzyzx\n")
    shown = run("show", "sunflower", "--wordnet-folder", str(tiny_wordnet))
    assert "a photo of a sunflower." in shown.output
    assert "wordnet-definition (1)" in shown.output
    birds, knowledge = str(tmp_path / "birds.txt"), str(tmp_path / "own")
    built = run("build", birds, "--output", knowledge, "--wordnet-folder", str(tiny_wordnet))
    assert built.exit_code == 0, built.output
    stored = json.loads((tmp_path / "own" / "external" / "birds_knowledge.tsv").read_text())
    assert [bool(row["def_wn"]) for row in stored] == [True, False]
    table = tmp_path / "new" / "table.tsv"
    counted = run("coverage", birds, "--knowledge", knowledge, "--no-wordnet", "--table", str(table))
    assert "1 of 2" in counted.output
    assert "without knowledge: zzyzx" in counted.output
    assert table.read_text().splitlines()[0].startswith("class\t")
    assert len(table.read_text().splitlines()) == 3


def test_diversity_takes_a_factory_and_writes_a_picture(tmp_path):
    pytest.importorskip("matplotlib")
    done = run("diversity", "mnist", "cifar-10", "--output", str(tmp_path / "deep" / "map.svg"))
    assert done.exit_code == 0, done.output
    assert "mnist: 10 concepts, spread 0." in done.output
    assert "<svg" in (tmp_path / "deep" / "map.svg").read_text()
    assert run("diversity", "mnist", "--output", str(tmp_path / "map.png")).exit_code == 0
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")


def test_an_encoder_of_ones_own_by_module_and_function(tmp_path, monkeypatch, capsys):
    (tmp_path / "own_encoder.py").write_text(
        "def make(device):\n    return lambda texts: [[len(t), 1.0] for t in texts]\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(SystemExit) as done:
        console(["diversity", "mnist", "--encoder", "own_encoder:make"])
    assert not done.value.code
    assert "mnist: 10 concepts" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["diversity", "mnist", "--encoder", "open_clip:ViT-B-32"], "expected open_clip:MODEL/WEIGHTS"),
        (
            ["build", "mnist", "--output", "out", "--unsent", "seed"],
            "--unsent 'seed'; expected max_tokens, temperature",
        ),
        (["diversity", "mnist", "--encoder", "json:nothing"], "module 'json' has no 'nothing'"),
        (["diversity", "mnist", "--encoder", "no_such_module_here:make"], "no_such_module_here"),
        (["coverage", "nowhere.txt"], "nowhere.txt"),
        (
            ["build", "mnist", "--output", "out", "--endpoint", "http://localhost"],
            "--endpoint was given without --model",
        ),
    ],
)
def test_errors_are_one_line(arguments, message, capsys):
    with pytest.raises(SystemExit) as done:
        console(arguments)
    error = capsys.readouterr().err
    assert done.value.code == 2
    assert error.startswith("prompts: ")
    assert message in error
    assert error.count("\n") == 1


ODD = "\x1b]0;title\x07\x9b31m\u202ekcud\u2066\u2028 \r"
OBEYED = set(ODD) - set("]0;title31mkcud ")


def test_no_report_holds_what_a_terminal_obeys(tmp_path):
    """Every list of lines for people, and the table: classes, sources, prompts and reasons of strangers."""
    classes = ClassPrompts(ODD, ["a photo of a {}."], [f"duck{ODD}", "hen"])
    source = StoredKnowledge({f"duck{ODD}": [f"a bird {ODD}"], ODD: ["unused"]}, name=f"own{ODD}")
    counted = coverage(classes.classes, [source])
    prompts = build_prompts(classes, [source])
    report = truncation_report(prompts, lambda texts: [[1, *map(len, text.split()), 2] for text in texts], 3)
    built = BuiltKnowledge((tmp_path / ODD,), counted, {ODD: ODD}, 2)
    figure = draw_map(concept_map({ODD: np.eye(3, dtype=np.float32)}))
    texts = {
        "show_prompts": show_prompts(f"duck{ODD}", class_prompts=classes, sources=[source]),
        "Coverage.lines": counted.lines(),
        "Coverage.table": counted.table().split("\n"),
        "TruncationReport.lines": report.lines(),
        "BuiltKnowledge.lines": built.lines(),
        "draw_map": [figure.axes[0].get_title()],
    }
    for name, lines in texts.items():
        assert any("\\u202e" in line for line in lines), name
        assert not OBEYED & set("".join(lines)), name
    public = {name: getattr(knowledge_prompts, name) for name in knowledge_prompts.__all__}
    tested = {name.partition(".")[0] for name in texts}
    assert {name for name, value in public.items() if hasattr(value, "lines")} <= tested


def test_a_terminal_obeys_no_class_of_a_file(tiny_wordnet, tmp_path, capsys):
    classes = tmp_path / "classes.txt"
    classes.write_text("\x1b]0;title\x07\u202educk\n")
    own = tmp_path / "own"
    assert run("build", str(classes), "--output", str(own), "--wordnet-folder", str(tiny_wordnet)).exit_code == 0
    counted = run("coverage", str(classes), "--knowledge", str(own), "--no-wordnet")
    assert "without knowledge: \\x1b]0;title\\x07\\u202educk" in counted.output
    classes = tmp_path / "\x1b[2J.txt"
    classes.write_bytes(b"\xff")
    with pytest.raises(SystemExit):
        console(["coverage", str(classes), "--no-wordnet"])
    assert "\x1b" not in capsys.readouterr().err


def in_a_process(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_show_imports_only_what_it_needs(tiny_wordnet):
    shown = in_a_process(
        "import sys\nfrom knowledge_prompts.cli import console\n"
        f"try:\n    console(['show', 'sunflower', '--wordnet-folder', {str(tiny_wordnet)!r}])\n"
        "except SystemExit as done:\n    assert not done.code, done.code\n"
        "heavy = {'numpy', 'torch', 'open_clip', 'asyncio', 'httpx', 'matplotlib'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    assert shown.returncode == 0, shown.stderr
    assert "wordnet-definition (1)" in shown.stdout


def test_without_its_extra_the_command_is_one_line():
    bare = in_a_process(
        "import sys, runpy\nsys.modules['typer'] = None\nsys.argv = ['prompts', 'show', 'tench']\n"
        "runpy.run_module('knowledge_prompts', run_name='__main__')"
    )
    assert bare.returncode == 2
    assert bare.stderr == "prompts: the command line needs typer: pip install 'knowledge-prompts[cli]'\n"
