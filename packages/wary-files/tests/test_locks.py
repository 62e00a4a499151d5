"""One process at a time, which errors name; a killed one stands in nobody's way."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from wary_files.errors import StorageError
from wary_files.locks import BusyError, held

HOLD = """
import sys
from pathlib import Path
from wary_files.locks import held
with held(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.readline()
"""


@contextmanager
def holder(path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def take(path: Path, wait: float = 0.0) -> None:
    with held(path, wait=wait):
        pass


def test_the_holder_is_named(tmp_path: Path) -> None:
    lock = tmp_path / "deep" / "writer.lock"
    with holder(lock) as process, pytest.raises(BusyError, match=rf"is held by process {process.pid} on ") as caught:
        take(lock)
    assert caught.value.owner.startswith(f"process {process.pid} on ")


def test_a_killed_holder_stands_in_nobodys_way(tmp_path: Path) -> None:
    lock = tmp_path / "writer.lock"
    with holder(lock) as process:
        process.kill()
        process.wait()
        assert lock.exists()
        take(lock)
    assert not lock.exists()


def test_who_waits_gets_it(tmp_path: Path) -> None:
    lock = tmp_path / "writer.lock"
    with holder(lock) as process:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        before = time.monotonic()
        take(lock, wait=60)
        assert time.monotonic() - before < 50


def test_a_block_that_fails_frees_it(tmp_path: Path) -> None:
    lock = tmp_path / "writer.lock"

    def broken() -> None:
        with held(lock):
            raise RuntimeError

    with pytest.raises(RuntimeError):
        broken()
    assert not lock.exists()
    take(lock)


@pytest.mark.skipif(os.name == "nt", reason="links need a right there")
def test_a_second_name_of_another_file_is_refused(tmp_path: Path) -> None:
    mine, lock = tmp_path / "mine", tmp_path / "writer.lock"
    mine.write_text("mine")
    lock.hardlink_to(mine)
    with pytest.raises(StorageError, match="second name"):
        take(lock)
    assert mine.read_text() == "mine"


def test_a_full_disk_leaves_no_empty_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, text: str) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(StorageError, match=r"a\.lock: No space left"), held(tmp_path / "a.lock"):
        pytest.fail("nobody is named in it")
    assert not list(tmp_path.iterdir())
    monkeypatch.undo()
    with held(tmp_path / "a.lock"):
        assert (tmp_path / "a.lock").exists()
