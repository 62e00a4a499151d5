"""A training that is killed outright, over and over, ends with the bits of one that was left alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# Run in its own process, which imports torch once and then forks a child for each life of the training.
CODE = """
import json, os, random, signal, sys
from pathlib import Path
import torch
from torch import nn
from vision_adapters.heads import seeded
from vision_adapters.losses import cross_entropy
from vision_adapters.training import Recipe, fit

folder = Path(sys.argv[1])
torch.set_num_threads(1)
recipe = Recipe(lr=0.01, steps=120, batch_size=5, validate_every=7, schedule="plateau", patience=3, micro_batches=2)


def live(name, kill=None, in_save=False):
    pid = os.fork()
    if pid:
        return os.waitpid(pid, 0)[1]
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(31, 6, generator=generator), torch.randint(0, 3, (31,), generator=generator)
    module = seeded(lambda: nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 3)), 1)

    def die(*_):
        os.kill(os.getpid(), signal.SIGKILL)

    def progress(phase, step, steps):
        if step == kill:
            if in_save:
                os.fsync = die  # the next checkpoint is half written
            else:
                die()

    done = fit(
        module, (x,), y, loss=cross_entropy, recipe=recipe, validate=lambda m: float(cross_entropy(m(x), y)),
        direction="lower", seed=3, checkpoint=folder / f"{name}.state", progress=progress, keep=3,
    )
    torch.save({"last": module.state_dict(), "kept": [tuple(k) for k in done.kept]}, folder / f"{name}.pt")
    (folder / f"{name}.json").write_text(repr(done.history))
    os._exit(0)


kills = sorted(random.Random(int(sys.argv[2])).sample(range(1, 113), 10))
deaths = [live("killed", kill, in_save=number % 3 == 2) for number, kill in enumerate(kills)]
ends = [live("killed"), live("whole")]
print(json.dumps({"deaths": deaths, "ends": ends, "kills": kills}))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks a process for each life of the training")
@pytest.mark.long
def test_ten_kills_at_random_steps_leave_the_same_weights(tmp_path: Path) -> None:
    import torch

    command = [sys.executable, "-W", "ignore", "-c", CODE, str(tmp_path), "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    record = json.loads(done.stdout)
    assert len(record["deaths"]) == 10
    assert set(record["deaths"]) == {9}  # SIGKILL
    assert record["ends"] == [0, 0]
    assert (tmp_path / "killed.json").read_text() == (tmp_path / "whole.json").read_text()
    killed, whole = (torch.load(tmp_path / f"{name}.pt", weights_only=True) for name in ("killed", "whole"))
    assert killed["last"].keys() == whole["last"].keys()
    assert all(torch.equal(killed["last"][name], value) for name, value in whole["last"].items())
    for ours, theirs in zip(killed["kept"], whole["kept"], strict=True):
        assert ours[:2] == theirs[:2]
        assert all(torch.equal(ours[2][name], value) for name, value in theirs[2].items())
