"""`gate-runner` with arguments, in this process."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from gate_runner.cli import main


def _stream(text: bytes = b"") -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(text), encoding="utf-8", write_through=True)


def call_here(*arguments: str, cwd: Path, text: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """The same as a process gives, without starting one: an interpreter that imports torch takes seconds.

    Args:
        arguments: after the program's name.
        cwd: where the command is given.
        text: its standard input.
    """
    out, err = _stream(), _stream()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err), contextlib.chdir(cwd):
        patch.setattr(sys, "stdin", _stream(text))
        patch.setattr(sys, "argv", ["gate-runner", *arguments])
        patch.setattr(sys, "path", ["", *sys.path])
        patch.setenv("COLUMNS", "150")
        try:
            main(arguments)
            status = 0
        except SystemExit as ended:
            status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    written = [stream.detach().getvalue() for stream in (out, err)]  # type: ignore[attr-defined]  # the bytes put in above
    return subprocess.CompletedProcess(arguments, status, *written)
