"""Gradients over processes equal those of one process with the whole batch, as DDP would average them."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from eqsim import ClipEqSimLoss, CyclicLoss, EqSimLoss, SigLipEqSimLoss, TopK, tiled

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(not dist.is_available(), reason="this torch has no torch.distributed")

TOTAL, DIM = 12, 5
PAIRS = torch.tensor([(i, (i + 1) % TOTAL) for i in range(TOTAL)] + [(0, 5), (5, 0), (0, 5)])


def cases(rank: int, world_size: int) -> dict[str, tuple[torch.nn.Module, torch.Tensor | None]]:
    """Every way a batch can be computed: reduced Gram matrices, shared tiles, and the gathered dense matrix."""
    share = {"rank": rank, "world_size": world_size}
    return {
        "gram v1": (EqSimLoss("v1", backend="gram", **share), None),
        "gram v2 one side, margin": (EqSimLoss("v2", "logits", ("text",), 0.01, backend="gram", **share), None),
        "gram hybrid": (EqSimLoss("hybrid", backend="gram", **share), PAIRS),
        "gram with clip": (ClipEqSimLoss("v2", backend="gram", **share), None),
        "tiled hybrid": (ClipEqSimLoss("hybrid", backend="tiled", **share), PAIRS),
        "tiled softmax": (ClipEqSimLoss("hybrid", "softmax", margin_v1=1e-6, backend="tiled", **share), PAIRS),
        "tiled softmax v2": (EqSimLoss("v2", "softmax", ("image",), backend="tiled", **share), None),
        "tiled sigmoid": (SigLipEqSimLoss("v2", "logits", margin=0.05, backend="tiled", **share), None),
        "dense hybrid": (ClipEqSimLoss("hybrid", "softmax", backend="dense", **share), PAIRS),
        "top-k": (ClipEqSimLoss("hybrid", close=TopK(k=2), backend="tiled", **share), None),
        "cyclic": (CyclicLoss(**share), None),
    }


def model_and_data() -> tuple[torch.nn.Linear, torch.nn.Parameter, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    image, text = torch.randn(2, TOTAL, DIM, generator=generator, dtype=torch.float64)
    layer = torch.nn.Linear(DIM, DIM, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(torch.randn(DIM, DIM, generator=generator, dtype=torch.float64))
        layer.bias.zero_()
    return layer, torch.nn.Parameter(torch.tensor(1.2, dtype=torch.float64)), image, text


def outcome(rank: int, world_size: int) -> dict[str, list[torch.Tensor]]:
    """Run every case on this rank's rows; return loss and the parameters' gradients, averaged over ranks."""
    tile, tiled.TILE = tiled.TILE, 2  # so that there are tiles for everybody
    found = {}
    for name, (loss, pairs) in cases(rank, world_size).items():
        layer, log_scale, image, text = model_and_data()
        rows = slice(rank * TOTAL // world_size, (rank + 1) * TOTAL // world_size)
        inputs = [layer(image[rows]), layer(text[rows]) + text[rows]]
        if not isinstance(loss, CyclicLoss):
            inputs.append(log_scale.exp())
        value = loss(*inputs) if pairs is None else loss(*inputs, close_pairs=pairs)
        value.backward()
        grads = [value.detach(), layer.weight.grad, log_scale.grad]
        grads = [torch.zeros((), dtype=torch.float64) if grad is None else grad for grad in grads]
        if world_size > 1:
            for grad in grads[1:]:
                dist.all_reduce(grad)
                grad /= world_size
        found[name] = grads
    tiled.TILE = tile
    return found


def worker(process: int, ports: dict[int, int], folder: Path) -> None:
    """Be rank `process` of every group that has one, one group after the other."""
    torch.set_num_threads(1)
    for world_size, port in ports.items():
        if process >= world_size:
            continue
        address = f"tcp://127.0.0.1:{port}"
        dist.init_process_group("gloo", init_method=address, rank=process, world_size=world_size)
        try:
            torch.save(outcome(process, world_size), folder / f"{world_size}-{process}.pt")
            try:
                EqSimLoss("v1", rank=process, world_size=world_size + 1)(torch.ones(2, 2), torch.ones(2, 2))
            except ValueError as error:
                (folder / f"{world_size}-{process}.txt").write_text(str(error), encoding="utf-8")
        finally:
            dist.destroy_process_group()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def test_gradients_do_not_depend_on_the_number_of_processes(tmp_path: Path) -> None:
    ports = {world_size: free_port() for world_size in (2, 4)}
    mp.spawn(worker, args=(ports, tmp_path), nprocs=4, join=True)
    alone = outcome(0, 1)
    for world_size, rank in [(2, 0), (2, 1), *((4, rank) for rank in range(4))]:
        together = torch.load(tmp_path / f"{world_size}-{rank}.pt", weights_only=True)
        for name, expected in alone.items():
            for ours, theirs in zip(together[name], expected, strict=True):
                torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12, msg=lambda m, k=name: f"{k}: {m}")
            assert abs(float(together[name][1].norm() / expected[1].norm()) - 1) < 1e-6
        message = (tmp_path / f"{world_size}-{rank}.txt").read_text(encoding="utf-8")
        assert f"world_size={world_size + 1}: expected the process group's own" in message
