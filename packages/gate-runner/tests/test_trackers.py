"""Trackers: what they are told is what they keep."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

import gate_runner
from gate_runner import trackers
from gate_runner.cli import main
from gate_runner.errors import UsageError
from gate_runner.runs import Result
from gate_runner.runs.observers import Observer, Planned
from gate_runner.trackers import TRACKERS, make_trackers

from ._folders import result, write_run

PLAN = [Planned("digits", 0, 1.0, False)]


def send(tracker: Observer, output: Path, results: Sequence[Result]) -> None:
    tracker.opened("mine", output)
    tracker.planned(PLAN)
    for finished in results:
        tracker.finished(finished)
    tracker.closed(results)


@pytest.fixture
def results() -> list[Result]:
    passed, _ = result("digits", 0.5, energy={"joules": {"cpu": {"total": 12.5}}, "unmeasured": {}})
    failed, _ = result("micro/mini", 0.5, status="failed", reason="too few classes", scores=(), training={})
    return [passed, failed]


def test_tensorboard_keeps_curves_scores_and_configuration(results: list[Result], tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    output = write_run(tmp_path / "run", {"digits": 0.5})
    (tracker,) = make_trackers(["tensorboard"])
    send(tracker, output, results)
    events = EventAccumulator(str(output / "tensorboard")).Reload()
    curve = [(event.step, event.value) for event in events.Scalars("digits/seed0/validation_acc_1")]
    expected = [(row["step"], row["acc@1"]) for row in results[0].training["validation"]]
    assert curve == [(step, pytest.approx(value)) for step, value in expected]
    score = results[0].scores[0]
    for name, value in (("", score.value), ("_low", score.low), ("_high", score.high), ("_chance", score.chance)):
        (event,) = events.Scalars(f"digits/seed0/test_acc_1{name}")
        assert event.value == pytest.approx(value)
    assert events.Scalars("digits/seed0/cpu_joules")[0].value == 12.5
    texts = {tag: events.Tensors(tag)[0].tensor_proto.string_val[0].decode() for tag in events.Tags()["tensors"]}
    assert texts["micro/mini/seed0/failed/text_summary"] == "too few classes"
    assert '"parameters": 1000' in texts["configuration/text_summary"]


def test_wandb_keeps_the_same_offline(results: list[Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    output = write_run(tmp_path / "run", {"digits": 0.5})
    (tracker,) = make_trackers(["wandb"])
    send(tracker, output, results)
    wandb.teardown()  # its service, a process of its own, writes the file to its end
    (log,) = (output / "wandb").glob("offline-run-*/*.wandb")
    log_bytes = log.read_bytes()
    for name in ("test acc@1", "test acc@1 low", "test acc@1 high", "validation acc@1", "cpu joules"):
        assert name.encode() in log_bytes
    assert str(results[0].scores[0].value).encode() in log_bytes
    assert b"too few classes" in log_bytes
    assert b'"parameters"' in log_bytes or b"parameters" in log_bytes


@pytest.mark.parametrize("folder", ["wandb", ".wandb"])
@pytest.mark.parametrize(
    "text", ["[default]\nbase_url = http://other\n", "[DEFAULT]\nhttp_proxy = other\n", "base_url\n"]
)
def test_wandb_takes_no_address_from_the_working_folder(
    text: str, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("wandb")
    monkeypatch.chdir(tmp_path)
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "settings").write_text("[default]\nentity = lab\nproject = cats\n")
    assert make_trackers(["wandb"])
    (tmp_path / folder / "settings").write_text(text)
    with pytest.raises(UsageError, match="in the working folder"):
        make_trackers(["wandb"])


def test_wandb_starts_no_git(results: list[Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.delenv("WANDB_DISABLE_GIT", raising=False)
    mark, programs = tmp_path / "git-started", tmp_path / "programs"
    programs.mkdir()
    (programs / "git").write_text(f'#!/bin/sh\necho "$@" >> "{mark}"\nexit 1\n')
    (programs / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    folder = tmp_path / "data"
    (folder / ".git").mkdir(parents=True)
    monkeypatch.chdir(folder)
    output = write_run(tmp_path / "run", {"digits": 0.5})
    (tracker,) = make_trackers(["wandb"])
    send(tracker, output, results)
    wandb.teardown()
    assert not mark.exists(), mark.read_text()


def test_validations_are_there_while_a_training_runs_and_the_hardest_images_at_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    monkeypatch.setattr(trackers, "_LOOK_AGAIN", 0.0)
    (tracker,) = make_trackers(["tensorboard"])
    during: list[int] = []

    class Onlooker(Observer):
        def progress(self, name: str, seed: int, phase: str, done: int, total: int) -> None:
            if phase == "train" and done == total:
                events = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
                during.extend(event.step for event in events.Scalars("digits/seed0/validation_acc_1"))

    fields = {"steps": 4, "validate_every": 1, "batch_size": 8, "head_start": "random"}
    (finished,) = gate_runner.run(
        "digits", encoder="micro-dense/random", output=tmp_path / "run", show=False, limit=30, device="cpu",
        tune="bias", recipe_fields=fields, observers=[tracker, Onlooker()],
    )  # fmt: skip
    assert finished.status == "ok", finished.reason
    assert during == [0, 1, 2, 3, 4]
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"), size_guidance={"images": 0}).Reload()
    curve = events.Scalars("digits/seed0/validation_acc_1")
    assert [event.step for event in curve] == during  # none twice
    expected = [row["acc@1"] for row in finished.training["validation"]]
    assert [event.value for event in curve] == pytest.approx(expected)
    assert [event.step for event in events.Scalars("digits/seed0/training_loss")] == [1, 2, 3, 4]
    images = [tag for tag in events.Tags()["images"] if tag.startswith("digits/hardest")]
    assert len(images) == 4
    (image,) = events.Images(images[0])
    assert image.width == image.height > 0
    assert not list((tmp_path / "run" / "unfinished").glob("*.curve"))


def test_wandb_keeps_the_hardest_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    (tracker,) = make_trackers(["wandb"])
    gate_runner.run("digits", encoder="micro-clip/random", output=tmp_path / "run", show=False, limit=30, device="cpu",
                    observers=[tracker])  # fmt: skip
    wandb.teardown()
    assert len(list((tmp_path / "run" / "wandb").glob("offline-run-*/files/media/images/digits/hardest*"))) == 4


def test_nothing_is_opened_where_nothing_is_left(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    (tracker,) = make_trackers(["tensorboard"])
    tracker.opened("mine", tmp_path)
    tracker.planned([Planned("digits", 0, 1.0, True)])
    tracker.closed([])
    assert list(tmp_path.iterdir()) == []


def test_names_and_extras_are_checked_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="unknown tracker 'wandbs'; nearest: wandb"):
        make_trackers(["wandbs"])
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for name in TRACKERS:
        with pytest.raises(UsageError, match=rf"--tracker {name} needs the extra: pip install 'gate-runner\[{name}\]'"):
            make_trackers([name])


def test_the_command(own: str, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    with pytest.raises(SystemExit) as ended:
        main(
            [
                *["run", "digits", "--limit", "40", "--isolate", "none", "--output", "out", "--tracker", "tensorboard"],
                *["--encoder", f"{own}:grid"],
            ]
        )
    assert ended.value.code == 0
    assert len(list(Path("out/tensorboard").iterdir())) == 1
    assert json.loads((Path("out") / "manifest.json").read_text())["identity"]["limit"] == 40
