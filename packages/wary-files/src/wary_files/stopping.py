"""Ctrl-C and SIGTERM end a command within seconds, also where a thread or a process of it never returns."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_PATIENCE = 3.0
"""Seconds for which a stopped command waits for threads and processes that read or compute."""
_LOOK = 0.2
_WAITING = {
    ("concurrent.futures.thread", "shutdown"),
    ("concurrent.futures.thread", "_python_exit"),
    ("concurrent.futures.process", "shutdown"),
    ("concurrent.futures.process", "_python_exit"),
    ("multiprocessing.util", "_exit_function"),
    ("threading", "_shutdown"),
}
"""Modules and functions in which a command that ends waits for what it has started."""


class TerminatedError(KeyboardInterrupt):
    """SIGTERM: whoever is told of an interruption is told of this, too."""


@contextmanager
def stoppable(program: str) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM raise in the main thread while a block runs, and end the process if it then hangs.

    SIGTERM raises `TerminatedError`, a `KeyboardInterrupt`: the block says what is kept, where the system would end the
    process without a word. A thread that never returns (a file of a network's disk that is gone) would be waited for
    without end; after three seconds of such waiting the process says so and ends, as if it had been killed then.

    Handlers that somebody else has set stay, and so does everything outside of the main thread.

    Args:
        program: what messages begin with.

    Example:
        >>> with stoppable("tool"):
        ...     "works"
        'works'
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    owner = os.getpid()

    def stop(number: int, frame: FrameType | None) -> None:
        if os.getpid() != owner:  # a forked worker does what it would have done
            if number == signal.SIGINT:
                raise KeyboardInterrupt
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        threading.Thread(target=_leave_if_stuck, args=(program, 128 + number), daemon=True).start()
        raise KeyboardInterrupt if number == signal.SIGINT else TerminatedError

    plain = (signal.SIG_DFL, signal.default_int_handler)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    ours = [number for number, handler in before.items() if handler in plain]
    for number in ours:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, before[number])


def _leave_if_stuck(program: str, status: int) -> None:
    """End the process once its main thread has waited long enough for others; runs beside it until then."""
    waited = 0.0
    while waited < _PATIENCE:
        time.sleep(_LOOK)
        waited = waited + _LOOK if _waits() else 0.0
    processes: Any = sys.modules.get("multiprocessing")
    for process in processes.active_children() if processes is not None else ():
        process.kill()
    sys.stderr.write(
        f"{program}: interrupted; a thread that does not return (reading a file?) is left alone, what is finished is "
        "kept, and the same command continues\n"
    )
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)


def _waits() -> bool:
    main = threading.main_thread().ident
    frame = sys._current_frames().get(main) if main is not None else None
    while frame is not None:
        if (frame.f_globals.get("__name__"), frame.f_code.co_name) in _WAITING:
            return True
        frame = frame.f_back
    return False
