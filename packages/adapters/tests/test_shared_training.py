"""One training in two processes: the same curve as in one, on every rank, also after an interruption."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from ._shared_rank import trained

SCRIPT = Path(__file__).with_name("_shared_rank.py")
CASES = ("plain", "contrastive", "pieces", "augmented")


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    """Where each of two processes left what it found, and how they ended."""
    folder = tmp_path_factory.mktemp("shared")
    cases = (*CASES, "resumed", "whole", "dying")
    command = [sys.executable, str(SCRIPT), str(folder), *cases]
    first = subprocess.run(command, stderr=subprocess.PIPE, timeout=300, check=False)
    assert (folder / "other.ended").exists(), first.stderr.decode()
    return folder, [first.returncode, int((folder / "other.ended").read_text())]


@pytest.fixture(scope="module")
def by_process(ended: tuple[Path, list[int]]) -> list[dict[str, Any]]:
    return [torch.load(ended[0] / f"rank{rank}.pt") for rank in (0, 1)]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.long
def test_two_processes_train_as_one_does(case: str, by_process: list[dict[str, Any]], tmp_path: Path) -> None:
    module, alone = trained(case, tmp_path)
    first, second = by_process[0][case], by_process[1][case]
    for row, own in zip(first["history"], alone.history, strict=True):
        assert row[0] == own.step
        assert row[1:5] == pytest.approx(tuple(own)[1:5], rel=2e-5, nan_ok=True)  # score, loss, norm, rate
        assert row[5] == pytest.approx(own.layers, rel=2e-4, abs=1e-6)
    for name, value in module.state_dict().items():
        assert torch.allclose(first["state"][name], value, rtol=1e-4, atol=1e-6), name
        assert torch.equal(first["state"][name], second["state"][name]), name
    assert first["history"][-1][2] < first["history"][1][2]  # it learns


@pytest.mark.long
def test_an_interrupted_training_of_two_ends_with_the_same_bits(by_process: list[dict[str, Any]]) -> None:
    for name, value in by_process[0]["whole"]["state"].items():
        assert torch.equal(value, by_process[0]["resumed"]["state"][name]), name
        assert torch.equal(value, by_process[1]["whole"]["state"][name]), name
    assert by_process[0]["whole"]["history"][1:] == by_process[0]["resumed"]["history"][1:]


@pytest.mark.long
def test_a_process_that_dies_stops_the_others(ended: tuple[Path, list[int]], by_process: list[dict[str, Any]]) -> None:
    folder, ends = ended
    assert ends == [0, -9]
    first, second = by_process
    assert isinstance(first["dying"], str)
    assert "dying" not in second
    loaded = torch.load(folder / "dying.checkpoint", weights_only=True)
    assert loaded["step"] == 4


def test_a_batch_smaller_than_the_group_is_refused() -> None:
    from vision_adapters.training.shared import Share

    class Two:
        rank = staticmethod(lambda: 0)
        size = staticmethod(lambda: 2)

    with pytest.raises(ValueError, match="a batch of 1 cannot be shared by 2 processes"):
        Share(torch.nn.Linear(1, 1), Two(), torch.device("cpu"), 1)  # type: ignore[arg-type]
