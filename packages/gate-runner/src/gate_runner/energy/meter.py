"""A meter for one part of a run: what processor and GPU took in each phase."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from gate_runner.energy.nvml import GpuCounter
from gate_runner.energy.rapl import POWERCAP, RaplCounter

_POLL_SECONDS = 20.0
"""Processor counters turn over after some 10 minutes at full load; looking more often than that loses nothing."""


class Counter(Protocol):
    """Counts the joules of one kind of device from the moment it was made."""

    def joules(self) -> float:
        """Joules so far."""


class EnergyMeter:
    """Measures phases; nothing is estimated: a device without a counter is named, with the reason.

    Counters see the whole processor or GPU, other programs on it included, and parts that run at the same time each
    count all of it.

    Args:
        device: the torch device of the run, e.g. ``"cpu"`` or ``"cuda:0"``.
        powercap: folder of the kernel's processor counters.

    Example:
        >>> meter = EnergyMeter("cpu", powercap=Path("nowhere"))
        >>> with meter.around("train"):
        ...     pass
        >>> meter.read()
        {'joules': {}, 'unmeasured': {'cpu': 'no counters under nowhere', 'gpu': 'the run used no GPU'}}
    """

    def __init__(self, device: str = "cpu", *, powercap: Path = POWERCAP) -> None:
        self.counters: dict[str, Counter] = {}
        self.unmeasured: dict[str, str] = {}
        self.by_phase: dict[str, dict[str, float]] = {}
        self._lock = threading.Lock()
        makers: dict[str, Callable[[], Counter]] = {
            "cpu": lambda: RaplCounter(powercap),
            "gpu": lambda: GpuCounter(device),
        }
        for name, make in makers.items():
            try:
                self.counters[name] = make()
                self.by_phase[name] = {}
            except OSError as error:
                self.unmeasured[name] = str(error)

    @contextmanager
    def around(self, phase: str) -> Iterator[None]:
        """Count a block as part of a phase; a phase may come in several blocks."""
        before = self._poll()
        over = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(over,), daemon=True)
        if before:
            watcher.start()
        try:
            yield
        finally:
            over.set()
            if before:
                watcher.join()
            after = self._poll()
            for name, joules in after.items():
                phases = self.by_phase[name]
                phases[phase] = phases.get(phase, 0.0) + joules - before.get(name, 0.0)

    def read(self) -> dict[str, Mapping[str, Any]]:
        """All phases so far.

        Returns:
            ``joules``: by device and phase, with the ``total`` since the meter was made; ``unmeasured``: by device the
            reason.
        """
        totals = self._poll()
        return {
            "joules": {
                name: {phase: round(value, 3) for phase, value in {**self.by_phase[name], "total": total}.items()}
                for name, total in totals.items()
            },
            "unmeasured": dict(self.unmeasured),
        }

    def _poll(self) -> dict[str, float]:
        """Joules of each device that can still be read; one that cannot loses all that it had counted."""
        with self._lock:
            found = {}
            for name, counter in list(self.counters.items()):
                try:
                    found[name] = counter.joules()
                except OSError as error:
                    del self.counters[name]
                    self.unmeasured[name] = str(error)
            return found

    def _watch(self, over: threading.Event) -> None:
        while not over.wait(_POLL_SECONDS):
            self._poll()
