"""A process that answers JSON lines with JSON lines: each answer has a deadline, and what it may say has an end."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import time
import weakref
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

#: Between two answers a worker may say so many bytes that are no answer, and a line may have so many.
_MOST_BYTES = 4_000_000


class WorkerProcess:
    r"""A child that is spoken to line by line; it ends with this object, or when it breaks the rules.

    Args:
        command: The program and its arguments.
        log: File for what it says on its error output.
        deadline: Seconds for each answer, above 0.

    Raises:
        ValueError: A deadline that is not above 0.
        OSError: The program cannot be started.

    Example:
        >>> import sys, tempfile
        >>> from pathlib import Path
        >>> code = "import sys; [print('{\"done\": 1}', flush=True) for line in sys.stdin]"
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     WorkerProcess([sys.executable, "-c", code], Path(folder, "log.txt"), deadline=60).ask({"a": 1}, "done")
        1
    """

    def __init__(self, command: Sequence[str], log: Path, *, deadline: float) -> None:
        if not deadline > 0:
            raise ValueError(f"deadline = {deadline!r}, expected seconds above 0")
        self.deadline = deadline
        self._log = log.open("w+b")
        environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, env=environ, bufsize=0
        )
        self.close = weakref.finalize(self, _end, self.process, self._log)
        self._heard = b""

    def ask(self, order: dict[str, Any], wanted: str) -> Any:
        """Send an order and wait for the answer's field of this name.

        Raises:
            RuntimeError: The worker's own error; it died, was silent until the deadline, or babbled; it is ended then.
        """
        assert self.process.stdin is not None
        with suppress(OSError):  # it is dead: what it says next tells why
            self.process.stdin.write(f"{json.dumps(order)}\n".encode())
        return self.hear(wanted)

    def hear(self, wanted: str) -> Any:
        """Wait for an answer that nobody asked for, such as that it is ready."""
        end, said = time.monotonic() + self.deadline, 0
        while (line := self._line(end)) is not None:
            said += len(line)
            if said > _MOST_BYTES:
                raise self._ended(f"it said {said:,} bytes and gave no answer")
            if not line.startswith(b'{"'):
                continue  # what the program prints before the worker begins
            try:
                answer = json.loads(line)
            except (ValueError, RecursionError):
                raise self._ended(f"it answered no JSON: {line[:80]!r}") from None
            if "error" in answer:
                raise RuntimeError(" ".join(str(answer["error"]).split()))
            if wanted not in answer:
                raise self._ended(f"it answered {sorted(answer)} in place of {wanted!r}")
            return answer[wanted]
        status = self.process.wait()
        self._log.seek(0)
        last = self._log.read()[-10_000:].decode(errors="replace").strip().splitlines()
        raise RuntimeError(f"it ended with status {status}: {' / '.join(last[-2:]) or 'it said nothing'}")

    def _line(self, end: float) -> bytes | None:
        """The next whole line, or None where the worker has ended."""
        assert self.process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._heard:
                if len(self._heard) > _MOST_BYTES:
                    raise self._ended(f"it said {len(self._heard):,} bytes without an end of line")
                left = end - time.monotonic()
                if left <= 0 or not selector.select(left):
                    raise self._ended(f"it gave no answer within {self.deadline:g} s")
                part = os.read(self.process.stdout.fileno(), 65536)
                if not part:
                    return None
                self._heard += part
        line, _, self._heard = self._heard.partition(b"\n")
        return line

    def _ended(self, why: str) -> RuntimeError:
        self.close()
        return RuntimeError(f"{why}; it was ended")


def _end(process: subprocess.Popen[bytes], log: IO[bytes]) -> None:
    process.kill()
    for stream in (process.stdin, process.stdout, log):
        if stream is not None:
            with suppress(OSError):
                stream.close()
    process.wait()
