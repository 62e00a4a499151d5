"""The runner's sub-commands call the libraries, and say what the libraries say."""

from __future__ import annotations

import contextlib
import json
import subprocess
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest

_RUNNER = spec_from_file_location("_command", Path(__file__).parents[1] / "packages/gate-runner/tests/_command.py")
assert _RUNNER is not None
assert _RUNNER.loader is not None
_COMMAND = module_from_spec(_RUNNER)
_RUNNER.loader.exec_module(_COMMAND)


def call(*arguments: str, cwd: Path, text: str = "") -> subprocess.CompletedProcess[str]:
    """Return what the command prints in this process."""
    done = _COMMAND.call_here(*arguments, cwd=cwd, text=text.encode())
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def test_eevee_select_is_the_librarys(tmp_path: Path) -> None:
    import eevee
    from eevee.cli import main as command_alone

    arguments = ("--table", "gate", "-k", "2", "--no-nested", "--json", "found.json")
    done = call("eevee", "select", *arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    with contextlib.chdir(tmp_path):
        assert not command_alone(["select", *arguments[:-1], "own.json"])
    ours, theirs = (
        [line for line in (tmp_path / name).read_text().splitlines() if '"seconds"' not in line]
        for name in ("found.json", "own.json")
    )
    assert ours == theirs
    chosen = [benchmark.id for benchmark in eevee.load_table("gate").benchmarks if benchmark.id in done.stdout]
    assert len(chosen) >= 2


def test_a_wrong_table_is_one_line(tmp_path: Path) -> None:
    done = call("eevee", "select", "--table", "nowhere.csv", "-k", "2", cwd=tmp_path)
    assert done.returncode == 2
    assert "nowhere.csv" in done.stderr


def test_prompts_show_names_the_missing_package_or_prints_knowledge(tmp_path: Path) -> None:
    done = call("prompts", "show", "sunflower", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "a photo of a sunflower" in done.stdout
    wordnet = Path("/usr/share/wordnet").is_dir()
    assert ("helianthus" in done.stdout.lower()) if wordnet else ("wordnet" in (done.stdout + done.stderr).lower())


def test_pairs_are_built_and_scored(tmp_path: Path) -> None:
    for text, workers in (("a", "1"), ("b", "2")):
        arguments = ("eqben", "build", "micro", text, "--pairs", "3", "--size", "64", "--workers", workers)
        assert call(*arguments, cwd=tmp_path).returncode == 0
    first, second = (sorted(path for path in (tmp_path / text).rglob("*") if path.is_file()) for text in ("a", "b"))
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    assert call("eqben", "verify", "a", cwd=tmp_path).returncode == 0
    done = call("eqben", "score", "a", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = [line.split()[0] for line in done.stdout.splitlines()]
    assert rows[2:9] == ["micro", "attribute", "count", "relation", "macro", "all", "chance"]
    wrong = call("eqben", "build", "mikro", "c", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "nearest: micro" in wrong.stderr


def test_names_are_linked_from_standard_input(tmp_path: Path) -> None:
    entities = [{"id": "Q1", "name": "Sunflower", "aliases": ["Helianthus annuus"]}, {"id": "Q2", "name": "Sun"}]
    (tmp_path / "kb.jsonl").write_text("".join(json.dumps(entity) + "\n" for entity in entities))
    built = call("oven", "build", "kb.jsonl", "--output", "kb", cwd=tmp_path)
    assert built.returncode == 0, built.stderr
    done = call("oven", "link", "--kb", "kb", cwd=tmp_path, text="helianthus annuus\nsunflower\nsun\n")
    assert [line.split("\t")[1] for line in done.stdout.splitlines()] == ["Q1", "Q1", "Q2"]


def test_the_zero_shot_benchmark_is_prompts_times_features() -> None:
    """What the runner reports equals a plain loop over images and classes."""
    pytest.importorskip("open_clip")
    from gate_runner.benchmarks import BENCHMARKS, DataRequest
    from gate_runner.tasks import Job, run_task
    from vision_features.encoders import load_encoder

    benchmark = BENCHMARKS["zero-shot"]
    data = benchmark.load("micro", DataRequest(limit=40))
    encoder = load_encoder("micro-clip")
    outcome = run_task(Job(encoder, benchmark, data))

    def unit(row: np.ndarray) -> np.ndarray:
        return row / np.linalg.norm(row)

    classes = []
    for name in data.classes:
        texts = [template.format(name) for template in benchmark.training["templates"]]
        classes.append(unit(np.mean([unit(row) for row in encoder.encode_text(texts).double().numpy()], axis=0)))
    right = [
        int(np.argmax([unit(image) @ row for row in classes])) == int(target)
        for image, target in zip(
            encoder.encode_image(data.test.images).double().numpy(), data.test.targets, strict=True
        )
    ]
    assert outcome.samples.astype(bool).tolist() == right


def test_knowledge_is_stored_covered_and_mapped(tmp_path: Path) -> None:
    (tmp_path / "flowers.txt").write_text("sunflower\nzzyzx\n")
    stored = tmp_path / "own" / "external"
    stored.mkdir(parents=True)
    records = [
        {
            "classname": "sunflower",
            "def_wiki": "A tall plant.",
            "path_wn": ["sunflower", "flower"],
            "def_wn": "a flower",
        },
        {"classname": "zzyzx", "def_wiki": None, "path_wn": "", "def_wn": ""},
    ]
    (stored / "flowers_knowledge.tsv").write_text(json.dumps(records))
    covered = call("prompts", "coverage", "flowers.txt", "--knowledge", "own", "--no-wordnet", cwd=tmp_path)
    assert covered.returncode == 0, covered.stderr
    assert "1 of 2" in covered.stdout
    mapped = call("prompts", "diversity", "flowers.txt", "--output", "map.svg", cwd=tmp_path)
    assert mapped.returncode == 0, mapped.stderr
    assert "<svg" in (tmp_path / "map.svg").read_text()
    missing = call("prompts", "coverage", "nowhere.txt", cwd=tmp_path)
    assert missing.returncode == 2
    assert "nowhere.txt" in missing.stderr
