"""Run a grid: plan it, fill it cell by cell, go on where a killed run stopped."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any

from gate_runner.encoders import load_encoder
from gate_runner.encoders.device import device_for
from gate_runner.encoders.encoder import Encoder
from gate_runner.icinw.cells import Cell, shots_said
from gate_runner.icinw.choosing import choose
from gate_runner.icinw.features import encoded_counts
from gate_runner.icinw.filling import Filler, Unit
from gate_runner.icinw.plan import GridPlan, make_plan
from gate_runner.icinw.record import Record, cell_file, save
from gate_runner.icinw.request import GridRequest
from gate_runner.runs.circumstances import circumstances, command
from gate_runner.runs.folder import RunFolder, write
from gate_runner.runs.lock import held
from gate_runner.tasks.job import Progress, silent

SCHEMA = "gate-runner/grid/1"
Say = Callable[[str], None]


def run_grid(request: GridRequest, *, say: Say = lambda line: None, progress: Progress = silent) -> list[Record]:
    """Fill a grid, or what is left of it.

    Args:
        request: what to fill.
        say: told the plan, and each unit as it is done.
        progress: told how far encoding is, where one process does it all.

    Returns:
        Every cell of the grid, in order; one that fails has status ``"failed"``, the others are filled all the same.

    Raises:
        UsageError: an encoder or run folder that cannot be used, or another process that fills this folder.
        StorageError: the run folder cannot be written.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from gate_runner.icinw import Axes, make_grid_request
        >>> from gate_runner.settings import Settings
        >>> axes = Axes.of(shots="0", init="language", seeds=[0])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     place, few = Path(folder), Settings(limit=20)
        ...     cells = run_grid(make_grid_request("icinw-shapes", output=place, axes=axes, settings=few))
        >>> [(one.cell.shots, one.status) for one in cells]
        [(0, 'ok')]
    """
    settings = request.settings
    encoder = request.encoder
    if isinstance(encoder, str):
        encoder = load_encoder(encoder, device=device_for(settings.device))
    else:
        encoder.to(device_for(settings.device))
    folder = RunFolder(request.output)
    identity = {"encoder": encoder.describe(), "schema": SCHEMA, **request.identity()}
    folder.check(identity)
    with held(request.output / ".grid.lock"):
        plan = make_plan(request, encoder)
        for line in plan.lines(settings.workers):
            say(line)
        if plan.left:
            about = {"command": command(), "axes": request.axes.to_mapping(), "taxonomy": taxonomy_of(encoder)}
            folder.claim(identity, {**about, **circumstances()})
            fill = _in_processes if settings.workers > 1 and len(plan.units) > 1 else _in_this_process
            fill(request, encoder, plan, _Told(plan, say, settings.workers), progress)
            for cell in plan.auto:
                choose(request.output, cell, request.axes.candidates())
            _count(request)
    return [Record.from_file(cell_file(request.output, cell)) for cell in plan.cells]


def taxonomy_of(encoder: Encoder) -> dict[str, str]:
    """An encoder's place in ELEVATER's taxonomy: what its card says, and whether it has a text side.

    Example:
        >>> taxonomy_of(load_encoder("micro-clip", device="cpu"))["language"]
        'yes'
    """
    return {"language": "no" if encoder.text is None else "yes", **encoder.taxonomy}


class _Told:
    """Says what is done and about how long the rest takes."""

    def __init__(self, plan: GridPlan, say: Say, workers: int) -> None:
        self.plan, self.say, self.workers = plan, say, workers
        self.began, self.cells = time.monotonic(), 0
        self.done, self.all = 0.0, sum(map(plan.seconds, plan.units)) or 1.0

    def __call__(self, unit: Unit, records: list[Record]) -> None:
        self.cells += len(records)
        self.done += self.plan.seconds(unit)
        spent = time.monotonic() - self.began
        left = spent * (self.all - self.done) / self.done if self.done else 0.0
        states = {state: sum(one.status == state for one in records) for state in ("failed", "skipped")}
        troubles = "".join(f", {count} {state}" for state, count in states.items() if count)
        reasons = {one.reason for one in records if one.status == "failed"}
        said = f" ({'; '.join(sorted(reasons))})" if reasons else ""
        head = f"[{self.cells}/{self.plan.left - len(self.plan.auto)}] {unit.dataset} {shots_said(unit.shots)}"
        self.say(
            f"{head}, {unit.tune}, seed {unit.seed}: {len(records)} cells{troubles}{said}; about "
            f"{int(left // 60)}:{int(left % 60):02d} left"
        )


def _in_this_process(request: GridRequest, encoder: Encoder, plan: GridPlan, told: _Told, progress: Progress) -> None:
    filler = Filler(request, encoder, progress)
    for unit, cells in plan.units.items():
        records: list[Record] = []
        filler.fill(unit, cells, records.append)
        told(unit, records)


_FILLER: Filler | None = None


def _start(values: dict[str, Any], threads: int) -> None:
    """In a worker process, once."""
    import torch

    global _FILLER  # a worker is one process, which keeps what it has
    torch.set_num_threads(threads)
    request = GridRequest.from_mapping(values)
    assert isinstance(request.encoder, str)
    _FILLER = Filler(request, load_encoder(request.encoder, device=device_for(request.settings.device)))


def _encode(dataset: str) -> str:
    assert _FILLER is not None
    try:
        _FILLER.data(dataset)
    except Exception:  # noqa: BLE001  # the cells that need it say so
        return dataset
    return dataset


def _fill(unit: Unit, cells: list[Cell]) -> list[Record]:
    assert _FILLER is not None
    records: list[Record] = []
    _FILLER.fill(unit, cells, records.append)
    return records


def _in_processes(request: GridRequest, encoder: Encoder, plan: GridPlan, told: _Told, progress: Progress) -> None:
    """Several processes: first all features, then unit by unit, the longest first. One that dies fails its unit."""
    import os

    del encoder, progress
    workers = request.settings.workers
    threads = max(1, (os.cpu_count() or 1) // workers)
    left = sorted(plan.units, key=plan.seconds, reverse=True)
    left.sort(key=lambda unit: unit.dataset)  # neighbours share pictures and features
    encoding = list(plan.to_encode)
    while left or encoding:
        pool = ProcessPoolExecutor(workers, get_context("spawn"), _start, (request.to_mapping(), threads))
        running: dict[Future[Any], Unit | str] = {}
        try:
            while left or encoding or running:
                while len(running) < workers and (
                    encoding or (left and not any(isinstance(one, str) for one in running.values()))
                ):
                    if encoding:
                        name = encoding.pop(0)
                        running[pool.submit(_encode, name)] = name
                    else:
                        unit = left.pop(0)
                        running[pool.submit(_fill, unit, plan.units[unit])] = unit
                finished, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    found, what = future.result(), running.pop(future)
                    if isinstance(what, Unit):
                        told(what, found)
        except BrokenProcessPool:  # whatever ran in it is lost, but for the cells that were written
            for what in running.values():
                if isinstance(what, Unit):
                    told(what, _died(request, plan.units[what]))
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _died(request: GridRequest, cells: list[Cell]) -> list[Record]:
    """Cells of a unit whose process died: those that were written stay."""
    records = []
    for cell in cells:
        path = cell_file(request.output, cell)
        there = Record.from_file(path) if path.exists() else None
        if there is None or there.status != "ok":
            there = save(request.output, Record(cell, "failed", "its process died; the same command tries again"))
        records.append(there)
    return records


def _count(request: GridRequest) -> None:
    """Write how many pictures there are, and how often one went through the encoder for features."""
    counts = {one.id: encoded_counts(request.output / "features" / one.id / "encoded.json") for one in request.sets()}
    sides = [side for one in counts.values() for side in one.values()]
    total = {key: sum(side[key] for side in sides) for key in ("images", "encoded")}
    write(request.output / "encoded.json", (json.dumps({**total, "by_data_set": counts}, indent=1) + "\n").encode())
    path = request.output / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["runs"][-1]["features"] = total
    write(path, (json.dumps(manifest, indent=2, sort_keys=True) + "\n").encode())
