"""Zip archives of strangers: what is wrong with one is a `ValueError` with its name."""

from __future__ import annotations

import zipfile
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def opened_zip(path: Path, name: str = "") -> Iterator[zipfile.ZipFile]:
    """Open a zip archive, and name it in whatever goes wrong while the block reads it."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (OSError, ValueError):
        raise
    except Exception as error:  # zipfile raises errors of every kind over broken archives
        raise ValueError(f"{name or path} cannot be read from its archive: {error}") from error
