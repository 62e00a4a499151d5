"""Names of run folders."""

from __future__ import annotations

import re


def folder_name(encoder: str, limit: int | None) -> str:
    """A folder's name from a spec.

    Args:
        encoder: the spec string.
        limit: the cap on samples, which becomes part of the name.

    Returns:
        Letters, digits, dashes, dots and underscores.

    Example:
        >>> folder_name("open_clip:ViT-B-32/laion2b", 100)
        'open_clip-ViT-B-32-laion2b-limit100'
    """
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", encoder).strip("-.")
    return name if limit is None else f"{name}-limit{limit}"
