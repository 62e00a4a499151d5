"""Memory: a container's limit less what is used, data that do not fit, and what a run leaves behind."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import pytest

from gate_runner import run
from gate_runner.machine import resources
from gate_runner.runs.unit import EvalUnit
from vision_features.encoders import loading
from vision_features.encoders.encoder import Encoder


@pytest.mark.parametrize("version", [1, 2])
def test_a_containers_limit_counts_less_what_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    monkeypatch.setattr(resources, "_GROUPS", tmp_path)
    whole = resources.free_memory()
    assert whole is not None
    folder = tmp_path if version == 2 else tmp_path / "memory"
    folder.mkdir(exist_ok=True)
    names = ("memory.max", "memory.current") if version == 2 else ("memory.limit_in_bytes", "memory.usage_in_bytes")
    for name, value in zip(names, (1_000_000, 900_000), strict=True):
        (folder / name).write_text(f"{value}\n")
    (folder / "memory.stat").write_text("anon 1\ninactive_file 300000\ntotal_inactive_file 300000\n")
    assert resources.free_memory() == 1_000_000 - (900_000 - 300_000)
    (folder / names[0]).write_text("max\n")
    unlimited = resources.free_memory()
    assert unlimited is not None
    assert unlimited > 1_000_000


def test_data_that_do_not_fit_are_loaded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The encoder's batch was halved six times for it, and the data loaded anew each time."""
    loads: list[str] = []

    def too_large(self: EvalUnit, size: Any) -> Any:
        loads.append(self.name)
        raise MemoryError("Unable to allocate 2 TiB for an array")

    monkeypatch.setattr(EvalUnit, "load", too_large)
    (result,) = run("digits", output=tmp_path, limit=20, isolate="none", device="cpu", show=False)
    assert (result.status, "Unable to allocate" in result.reason) == ("failed", True)
    assert loads == ["digits"]


def test_a_run_leaves_neither_its_encoder_nor_its_data_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last unit of a sweep handed both on to a next one that never came."""
    made: list[weakref.ref[Encoder]] = []
    load = loading.load_encoder

    def noting(text: str, *, device: str = "cpu") -> Encoder:
        encoder = load(text, device=device)
        made.append(weakref.ref(encoder))
        return encoder

    monkeypatch.setattr(loading, "load_encoder", noting)
    how: dict[str, Any] = {"limit": 40, "isolate": "none", "device": "cpu", "show": False}
    done = run("digits", output=tmp_path, shots="5", init="random", **how)
    assert [result.status for result in done] == ["ok"] * len(done)
    gc.collect()
    assert made
    assert [reference() for reference in made] == [None] * len(made)
