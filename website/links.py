"""Links from a page in docs/ to a file of the repository: relative in the source, so that they work on any host."""

from __future__ import annotations

import os
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_RELATIVE = re.compile(r"\]\(((?:\.\./)+[^)\s#]+)(#[^)\s]+)?\)")


def as_code(text: str, page: str) -> str:
    """Return a page's Markdown with links to files outside docs/ written as ``code:PATH``.

    Args:
        text: the page's Markdown.
        page: its path below docs/, with forward slashes.
    """

    def led(match: re.Match[str]) -> str:
        target = os.path.normpath(Path("docs", page).parent / match[1])
        inside = target.startswith("docs" + os.sep) or not (ROOT / target).is_file()
        return match[0] if inside else f"](code:{Path(target).as_posix()}{match[2] or ''})"

    return _RELATIVE.sub(led, text)
