"""Signals to a command whose threads or processes never return, in processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from wary_files.stopping import stoppable

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")
_START = """
import os, signal, sys, threading, time
from concurrent.futures import ThreadPoolExecutor, ProcessPoolExecutor
from types import SimpleNamespace
import wary_files.stopping
from wary_files.stopping import stoppable
wary_files.stopping.time = SimpleNamespace(sleep=lambda seconds: time.sleep(seconds / 10))
signal.signal(signal.SIGINT, signal.default_int_handler)  # it is ignored below a shell's background job
def hang():
    time.sleep(10**6)
def command():
    try:
        with stoppable("tool"):
            work()
    except KeyboardInterrupt as error:
        print("stopped by", type(error).__name__, flush=True)
        raise SystemExit(130)
"""
_POOL = """
def work():
    with {kind}(1) as pool:
        waiting = pool.submit(hang)
        print("ready", flush=True)
        waiting.result()
"""
_THREADS, _PROCESSES = _POOL.format(kind="ThreadPoolExecutor"), _POOL.format(kind="ProcessPoolExecutor")
_LEFT = """
def work():
    threading.Thread(target=hang).start()
    print("ready", flush=True)
    time.sleep(10**6)
"""


def sent(
    work: str, number: signal.Signals, *, guarded: bool = True, wait: float = 45.0, after: float = 0.0
) -> tuple[int | None, str]:
    """Exit status and output of a command that gets a signal; None where it does not end.

    It may not end before ``after`` seconds of its guard's clock, which runs ten times as fast as the world's.
    """
    script = _START + work + ("command()" if guarded else "work()")
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1,
        start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    begun = time.monotonic()
    for _ in range(2 if guarded else 1):  # a signal in the middle of a fork is lost
        process.send_signal(number)
        try:
            output, _ = process.communicate(timeout=wait)
            assert time.monotonic() - begun >= after / 10
            return process.returncode, output
        except subprocess.TimeoutExpired:
            if process.poll() is not None:
                break
    status = process.poll()
    os.killpg(process.pid, signal.SIGKILL)  # a child that is left holds the output open
    output, _ = process.communicate()
    return status, "" if status is None else output


@pytest.mark.parametrize("work", [_THREADS, _PROCESSES, _LEFT], ids=["threads", "processes", "a thread"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_never_returns_is_left_alone(work: str, number: signal.Signals) -> None:
    status, output = sent(work, number, after=3.0)
    assert status == 128 + number
    assert "tool: interrupted; a thread that does not return" in output


def test_without_it_the_command_would_wait_for_ever() -> None:
    assert sent(_THREADS, signal.SIGINT, guarded=False, wait=1.5) == (None, "")


def test_a_command_that_ends_by_itself_says_what_it_says() -> None:
    work = 'def work():\n    print("ready", flush=True)\n    time.sleep(10**6)\n'
    for number, name in ((signal.SIGINT, "KeyboardInterrupt"), (signal.SIGTERM, "TerminatedError")):
        assert sent(work, number) == (130, f"stopped by {name}\n")


def test_slow_work_after_a_signal_is_not_cut_short() -> None:
    """Only waiting for threads and processes is: a checkpoint is written to its end."""
    work = """
def work():
    try:
        print("ready", flush=True)
        time.sleep(10**6)
    finally:
        end = time.monotonic() + 1
        while time.monotonic() < end:
            time.sleep(.1)
        print("written", flush=True)
"""
    assert sent(work, signal.SIGTERM) == (130, "written\nstopped by TerminatedError\n")


def test_forked_workers_end_as_the_system_ends_them() -> None:
    work = """
def work():
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.write(writer, b"x")  # a signal in the middle of a fork is lost
        hang()
    os.read(reader, 1)
    os.kill(child, signal.SIGTERM)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        print("ready", flush=True)
        hang()
    finally:
        print("child", status, flush=True)
"""
    assert sent(work, signal.SIGINT) == (130, "child -15\nstopped by KeyboardInterrupt\n")


def test_handlers_of_others_stay_and_ours_go() -> None:
    before = signal.getsignal(signal.SIGTERM)
    try:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        with stoppable("tool"):
            assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
            os.kill(os.getpid(), signal.SIGTERM)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with stoppable("tool"):
            assert callable(signal.getsignal(signal.SIGTERM))
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)
