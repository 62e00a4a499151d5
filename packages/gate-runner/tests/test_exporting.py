"""Exports: read back by the standards' own readers, the same bytes twice, and what a form cannot hold is named."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gate_runner.cli import main
from gate_runner.errors import DataError, UsageError
from gate_runner.exporting import FORMS, export, folders_of
from gate_runner.exporting.model import model_name
from gate_runner.runs.folder import RunFolder
from gate_runner.runs.stored import StoredRun, read_run
from wary_files.locks import BusyError, held

from . import _folders
from ._folders import write_run

SKILLS = {"digits": 0.8, "micro/cifar100": 0.6, "micro/iwildcam": 0.7, "micro/acdc": 0.5}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> StoredRun:
    folder = write_run(tmp_path_factory.mktemp("runs") / "a", SKILLS, encoder="timm:resnet18/random:1", seeds=(0, 1))
    return read_run(folder)


def python_3_12_or_newer() -> Path | None:
    """This interpreter, one on the path, or one of pyenv's."""
    if sys.version_info >= (3, 12):
        return Path(sys.executable)
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    on_path = [shutil.which(f"python3.{minor}") for minor in (14, 13, 12)]
    candidates = [*sorted(pyenv.glob("3.1[2-9]*/bin/python")), *(Path(candidate) for candidate in on_path if candidate)]
    return next(
        (
            candidate
            for candidate in candidates
            if subprocess.run([candidate, "--version"], capture_output=True).returncode == 0
        ),
        None,
    )


def validated(folder: Path) -> subprocess.CompletedProcess[str]:
    """What Every Eval Ever's own validator says of a folder's files; 2 would be warnings."""
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if uv is None:
        pytest.skip("uv is not installed")
    python = python_3_12_or_newer()
    if python is None:
        pytest.skip("the validator needs Python 3.12 or newer")
    command = [
        uv,
        "run",
        "--quiet",
        "--no-project",
        "--python",
        str(python),
        "--with",
        "every-eval-ever==0.3.0",
    ]
    plain = {key: value for key, value in os.environ.items() if key not in ("UV_CONSTRAINT", "VIRTUAL_ENV")}
    return subprocess.run(
        [*command, "python", "-m", "every_eval_ever", "validate", "--format", "json", "data/*/*/*/*.json*"],
        cwd=folder, env=plain, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip


def no_interval(scores: dict[str, Any], lines: list[dict[str, Any]]) -> None:
    scores["evaluation_results"][0]["score_details"]["uncertainty"]["confidence_interval"]["lower"] = "low"


def no_outcome(scores: dict[str, Any], lines: list[dict[str, Any]]) -> None:
    del lines[3]["evaluation"]


DAMAGES = {"confidence_interval -> lower": no_interval, "line 4 -> evaluation": no_outcome}


def test_every_eval_evers_own_validator_takes_an_export_and_refuses_what_is_broken(
    run: StoredRun, tmp_path: Path
) -> None:
    """In one call of the validator, which takes seconds to start."""
    whole = export(run, "every-eval-ever", tmp_path, model="lab/whole", organization="A lab")
    for number, damage in enumerate(DAMAGES.values()):
        samples, aggregate = export(run, "every-eval-ever", tmp_path, model=f"lab/broken{number}").files
        scores = json.loads(aggregate.read_text())
        lines = [json.loads(line) for line in samples.read_text().splitlines()]
        damage(scores, lines)
        samples.write_text("".join(json.dumps(line) + "\n" for line in lines))
        scores["detailed_evaluation_results"]["checksum"] = hashlib.sha256(samples.read_bytes()).hexdigest()
        aggregate.write_text(json.dumps(scores))
    done = validated(tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    files: dict[str, list[dict[str, Any]]] = {}
    for file in json.loads(done.stdout):
        files.setdefault(Path(file["file"]).parent.name, []).append(file)
    assert [file["valid"] for file in files["whole"]] == [True, True]  # scores and the lines per sample
    assert {Path(file["file"]).name for file in files["whole"]} == {path.name for path in whole.files}
    for number, message in enumerate(DAMAGES):
        places = [error["loc"] for file in files[f"broken{number}"] for error in file["errors"]]
        assert message in places[0]
        assert {loc.split(".")[-1].split(" ")[-1] for loc in places} == {message.split(" ")[-1]}  # and nothing else


def test_every_eval_ever_says_what_the_run_says(run: StoredRun, tmp_path: Path) -> None:
    exported = export(run, "every-eval-ever", tmp_path)
    samples, aggregate = exported.files
    record = json.loads(aggregate.read_text())
    scores = {
        (result["evaluation_name"], result["metric_config"]["additional_details"]["seed"]): result["score_details"][
            "score"
        ]
        for result in record["evaluation_results"]
    }
    assert scores == {(result.name, str(result.seed)): result.scores[0].value for result in run.results}
    assert record["model_info"]["id"] == "timm/resnet18-random-1"
    lines = [json.loads(line) for line in samples.read_text().splitlines()]
    assert len(lines) == record["detailed_evaluation_results"]["total_rows"] == 4 * 120  # two of 0 and 1, two seeds
    mine = [result["evaluation"]["score"] for result in lines if result["evaluation_result_id"] == "digits.seed1.acc@1"]
    assert mine == run.outcomes(run.named("digits")[1]).tolist()
    for result in record["evaluation_results"]:
        interval = result["score_details"]["uncertainty"]["confidence_interval"]
        assert interval["lower"] <= result["score_details"]["score"] <= interval["upper"]
    assert len(exported.left_out) == 4
    assert "micro/acdc seed 0" in exported.left_out[0]


@pytest.mark.parametrize("form", sorted(set(FORMS) - {"elevater"}))
def test_the_same_run_gives_the_same_bytes(run: StoredRun, form: str, tmp_path: Path) -> None:
    first, second = (export(run, form, tmp_path / name) for name in ("one", "two"))
    assert [path.name for path in first.files] == [path.name for path in second.files]
    assert [path.read_bytes() for path in first.files] == [path.read_bytes() for path in second.files]


def test_a_model_card_is_read_back_by_the_hubs_reader(run: StoredRun, tmp_path: Path) -> None:
    hub = pytest.importorskip("huggingface_hub")
    path = export(run, "model-card", tmp_path, model="mylab/tiny").files[0]
    card = hub.ModelCard.load(path)
    values = {eval_result.dataset_name: eval_result.metric_value for eval_result in card.data.eval_results}
    means = {name: sum(eval_result.scores[0].value for eval_result in run.named(name)) / 2 for name in SKILLS}
    assert values == pytest.approx(means)
    assert {eval_result.dataset_type for eval_result in card.data.eval_results} == set(
        SKILLS
    )  # a stand-in has no real set's name
    assert "| micro/acdc | dice ↑ |" in card.text
    path.write_text(path.read_text().replace("    metrics:\n", "    measures:\n"))
    with pytest.raises((KeyError, ValueError)):
        hub.ModelCard.load(path)


def test_a_users_readme_is_not_lost_to_a_model_card(run: StoredRun, tmp_path: Path) -> None:
    pytest.importorskip("huggingface_hub")
    (tmp_path / "README.md").write_text("# My project\n")
    with pytest.raises(UsageError, match=r"README.md is no model card of gate-runner's"):
        export(run, "model-card", tmp_path)
    assert (tmp_path / "README.md").read_text() == "# My project\n"
    for _ in range(2):  # its own card is renewed
        export(run, "model-card", tmp_path / "card")


def test_a_name_that_would_break_the_table_is_escaped(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "b", {"digits": 0.5}, encoder="m:f", note="a|b<script>")
    pytest.importorskip("huggingface_hub")
    path = export(read_run(folder), "model-card", tmp_path / "out").files[0]
    assert r"a\|b&lt;script>" in path.read_text()


def test_csv_has_a_row_per_result_and_failed_ones(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "c", {"digits": 0.5}, encoder="m:f", note="=cmd")
    write_run(folder, {"micro/cifar100": 0.5}, encoder="m:f", status="failed", reason="no memory", scores=())
    exported = export(read_run(folder), "csv", tmp_path)
    rows = list(csv.DictReader(exported.files[0].read_text().splitlines()))
    assert [(row["benchmark"], row["status"], row["reason"]) for row in rows] == [
        ("digits", "ok", ""),
        ("micro/cifar100", "failed", "no memory"),
    ]
    assert rows[0]["note"] == "'=cmd"
    assert exported.left_out == ("without a score, since they failed: micro/cifar100 seed 0",)


def test_a_second_export_is_refused_and_told_who_is_there(run: StoredRun, tmp_path: Path) -> None:
    with held(tmp_path / ".export.lock"), pytest.raises(BusyError, match=f"is held by process {os.getpid()} on"):
        export(run, "csv", tmp_path)
    assert list(tmp_path.iterdir()) == []
    export(run, "csv", tmp_path)
    assert not list(tmp_path.glob(".*"))


def test_names_that_are_none_are_refused(run: StoredRun, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nearest: csv"):
        export(run, "cvs", tmp_path)
    for wrong in ("clip", "a/b/c", "../x", "a/", "a b/c"):
        with pytest.raises(UsageError, match="expected DEVELOPER/NAME"):
            model_name(run, wrong)


@pytest.mark.parametrize("form", ["model-card", "every-eval-ever", "csv"])
def test_own_data_are_published_as_own_data(form: str, tmp_path: Path) -> None:
    pytest.importorskip("huggingface_hub")
    folder = write_run(tmp_path / "r", {"cifar100": 0.5}, source="file")
    files = export(read_run(folder), form, tmp_path / "out").files
    published = "".join(f"{path.name}\n{path.read_text()}" for path in files)
    assert "own/cifar100" in published
    for own in ("own/cifar100", "cifar100-digest"):
        published = published.replace(own, "")
    assert "cifar100" not in published


def test_seeds_of_other_metrics_have_no_mean(tmp_path: Path) -> None:
    folder = RunFolder(write_run(tmp_path / "run", {"digits": 0.5}))
    scored, samples = _folders.result("digits", 0.6, seed=1)
    folder.save(replace(scored, scores=(replace(scored.scores[0], metric="f1"),)), samples)
    pytest.importorskip("huggingface_hub")
    with pytest.raises(DataError, match="seeds of digits have other metrics"):
        export(read_run(folder.path), "model-card", tmp_path / "card")


@pytest.mark.parametrize("spec", ["é:é", "..", "/", "hf:a/..", "x:"])
def test_a_spec_without_letters_is_a_name_nevertheless(tmp_path: Path, spec: str) -> None:
    named = model_name(read_run(write_run(tmp_path / "run", {"digits": 0.5}, encoder=spec)))
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+", part) for part in named)


def exported(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["export", *map(str, words)])
    captured = capsys.readouterr()
    return int(ended.value.code or 0), captured.out, captured.err


def test_several_runs_are_written_each_as_it_is_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [write_run(tmp_path / name, SKILLS, encoder=f"timm:{name}/random:1") for name in ("a", "b")]
    status, out, _ = exported(capsys, *runs, runs[0], "--to", "csv")
    assert (status, out.split()) == (0, [str(run / "export" / "csv" / "results.csv") for run in runs])
    alone = [(run / "export" / "csv" / "results.csv").read_bytes() for run in runs]
    assert alone[0] != alone[1]
    status, _, _ = exported(capsys, *runs, "--to", "csv", "--output", tmp_path / "out")
    assert status == 0
    assert [(tmp_path / "out" / name / "results.csv").read_bytes() for name in ("a", "b")] == alone
    assert export(runs[1], "csv", tmp_path / "third").files[0].read_bytes() == alone[1]


def test_a_run_of_several_that_cannot_be_written_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "a", SKILLS)
    (tmp_path / "empty").mkdir()
    status, out, err = exported(capsys, tmp_path / "gone", run, "--to", "csv")
    assert (status, out.split()) == (1, [str(run / "export" / "csv" / "results.csv")])
    assert f"{tmp_path / 'gone'} is not exported: " in err
    assert len(err.splitlines()) == 1
    status, out, err = exported(capsys, tmp_path / "empty", run, "--to", "csv")
    assert (status, out.split()) == (0, [str(run / "export" / "csv" / "results.csv")])
    assert err.splitlines() == [f"left out: {tmp_path / 'empty'} is not a run folder"]
    with pytest.raises(UsageError, match="--model me/x names one model, and there are 2 runs"):
        folders_of([run, tmp_path / "empty"], "csv", model="me/x")
    with pytest.raises(UsageError, match=r"would both be written to out/a: leave out --output"):
        folders_of([run, tmp_path / "other" / "a"], "csv", Path("out"))
