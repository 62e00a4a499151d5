"""Run folders of strangers: malformed files that carry the right digest, which anyone can compute."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import gate_runner
from gate_runner.cli import main
from gate_runner.errors import DataError, UsageError
from gate_runner.exporting import FORMS, export
from gate_runner.runs.folder import RunFolder
from gate_runner.runs.stored import read_run

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


RESULTS: dict[str, tuple[Callable[[Content], object], str]] = {
    "scores no list": (lambda made: made.update(scores={"a": 1}), "field 'scores' is"),
    "scores texts": (lambda made: made.update(scores=["a"]), "field 'scores.0' is 'a'"),
    "scores empty": (lambda made: made.update(scores=[]), "it is 'ok', but has no score"),
    "scores unknown key": (lambda made: made["scores"][0].update(other=1), "field 'scores.0.other' is 1"),
    "scores lack a key": (lambda made: made["scores"][0].pop("low"), "field 'scores.0.low' is"),
    "a text as value": (lambda made: made["scores"][0].update(value="0.9"), "field 'scores.0.value' is '0.9'"),
    "null as value": (lambda made: made["scores"][0].update(chance=None), "field 'scores.0.chance' is None"),
    "NaN as value": (lambda made: made["scores"][0].update(value=float("nan")), "is not a result file"),
    "direction": (lambda made: made["scores"][0].update(direction="up"), "field 'scores.0.direction' is 'up'"),
    "name": (lambda made: made.update(name=3), "field 'name' is 3"),
    "seed": (lambda made: made.update(seed="0"), "field 'seed' is '0'"),
    "seed null": (lambda made: made.update(seed=None), "field 'seed' is None"),
    "status": (lambda made: made.update(status="fine"), "field 'status' is 'fine'"),
    "task": (lambda made: made.update(task=[]), r"field 'task' is \[\]"),
    "data": (lambda made: made.update(data=3), "field 'data' is 3"),
    "data's test": (lambda made: made["data"].update(test="many"), "field 'data.test' is 'many'"),
    "training": (lambda made: made.update(training=None), "field 'training' is None"),
    "steps": (lambda made: made["training"].update(steps="x"), "field 'training.steps' is 'x'"),
    "curve": (lambda made: made["training"].update(validation=[3]), "field 'training.validation.0' is 3"),
    "curve null": (lambda made: made["training"].update(validation=None), "field 'training.validation' is None"),
    "a text in the curve": (
        lambda made: made["training"]["validation"][0].update({"acc@1": "x"}),
        "field 'training.validation.0.acc@1' is 'x'",
    ),
    "seconds": (lambda made: made["seconds"].update(total="x"), "field 'seconds.total' is 'x'"),
    "settings": (lambda made: made.update(settings=[1]), "field 'settings' is"),
    "energy": (lambda made: made.update(energy={"joules": 3}), "field 'energy.joules' is 3"),
}
MANIFESTS: dict[str, tuple[Callable[[Content], object], str]] = {
    "runs null": (lambda made: made.update(runs=None), "field 'runs' is None"),
    "runs texts": (lambda made: made.update(runs=["a"]), "field 'runs.0' is 'a'"),
    "provides null": (lambda made: made["identity"]["encoder"].update(provides=None), "encoder.provides' is None"),
    "parameters": (lambda made: made["identity"]["encoder"].update(parameters="x"), "encoder.parameters' is 'x'"),
    "spec": (lambda made: made["identity"]["encoder"].update(spec=3), "encoder.spec' is 3"),
    "encoder": (lambda made: made["identity"].update(encoder="x"), "field 'identity.encoder' is 'x'"),
    "identity": (lambda made: made.update(identity=[1]), "field 'identity' is"),
    "versions": (lambda made: made["runs"][0].update(versions=[1]), "field 'runs.0.versions' is"),
    "files": (lambda made: made["runs"][0].update(files=3), "field 'runs.0.files' is 3"),
    "hardware": (lambda made: made["runs"][0].update(hardware="x"), "field 'runs.0.hardware' is 'x'"),
}


def refused(folder: Path, other: Path, message: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every command that reads the folder ends with one line that names the file."""
    commands = [
        ["report", str(folder)], ["compare", str(other), str(folder)], ["predict", str(folder)],
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
    folder = write_run(tmp_path / "run", {"digits": 0.7})
    signed(next((folder / "results").glob("*.json")), lambda made: made["training"].update(TRAININGS[kind]))
    calls = [partial(gate_runner.report, folder, form=form) for form in ("html", "md", "classes", "confusions")]
    refused = []
    for call in [*calls, *(partial(export, read_run(folder), form, tmp_path / form) for form in FORMS)]:
        try:
            call()
        except DataError as error:
            refused.append(str(error))
    assert refused
    assert all(str(folder) in line for line in refused)


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
