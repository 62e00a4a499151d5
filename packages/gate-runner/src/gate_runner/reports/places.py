"""Paths on a page: it is handed on, and names no folder of whoever made it."""

from __future__ import annotations

import re
from pathlib import Path

_FOLDERS = re.compile(r"(?<![\w.…~/-])/(?:[^\s/:;,]+/)+(?=[^\s/:;,]+/[^\s/:;,]+)")


def brief(text: str) -> str:
    """Return a text whose absolute paths have their last two names only, and ``~`` for the user's home.

    Example:
        >>> brief("adapt probe --data-root=/mnt/ann/sets/birds"), brief("runs/a, and no /tmp/a")
        ('adapt probe --data-root=…/sets/birds', 'runs/a, and no /tmp/a')
    """
    home = str(Path.home())
    if len(Path(home).parts) > 1:
        text = re.sub(rf"(?<![\w./-]){re.escape(home)}(?=/)", "~", text)
    return _FOLDERS.sub("…/", text)
