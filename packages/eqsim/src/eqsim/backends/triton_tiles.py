"""The Triton backend: the tiled one, with its passes as Triton kernels. Imports triton when it runs."""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING

from eqsim.backends.tiled import run_tiled

if TYPE_CHECKING:
    from eqsim.backends.backend import Need, Work
    from eqsim.objective import Parts

INSTALLED = importlib.util.find_spec("triton") is not None
"""Asked once: torch.compile cannot trace the question in torch 2.6."""

LARGE_BATCH = 1024
"""From here a kernel's launches are paid for by its tiles."""


def refuses(need: Need) -> str | None:
    """Refuse without the triton package, and off a GPU unless Triton interprets."""
    if not INSTALLED:
        return "the triton package is not installed (pip install 'eqsim[triton]')"
    if need.device != "cuda" and os.environ.get("TRITON_INTERPRET") != "1":
        return (
            f"the features are on {need.device!r}, not on 'cuda' (TRITON_INTERPRET=1 runs the kernels slowly on a CPU)"
        )
    return None


def suits(need: Need) -> str | None:
    """Take batches on a GPU that are large enough."""
    if need.device == "cuda" and need.n >= LARGE_BATCH:
        return f"n = {need.n} on a GPU: tiles stay on the chip"
    return None


def run(work: Work) -> Parts:
    """Compute a batch."""
    return run_tiled(work, triton=True)
