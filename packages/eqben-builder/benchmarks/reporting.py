"""What every script here does with its result: say on what it was measured, print it, and write it."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path
from typing import Any


def report(result: dict[str, Any], output: Path | None) -> None:
    """Print the result as JSON, with the machine, and write it where a file was asked for."""
    text = json.dumps(result | {"machine": f"{platform.machine()}, {os.cpu_count()} cores"}, indent=1)
    print(text)
    if output is not None:
        output.write_text(f"{text}\n")
