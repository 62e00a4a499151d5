"""Processor energy from the kernel's RAPL counters, which Intel and AMD processors keep."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

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
