"""The Triton backend: the tiled one, with its passes as Triton kernels. Imports triton when it runs."""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING

from eqsim.backends.tiled import run_tiled

if TYPE_CHECKING:
    from eqsim.batch import Batch, Parts, Size
    from eqsim.settings import Settings

INSTALLED = importlib.util.find_spec("triton") is not None
"""Asked once: torch.compile cannot trace the question in torch 2.6."""

LARGE_BATCH = 1024
"""From here a kernel's launches are paid for by its tiles."""


def refuses(settings: Settings, size: Size) -> str | None:
    """Refuse without the triton package, and off a GPU unless Triton interprets."""
    if not INSTALLED:
        return "the triton package is not installed (pip install 'eqsim[triton]')"
    if size.device != "cuda" and os.environ.get("TRITON_INTERPRET") != "1":
        return (
            f"the features are on {size.device!r}, not on 'cuda' (TRITON_INTERPRET=1 runs the kernels slowly on a CPU)"
        )
    return None


def suits(settings: Settings, size: Size) -> str | None:
    """Take batches on a GPU that are large enough."""
    if size.device == "cuda" and size.n >= LARGE_BATCH:
        return f"n = {size.n} on a GPU: tiles stay on the chip"
    return None


def run(batch: Batch) -> Parts:
    """Compute a batch."""
    return run_tiled(batch, triton=True)
