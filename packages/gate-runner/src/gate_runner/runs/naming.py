"""Names of run folders."""

from __future__ import annotations

import re


def folder_name(encoder: str, limit: int | None, items: str | None = None) -> str:
    """A folder's name from a spec.

    Args:
        encoder: the spec string.
        limit: the cap on samples, which becomes part of the name.
        items: digest of the chosen items, whose first digits become part of it, too; None where all are scored.

    Example:
        >>> folder_name("open_clip:ViT-B-32/laion2b", 100)
        'open_clip-ViT-B-32-laion2b-limit100'
    """
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", encoder).strip("-.")
    ends = ["" if limit is None else f"-limit{limit}", "" if items is None else f"-items-{items[:8]}"]
    return name + "".join(ends)
