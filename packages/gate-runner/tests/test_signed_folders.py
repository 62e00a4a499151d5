"""Run folders of strangers: malformed files that carry the right digest, which anyone can compute."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gate_runner
from gate_runner.benchmarks import BENCHMARKS
from gate_runner.charts.table import Table
from gate_runner.cli import main
from gate_runner.errors import DataError, UsageError
from gate_runner.exporting import FORMS, export
from gate_runner.runs.folder import PREDICTED, TESTED, RunFolder, _rows_digest, read_samples, stored_plan
from gate_runner.runs.results import samples_digest
from gate_runner.runs.stored import read_run
from gate_runner.runs.unit import EvalUnit, with_kept_sizes

from ._folders import write_run

Content = dict[str, Any]
DEEP = '{"a":' * 200_000 + "1" + "}" * 200_000


def signed(path: Path, change: Callable[[Content], object]) -> None:
    content = json.loads(path.read_text())
    change(content)
    content.pop("digest", None)
    if "results" in path.parts:
        content["digest"] = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    path.write_text(json.dumps(content))


def with_outcomes(folder: Path, values: np.ndarray) -> None:
    """Other outcomes in a run's place, with the right digest."""
    np.savez_compressed(folder / "samples" / "digits.seed0.npz", outcomes=values)
    digest = samples_digest(values)
    signed(folder / "results" / "digits.seed0.json", lambda file: file.update(samples_sha256=digest))


RESULTS: dict[str, tuple[Callable[[Content], object], str]] = {
    "scores no list": (lambda file: file.update(scores={"a": 1}), "field 'scores' is"),
    "scores texts": (lambda file: file.update(scores=["a"]), "field 'scores.0' is 'a'"),
    "scores empty": (lambda file: file.update(scores=[]), "it is 'ok', but has no score"),
    "scores unknown key": (lambda file: file["scores"][0].update(other=1), "field 'scores.0.other' is 1"),
    "scores lack a key": (lambda file: file["scores"][0].pop("low"), "field 'scores.0.low' is"),
    "a text as value": (lambda file: file["scores"][0].update(value="0.9"), "field 'scores.0.value' is '0.9'"),
    "null as value": (lambda file: file["scores"][0].update(chance=None), "a score has no interval or no chance"),
    "NaN as value": (lambda file: file["scores"][0].update(value=float("nan")), "is not a result file"),
    "direction": (lambda file: file["scores"][0].update(direction="up"), "field 'scores.0.direction' is 'up'"),
    "name": (lambda file: file.update(name=3), "field 'name' is 3"),
    "seed": (lambda file: file.update(seed="0"), "field 'seed' is '0'"),
    "seed null": (lambda file: file.update(seed=None), "field 'seed' is None"),
    "status": (lambda file: file.update(status="fine"), "field 'status' is 'fine'"),
    "task": (lambda file: file.update(task=[]), r"field 'task' is \[\]"),
    "data": (lambda file: file.update(data=3), "field 'data' is 3"),
    "data's test": (lambda file: file["data"].update(test="many"), "field 'data.test' is 'many'"),
    "training": (lambda file: file.update(training=None), "field 'training' is None"),
    "steps": (lambda file: file["training"].update(steps="x"), "field 'training.steps' is 'x'"),
    "curve": (lambda file: file["training"].update(validation=[3]), "field 'training.validation.0' is 3"),
    "curve null": (lambda file: file["training"].update(validation=None), "field 'training.validation' is None"),
    "a text in the curve": (
        lambda file: file["training"]["validation"][0].update({"acc@1": "x"}),
        "field 'training.validation.0.acc@1' is 'x'",
    ),
    "seconds": (lambda file: file["seconds"].update(total="x"), "field 'seconds.total' is 'x'"),
    "settings": (lambda file: file.update(settings=[1]), "field 'settings' is"),
    "seconds below 0": (lambda file: file["seconds"].update(total=-1.0), "field 'seconds.total' is -1.0"),
    "huge seconds": (lambda file: file["seconds"].update(encode=1e308), "field 'seconds.encode' is 1e[+]308"),
    "huge memory": (lambda file: file["memory"].update(peak_bytes=10**400), "field 'memory.peak_bytes' is 1000"),
    "a step": (lambda file: file["training"]["validation"][0].update(step=10**400), "validation.0.step' is 1000"),
    "seed below 0": (lambda file: file.update(seed=-1), "field 'seed' is -1"),
    "asked samples": (lambda file: file["data"].update(test_items=5), "field 'data.test_items' is 5"),
    "energy": (lambda file: file.update(energy={"joules": 3}), "field 'energy.joules' is 3"),
}
MANIFESTS: dict[str, tuple[Callable[[Content], object], str]] = {
    "runs null": (lambda file: file.update(runs=None), "field 'runs' is None"),
    "runs texts": (lambda file: file.update(runs=["a"]), "field 'runs.0' is 'a'"),
    "provides null": (lambda file: file["identity"]["encoder"].update(provides=None), "encoder.provides' is None"),
    "parameters": (lambda file: file["identity"]["encoder"].update(parameters="x"), "encoder.parameters' is 'x'"),
    "spec": (lambda file: file["identity"]["encoder"].update(spec=3), "encoder.spec' is 3"),
    "encoder": (lambda file: file["identity"].update(encoder="x"), "field 'identity.encoder' is 'x'"),
    "identity": (lambda file: file.update(identity=[1]), "field 'identity' is"),
    "versions": (lambda file: file["runs"][0].update(versions=[1]), "field 'runs.0.versions' is"),
    "files": (lambda file: file["runs"][0].update(files=3), "field 'runs.0.files' is 3"),
    "hardware": (lambda file: file["runs"][0].update(hardware="x"), "field 'runs.0.hardware' is 'x'"),
}


def refused(folder: Path, other: Path, message: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every command that reads the folder ends with one line that names the file."""
    commands = [
        ["report", str(folder)], ["compare", str(other), str(folder)], ["forecast", str(folder)],
        ["power", str(other), str(folder)], ["export", str(folder), "--to", "csv", "--output", f"{folder}-out"],
    ]  # fmt: skip
    for command in commands:
        with pytest.raises(SystemExit) as ended:
            main(command)
        shown = capsys.readouterr().err
        assert ended.value.code == 2, (command, shown)
        assert re.search(message, " ".join(shown.split())), (command, shown)
        assert file.name in "".join(shown.split()), (command, shown)


@pytest.mark.parametrize("kind", [*RESULTS, "deep", *(f"manifest: {name}" for name in MANIFESTS), "manifest: deep"])
def test_a_malformed_file_with_the_right_digest_is_one_line(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, other = (write_run(tmp_path / name, {"digits": 0.7}, encoder=name) for name in ("a", "b"))
    is_manifest, name = kind.startswith("manifest: "), kind.removeprefix("manifest: ")
    file = folder / "manifest.json" if is_manifest else next((folder / "results").glob("*.json"))
    if name == "deep":
        file.write_text(DEEP)
        text = "is not a (manifest|result file)"
    else:
        change, text = (MANIFESTS if is_manifest else RESULTS)[name]
        signed(file, change)
    refused(folder, other, text, file, capsys)


@pytest.mark.parametrize(
    "values",
    [np.array(1.0), np.array(["a"] * 120), np.zeros(120, complex), np.zeros(120, "datetime64[s]"),
     np.zeros(120, [("a", "f8")]), np.full(120, np.inf), np.full(120, -1e300)],
    ids=["one number", "texts", "complex", "dates", "records", "infinite", "huge"],
)  # fmt: skip
def test_outcomes_that_are_no_numbers_are_one_line(values: np.ndarray, tmp_path: Path) -> None:
    """They came into tables, as differences between runs, with the right digest."""
    folder, other = (write_run(tmp_path / name, {"digits": 0.7}, encoder=name) for name in ("a", "b"))
    with_outcomes(folder, values)
    calls = [partial(gate_runner.compare, other, folder), partial(gate_runner.power, folder),
             partial(gate_runner.report, other, folder), partial(export, folder, "every-eval-ever")]  # fmt: skip
    for call in calls:
        with pytest.raises(UsageError, match=r"digits.seed0.npz does not hold per-sample outcomes"):
            call()


def with_rows(folder: Path, **changed: np.ndarray) -> Path:
    """A result whose samples are files, with other arrays and the right digests."""
    arrays = {
        "files": np.array([f"{at}.png" for at in range(120)]), "classes": np.array(["cat", "dog"]),
        "truth": np.arange(120) % 2, "confidence": np.full(120, 0.75), "predicted": np.zeros(120, np.int64),
        "distributions": np.full((120, 2), 0.5), "column_names": np.array(["light"]),
        "column_values": np.array([["day", "night"] * 60]),
    }  # fmt: skip
    arrays |= changed
    path = folder / "samples" / "digits.seed0.npz"
    outcomes: Any = read_samples(path)
    np.savez_compressed(path, outcomes=outcomes, **arrays)  # type: ignore[arg-type]
    tested = {name: values for name, values in arrays.items() if name != "predicted"}
    digests = {PREDICTED: samples_digest(arrays["predicted"]), TESTED: _rows_digest(tested)}
    signed(folder / "results" / "digits.seed0.json", lambda file: file["training"].update(digests))
    return folder


@pytest.mark.parametrize(
    "changed",
    [
        {"truth": np.arange(120) % 2 - 1}, {"truth": np.arange(120) % 3}, {"truth": np.zeros(119, int)},
        {"truth": np.zeros(120)}, {"truth": np.zeros((120, 1), int)}, {"files": np.array(["0.png"] * 119)},
        {"files": np.arange(120)}, {"files": np.array("0.png")}, {"classes": np.array("cat")},
        {"confidence": np.full(120, np.nan)}, {"confidence": np.full(119, 0.5)},
        {"confidence": np.full(120, 1.5)}, {"confidence": np.array(["1"] * 120)}, {"classes": np.array(["cat"])},
        {"classes": np.arange(2)}, {"predicted": np.full(120, -1)}, {"predicted": np.full(120, 2)},
        {"predicted": np.zeros(119, int)}, {"predicted": np.full(120, 0.5)}, {"distributions": np.full((120, 3), 0.5)},
        {"column_names": np.array(["a", "b"])}, {"column_values": np.array(["day"] * 120)},
    ],
)  # fmt: skip
def test_rows_that_do_not_fit_together_are_one_line(changed: dict[str, np.ndarray], tmp_path: Path) -> None:
    run = read_run(with_rows(write_run(tmp_path / "run", {"digits": 0.7}), **changed))
    with pytest.raises(DataError, match=r"seed0\.npz: (array '\w+' is|120 outcomes for) .* run again with"):
        run.tested(run.results[0])


def test_outcomes_of_fewer_files_are_one_line(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", {"digits": 0.7})
    with_outcomes(folder, np.ones(60))
    run = read_run(with_rows(folder))
    with pytest.raises(DataError, match=r"digits\.seed0\.npz: 60 outcomes for 120 files; run again"):
        run.tested(run.results[0])


@pytest.mark.parametrize("sure", [0.75, 1.000001])
def test_rows_that_fit_together_are_read(sure: float, tmp_path: Path) -> None:
    confidence = np.full(120, sure, np.float32)  # rounding gives more than 1
    run = read_run(with_rows(write_run(tmp_path / "run", {"digits": 0.7}), confidence=confidence))
    assert len(run.tested(run.results[0])["files"]) == 120


SLICE = {"name": "day", "samples": 60, "value": 0.5}
SLICE |= dict.fromkeys(("low", "high", "difference", "p", "p_adjusted"))
SLICES = {"by": "light", "rows": [SLICE], "worst": "day", "low": 0.1, "high": 0.6, "gap": 0.1, "p_gap": 0.5}
SLICES |= {"clusters": None}
SHIFT = {"shift": "grey", "strength": 1, "value": 0.5, "low": 0.4, "high": 0.6, "change": [0.0, -0.1, 0.1]}


@pytest.mark.parametrize(
    ("training", "message"),
    [
        ({"slices": [SLICES | {"worst": "night"}]}, "the worst slice 'night' is not one of its rows"),
        ({"slices": [SLICES | {"rows": [SLICE | {"samples": "many"}]}]}, "slices.0.rows.0.samples' is 'many'"),
        ({"slices": "all"}, "training.slices' is 'all'"),
        ({"shifts": [SHIFT | {"strength": "strong"}]}, "shifts.0.strength' is 'strong'"),
        ({"shifts": [SHIFT | {"change": [1]}]}, "shifts.0.change"),
    ],
)
def test_slices_and_shifts_of_another_form_are_one_line(training: Content, message: str, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", {"digits": 0.7})
    file = folder / "results" / "digits.seed0.json"
    signed(file, lambda content: content["training"].update(slices=[SLICES], shifts=[SHIFT]))
    gate_runner.report(folder, output=tmp_path / "page.html")
    signed(file, lambda content: content["training"].update(training))
    with pytest.raises(DataError, match=r"digits\.seed0\.json: field 'training\.") as raised:
        gate_runner.report(folder, output=tmp_path / "page.html")
    assert message in str(raised.value)


def test_an_interval_the_wrong_way_round_is_one_line(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", {"digits": 0.7})
    signed(folder / "results" / "digits.seed0.json", lambda content: content["scores"][0].update(low=0.9, high=0.1))
    with pytest.raises(DataError, match=r"field 'scores\.0' .*its interval is 0\.9 to 0\.1"):
        read_run(folder)


def test_samples_that_count_for_nothing_have_no_power_and_other_numbers_are_said(tmp_path: Path) -> None:
    folders = [write_run(tmp_path / name, {"digits": 0.7}, encoder=name) for name in ("a", "b", "c")]
    with_outcomes(folders[0], np.r_[np.full(60, np.nan), np.zeros(30), np.ones(30)])
    (row,) = gate_runner.power(folders[0]).benchmarks
    assert row.samples == 60
    assert gate_runner.power(folders[0], folders[1]).benchmarks[0].samples == 60
    with_outcomes(folders[2], np.zeros(7))
    with pytest.raises(UsageError, match="digits: the runs have other numbers of outcomes"):
        gate_runner.power(folders[1], folders[2])


def test_a_copy_of_a_result_is_no_further_seed(tmp_path: Path) -> None:
    """A table said two seeds of one, and twice its seconds."""
    folder = write_run(tmp_path / "run", {"digits": 0.7})
    file = folder / "results" / "digits.seed0.json"
    file.with_name("digits.seed0 (1).json").write_bytes(file.read_bytes())
    with pytest.raises(DataError, match=r"\(1\).json is of digits seed 0, whose file is digits.seed0.json"):
        read_run(folder)


@pytest.mark.parametrize(
    "content", ['{"parts": "abc"}', "[1]", *(
        f'{{"parts": [{{"name": "digits", "seed": 0, "seconds": {seconds}, "reason": ""}}]}}'
        for seconds in ("NaN", "1e999", "-5", '"x"', f"1{'0' * 400}")
    )],
)  # fmt: skip
def test_a_plan_that_says_no_seconds_is_none(content: str, tmp_path: Path) -> None:
    """NaN ended the display in the middle of a run."""
    (tmp_path / "plan.json").write_text(content)
    assert stored_plan(tmp_path) == {}


@pytest.mark.parametrize(
    ("content", "sizes"),
    [('{"batch_size": 1e999, "micro_batches": 1}', (128, 1)), ('{"batch_size": -5, "micro_batches": -1}', (1, 1)),
     ('{"batch_size": 1, "micro_batches": 1000000000000}', (1, 8)), ("[]", (128, 1))],
)  # fmt: skip
def test_smaller_sizes_of_a_stranger_stay_sizes(content: str, sizes: tuple[int, int], tmp_path: Path) -> None:
    part = EvalUnit(BENCHMARKS["digits"], "built-in", 0, "a", tmp_path)
    path = part.folder.sizes_file(part.name, part.seed)
    path.parent.mkdir()
    path.write_text(content)
    settings = with_kept_sizes(part).settings
    assert (settings.batch_size, settings.micro_batches) == sizes


@pytest.mark.parametrize(
    "leftover",
    ["unfinished/digits.seed0.json", "unfinished/digits.seed0.pt", "unfinished/digits.seed0.pt.5.partial",
     "failures/digits.seed0.txt", "results/.digits.seed0.json.abc", ".manifest.json.abc"],
)  # fmt: skip
def test_a_folder_in_the_place_of_what_is_removed_does_not_lose_the_result(leftover: str, tmp_path: Path) -> None:
    """It was removed as a file when the result was there, and the result became a failed one."""
    folder = RunFolder(write_run(tmp_path / "run", {"digits": 0.7}))
    stored = folder.finished("digits", 0)
    assert stored is not None
    (folder.path / leftover / "inside").mkdir(parents=True)
    folder.claim(json.loads((folder.path / "manifest.json").read_text())["identity"], {"command": []})
    folder.sweep("digits", 0)
    folder.save(stored, read_samples(folder.samples_file("digits", 0)))
    assert not (folder.path / leftover).exists()
    assert folder.finished("digits", 0) == stored


@pytest.mark.parametrize("field", ["spec", "fingerprint"])
def test_a_result_of_another_encoder_is_not_the_folders(field: str, tmp_path: Path) -> None:
    """Folders that are copied into one another: the score stood under the name in the manifest."""
    folder = RunFolder(write_run(tmp_path / "run", {"digits": 0.7}))
    encoder = {"spec": "mine", "fingerprint": "a1"}
    for path in (folder.manifest_file, folder.result_file("digits", 0)):
        signed(path, lambda file: file.get("identity", file).update(encoder=encoder))
    assert folder.finished("digits", 0) is not None
    assert len(read_run(folder.path).results) == 1
    signed(folder.result_file("digits", 0), lambda file: file["encoder"].update({field: "other"}))
    with pytest.raises(DataError, match=rf"digits\.seed0\.json is of another encoder than its folder: {field} 'other'"):
        read_run(folder.path)
    with pytest.raises(DataError, match="is of another encoder than its folder"):
        folder.finished("digits", 0)
    assert folder.finished("digits", 0, recompute=True) is None


@pytest.mark.parametrize("name", ["plan.json", "unfinished/digits.seed0.json"])
def test_a_pipe_in_a_run_folder_is_not_waited_for(name: str, tmp_path: Path) -> None:
    (tmp_path / "unfinished").mkdir()
    os.mkfifo(tmp_path / name)
    part = EvalUnit(BENCHMARKS["digits"], "built-in", 0, "a", tmp_path)
    assert stored_plan(tmp_path) == {}
    assert with_kept_sizes(part) == part


TRAININGS: dict[str, Content] = {
    "rows of classes": {"by_class": {"rows": [[]], "scores": {}, "confused": []}},
    "figures of classes": {"by_class": 3},
    "what was forgotten": {"zero_shot": [None], "gained": {"a": 1}},
    "a readout": {"readout": {"worth": None}},
    "a suite": {"suite": 5},
    "a suite's lines": {"suite": {"lines": [1]}},
}


@pytest.mark.parametrize("kind", TRAININGS)
def test_what_a_stranger_says_of_a_training_is_a_page_or_one_line(kind: str, tmp_path: Path) -> None:
    task = "suite" if "suite" in kind else "image-classification"
    folder = write_run(tmp_path / "run", {"digits": 0.7}, task=task)
    signed(next((folder / "results").glob("*.json")), lambda file: file["training"].update(TRAININGS[kind]))
    calls = [partial(gate_runner.report, folder, form=form) for form in ("html", "md")]
    refused = []
    for call in [*calls, *(partial(export, read_run(folder), form, tmp_path / form) for form in FORMS)]:
        try:
            call()
        except DataError as error:
            refused.append(str(error))
    assert refused
    assert all(str(folder) in line for line in refused)


def test_a_name_in_a_table_of_a_sweep_brings_no_code() -> None:
    """LaTeX ran the commands in it, and Markdown showed its elements; the table of scores escaped both."""
    name = r"\input{/etc/passwd} <b>$x^2$"
    shown = Table("a", f"of\n{name}", ("data set", name), ((name, "0.5 ± 0.1"),))
    rows = [line for line in shown.as_latex().splitlines() if not line.startswith("%")]
    assert r"\input" not in "\n".join(rows)
    assert rows[-3] == r"\textbackslash{}input\{/etc/passwd\} <b>\$x\textasciicircum{}2\$ & 0.5 $\pm$ 0.1 \\"
    assert "<b>" not in shown.as_markdown().split("**")[-1]


def test_two_names_whose_files_are_one_do_not_pass_for_each_other(tmp_path: Path) -> None:
    folder = RunFolder(write_run(tmp_path / "run", {"micro/mine": 0.7}))
    assert folder.finished("micro/mine", 0) is not None
    with pytest.raises(UsageError, match=r"micro-mine\.seed0\.json is of micro/mine seed 0, not of micro-mine seed 0"):
        folder.finished("micro-mine", 0)


@pytest.mark.parametrize("outputs", [-1, [1], {"device": "cpu", "image": ["a"]}, {"device": "cpu", "image": 3}])
def test_outputs_of_a_manifest_that_are_no_features(tmp_path: Path, outputs: Any) -> None:
    identity = {"encoder": {"spec": "a"}, "outputs": {"device": "cpu", "image": [1.0]}}
    RunFolder(tmp_path).claim(identity, {"command": []})
    signed(tmp_path / "manifest.json", lambda record: record["identity"].update(outputs=outputs))
    with pytest.raises(UsageError, match=r"field 'outputs' is|gave other features"):
        RunFolder(tmp_path).check(identity)


def test_a_manifest_of_a_newer_version_is_not_read_as_todays(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", {"micro/mine": 0.7})
    signed(run / "manifest.json", lambda record: record.update(schema="gate-runner/manifest/4"))
    with pytest.raises(DataError, match=r"schema is 'gate-runner/manifest/4', expected 'gate-runner/manifest/3'"):
        read_run(run)
