"""How busy processor and GPU are in each phase of a run, in percent; where nobody can tell, why not."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_EVERY = 1.0
"""Seconds between two questions to the driver, whose answers are shares of at most the last second."""
_MISSING = "is not installed (pip install 'gate-runner[energy]')"


def gpu_handle(device: str) -> tuple[Any, Any]:
    """Return the driver's library and its handle of a GPU, whatever ``CUDA_VISIBLE_DEVICES`` holds.

    Raises:
        OSError: the run uses no GPU, or NVML is not there; the message has the reason.
    """
    if not device.startswith("cuda"):
        raise OSError("the run used no GPU")
    try:
        import pynvml
    except ImportError:
        raise OSError(f"nvidia-ml-py {_MISSING}") from None
    import torch

    uuid = str(torch.cuda.get_device_properties(torch.device(device)).uuid)
    try:
        pynvml.nvmlInit()
        return pynvml, pynvml.nvmlDeviceGetHandleByUUID(uuid if uuid.startswith("GPU-") else f"GPU-{uuid}")
    except pynvml.NVMLError as error:
        raise OSError(f"NVML: {error}") from None


class UtilisationMeter:
    """Measures phases: the share of all processor cores that were busy, and of the time in which the GPU was.

    Both count other programs, too. A phase's processor share is exact, from the kernel's counters; the GPU's is the
    mean of the driver's samples, one a second and one at the end.
    """

    def __init__(self, device: str = "cpu") -> None:
        self.unmeasured: dict[str, str] = {}
        self._busy: dict[str, tuple[float, float]] = {}
        self._samples: dict[str, list[float]] = {}
        self._memory: dict[str, float] = {}
        self._psutil: Any = None
        self._gpu: tuple[Any, Any] | None = None
        try:
            import psutil

            self._psutil = psutil
        except ImportError:
            self.unmeasured["cpu"] = f"psutil {_MISSING}"
        try:
            self._gpu = gpu_handle(device)
        except OSError as error:
            self.unmeasured["gpu"] = str(error)

    @contextmanager
    def around(self, phase: str) -> Iterator[None]:
        """Count a block as part of a phase; a phase may come in several blocks."""
        before, over = self._times(), threading.Event()
        watcher = threading.Thread(target=self._watch, args=(phase, over), daemon=True)
        if self._gpu is not None:
            watcher.start()
        try:
            yield
        finally:
            over.set()
            if watcher.ident is not None:
                watcher.join()
            busy, total = (now - then for now, then in zip(self._times(), before, strict=True))
            known = self._busy.get(phase, (0.0, 0.0))
            self._busy[phase] = known[0] + busy, known[1] + total

    def read(self) -> dict[str, dict[str, float]]:
        """Return percent by device and phase: ``cpu``, ``gpu``, and ``gpu memory``, the largest share in use."""
        cpu = {phase: round(100 * busy / total, 1) for phase, (busy, total) in self._busy.items() if total > 0}
        gpu = {phase: round(sum(values) / len(values), 1) for phase, values in self._samples.items()}
        return {
            **({"cpu": cpu} if self._psutil is not None else {}),
            **({"gpu": gpu, "gpu memory": dict(self._memory)} if self._gpu is not None else {}),
        }

    def _times(self) -> tuple[float, float]:
        """Seconds in which cores were busy, and all seconds of all cores, since the machine started."""
        if self._psutil is None:
            return 0.0, 0.0
        times = self._psutil.cpu_times()._asdict()
        every = sum(value for name, value in times.items() if name not in ("guest", "guest_nice"))  # in user and nice
        return every - times["idle"] - times.get("iowait", 0.0), every

    def _watch(self, phase: str, over: threading.Event) -> None:
        while True:
            last = over.wait(_EVERY)
            self._sample(phase)
            if last:
                return

    def _sample(self, phase: str) -> None:
        if self._gpu is None:
            return
        nvml, handle = self._gpu
        try:
            share = float(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
            memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        except nvml.NVMLError as error:
            self._gpu = None
            self.unmeasured["gpu"] = f"NVML: {error}"
            return
        self._samples.setdefault(phase, []).append(share)
        used = round(100 * memory.used / memory.total, 1)
        self._memory[phase] = max(self._memory.get(phase, 0.0), used)
