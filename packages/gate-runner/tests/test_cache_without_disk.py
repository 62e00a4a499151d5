"""A cache that cannot be written, at each of its writes: the run goes on in memory, and says so once."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from gate_runner import run
from vision_adapters.rows import RowWriter
from vision_features.encoders import load_encoder
from vision_features.features import FeatureCache, cache, digests_of, unfinished

TEXTS = digests_of([f"text {number}" for number in range(10)])


def encode(rows: torch.Tensor) -> torch.Tensor:
    return rows[:, None] * torch.ones(3)


def refused(*_: Any, **__: Any) -> Any:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS), "somewhere")


REFUSALS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "folder": lambda patch: patch.setattr(Path, "mkdir", refused),
    "lock": lambda patch: patch.setattr(unfinished.FileLock, "acquire", refused),
    "rows": lambda patch: patch.setattr(RowWriter, "_begin", refused),
    "batch": lambda patch: patch.setattr(RowWriter, "append", refused),
    "note": lambda patch: patch.setattr(cache, "note", refused),
    "cut": lambda patch: patch.setattr(RowWriter, "cut", refused),
    "finish": lambda patch: patch.setattr(cache, "finish", refused),
    "remains of others": lambda patch: patch.setattr(cache, "take_over", refused),
}


@pytest.fixture(autouse=True)
def _unsaid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_WARNED", set())


@pytest.mark.parametrize("place", REFUSALS)
def test_rows_are_right_whatever_write_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, place: str
) -> None:
    REFUSALS[place](monkeypatch)
    for name in ("train", "test"):
        features = FeatureCache(tmp_path / "encoder")
        assert torch.equal(features.rows(name, "text", TEXTS, 4, encode)[:], encode(torch.arange(10)))
        assert features.placed == {name: "memory"}
    assert len(caplog.records) == 1, caplog.text
    assert "Read-only file system" in caplog.text


def test_a_cache_that_can_only_be_read_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    FeatureCache(tmp_path / "encoder").rows("t", "text", TEXTS, 4, encode)
    for change in REFUSALS.values():
        change(monkeypatch)
    monkeypatch.setattr(os, "utime", refused)
    features = FeatureCache(tmp_path / "encoder", in_memory=0)
    rows = features.rows("t", "text", TEXTS, 4, encode)
    assert torch.equal(rows[torch.tensor([9, 1])], encode(torch.tensor([9, 1])))
    assert (features.encoded["text"], features.placed) == (0, {"t": "disk"})


def test_a_run_needs_no_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("a file where a folder should be")
    how: dict[str, Any] = {
        "encoder": "micro-dense",
        "limit": 40,
        "isolate": "none",
        "device": "cpu",
        "show": False,
        "seeds": (0, 1),
    }
    expected = run("digits", output=tmp_path / "a", **how)
    monkeypatch.setenv("GATE_RUNNER_CACHE", str(tmp_path / "file"))
    done = run("digits", output=tmp_path / "b", **how)
    assert [result.status for result in done] == ["ok", "ok"]
    assert [result.scores for result in done] == [result.scores for result in expected]
    assert [record for record in caplog.records if "features are not kept" in record.message] == caplog.records
    assert len(caplog.records) == 1
    assert not list((tmp_path / "b" / "unfinished").glob("*"))


def test_a_machine_without_a_home_is_none_the_worse(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("GATE_RUNNER_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    encoder = load_encoder("micro-dense/random")
    assert FeatureCache.of(encoder, encoder.fingerprint()).folder is None
    (result,) = run("digits", output=tmp_path / "run", limit=20, isolate="none", device="cpu", show=False)
    assert result.status == "ok", result.reason
