"""Rows as pandas frames."""

from __future__ import annotations

from typing import Any

from eevee.errors import EeveeError


def frame_of(rows: list[dict[str, Any]]) -> Any:  # pandas has no types of its own
    """Rows as a pandas frame."""
    try:
        import pandas  # type: ignore[import-untyped]  # has no types of its own
    except ImportError as error:
        raise EeveeError("frames need pandas: pip install 'eevee-search[pandas]'") from error
    return pandas.DataFrame(rows)
