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
    """Open a zip archive, and name it in whatever goes wrong while the block reads it.

    Args:
        path: The archive.
        name: What messages call it; its path by default.

    Yields:
        The archive.

    Raises:
        ValueError: It is damaged, encrypted, packed in a way that Python cannot read, or lacks a member.
        OSError: It is not there, or cannot be read.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> path = Path(tempfile.mkdtemp()) / "a.zip"
        >>> with zipfile.ZipFile(path, "w") as archive:
        ...     archive.writestr("b.txt", "text")
        >>> with opened_zip(path) as archive:
        ...     archive.read("b.txt")
        b'text'
    """
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (OSError, ValueError):
        raise
    except Exception as error:  # zipfile raises errors of every kind over broken archives
        raise ValueError(f"{name or path} cannot be read from its archive: {error}") from error
