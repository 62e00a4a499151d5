"""An encoder whose jobs wait in the phase that a file names, and note what they computed."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from torch import Tensor, nn

PLACE = Path(os.environ.get("HELD", ""))
"""``hold/INDEX`` names the phase in which the job of that index of its array waits while the file is there."""
INDEX = os.environ.get("SLURM_ARRAY_TASK_ID", "0")
JOB = os.environ.get("SLURM_ARRAY_JOB_ID", os.environ.get("SLURM_JOB_ID", "none")) + f"_{INDEX}"


def reach(phase: str) -> None:
    """Say that a phase is reached, and wait in it if this job shall."""
    (PLACE / "at" / f"{JOB} {phase}").touch()
    hold = PLACE / "hold" / INDEX
    while hold.exists() and hold.read_text() == phase:
        time.sleep(0.05)


class Held(nn.Module):
    """Means of a grid, after a wait."""

    image_size = 16

    def forward(self, images: Tensor) -> Tensor:
        """Return the mean of each of sixteen fields and colours."""
        if len(images) > 2:  # not the probe of an encoder that is loaded
            reach("encode")
        return nn.functional.adaptive_avg_pool2d(images, 4).flatten(1)


def make() -> Held:
    """Make the encoder; in a job, wait for it and watch the part that follows."""
    if "SLURM_JOB_ID" in os.environ:
        os.environ["GATE_RUNNER_CACHE"] = str(PLACE / f"cache-{INDEX}")  # each part encodes
        reach("load")
        _watch()
    return Held()


def _watch() -> None:
    from gate_runner.runs import compute
    from gate_runner.runs.folder import RunFolder

    functions: Any = compute
    computes, saves = functions._compute, RunFolder.save

    def computed(part: Any, *rest: Any) -> Any:
        progress = rest[2]

        def reported(phase: str, done: int, total: int) -> None:
            progress(phase, done, total)
            if phase in ("data", "train"):
                reach(phase)

        return computes(part, *rest[:2], reported, *rest[3:])

    def saved(folder: RunFolder, result: Any, *rest: Any, **named: Any) -> Any:
        reach("save")
        stored = saves(folder, result, *rest, **named)
        with (PLACE / "computed").open("a") as file:
            file.write(f"{result.seed} {JOB}\n")
        reach("saved")
        return stored

    functions._compute = computed
    setattr(RunFolder, "save", saved)  # noqa: B010
