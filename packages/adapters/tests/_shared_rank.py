"""Two processes of a shared training, and the trainings: ``python _shared_rank.py FOLDER CASE…``."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from vision_adapters.heads import seeded
from vision_adapters.losses import cross_entropy, symmetric_cross_entropy
from vision_adapters.rows import SampleRows
from vision_adapters.training import Recipe, fit
from vision_adapters.training.outcome import Fit

X = torch.randn(21, 6, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] > 0).long() + (X[:, 1] > 0).long()


class Towers(nn.Module):
    """Two projections whose outputs are compared within a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(6, 4), nn.Linear(6, 4)

    def forward(self, rows: Tensor) -> Tensor:
        return torch.stack([self.left(rows), self.right(rows)], 1)


def contrastive(output: Tensor, _: Tensor) -> Tensor:
    """Of a whole batch: the mean over shares is another function."""
    return symmetric_cross_entropy(4 * output[:, 0] @ output[:, 1].T, torch.arange(len(output)))


def mlp(*, dropout: float = 0.0) -> nn.Module:
    return seeded(
        lambda: nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8) if dropout else nn.ReLU(), nn.Dropout(dropout),
                              nn.Linear(8, 3)), 1,
    )  # fmt: skip


def noisy(index: int, generator: torch.Generator | None) -> Tensor:
    return X[index] if generator is None else X[index] + 0.1 * torch.randn(6, generator=generator)


def trained(case: str, folder: Path, group: dist.ProcessGroup | None = None) -> tuple[nn.Module, Fit]:
    """Every case has batches of 7, which two processes cannot share evenly."""
    module: nn.Module = seeded(Towers, 0) if case == "contrastive" else mlp()
    changes: dict[str, Any] = {}
    rows: Any = X
    more: dict[str, Any] = {}
    if case == "pieces":
        changes = {"micro_batches": 2, "clip_norm": 0.5, "schedule": "cosine"}
    elif case == "augmented":
        rows = SampleRows(noisy, len(X))
    elif case in ("resumed", "whole", "dying"):
        module = mlp(dropout=0.3)
        more = {"checkpoint": folder / f"{case}.checkpoint"}
    recipe = Recipe(**{"lr": 1e-2, "steps": 12, "batch_size": 7, "validate_every": 4, **changes})
    stops = case == "resumed" and not (folder / "resumed.checkpoint").exists()

    def validate(module: nn.Module) -> float:
        if group is not None and group.rank():
            raise AssertionError("only the first process validates")
        return float(cross_entropy(module(X), Y)) if case != "contrastive" else float(contrastive(module(X), Y))

    def progress(phase: str, done: int, total: int) -> None:
        if stops and done == 9:
            raise KeyboardInterrupt
        if case == "dying" and done == 6 and group is not None and group.rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    loss = contrastive if case == "contrastive" else cross_entropy
    done = fit(
        module, (rows,), Y, loss=loss, recipe=recipe, validate=validate, direction="lower", seed=3, keep=2, layers=True,
        progress=progress, group=group, **more,
    )  # fmt: skip
    return module, done


def main() -> None:
    folder, cases = Path(sys.argv[1]), sys.argv[2:]
    torch.set_num_threads(1)
    importlib.import_module("torch._dynamo")  # as `DistributedDataParallel` does: once, before there are two
    other = os.fork()
    rank, world = (0, 2) if other else (1, 2)
    dist.init_process_group(
        "gloo", store=dist.FileStore(str(folder / "store"), world), rank=rank, world_size=world,
        timeout=timedelta(seconds=120),
    )  # fmt: skip
    collected: dict[str, Any] = {}
    for case in cases:
        try:
            module, done = trained(case, folder, dist.group.WORLD)
        except KeyboardInterrupt:
            dist.barrier()
            module, done = trained(case, folder, dist.group.WORLD)
        except (ValueError, RuntimeError) as error:
            collected[case] = str(error)
        if case not in collected:
            collected[case] = {"history": [tuple(row) for row in done.history], "state": dict(module.state_dict())}
        torch.save(collected, folder / f"rank{rank}.pt")  # each time: one of them dies in its last case
    if other:
        (folder / "other.ended").write_text(str(os.waitstatus_to_exitcode(os.waitpid(other, 0)[1])))
    if "dying" in cases:
        # Gloo's threads of a group whose other process died abort the end of the interpreter now and then, and
        # destroying the group does not always prevent it. What the process has learned is on disk.
        os._exit(0)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
