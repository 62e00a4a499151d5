from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from vision_adapters.heads import LinearHead, seeded
from vision_adapters.losses import cross_entropy
from vision_adapters.rows import (
    DiskFullError,
    Draw,
    RowWriter,
    SampleRows,
    sample_generator,
)
from vision_adapters.rows.samples import BrokenSampleError, WorkerDiedError
from vision_adapters.rows.source import drawn
from vision_adapters.training import Recipe, fit

N, D = 31, 6
RECIPE = Recipe(lr=0.05, steps=23, batch_size=5, validate_every=6)


def values() -> torch.Tensor:
    return torch.randn(N, D, generator=torch.Generator().manual_seed(0))


TARGETS = torch.arange(N) % 3


def noisy(index: int, generator: torch.Generator | None) -> torch.Tensor:
    plain = values()[index]
    return plain if generator is None else plain + 0.1 * torch.randn(D, generator=generator)


def trained(source: Any, **more: Any) -> LinearHead:
    head = seeded(lambda: LinearHead(D, 3), 1)
    x = values()

    def validate(module: nn.Module) -> float:
        return float(cross_entropy(module(x), TARGETS))

    same = {"loss": cross_entropy, "recipe": RECIPE, "validate": validate, "direction": "lower", "seed": 3}
    fit(head, (source,), TARGETS, **same, **more)
    return head


def test_stored_rows_train_to_the_bits_of_the_tensor(tmp_path: Path) -> None:
    writer = RowWriter(tmp_path / "f.npy", N, (D,), torch.float32, "x")
    for part in values().split(7):
        writer.append(part)
    stored = writer.finished()
    assert torch.equal(stored[torch.tensor([30, 0, 7])], values()[[30, 0, 7]])
    assert torch.equal(stored[3:9], values()[3:9])
    assert torch.equal(trained(stored).weight, trained(values()).weight)
    assert np.array_equal(np.load(tmp_path / "f.npy"), values().numpy())


@pytest.mark.parametrize("cut", ["line", "data", "half"])
def test_a_cut_writer_goes_on_after_its_last_whole_batch(tmp_path: Path, cut: str) -> None:
    path = tmp_path / "f.npy"
    writer = RowWriter(path, N, (D,), torch.float32, "x")
    for part in values()[:21].split(7):
        writer.append(part)
    log = path.with_name("f.npy.done")
    if cut == "line":
        log.write_text(log.read_text()[:-4])
    elif cut == "half":
        log.write_text(log.read_text() + "28 12")
    else:
        with path.open("r+b") as file:
            file.seek(-4 * D * (N - 8), os.SEEK_END)
            file.write(b"torn")
    again = RowWriter(path, N, (D,), torch.float32, "x")
    assert again.done == {"line": 14, "data": 7, "half": 21}[cut]
    for part in values()[again.done :].split(7):
        again.append(part)
    assert torch.equal(again.finished()[:], values())
    assert RowWriter(path, N, (D,), torch.float32, "other images").done == 0
    with pytest.raises(ValueError, match="0 of 31 rows"):
        RowWriter(path, N, (D,), torch.float32, "more").finished()
    with pytest.raises(ValueError, match="got \\(2, 5\\)"):
        again.append(torch.zeros(2, 5))


def test_whole_rows_are_looked_at_without_writing(tmp_path: Path) -> None:
    """Of two processes that compared checksums at once, one read the other's half-written list: the rows were lost."""
    path = tmp_path / "rows.npy"
    RowWriter(path, 4, (2,), torch.float32, "whole").append(torch.ones(4, 2))
    for file in tmp_path.iterdir():
        os.utime(file, ns=(1, 1))
    looked = RowWriter.left(path, 4, "whole")
    assert looked is not None
    assert looked.done == 4
    files = list(tmp_path.iterdir())
    assert path in files
    assert {file.stat().st_mtime_ns for file in files} == {1}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.int32])
def test_rows_of_another_type_are_refused_and_change_nothing(tmp_path: Path, dtype: torch.dtype) -> None:
    """Their bytes overwrote the neighbours, under a checksum that said all was well."""
    writer = RowWriter(tmp_path / "f.npy", N, (D,), torch.float32, "x")
    writer.append(values()[:20])
    with pytest.raises(ValueError, match=rf"f.npy holds torch.float32 rows, got {dtype}"):
        writer.append(values()[20:].to(dtype))
    writer.append(values()[20:])
    assert torch.equal(writer.finished()[:], values())


def test_a_full_disk_says_how_much_is_missing_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("U", (), {"free": 10**9})())
    with pytest.raises(DiskFullError, match=r"needs 4.00 GB, 1.00 GB are free, 3.00 GB are missing"):
        RowWriter(tmp_path / "f.npy", 10**6, (1000,), torch.float32, "x")
    assert list(tmp_path.iterdir()) == []


def test_reading_stored_rows_keeps_nothing_resident(tmp_path: Path) -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    if not Path("/proc/self/statm").exists():
        pytest.skip("the system does not tell how much is resident")
    writer = RowWriter(tmp_path / "f.npy", 400, (50_000,), torch.float32, "x")
    block = torch.ones(40, 50_000)
    for _ in range(10):
        writer.append(block)
    stored = writer.finished()
    before = resident()
    for part in torch.arange(400).split(20):
        stored[part]
    assert resident() - before < 20e6  # of 80 MB


@pytest.mark.parametrize("workers", [1, 2])
def test_augmented_batches_do_not_depend_on_the_number_of_workers(workers: int) -> None:
    alone = trained(SampleRows(noisy, N))
    assert torch.equal(alone.weight, trained(SampleRows(noisy, N, workers=workers)).weight)
    assert not torch.equal(alone.weight, trained(values()).weight)


def test_an_interrupted_augmented_training_ends_with_the_same_bits(tmp_path: Path) -> None:
    class KilledError(Exception):
        pass

    def kill(phase: str, step: int, steps: int) -> None:
        if step == 15:
            raise KilledError

    rows = SampleRows(noisy, N, workers=1)
    with pytest.raises(KilledError):
        trained(rows, checkpoint=tmp_path / "c.pt", progress=kill)
    again = trained(rows, checkpoint=tmp_path / "c.pt")
    assert torch.equal(again.weight, trained(SampleRows(noisy, N)).weight)
    with pytest.raises(ValueError, match="data differ"):
        trained(values() + 1, checkpoint=tmp_path / "c.pt")


def test_each_draw_has_its_own_generator() -> None:
    draws = {
        torch.rand(1, generator=sample_generator(*key)).item() for key in ((0, 1, 2), (1, 1, 2), (0, 2, 2), (0, 2, 1))
    }
    assert len(draws) == 4


@pytest.mark.parametrize("workers", [0, 1])
def test_a_broken_sample_is_named(workers: int) -> None:
    def make(index: int, generator: torch.Generator | None) -> torch.Tensor:
        if index == 17:
            raise OSError(f"photo-{index}.jpg: broken data stream")
        return values()[index]

    with pytest.raises(BrokenSampleError, match=r"sample 17: photo-17.jpg: broken data stream") as caught:
        trained(SampleRows(make, N, workers=workers))
    assert caught.value.index == 17
    assert len(SampleRows(make, N)[torch.tensor([3])]) == 1


def test_a_dead_worker_ends_the_training_and_is_named() -> None:
    def make(index: int, generator: torch.Generator | None) -> torch.Tensor:
        if index == 9:
            os._exit(1)
        return noisy(index, generator)

    with pytest.raises(WorkerDiedError, match=r"a worker process died at step \d+, samples \[.*9.*\]"):
        trained(SampleRows(make, N, workers=1))


def test_ragged_targets_reach_the_loss() -> None:
    class Boxes:
        """As many boxes per sample as its number says, modulo three."""

        def __len__(self) -> int:
            return N

        def __getitem__(self, rows: Any, /) -> list[torch.Tensor]:
            return [torch.full((int(row) % 3, 4), float(row)) for row in rows]

    box_counts: list[list[int]] = []

    def loss(output: torch.Tensor, boxes: list[torch.Tensor]) -> torch.Tensor:
        box_counts.append([len(box) for box in boxes])
        return torch.stack([(z - len(box)).square().sum() for z, box in zip(output, boxes, strict=True)]).mean()

    heads = []
    for parts in (1, 3):
        head = nn.Linear(D, 1)
        nn.init.zeros_(head.weight), nn.init.zeros_(head.bias)
        recipe = Recipe(lr=0.05, steps=10, batch_size=6, validate_every=5, micro_batches=parts)
        fit(
            head, (values(),), Boxes(), loss=loss, recipe=recipe, validate=lambda m: float(m.bias), direction="higher",
            seed=0,
        )  # fmt: skip
        heads.append(head.weight.detach())
    assert {len(each) for each in box_counts} == {6, 2}
    torch.testing.assert_close(heads[0], heads[1], rtol=1e-3, atol=1e-5)


def test_sources_are_drawn_side_by_side_and_closed() -> None:
    draws = [Draw(0, step, torch.tensor([step, 0])) for step in range(1, 4)]
    pairs = list(drawn((torch.arange(5), SampleRows(noisy, N, workers=1)), draws))
    assert [pair[0].tolist() for pair in pairs] == [[1, 0], [2, 0], [3, 0]]
    expected = noisy(2, sample_generator(0, 2, 2))
    assert torch.equal(pairs[1][1][0], expected)
