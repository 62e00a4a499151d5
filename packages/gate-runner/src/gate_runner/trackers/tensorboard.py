"""TensorBoard: event files under ``tensorboard`` in the run folder (extra ``tensorboard``)."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from gate_runner.runs.observers import Observer, Planned
from gate_runner.runs.results import Result
from gate_runner.trackers.readings import Reading, configuration, curve_of, group_of, scores_of


class TensorBoardTracker(Observer):
    """Writes each result as it comes; what an earlier command computed is in that command's event file."""

    def opened(self, encoder: str, output: Path) -> None:
        """Note where to write."""
        self.encoder, self.output = encoder, output

    def planned(self, parts: Sequence[Planned]) -> None:
        """Open the event file and write the configuration."""
        if all(part.done for part in parts):
            return
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(self.output / "tensorboard"))
        shown = json.dumps({"encoder": self.encoder, **configuration(self.output)}, indent=2, sort_keys=True)
        self.writer.add_text("configuration", f"```json\n{shown}\n```")

    def finished(self, result: Result) -> None:
        """Write curve and scores, or why there are none."""
        for step, reading in curve_of(result):
            self.writer.add_scalar(_tag(reading), reading.value, step)
        for reading in scores_of(result):
            self.writer.add_scalar(_tag(reading), reading.value, 0)
        if result.status == "failed":
            self.writer.add_text(f"{group_of(result)}/failed", result.reason)
        self.writer.flush()

    def closed(self, results: Sequence[Result]) -> None:
        """Close the event file."""
        if hasattr(self, "writer"):
            self.writer.close()


def _tag(reading: Reading) -> str:
    """TensorBoard takes letters, digits, dots, dashes and slashes."""
    return f"{reading.group}/{re.sub(r'[^A-Za-z0-9_.-]+', '_', reading.name)}"
