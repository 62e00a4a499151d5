"""A Ray cluster that a run starts by itself listens on the loopback alone; `test_executors` runs this file."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest

from gate_runner.executors.ray_cluster import RayExecutor

from ._sleepy import sleepy_request

LISTENING = "0A"


def listening(root: int) -> set[str]:
    """Addresses on which a process or its descendants listen."""
    parents = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                parents[int(folder.name)] = int(fields[1])
            except OSError:
                continue
    family = {root}
    while more := {child for child, parent in parents.items() if parent in family} - family:
        family |= more
    sockets = set()
    for member in family:
        try:
            for path in Path(f"/proc/{member}/fd").iterdir():
                sockets.add(str(path.readlink()).removeprefix("socket:[").removesuffix("]"))
        except OSError:
            continue
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENING and fields[9] in sockets:
                found.add(fields[1].partition(":")[0])
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="only Linux shows its sockets there")
def test_what_a_run_starts_listens_on_the_loopback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    folder = tempfile.mkdtemp(prefix="r", dir="/tmp")
    options = {"cluster_cpus": "1", "temp_dir": folder}
    request = sleepy_request(tmp_path, monkeypatch).changed(
        isolate="worker", executor="ray", executor_options=options, seeds=(0,)
    )
    executor = RayExecutor(request)
    try:
        executor.open()
        addresses = listening(os.getpid())
    finally:
        executor.close()
        shutil.rmtree(folder, ignore_errors=True)
    loopback = {"0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"}
    assert addresses
    assert addresses <= loopback, addresses
