"""Features of a part: in memory, on disk under a cap, or made again, and what becomes of a full disk."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from gate_runner.benchmarks import BENCHMARKS
from gate_runner.errors import DataError
from gate_runner.executors import run
from gate_runner.runs import RunRequest
from gate_runner.runs.results import Result
from gate_runner.settings import Settings
from gate_runner.tasks import stored
from gate_runner.tasks.scaling import Scale
from gate_runner.tasks.stored import FeatureStore, IndexedRows, mark_of


def request_with(own: str, output: Path, **options: Any) -> RunRequest:
    benchmark = BENCHMARKS["clevr-math"]
    training = {**benchmark.training, "steps": 12, "validate_every": 6}
    settings = Settings(limit=40, batch_size=16, device="cpu").changed(**options)
    return RunRequest([replace(benchmark, training=training)], f"{own}:grid", output, settings)


def scored(own: str, output: Path, **options: Any) -> Result:
    (found,) = run(request_with(own, output, **options))
    return found


def test_a_run_gives_the_same_whether_features_are_held_stored_or_made_again(
    own: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    held = scored(own, tmp_path / "held")
    assert held.status == "ok", held.reason
    again = scored(own, tmp_path / "again", feature_cache="1kB")
    assert "do not fit under the cap" in caplog.text
    monkeypatch.setattr(stored, "IN_MEMORY", 0)
    read = scored(own, tmp_path / "read")
    # the scale is then measured in parts, in float64, which moves its last bits
    assert again.scores == read.scores
    assert [row["acc@1"] for row in read.training["validation"]] == pytest.approx(
        [row["acc@1"] for row in held.training["validation"]], abs=0.06
    )


def test_a_full_disk_fails_the_row_and_says_how_much_is_missing(
    own: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 0})())
    failed = scored(own, tmp_path / "full")
    assert failed.status == "failed"
    assert "no room for train.npy: it needs 0.00 GB" in failed.reason
    assert "--encode-again does without" in failed.reason
    assert scored(own, tmp_path / "full", encode_again=True).status == "ok"


@pytest.mark.parametrize("masked", [False, True])
def test_the_scale_in_parts_is_that_of_the_whole(monkeypatch: pytest.MonkeyPatch, masked: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    rows = 1e3 + 5 * torch.randn(50, 4, 3, generator=generator)
    mask = torch.rand(50, 4, generator=generator) < 0.6 if masked else None
    flat = (rows[mask] if masked else rows.reshape(-1, 3)).double()
    monkeypatch.setattr("gate_runner.tasks.scaling._CHUNK", 12 * 7)
    parts = Scale.of(IndexedRows(rows, torch.arange(50)), mask)
    torch.testing.assert_close(parts.mean.double(), flat.mean(0), rtol=1e-7, atol=0)
    torch.testing.assert_close(parts.std.double(), flat.std(0, correction=0), rtol=1e-6, atol=0)
    torch.testing.assert_close(Scale.of(rows, mask).mean.double(), flat.mean(0), rtol=1e-6, atol=0)


@pytest.mark.parametrize("kept", ["memory", "disk"])
def test_features_change_their_type_only_without_loss(tmp_path: Path, kept: str) -> None:
    """An encoder's later batch in float64 was written into float32 rows as raw bytes."""
    store = FeatureStore(tmp_path / "f" if kept == "disk" else None, in_memory=0)
    types = {0: torch.float32, 2: torch.float16, 4: torch.float64}
    half = store.encoded("a", 4, 2, lambda rows: torch.ones(len(rows), 3, dtype=types[int(rows[0])]), "m")
    assert torch.equal(half[:], torch.ones(4, 3))
    with pytest.raises(DataError, match=r"features b: the encoder gave torch.float64 after torch.float32"):
        store.encoded("b", 6, 2, lambda rows: torch.ones(len(rows), 3, dtype=types[int(rows[0])]), "m")


def test_a_store_counts_what_it_has_written(tmp_path: Path) -> None:
    store = FeatureStore(tmp_path / "f", cap=100)
    ones = store.encoded("a", 5, 2, lambda rows: torch.ones(len(rows), 3), "m")  # 60 bytes
    twos = store.encoded("b", 5, 2, lambda rows: 2 * torch.ones(len(rows), 3), "m")
    assert store.kept == {"a": "memory", "b": "encoded again"}
    assert torch.equal(ones[:], torch.ones(5, 3))
    assert torch.equal(twos[torch.tensor([4, 0, 1])], 2 * torch.ones(3, 3))
    assert mark_of(torch.zeros(1, 3, 2, 2)) != mark_of(torch.zeros(2, 3, 2, 2))
