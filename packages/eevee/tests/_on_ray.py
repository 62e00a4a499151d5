"""The same result from Ray, which nobody beyond this machine can reach. `test_executors` runs this file by itself."""

from __future__ import annotations

import os
from pathlib import Path

from eevee import open_map

from .test_executors import found, found_with

LOOPBACK = ("0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000")


def family(pid):
    """A process and all that it started."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rsplit(")", 1)[1].split()[1])
        except (OSError, ValueError):
            continue
    members = {pid}
    while more := {child for child, parent in parents.items() if parent in members} - members:
        members |= more
    return members


def listening(pids):
    """Addresses on which processes listen, as the kernel writes them."""
    sockets = set()
    for pid in pids:
        for link in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                sockets.add(str(link.readlink()))
            except OSError:
                continue
    rows = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    return [row[1].split(":")[0] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in sockets]


def test_ray():
    with open_map("ray:2") as spread:  # once: a second cluster in one process may wait for the first one's remains
        there = listening(family(os.getpid()))
        best = found_with(spread).best
    import ray

    assert len(there) > 2  # the look sees Ray's processes
    assert set(there) <= set(LOOPBACK)
    assert best == found("serial").best
    assert not ray.is_initialized()
