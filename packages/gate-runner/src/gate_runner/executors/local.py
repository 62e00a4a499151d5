"""Workers on this machine: one for each GPU, or as many as asked for on CPUs."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Iterator, Sequence

from gate_runner.errors import UsageError
from gate_runner.executors.executor import EncoderInfo, LockedElsewhere
from gate_runner.executors.threads import gpus_expected, thread_settings, workers_for
from gate_runner.executors.worker_process import WorkerProcess
from gate_runner.runs.observers import Observer
from gate_runner.runs.request import RunRequest
from gate_runner.runs.results import Result
from gate_runner.runs.unit import EvalUnit

_Event = tuple[EvalUnit, Result | LockedElsewhere | BaseException | tuple[str, int, int] | None]


class LocalExecutor:
    """Gives units to worker processes, each of which holds the encoder."""

    def __init__(self, request: RunRequest) -> None:
        self.request, self.settings = request, request.settings
        if self.settings.executor_options:
            raise UsageError(f"the local executor takes no options, not {sorted(self.settings.executor_options)}")
        self.workers = workers_for(self.settings, len(request.benchmarks) * len(self.settings.seeds))
        expected = max(self.workers, gpus_expected(self.settings) // self.settings.num_processes)
        self.shared = thread_settings(expected * self.settings.num_processes)
        self.slots = [self._slot(self.settings.device)]

    def open(self) -> EncoderInfo:
        """Start the first worker, and see from it how many GPUs there are."""
        opening = self.slots[0].open()
        gpus = len(opening.circumstances["hardware"]["gpus"])
        processes = self.settings.num_processes
        if self.settings.device == "auto" and 0 < gpus < processes:
            raise UsageError(f"num_processes={processes}: each has a GPU of its own, and there are {gpus}")
        if self.settings.device == "auto" and gpus > 0:
            if gpus != gpus_expected(self.settings):  # the first is one of so many, too, and keeps what it has
                self.shared = thread_settings(gpus // processes * processes)
            self.slots += [self._slot(f"cuda:{index}") for index in range(processes, gpus - processes + 1, processes)]
        elif not self.settings.device.startswith("cuda"):
            self.slots += [self._slot(self.settings.device) for _ in range(1, self.workers)]
        for slot in self.slots:
            slot.opening = opening  # what the others load must be the same
        return opening

    def run(self, units: Sequence[EvalUnit], observer: Observer) -> Iterator[Result | LockedElsewhere]:
        """Compute units in all workers at once."""
        waiting = deque(shared_out(units) if len(self.slots) > 1 else units)
        events: queue.Queue[_Event] = queue.Queue()
        for slot in self.slots[: len(units)]:
            threading.Thread(target=_serve, args=(slot, waiting, events), daemon=True).start()
        over = 0
        while over < len(units):
            unit, event = events.get()
            if event is None:
                observer.started(unit.name, unit.seed)
            elif isinstance(event, BaseException):
                raise event
            elif isinstance(event, Result | LockedElsewhere):
                over += 1
                yield event
            else:
                observer.progress(unit.name, unit.seed, *event)

    def close(self) -> None:
        """Stop all workers."""
        for slot in self.slots:
            slot.close()

    def _slot(self, device: str) -> WorkerProcess:
        assert isinstance(self.request.encoder, str)
        return WorkerProcess(self.request.encoder, device, environment=self.shared)


def shared_out(units: Sequence[EvalUnit]) -> list[EvalUnit]:
    """Put the longest units first, so that none of them is the last to begin, behind one that soon has a result."""
    longest_first = sorted(units, key=lambda unit: -(unit.benchmark.cost or 0.0))
    soonest = next((unit for unit in units if unit.benchmark.cost is not None), None)
    return longest_first if soonest is None else [soonest, *(unit for unit in longest_first if unit is not soonest)]


def _serve(slot: WorkerProcess, waiting: deque[EvalUnit], events: queue.Queue[_Event]) -> None:
    """Take units until there are none; an error that concerns all of them ends this."""
    while True:
        try:
            unit = waiting.popleft()
        except IndexError:
            return

        def started(unit: EvalUnit = unit) -> None:
            events.put((unit, None))

        def tell(phase: str, done: int, total: int, unit: EvalUnit = unit) -> None:
            events.put((unit, (phase, done, total)))

        try:
            events.put((unit, slot.run(unit, started, tell)))
        except BaseException as error:  # noqa: BLE001 - it is raised again where the units are waited for
            events.put((unit, error))
            return
