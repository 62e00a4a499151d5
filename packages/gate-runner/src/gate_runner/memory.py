"""Memory: how much a part took, and what an error looks like that says there was too little."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_SAID_BY_TORCH = ("can't allocate memory", "out of memory", "not enough memory")


class PeakMemory:
    """The largest memory of this process, and of its GPUs, since this object was made."""

    def __init__(self) -> None:
        self.since_here = False
        try:
            _CLEAR.write_text("5")  # Linux: the high-water mark falls to what is used now
            self.since_here = True
        except OSError:
            pass
        for device in _gpus():
            sys.modules["torch"].cuda.reset_peak_memory_stats(device)

    def read(self) -> dict[str, int]:
        """The peaks in bytes."""
        found = {}
        if self.since_here and (here := high_water()) is not None:
            found["peak_bytes"] = here
        used = sum(int(sys.modules["torch"].cuda.max_memory_allocated(device)) for device in _gpus())
        if used:
            found["gpu_peak_bytes"] = used
        return found


def high_water() -> int | None:
    """The largest resident memory of this process in bytes, or None where the system does not tell.

    Example:
        >>> high_water() is None or high_water() > 1e6
        True
    """
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return None
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM")), None)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that there is too little memory, on the CPU or on a GPU.

    Example:
        >>> is_out_of_memory(MemoryError()), is_out_of_memory(ValueError("out of range"))
        (True, False)
    """
    if isinstance(error, MemoryError):
        return True
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(error, torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error).lower() for words in _SAID_BY_TORCH)


def release() -> None:
    """Give free what nothing refers to any more."""
    gc.collect()
    if _gpus():
        sys.modules["torch"].cuda.empty_cache()


def killed_for_memory() -> int | None:
    """How many processes this system has killed for want of memory since its start, or None where it does not tell.

    Example:
        >>> killed_for_memory() is None or killed_for_memory() >= 0
        True
    """
    try:
        lines = Path("/proc/vmstat").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), None)


def _gpus() -> list[int]:
    """The GPUs that this process uses; empty where torch was never imported, or no GPU was touched."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return []
    return list(range(torch.cuda.device_count()))
