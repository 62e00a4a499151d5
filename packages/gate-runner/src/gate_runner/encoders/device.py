"""Where an encoder computes."""

from __future__ import annotations

from gate_runner.errors import UsageError
from gate_runner.settings import checked_device


def device_for(asked: str) -> str:
    """A torch device: ``"auto"`` is the first GPU where there is one.

    Example:
        >>> device_for("cpu")
        'cpu'
    """
    import torch

    if asked == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    checked_device(asked)
    if asked.startswith("cuda"):
        there = torch.cuda.device_count()
        if int(asked.partition(":")[2] or 0) >= there:
            found = f"{there} GPU{'s' * (there > 1)}: cuda:0 to cuda:{there - 1}" if there else "no GPU"
            raise UsageError(
                f"--device {asked}: torch finds {found} on this machine; --device auto takes what is there"
            )
    return asked
