"""A meter for one part of a run: what processor and GPU took in each phase, from the counters that they keep."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

_POLL_SECONDS = 20.0
"""Processor counters turn over after some 10 minutes at full load; looking more often than that loses nothing."""


class Counter(Protocol):
    """Counts the joules of one kind of device from the moment it was made."""

    def joules(self) -> float:
        """Joules so far."""


class GpuCounter:
    """Joules of the GPU that a run uses.

    Args:
        device: the torch device, e.g. ``"cuda:0"``.

    Raises:
        OSError: the run uses no GPU, the extra ``energy`` is missing, or the GPU keeps no counter; the message says
            which.
    """

    def __init__(self, device: str) -> None:
        if not device.startswith("cuda"):
            raise OSError("the run used no GPU")
        try:
            import pynvml
        except ImportError:
            raise OSError("nvidia-ml-py is not installed (pip install 'gate-runner[energy]')") from None
        self.nvml: Any = pynvml
        try:
            pynvml.nvmlInit()
            self.handle = pynvml.nvmlDeviceGetHandleByUUID(_identity(device))
        except pynvml.NVMLError as error:
            raise OSError(f"NVML: {error}") from None
        self.start = 0.0
        self.start = self.joules()

    def joules(self) -> float:
        """Joules since this object was made."""
        try:
            millijoules = self.nvml.nvmlDeviceGetTotalEnergyConsumption(self.handle)
        except self.nvml.NVMLError as error:
            raise OSError(f"NVML: {error}") from None
        return float(millijoules) / 1000 - self.start


def _identity(device: str) -> str:
    """The driver's name for a torch device, which holds whatever CUDA_VISIBLE_DEVICES says."""
    import torch

    properties = torch.cuda.get_device_properties(torch.device(device))
    uuid = str(properties.uuid)
    return uuid if uuid.startswith("GPU-") else f"GPU-{uuid}"


POWERCAP = Path("/sys/class/powercap")


class _Zone(NamedTuple):
    counter: Path
    turns_over_at: int


class RaplCounter:
    """Joules of all processor packages and, where it is counted apart, their memory.

    Args:
        root: folder of the counters.

    Raises:
        OSError: there are none, or this user may not read them; the message says which.

    Numerics:
        A counter turns over at ``max_energy_range_uj``; one turn between two calls of `joules` is seen and added, two
        are not, so `joules` must be called at least every few minutes.
    """

    def __init__(self, root: Path = POWERCAP) -> None:
        zones = sorted(root.glob("intel-rapl:*")) if root.is_dir() else []
        counted = [zone for zone in zones if _name(zone).startswith(("package", "dram"))]
        if not counted:
            raise OSError(f"no counters under {root}")
        self.zones = [_Zone(zone / "energy_uj", _whole(zone / "max_energy_range_uj")) for zone in counted]
        self.latest = [_whole(zone.counter) for zone in self.zones]
        self.microjoules = 0

    def joules(self) -> float:
        """Joules since this object was made."""
        for index, zone in enumerate(self.zones):
            now = _whole(zone.counter)
            step = now - self.latest[index]
            self.microjoules += step if step >= 0 else step + zone.turns_over_at
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
