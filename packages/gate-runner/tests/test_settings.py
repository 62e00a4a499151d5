"""One record of options: the same for Python, the command line, a part that travels and a folder's identity."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.main import get_command
from typer.testing import CliRunner

import gate_runner
from gate_runner.benchmarks import BENCHMARKS
from gate_runner.cli import app, main
from gate_runner.errors import UsageError
from gate_runner.runs.request import make_request
from gate_runner.runs.unit import EvalUnit
from gate_runner.settings.configuration import settings_in
from gate_runner.settings.record import DECLARED, NAMES, Settings, option_of
from gate_runner.settings.signatures import words_for

OTHER = Settings(
    source="micro", data_root=Path("data"), limit=7, skip_unreadable=True, drop_near=True, batch_size=3,
    items=Path(__file__).with_name("chosen_items.json"), until=2.5,
    micro_batches=2, device="cpu", seeds=(4, 5),
    isolate="benchmark", time_limit=90.0, retries=1, workers=2, recompute=True, feature_cache=5,
    tune="full", recipe="gate", recipe_fields={"lr": "0.1"}, decode_workers=1, transform="square", precision="bfloat16",
    save_encoders=True, save_heads=True,
    keep_zero_shot=("zero-shot",), wise_ft=0.5, num_processes=2, checkpoint_blocks=True,
    shots=("0", "5"), readout=("auto", "block:2/cls"),
    protocol="cross", methods=("zero_shot", "prolip"), views=10, choose_on="validation",
    init=("random",), projection=("1p",), knowledge=("gpt3",), controls=False, keep_predictions=True,
    short_classes="skip", unlabelled=True,
    probe="elevater", knowledge_folder=Path("words"),
    class_weight="balanced", folds=3,
    split="valid", prompts="gpt3:5", knowledge_from="glip=x",
    language_model="mine:words", patch_features=("sclip", "value"), preset="naclip",
    class_words=Path(__file__).with_name("chosen_items.json"), background="threshold", background_threshold="0.25",
    refine="pamr", proxy="micro-clip/random:1", shift=("grey",), executor="slurm",
    executor_options={"partition": "gpu"},
)  # fmt: skip


def test_every_field_is_a_keyword_and_an_option() -> None:
    for function in (gate_runner.run, gate_runner.plan):
        assert set(NAMES) <= set(inspect.signature(function).parameters)
    for command in ("run", "plan"):
        shown = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"}).output
        assert all(word in shown for word in words_for(OTHER) if word.startswith("--")), shown
        assert all((f"{option_of(name)} " in shown) is DECLARED[name].common for name in NAMES)
    listed = json.loads(CliRunner().invoke(app, ["ls", "settings", "--json"]).output)
    assert [row["setting"] for row in listed] == list(NAMES)
    assert next(row["default"] for row in listed if row["setting"] == "isolate") == "worker"  # the commands' own
    assert all(getattr(OTHER, name) != getattr(Settings(), name) for name in NAMES)  # none is forgotten above


def test_words_give_the_settings_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What is said on the command line reaches the request whole."""
    received: list[Settings] = []

    def planned(request: object, *, budget: float | None) -> None:
        received.append(request.settings)  # type: ignore[attr-defined]
        raise UsageError("seen")

    monkeypatch.setattr("gate_runner.planning.plan.plan", planned)
    # Shifts are refused where encoders are trained, as they are in the other.
    tried = [OTHER.changed(shift=()), Settings(isolate="worker", shift=("grey",)), Settings(isolate="worker")]
    for settings in tried:
        CliRunner().invoke(app, ["plan", "digits", *words_for(settings)])
    assert received == tried


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_a_seed_that_no_generator_takes_is_refused_before_anything_starts(seed: int) -> None:
    with pytest.raises(UsageError, match=rf"--seed must be at least 0 and below 2\*\*63, not {seed}"):
        Settings(seeds=(0, seed))


def test_a_part_keeps_its_settings_on_its_way_to_another_process() -> None:
    part = EvalUnit(BENCHMARKS["digits"], "built-in", 4, "micro-clip", Path("out"), OTHER)
    again = EvalUnit.from_mapping(json.loads(json.dumps(part.to_mapping())))
    assert again.settings == OTHER.changed(data_root=Path("data").absolute(), knowledge_folder=Path("words").absolute())
    assert again.benchmark == part.benchmark


def test_what_people_say_is_read() -> None:
    changed = Settings().changed(data_root="data", seeds=[1, 1, 0], executor_options=["a=b=c"], isolate="worker")
    assert (changed.data_root, changed.seeds, changed.executor_options) == (Path("data"), (1, 0), {"a": "b=c"})
    assert changed.changed(time_limit="1.5m").time_limit == 90
    assert changed.identity() == {"limit": None}
    settings = Settings(limit=3)
    assert make_request("digits", settings=settings).settings is settings


def test_settings_and_keywords_are_one() -> None:
    with pytest.raises(UsageError, match="unknown option 'limmit'; nearest: limit"):
        gate_runner.run("digits", limmit=3)
    with pytest.raises(UsageError, match="--limit must be at least 1, not 0"):
        gate_runner.plan("digits", settings=Settings(batch_size=2), limit=0)


def commands_of(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "list_commands"):
        yield " ".join(path), command
        return
    for name in command.list_commands(None):
        yield from commands_of(command.get_command(None, name), (*path, name))


def test_no_command_has_more_than_25_options_of_its_own() -> None:
    counted = {
        name: sum(parameter.param_type_name == "option" and not parameter.hidden for parameter in command.params)
        for name, command in commands_of(get_command(app))
    }
    assert len(counted) > 40
    assert {name: count for name, count in counted.items() if count > 25} == {}


@pytest.mark.parametrize("command", [["run", "digits"], ["plan", "digits"], ["trade", "a", "b"]])
def test_a_setting_without_an_option_says_how_it_is_given(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    for words, name in (
        (["--wise-ft", "best"], "wise_ft"),
        (["--save-heads"], "save_heads"),
        (["--no-controls"], "controls"),
    ):
        with pytest.raises(SystemExit, match="2"):
            main([*command, *words])
        assert f"{words[0]} is not an option but a setting: --setting {name}=VALUE" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [("wise", "expected NAME=VALUE"), ("wiseft=1", "nearest: wise_ft"), ("retries=often", "retries is")],
)
def test_a_setting_that_there_is_not_is_named(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        settings_in([text])


@pytest.mark.parametrize("share", [0, 0.0, 0.5, 1, 1.0, "best"])
def test_a_mix_with_the_start_needs_a_trained_encoder(share: Any) -> None:
    with pytest.raises(UsageError, match="wise_ft is for an encoder that is trained"):
        Settings(wise_ft=share)
    assert Settings(tune="full", wise_ft=share).wise_ft == share


def test_numbers_of_numpy_and_torch_s_device_are_those_of_python() -> None:
    """They came through until the manifest was written, and ended the run there."""
    given: dict[str, Any] = {"limit": np.int64(7), "batch_size": np.uint8(3), "seeds": np.arange(2),
                             "shots": np.int64(5), "device": torch.device("cpu"),
                             "drop_near": np.bool_(True)}  # fmt: skip
    plain = Settings(limit=7, batch_size=3, seeds=(0, 1), shots=("5",), device="cpu", drop_near=True)
    for held in (Settings(**given), Settings().changed(**given), Settings(**{**given, "seeds": [np.int64(0), 1]})):
        assert held == plain
        assert json.dumps(held.to_mapping()) == json.dumps(plain.to_mapping())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"drop_near": "no"}, "drop_near must be True or False, not 'no'"),
        ({"skip_unreadable": 1}, "must be True or False, not 1"),
        ({"limit": 5.0}, "--limit must be a whole number, not 5.0"),
        ({"limit": "5"}, "--limit must be a whole number, not '5'"),
        ({"batch_size": True}, "must be a whole number, not True"),
        ({"seeds": 2}, "seeds must be a list of numbers"),
        ({"seeds": "01"}, "seeds must be a list of numbers"),
        ({"seeds": [0.5]}, "must be a whole number"),
    ],
)
def test_values_of_other_types_are_refused_before_anything_runs(given: dict[str, Any], message: str) -> None:
    """The text "no" was yes."""
    with pytest.raises(UsageError, match=message):
        Settings().changed(**given)
