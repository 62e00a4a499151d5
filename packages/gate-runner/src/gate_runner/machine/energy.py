"""Joules by phase from the counters that processor and GPU keep, and how busy both are; if unknown, why."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gate_runner.machine.utilisation import UtilisationMeter, gpu_handle

_POLL_SECONDS = 20.0
"""Processor counters turn over after some 10 minutes at full load; looking more often than that loses nothing."""
POWERCAP = Path("/sys/class/powercap")


class GpuCounter:
    """Joules of the GPU that a run uses; an OSError says why there are none."""

    def __init__(self, device: str) -> None:
        self.nvml, self.handle = gpu_handle(device)
        self.start = 0.0
        self.start = self.joules()

    def joules(self) -> float:
        """Joules since this object was made."""
        try:
            millijoules = self.nvml.nvmlDeviceGetTotalEnergyConsumption(self.handle)
        except self.nvml.NVMLError as error:
            raise OSError(f"NVML: {error}") from None
        return float(millijoules) / 1000 - self.start


class RaplCounter:
    """Joules of all processor packages and, where it is counted apart, their memory; an OSError says why not.

    A counter turns over at ``max_energy_range_uj``; one turn between two calls of `joules` is seen and added, two are
    not, so `joules` must be called at least every few minutes.
    """

    def __init__(self, root: Path = POWERCAP) -> None:
        zones = sorted(root.glob("intel-rapl:*")) if root.is_dir() else []
        zones = [zone for zone in zones if _name(zone).startswith(("package", "dram"))]
        if not zones:
            raise OSError(f"no counters under {root}")
        self.counters = [zone / "energy_uj" for zone in zones]
        self.turns_over_at = [_whole(zone / "max_energy_range_uj") for zone in zones]
        self.latest = [_whole(counter) for counter in self.counters]
        self.microjoules = 0

    def joules(self) -> float:
        """Joules since this object was made."""
        for index, counter in enumerate(self.counters):
            now = _whole(counter)
            step = now - self.latest[index]
            self.microjoules += step if step >= 0 else step + self.turns_over_at[index]
            self.latest[index] = now
        return self.microjoules / 1e6


def _name(zone: Path) -> str:
    try:
        return (zone / "name").read_text().strip()
    except OSError:
        return ""


def _whole(path: Path) -> int:
    try:
        return int(path.read_text())
    except PermissionError:
        raise OSError(f"{path} is readable for root only") from None
    except (OSError, ValueError) as error:
        raise OSError(f"{path} cannot be read: {type(error).__name__}") from None


class EnergyMeter:
    """Measures phases; nothing is estimated: a device without a counter is named, with the reason.

    Counters see the whole processor or GPU, other programs on it included, and parts that run at the same time each
    count all of it.
    """

    def __init__(self, device: str = "cpu", *, powercap: Path = POWERCAP) -> None:
        self.counters: dict[str, RaplCounter | GpuCounter] = {}
        self.unmeasured: dict[str, str] = {}
        self.by_phase: dict[str, dict[str, float]] = {}
        self.utilisation = UtilisationMeter(device)
        self._lock = threading.Lock()
        makers: dict[str, Callable[[], RaplCounter | GpuCounter]] = {
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
            with self.utilisation.around(phase):
                yield
        finally:
            over.set()
            if before:
                watcher.join()
            for name, joules in self._poll().items():
                phases = self.by_phase[name]
                phases[phase] = phases.get(phase, 0.0) + joules - before.get(name, 0.0)

    def read(self) -> dict[str, Mapping[str, Any]]:
        """``joules`` by device and phase, with the ``total`` since the meter was made; ``unmeasured``: the reasons.

        ``used``: percent in which processor and GPU were busy, by phase; ``use_unknown``: why that is not known.
        """
        totals = self._poll()
        return {
            "joules": {
                name: {phase: round(value, 3) for phase, value in {**self.by_phase[name], "total": total}.items()}
                for name, total in totals.items()
            },
            "unmeasured": dict(self.unmeasured),
            "used": self.utilisation.read(),
            "use_unknown": dict(self.utilisation.unmeasured),
        }

    def _poll(self) -> dict[str, float]:
        """Joules of each device that can still be read; one that cannot loses all that it had counted."""
        with self._lock:
            readings = {}
            for name, counter in list(self.counters.items()):
                try:
                    readings[name] = counter.joules()
                except OSError as error:
                    del self.counters[name]
                    self.unmeasured[name] = str(error)
            return readings

    def _watch(self, over: threading.Event) -> None:
        while not over.wait(_POLL_SECONDS):
            self._poll()
