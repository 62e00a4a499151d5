"""Gradients over processes equal those of one process with the whole batch: averaged by hand, by DDP, and by FSDP."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

from eqsim import ClipEqSimLoss, CyclicLoss, EqSimLoss, PairLoss, SigLipEqSimLoss, TopK
from eqsim.backends import tiled

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not dist.is_available(), reason="this torch has no torch.distributed"),
]

TOTAL, DIM = 12, 5
BOUNDS = {1: (0, 12), 2: (0, 8, 12), 4: (0, 5, 6, 10, 12)}
"""Where the rows of each rank begin and end: uneven."""
OWNERS = torch.tensor([0, 0, 3, 7, 8, 11, 2])
"""The images that the negatives are false for; those of one process may be none."""
PAIRS = torch.tensor([(i, (i + 1) % TOTAL) for i in range(TOTAL)] + [(0, 5), (5, 0), (0, 5)])
NEARLY_ALL = torch.triu_indices(TOTAL, TOTAL, 1).T[2:]
"""All but two pairs."""


def cases(rank: int, world_size: int) -> dict[str, tuple[torch.nn.Module, torch.Tensor | None]]:
    """Every way a batch can be computed: reduced Gram matrices, shared tiles, and the gathered dense matrix."""
    share = {"rank": rank, "world_size": world_size}
    return {
        "gram v1": (EqSimLoss("v1", backend="gram", **share), None),
        "gram v2 one side, margin": (
            EqSimLoss("v2", "logits", sides=("text",), margin=0.01, backend="gram", **share),
            None,
        ),
        "gram hybrid": (EqSimLoss("hybrid", backend="gram", **share), PAIRS),
        "gram with clip": (ClipEqSimLoss("v2", backend="gram", **share), None),
        "tiled hybrid": (ClipEqSimLoss("hybrid", backend="tiled", **share), PAIRS),
        "tiled softmax": (ClipEqSimLoss("hybrid", "softmax", margin_v1=1e-6, backend="tiled", **share), PAIRS),
        "tiled softmax v2": (EqSimLoss("v2", "softmax", sides=("image",), backend="tiled", **share), None),
        "tiled sigmoid": (SigLipEqSimLoss("v2", "logits", margin=0.05, backend="tiled", **share), None),
        "dense hybrid": (ClipEqSimLoss("hybrid", "softmax", backend="dense", **share), PAIRS),
        "top-k": (ClipEqSimLoss("hybrid", close=TopK(k=2), backend="tiled", **share), None),
        "tiled pair": (PairLoss(0.5, backend="tiled", **share), PAIRS),
        "tiled relative": (ClipEqSimLoss("relative", pair_weight=0.5, backend="tiled", **share), PAIRS),
        "dense relative": (EqSimLoss("relative", "softmax", pair_weight=1.0, backend="dense", **share), PAIRS),
        "tiled, few distant": (EqSimLoss("hybrid", "softmax", backend="tiled", **share), NEARLY_ALL),
        "gram, few distant": (EqSimLoss("hybrid", "logits", backend="gram", **share), NEARLY_ALL),
        "read from the group": (ClipEqSimLoss("hybrid", backend="tiled", distributed=True), PAIRS),
        "cyclic": (CyclicLoss(**share), None),
        "tiled, margin of pairs": (
            EqSimLoss("hybrid", "softmax", margin=1e-3, margin_v1=1e-4, margin_mode="pair", **share, backend="tiled"),
            PAIRS,
        ),
        "gram, clip, pair": (ClipEqSimLoss("hybrid", pair_weight=2.0, backend="gram", **share), PAIRS),
    }


def beside(rank: int, world_size: int) -> dict[str, torch.nn.Module]:
    """Losses with negatives and a teacher, which each process holds its own rows of."""
    share = {"rank": rank, "world_size": world_size}
    options = {"keep_weight": 0.4, "hard_weight": 0.3, **share}
    return {
        "tiled clip, kl": ClipEqSimLoss("v2", backend="tiled", **options),
        "tiled clip, scores stored": ClipEqSimLoss("v2", backend="tiled", score_memory=1 << 20, **options),
        "tiled sigmoid, kl": SigLipEqSimLoss("v1", "softmax", backend="tiled", **options),
        "dense clip, kl": ClipEqSimLoss("v2", backend="dense", **options),
        "gram, clip, squares": ClipEqSimLoss("v2", "logits", backend="gram", keep="squares", **options),
    }


def rows_of(rank: int, world_size: int) -> slice:
    return slice(*BOUNDS[world_size][rank : rank + 2])


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
    outcomes = {}
    for name, (loss, pairs) in cases(rank, world_size).items():
        layer, log_scale, image, text = model_and_data()
        rows = rows_of(rank, world_size)
        inputs = [layer(image[rows]), layer(text[rows]) + text[rows]]
        if not isinstance(loss, CyclicLoss):
            inputs.append(log_scale.exp())
        value = loss(*inputs) if pairs is None else loss(*inputs, close_pairs=pairs)
        outcomes[name] = averaged(value, (layer.weight, log_scale), world_size)
    for name, loss in beside(rank, world_size).items():
        layer, log_scale, image, text = model_and_data()
        rows = rows_of(rank, world_size)
        own = (rows.start <= OWNERS) & (rows.stop > OWNERS)
        texts = torch.cat([text[rows], text[OWNERS[own]].roll(1, 1)])
        frozen = (image[rows, :3], texts[:, :3].sin(), 2.0)
        extra = {"teacher": frozen} | ({"negatives_of": OWNERS[own] - rows.start} if own.any() else {})
        value = loss(layer(image[rows]), layer(texts) + texts, log_scale.exp(), -1.0, **extra)
        outcomes[name] = averaged(value, (layer.weight, log_scale), world_size)
    tiled.TILE = tile
    return outcomes


def averaged(value: torch.Tensor, parameters: tuple[torch.Tensor, ...], world_size: int) -> list[torch.Tensor]:
    """The loss and the parameters' gradients, averaged over ranks as DDP does."""
    grads = torch.autograd.grad(value, parameters, allow_unused=True)
    filled = [torch.zeros_like(x) if grad is None else grad for grad, x in zip(grads, parameters, strict=True)]
    if world_size > 1:
        for grad in filled:
            dist.all_reduce(grad)
            grad /= world_size
    return [value.detach(), *filled]


class TwoTowers(nn.Module):
    """Two small encoders and a scale, which has one element in one dimension, since FSDP shards no scalars."""

    def __init__(self) -> None:
        super().__init__()
        self.image = nn.Sequential(nn.Linear(DIM, 7), nn.Tanh(), nn.Linear(7, DIM))
        self.text = nn.Sequential(nn.Linear(DIM, 6), nn.Tanh(), nn.Linear(6, DIM))
        self.log_scale = nn.Parameter(torch.ones(1))
        self.double()
        generator = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))

    def forward(self, image: torch.Tensor, text: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self.image(image), self.text(text), self.log_scale.exp()


def by_ddp(model: TwoTowers) -> nn.Module:
    return nn.parallel.DistributedDataParallel(model)


def by_fsdp2(model: TwoTowers) -> nn.Module:
    from torch.distributed.fsdp import fully_shard

    mesh = dist.device_mesh.init_device_mesh("cpu", (dist.get_world_size(),))
    for part in (model.image, model.text, model):
        fully_shard(part, mesh=mesh)
    return model


def by_fsdp1(model: TwoTowers) -> nn.Module:
    from torch.distributed.fsdp import FullyShardedDataParallel

    return FullyShardedDataParallel(model, use_orig_params=True, device_id=torch.device("cpu"))


WRAPPERS: dict[str, tuple[Callable[[TwoTowers], nn.Module], tuple[int, ...]]] = {
    "ddp": (by_ddp, (2, 4)),
    "fsdp2": (by_fsdp2, (2,)),
    "fsdp1": (by_fsdp1, (2,)),
}
# In these the scale takes part: DDP waits for a gradient of every parameter that the model's outputs depend on.
WRAPPED = (
    "gram v2 one side, margin",
    "gram with clip",
    "tiled hybrid",
    "tiled softmax",
    "tiled sigmoid",
    "dense hybrid",
    "tiled pair",
    "tiled relative",
    "top-k",
)


def full_gradients(model: nn.Module) -> list[torch.Tensor]:
    """The gradients as the wrapper left them, put together from the shards where there are any."""
    if hasattr(model, "summon_full_params"):  # FSDP1
        with model.summon_full_params(model, with_grads=True):
            return [parameter.grad.clone() for parameter in model.parameters()]
    grads = [parameter.grad for parameter in model.parameters()]
    return [grad.full_tensor() if hasattr(grad, "full_tensor") else grad for grad in grads]


def wrapped_outcome(wrap: Callable[[TwoTowers], nn.Module] | None, rank: int, world_size: int) -> dict[str, list]:
    """Loss and gradients of two towers; nothing is scaled or reduced here, only by the wrapper."""
    tile, tiled.TILE = tiled.TILE, 2
    outcomes = {}
    _, _, image, text = model_and_data()
    rows = rows_of(rank, world_size)
    for name in WRAPPED:
        loss, pairs = cases(rank, world_size)[name]
        model = TwoTowers() if wrap is None else wrap(TwoTowers())
        features = model(image[rows], text[rows])
        value = loss(*features) if pairs is None else loss(*features, close_pairs=pairs)
        value.backward()
        outcomes[name] = [value.detach().reshape(()), *full_gradients(model)]
    tiled.TILE = tile
    return outcomes


def without_waiting(rank: int, world_size: int) -> list[torch.Tensor]:
    """Gradients of batches that are said to be equal, while numbers of rows are not read from any tensor."""
    layer, log_scale, image, text = model_and_data()
    size = TOTAL // world_size
    rows = slice(rank * size, (rank + 1) * size)
    loss = ClipEqSimLoss("v1", backend="tiled", distributed=True, equal_batches=True)
    whole = torch.Tensor.tolist
    torch.Tensor.tolist = refuse_to_wait  # type: ignore[method-assign]
    try:
        value = loss(layer(image[rows]), layer(text[rows]) + text[rows], log_scale.exp())
    finally:
        torch.Tensor.tolist = whole  # type: ignore[method-assign]
    return averaged(value, (layer.weight, log_scale), world_size)


def refuse_to_wait(*_: object) -> None:
    raise AssertionError("a tensor was read: the host would wait for the device")


def refusals(rank: int, world_size: int) -> list[str]:
    """The messages for a world size that is not the group's, and for features of another size on one rank."""
    uneven = torch.ones(2, 3 if rank == 0 else 2)
    calls = [(EqSimLoss("v1", rank=rank, world_size=world_size + 1), torch.ones(2, 2))]
    calls += [
        (loss, uneven)
        for loss in (
            EqSimLoss("v1", rank=rank, world_size=world_size),
            EqSimLoss("v2", rank=rank, world_size=world_size),
        )
    ]
    messages = []
    for loss, rows in calls:
        try:
            loss(rows, rows)
        except ValueError as error:
            messages.append(str(error))
    return messages


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
            torch.save(without_waiting(process, world_size), folder / f"equal-{world_size}-{process}.pt")
            (folder / f"{world_size}-{process}.txt").write_text(
                "\n".join(refusals(process, world_size)), encoding="utf-8"
            )
            for name, (wrap, sizes) in WRAPPERS.items():
                if world_size in sizes and missing(name) is None:
                    together = wrapped_outcome(wrap, process, world_size)
                    torch.save(together, folder / f"{name}-{world_size}-{process}.pt")
        finally:
            dist.destroy_process_group()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def missing(wrapper: str) -> str | None:
    """Why this torch has no such wrapper that works here, or None."""
    if wrapper == "fsdp2" and torch.__version__.startswith("2.6."):
        return "torch 2.6's fully_shard needs an accelerator: a CPU's stream has no record_event"
    return None


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of every process's outcomes; the processes start once for all tests here."""
    folder = tmp_path_factory.mktemp("ranks")
    ports = {world_size: free_port() for world_size in (2, 4)}
    method = "forkserver" if "forkserver" in mp.get_all_start_methods() else "spawn"
    if method == "forkserver":  # what takes seconds to import is imported once, and not by each of the four
        mp.get_context(method).set_forkserver_preload([__name__, "torch._dynamo", "torch.distributed.fsdp"])
    mp.start_processes(worker, args=(ports, folder), nprocs=4, join=True, start_method=method)
    return folder


def test_gradients_do_not_depend_on_the_number_of_processes(results: Path) -> None:
    alone = outcome(0, 1)
    for world_size, rank in [(2, 0), (2, 1), *((4, rank) for rank in range(4))]:
        together = torch.load(results / f"{world_size}-{rank}.pt", weights_only=True)
        for name, expected in alone.items():
            for ours, theirs in zip(together[name], expected, strict=True):
                torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12, msg=lambda m, k=name: f"{k}: {m}")
            assert abs(float(together[name][1].norm() / expected[1].norm()) - 1) < 1e-6
        message = (results / f"{world_size}-{rank}.txt").read_text(encoding="utf-8")
        assert f"world_size={world_size + 1}: expected the process group's own" in message
        assert message.count(f"features are of 3, {', '.join(['2'] * (world_size - 1))} numbers on ranks") == 2


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_wrapped_towers_get_the_gradients_of_the_whole_batch(results: Path, wrapper: str) -> None:
    reason = missing(wrapper)
    if reason is not None:
        pytest.skip(reason)
    alone = wrapped_outcome(None, 0, 1)
    for world_size in WRAPPERS[wrapper][1]:
        for rank in range(world_size):
            together = torch.load(results / f"{wrapper}-{world_size}-{rank}.pt", weights_only=True)
            assert set(together) == set(alone)
            for name, expected in alone.items():
                assert all(float(grad.norm()) > 0 for grad in expected[1:]), name
                for ours, theirs in zip(together[name], expected, strict=True):
                    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12, msg=lambda m, k=name: f"{k}: {m}")


def test_equal_batches_are_gathered_without_reading_their_sizes(results: Path) -> None:
    alone = without_waiting(0, 1)
    for world_size, rank in [(2, 0), (2, 1), *((4, rank) for rank in range(4))]:
        together = torch.load(results / f"equal-{world_size}-{rank}.pt", weights_only=True)
        for ours, theirs in zip(together, alone, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)


def test_a_loss_reads_the_process_group_only_where_asked() -> None:
    loss = EqSimLoss("v1", distributed=True)
    loss(torch.eye(3), torch.eye(3))
    assert (loss.settings.rank, loss.settings.world_size) == (0, 1)
