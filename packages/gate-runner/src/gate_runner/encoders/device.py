"""Where an encoder computes."""

from __future__ import annotations


def device_for(asked: str) -> str:
    """A torch device: ``"auto"`` is the first GPU where there is one.

    Example:
        >>> device_for("cpu")
        'cpu'
    """
    if asked != "auto":
        return asked
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"
