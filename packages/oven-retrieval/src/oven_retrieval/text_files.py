"""Text files, packed or not."""

from __future__ import annotations

import bz2
import gzip
import io
from pathlib import Path
from typing import TextIO


def open_text(path: str | Path) -> TextIO:
    """Open a UTF-8 file, unpacked where its name ends in `.gz` or `.bz2`; the caller closes it."""
    path = Path(path)
    if path.suffix == ".gz":
        return io.TextIOWrapper(gzip.open(path, "rb"), encoding="utf-8", newline="")
    if path.suffix == ".bz2":
        return io.TextIOWrapper(bz2.open(path, "rb"), encoding="utf-8", newline="")
    return path.open(encoding="utf-8", newline="")
