"""Units of a sweep that train the whole encoder: as little memory, as many kills and as many processes as any task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import vision_adapters.training.head as training
from gate_data.own import guess, write_benchmark
from gate_data.pictures import Pictures
from gate_runner.executors import run
from gate_runner.runs.observers import Observer
from gate_runner.runs.request import make_request
from gate_runner.runs.results import Result
from gate_runner.settings import Settings

FIELDS = {"steps": 6, "batch_size": 8, "validate_every": 2, "lr": 2e-3}
UNIT = {"tune": "full", "shots": "full", "init": "language", "projection": "2p"}


def whole(folder: Path, name: str = "icinw-textures", observer: Any = None, **options: Any) -> Result:
    settings = Settings(limit=48, device="cpu", recipe_fields=FIELDS).changed(**{**UNIT, **options})
    (result,) = run(make_request([name], "micro-dense", output=folder, settings=settings), observer or Observer())
    return result


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """A training of one unit that nothing stopped or cut."""
    result = whole(tmp_path_factory.mktemp("whole"))
    assert result.status == "ok", result.reason
    assert result.training["chosen"]["step"] == FIELDS["steps"]  # each step counts in what is compared
    return result


def values(result: Result) -> tuple[Any, ...]:
    assert result.headline is not None, result.reason
    compared = ("validated", "chosen", "predicted_sha256")
    return result.headline.value, *(result.training[name] for name in compared)


@pytest.mark.parametrize("how", [{"micro_batches": 4}, {"checkpoint_blocks": True}, {"decode_workers": 1}], ids=str)
def test_what_saves_memory_arrives_and_changes_no_score(
    how: dict[str, Any], undisturbed: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[int] = []
    original = training.in_micro_batches

    def listening(module: Any, count: int) -> None:
        counts.append(count)
        original(module, count)

    monkeypatch.setattr(training, "in_micro_batches", listening)
    result = whole(tmp_path, **how)
    assert counts == [how.get("micro_batches", 1)]
    assert values(result)[0] == pytest.approx(values(undisturbed)[0], abs=1e-6)
    assert values(result)[1] == pytest.approx(values(undisturbed)[1], abs=1e-6)


@pytest.mark.parametrize("step", [1, pytest.param(3, marks=pytest.mark.again), 5])
def test_a_killed_unit_goes_on_to_the_same_bits(step: int, undisturbed: Result, tmp_path: Path) -> None:
    steps: list[int] = []

    class Stops(Observer):
        def progress(self, name: str, seed: int, phase: str, done: int, total: int) -> None:
            if phase == "train":
                steps.append(done)
                if done == step and len(steps) <= step + 1:
                    raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        whole(tmp_path, observer=Stops())
    steps[:] = [-1] * 99
    again = whole(tmp_path, observer=Stops())
    assert values(again) == values(undisturbed)
    assert min(steps[99:]) == step // 2 * 2 + 1  # from its last validation
    assert not list((tmp_path / "unfinished").glob("*.pt*"))


def test_memory_that_runs_out_is_answered_by_smaller_parts(
    undisturbed: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A training that needs more than a quarter of a batch would repeat the same six times."""
    tried: list[int] = []
    original = training.in_micro_batches

    def scarce(module: Any, count: int) -> None:
        tried.append(count)
        if count < 4:
            raise torch.OutOfMemoryError("CUDA out of memory")
        original(module, count)

    monkeypatch.setattr(training, "in_micro_batches", scarce)
    result = whole(tmp_path)
    assert tried == [1, 2, 4]
    assert values(result)[0] == pytest.approx(values(undisturbed)[0], abs=1e-6)


def test_two_processes_train_one_unit(undisturbed: Result, tmp_path: Path) -> None:
    result = whole(tmp_path, num_processes=2)
    assert values(result)[0] == pytest.approx(values(undisturbed)[0], abs=1e-6)


def test_images_in_files_are_read_a_batch_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from PIL import Image

    for number in range(160):
        folder = tmp_path / "data" / ("red" if number % 2 else "blue")
        folder.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (40, 40), (number, 0, 99 * (number % 2))).save(folder / f"{number}.png")
    path = tmp_path / "data" / "benchmark.toml"
    write_benchmark(guess(tmp_path / "data").values, path)
    most: list[int] = []
    read = Pictures.__getitem__

    def listening(self: Pictures, index: Any) -> Any:
        shown = read(self, index)
        most.append(len(shown) if shown.ndim == 4 else 1)
        return shown

    monkeypatch.setattr(Pictures, "__getitem__", listening)
    result = whole(tmp_path / "run", str(path), limit=None)
    assert result.status == "ok", result.reason
    assert max(most) <= 64  # 80 and more are trained on
