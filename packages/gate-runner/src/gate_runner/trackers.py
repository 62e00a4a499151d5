"""Trackers of runs, as observers: TensorBoard's files in the run folder, and Weights & Biases."""

from __future__ import annotations

import configparser
import hashlib
import importlib.util
import json
import math
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gate_runner.errors import UsageError, unknown
from gate_runner.runs.folder import RunFolder
from gate_runner.runs.observers import Observer, Planned
from gate_runner.runs.results import Result
from wary_files.limits import refuse_special

_LOGIN_SECONDS = 60.0
_LOOK_AGAIN = 1.0
"""Seconds between two looks at a training that is under way."""
_CURVE = ".curve"
"""Ending of its file of validations, see `gate_runner.tasks.fitting`."""
_SHOWN = 4
"""Test samples of a benchmark."""
_HARMLESS = ("entity", "project", "organization", "anonymous", "mode", "disabled", "console", "quiet", "silent")
"""What W&B may take from a file in the working folder: not the address that it sends the user's key to."""


class Tracker(Observer):
    """Opens when a part is to be computed, and follows the trainings of encoders while they run."""

    def opened(self, encoder: str, output: Path) -> None:
        """Note where to write."""
        self.encoder, self.output = encoder, output
        self.live: dict[tuple[str, int], int] = {}
        self.looked_at = 0.0

    def progress(self, name: str, seed: int, phase: str, done: int, total: int) -> None:
        """Pass on the validations that a training has made since the last look."""
        if phase != "train" or (done < total and time.monotonic() - self.looked_at < _LOOK_AGAIN):
            return
        self.looked_at = time.monotonic()
        last = self.live.get((name, seed), -1)
        for row in _so_far(self.output, name, seed):
            step = row.pop("step")
            if step > last:
                self.live[name, seed] = last = step
                self.validated(f"{name}/seed{seed}", step, row)

    def validated(self, group: str, step: int, values: Mapping[str, float]) -> None:
        """Write what a validation found."""

    def rest_of(self, result: Result) -> Iterator[tuple[int, str, float]]:
        """A result's curve but for validations that were passed on already."""
        last = self.live.get((result.name, result.seed), -1)
        return (row for row in _curve(result) if row[0] > last or not row[1].startswith("validation"))

    def planned(self, parts: Sequence[Planned]) -> None:
        """Open, with the configuration."""
        if not all(part.done for part in parts):
            self.begin(parts, {"encoder": self.encoder, **_configuration(self.output)})

    def begin(self, parts: Sequence[Planned], configuration: dict[str, Any]) -> None:
        """Start to write."""


class WandbTracker(Tracker):
    """One W&B run for each run folder: the same command again continues it."""

    run: Any = None

    def __init__(self) -> None:
        _check_workspace(Path())

    def begin(self, parts: Sequence[Planned], configuration: dict[str, Any]) -> None:
        """Start or continue the W&B run."""
        os.environ.setdefault("WANDB_DISABLE_GIT", "true")  # Git runs what the working folder's configuration names
        import wandb

        for name in ("wandb", ".wandb"):  # W&B writes into either
            RunFolder(self.output).place(name)
        identity = f"{self.output.resolve()} {self.encoder}"
        self.run = wandb.init(
            project="gate-runner",
            name=self.encoder,
            id=hashlib.sha256(identity.encode()).hexdigest()[:16],
            resume="allow",
            dir=str(self.output),
            config=configuration,
            settings=wandb.Settings(init_timeout=_LOGIN_SECONDS),
        )
        for part in parts:
            group = f"{part.name}/seed{part.seed}"
            self.run.define_metric(f"{group}/step")
            for curve in ("validation", "gradient", "training", "learning"):
                self.run.define_metric(f"{group}/{curve} *", step_metric=f"{group}/step")

    def finished(self, result: Result) -> None:
        """Log the curve, and put scores into the summary, or why there are none."""
        group = _group(result)
        for step, name, value in self.rest_of(result):
            self.run.log({f"{group}/step": step, f"{group}/{name}": value})
        for name, value in _scores(result):
            self.run.summary[f"{group}/{name}"] = value
        if result.status == "failed":
            self.run.summary[f"{group}/failed"] = result.reason

    def validated(self, group: str, step: int, values: Mapping[str, float]) -> None:
        """Log it."""
        self.run.log({f"{group}/step": step, **{f"{group}/{name}": value for name, value in values.items()}})

    def closed(self, results: Sequence[Result]) -> None:
        """Log the hardest test samples, and end the W&B run; its exit code says whether anything failed."""
        if self.run is not None:
            import wandb

            for name, examples in hardest(self.output, results):
                shown = [wandb.Image(pixels, caption=caption) for pixels, caption in examples]
                self.run.log({f"{name}/hardest": shown})
            self.run.finish(exit_code=int(any(result.status == "failed" for result in results)))


def _check_workspace(folder: Path) -> None:
    """Refuse a settings file of W&B in the working folder that says more than `_HARMLESS`."""
    for place in (folder / ".wandb", folder / "wandb"):
        file, parser = place / "settings", configparser.ConfigParser(interpolation=None)
        if not os.path.lexists(file):
            continue
        try:
            refuse_special(file)
            parser.read_string(file.read_text(encoding="utf-8"))
        except (OSError, ValueError, configparser.Error) as error:
            raise UsageError(f"--tracker wandb: {file} in the working folder cannot be read: remove it") from error
        for key in [*parser.defaults(), *(key for section in parser.sections() for key in parser[section])]:
            if key not in _HARMLESS:
                raise UsageError(
                    f"--tracker wandb: {file} in the working folder sets {key!r}; expected {', '.join(_HARMLESS)}: "
                    f"remove the line, or set WANDB_{key.upper()} yourself"
                )


class TensorBoardTracker(Tracker):
    """Writes each result as it comes; what an earlier command computed is in that command's event file."""

    writer: Any = None

    def begin(self, parts: Sequence[Planned], configuration: dict[str, Any]) -> None:
        """Open the event file."""
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(RunFolder(self.output).place("tensorboard")))
        self.writer.add_text("configuration", f"```json\n{json.dumps(configuration, indent=2, sort_keys=True)}\n```")

    def finished(self, result: Result) -> None:
        """Write curve and scores, or why there are none; tags take letters, digits, dots, dashes and slashes."""
        group = _group(result)
        for step, name, value in (*self.rest_of(result), *((0, *score) for score in _scores(result))):
            self.writer.add_scalar(f"{group}/{_tag(name)}", value, step)
        if result.status == "failed":
            self.writer.add_text(f"{group}/failed", result.reason)
        self.writer.flush()

    def validated(self, group: str, step: int, values: Mapping[str, float]) -> None:
        """Write it at once."""
        for name, value in values.items():
            self.writer.add_scalar(f"{group}/{_tag(name)}", value, step)
        self.writer.flush()

    def closed(self, results: Sequence[Result]) -> None:
        """Write the hardest test samples, and close the event file."""
        if self.writer is not None:
            for name, examples in hardest(self.output, results):
                for number, (pixels, caption) in enumerate(examples):
                    self.writer.add_image(f"{name}/hardest/{number}", pixels, dataformats="HWC")
                    self.writer.add_text(f"{name}/hardest/{number}", caption)
            self.writer.close()


def _tag(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", name)


def _so_far(output: Path, name: str, seed: int) -> Iterator[dict[str, Any]]:
    """The validations of a training that is under way; a line that is being written is left for the next look."""
    state = RunFolder(output).unfinished_file(name, seed)
    try:
        lines = state.with_name(f"{state.name}{_CURVE}").read_text(encoding="utf-8").split("\n")[:-1]
    except OSError:  # there is none yet, or the part is over
        return
    yield from (json.loads(line) for line in lines)


def hardest(output: Path, results: Sequence[Result]) -> Iterator[tuple[str, list[tuple[Any, str]]]]:
    """Of each benchmark that was computed its hardest test samples: pixels ``[h, w, 3]`` and what is to be said."""
    import base64
    import io

    import numpy as np
    from PIL import Image

    from gate_runner.reports.contents import gather
    from gate_runner.reports.pictures import reload_samples
    from gate_runner.runs.stored import read_runs

    names = {result.name for result in results if result.status == "ok"}
    root = _configuration(output).get("request", {}).get("data_root")
    contents = gather(read_runs([output]), tests=False)
    for row in contents.rows:
        if row.name not in names:
            continue
        again, _ = reload_samples(contents, row, None if root is None else Path(root))
        examples, _ = again.hardest(_SHOWN) if again else ([], "")
        decoded = [(base64.b64decode(example.address.partition(",")[2]), example.caption) for example in examples]
        if decoded:
            yield row.name, [(np.asarray(Image.open(io.BytesIO(content))), caption) for content, caption in decoded]


def _group(result: Result) -> str:
    return f"{result.name}/seed{result.seed}"


def _scores(result: Result) -> Iterator[tuple[str, float]]:
    """Every metric on the test split with its interval and chance; seconds, joules and use where measured."""
    for score in result.scores:
        yield f"test {score.metric}", score.value
        for name in ("low", "high", "chance"):
            yield f"test {score.metric} {name}", getattr(score, name)
    if "total" in result.seconds:
        yield "seconds", result.seconds["total"]
    for device, phases in result.energy.get("joules", {}).items():
        yield f"{device} joules", phases["total"]
        for phase, joules in phases.items():
            if result.seconds.get(phase, 0.0) > 0:
                yield f"{device} watts" + ("" if phase == "total" else f" {phase}"), joules / result.seconds[phase]
    for device, phases in result.energy.get("used", {}).items():
        for phase, percent in phases.items():
            yield f"{device} used {phase} (%)", percent


def _curve(result: Result) -> Iterator[tuple[int, str, float]]:
    """Optimiser steps, and there each validation metric and the gradient's norm, of the whole and of each layer."""
    for row in result.training.get("validation", ()):
        for name, value in row.items():
            if name != "step":
                yield int(row["step"]), f"validation {name}", float(value)
    for row in result.training.get("gradients", ()):
        for name, value in row.items():
            if name != "step" and isinstance(value, int | float) and math.isfinite(value):
                yield int(row["step"]), f"gradient {name}", float(value)


def _configuration(output: Path) -> dict[str, Any]:
    """What the run folder's manifest says of encoder, limit, versions and machine; empty before there is one."""
    try:
        manifest = json.loads(RunFolder(output).manifest_file.read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    return {**manifest["identity"], **(manifest["runs"][-1] if manifest["runs"] else {})}


TRACKERS: dict[str, type[Observer]] = {"tensorboard": TensorBoardTracker, "wandb": WandbTracker}
"""Trackers by name; the extra that each needs has the same name."""


def make_trackers(names: Iterable[str]) -> list[Observer]:
    """Trackers by name, each once; a name that is none, or whose extra is not installed, is refused."""
    trackers: list[Observer] = []
    for name in dict.fromkeys(names):
        if name not in TRACKERS:
            raise unknown("tracker", name, TRACKERS)
        if importlib.util.find_spec(name) is None:
            raise UsageError(f"--tracker {name} needs the extra: pip install 'gate-runner[{name}]'")
        trackers.append(TRACKERS[name]())
    return trackers
