"""Weights & Biases (extra ``wandb``); ``WANDB_MODE=offline`` keeps everything in the run folder."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gate_runner.runs.observers import Observer, Planned
from gate_runner.runs.results import Result
from gate_runner.trackers.readings import configuration, curve_of, group_of, scores_of

_LOGIN_SECONDS = 60.0


class WandbTracker(Observer):
    """One W&B run for each run folder: the same command again continues it."""

    run: Any = None

    def opened(self, encoder: str, output: Path) -> None:
        """Note where to write."""
        self.encoder, self.output = encoder, output

    def planned(self, parts: Sequence[Planned]) -> None:
        """Start or continue the W&B run, with the configuration."""
        if all(part.done for part in parts):
            return
        import wandb

        identity = f"{self.output.resolve()} {self.encoder}"
        self.run = wandb.init(
            project="gate-runner",
            name=self.encoder,
            id=hashlib.sha256(identity.encode()).hexdigest()[:16],
            resume="allow",
            dir=str(self.output),
            config={"spec": self.encoder, **configuration(self.output)},
            settings=wandb.Settings(init_timeout=_LOGIN_SECONDS),
        )
        for part in parts:
            group = f"{part.name}/seed{part.seed}"
            self.run.define_metric(f"{group}/step")
            self.run.define_metric(f"{group}/validation *", step_metric=f"{group}/step")

    def finished(self, result: Result) -> None:
        """Log the curve, and put scores into the summary, or why there are none."""
        group = group_of(result)
        for step, reading in curve_of(result):
            self.run.log({f"{group}/step": step, f"{group}/{reading.name}": reading.value})
        for reading in scores_of(result):
            self.run.summary[f"{group}/{reading.name}"] = reading.value
        if result.status == "failed":
            self.run.summary[f"{group}/failed"] = result.reason

    def closed(self, results: Sequence[Result]) -> None:
        """End the W&B run; its exit code says whether anything failed."""
        if self.run is not None:
            self.run.finish(exit_code=int(any(result.status == "failed" for result in results)))
