"""Features in a cache that others own or can write: they are not read, and nothing is written there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from vision_features.encoders import load_encoder
from vision_features.features import FeatureCache, cache, digests_of

pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="folders have no owner here")
TEXTS = digests_of([f"text {number}" for number in range(6)])


def encode(rows: torch.Tensor) -> torch.Tensor:
    return rows[:, None] * torch.ones(3)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that `GATE_RUNNER_CACHE` names, with rows that this user kept."""
    monkeypatch.setattr(cache, "_WARNED", set())
    monkeypatch.setenv("GATE_RUNNER_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("GATE_RUNNER_SHARED_CACHE", raising=False)
    store = opened()
    store.rows("t", "text", TEXTS, 4, encode)
    assert store.folder is not None
    return tmp_path / "cache" / "gate-runner"


def opened() -> FeatureCache:
    encoder = load_encoder("micro-clip/random")
    return FeatureCache.of(encoder, encoder.fingerprint())


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def encoded_again(store: FeatureCache) -> int:
    rows = store.rows("t", "text", TEXTS, 4, lambda numbers: -encode(numbers))
    assert torch.equal(rows[:], -encode(torch.arange(6)))
    return store.encoded["text"]


def test_rows_of_this_user_are_read_again() -> None:
    store = opened()
    assert torch.equal(store.rows("t", "text", TEXTS, 4, encode)[:], encode(torch.arange(6)))
    assert store.encoded["text"] == 0


def test_rows_in_a_folder_of_another_user(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    before = files_below(home)
    monkeypatch.setattr(os, "geteuid", lambda: home.stat().st_uid + 1)
    for _ in range(2):
        assert encoded_again(opened()) >= 6
    assert files_below(home) == before
    assert [record.getMessage().count("belongs to user") for record in caplog.records] == [1]


@pytest.mark.parametrize("depth", range(4))
def test_rows_in_a_folder_that_everybody_writes(home: Path, caplog: pytest.LogCaptureFixture, depth: int) -> None:
    before = files_below(home)
    folders = [path for path in sorted(home.rglob("*")) if path.is_dir()]  # features, the encoder's, text
    [home, *folders][depth].chmod(0o777)
    assert encoded_again(opened()) >= 6
    assert files_below(home) == before
    assert [record.getMessage().count("can be written by others") for record in caplog.records] == [1]


def test_rows_behind_a_link(home: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    kind = next(path for path in home.rglob("text") if path.is_dir())
    kind.rename(tmp_path / "elsewhere")
    kind.symlink_to(tmp_path / "elsewhere")
    before = files_below(tmp_path / "elsewhere")
    assert encoded_again(opened()) >= 6
    assert files_below(tmp_path / "elsewhere") == before
    assert "is a link" in caplog.text


def test_rows_in_a_cache_that_is_said_to_be_shared(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home.chmod(0o777)
    monkeypatch.setenv("GATE_RUNNER_SHARED_CACHE", str(home.parent))
    store = opened()
    store.rows("t", "text", TEXTS, 4, encode)
    assert store.encoded["text"] == 0
