"""A process that dies at the n-th call of the system, and a disk that forgets what was not synced."""

from __future__ import annotations

import json
import os
from pathlib import Path

from wary_files import durable

CALLS = ("fsync", "rename", "replace", "mkdir", "unlink", "rmdir")
KILLED = 9


class Machine:
    """Counts the calls that change the disk, and dies at one of them; knows what was synced until then."""

    def __init__(self, monkeypatch, die_at=None, exchanges=True):
        self.calls, self.synced, self.die_at, self.tell = [], {}, die_at, None
        for name in CALLS:
            monkeypatch.setattr(os, name, self._wrap(name, getattr(os, name)))
        real = durable.exchange if exchanges else lambda first, second: False
        monkeypatch.setattr(durable, "exchange", self._wrap("exchange", real))

    def _wrap(self, name, real):
        def call(*args, **options):
            if len(self.calls) + 1 == self.die_at:
                self.end(KILLED)
            self.calls.append((name, self._path(args[0])))
            if name == "fsync":
                status = os.fstat(args[0])
                self.synced[status.st_ino] = status.st_size
            return real(*args, **options)

        return call

    def end(self, code):
        """Tell the parent what was synced and stop, with nothing of Python's own tidying."""
        os.write(self.tell, json.dumps(self.synced).encode())
        os._exit(code)

    @staticmethod
    def _path(target):
        return str(Path(f"/proc/self/fd/{target}").readlink()) if isinstance(target, int) else os.fspath(target)


def run_killed(work, monkeypatch, die_at, exchanges):
    """Do work in a process that dies at its `die_at`-th call; whether it did, and what was synced by then."""
    read, write = os.pipe()
    process = os.fork()
    if process == 0:
        machine = Machine(monkeypatch, die_at, exchanges)
        machine.tell = write
        try:
            work()
        except BaseException:  # noqa: BLE001  # the child must not run the rest of the tests
            os._exit(1)
        machine.end(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        synced = {int(inode): size for inode, size in json.loads(pipe.read() or b"{}").items()}
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    assert code in (0, KILLED)
    return code == KILLED, synced


def lose_unsynced(folder, before, synced):
    """Cut every new file down to what was synced, as after a loss of power."""
    for file in folder.rglob("*"):
        if file.is_file():
            status = file.stat()
            if status.st_ino not in before and synced.get(status.st_ino, 0) < status.st_size:
                with file.open("r+b") as handle:
                    handle.truncate(synced.get(status.st_ino, 0))
