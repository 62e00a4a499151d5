"""Names of devices."""

from __future__ import annotations

import re

from wary_files.errors import UsageError

_DEVICES = ("cpu", "cuda", "hpu", "meta", "mps", "mtia", "xla", "xpu")


def device_in(text: object) -> str:
    """The name of a device (torch's own, too) of a kind that torch has; whether this machine has one shows in use."""
    text = str(text)
    if text != "auto" and re.fullmatch(rf"(?:{'|'.join(_DEVICES)})(?::\d+)?", text) is None:
        raise UsageError(f"--device {text!r} is none; expected auto, cpu, cuda, cuda:NUMBER, mps or xpu")
    return text
