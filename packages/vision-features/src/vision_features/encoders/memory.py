"""Errors that say that memory is lacking."""

from __future__ import annotations

import sys

_SAID_BY_TORCH = ("can't allocate memory", "out of memory", "not enough memory")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that there is too little memory, on the CPU or on a GPU."""
    if isinstance(error, MemoryError):
        return True
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(error, torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error).lower() for words in _SAID_BY_TORCH)
