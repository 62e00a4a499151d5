"""A page of compositional suites: every subset and average with chance, blind lines and published scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eqben_builder.pages.rendering import write_page
from eqben_builder.suites.published import published_of

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from eqben_builder.suites import GalleryTable, SuiteTable


def write_suites_page(
    tables: Mapping[str, Sequence[SuiteTable]],
    path: str | os.PathLike[str],
    *,
    galleries: Mapping[str, Sequence[GalleryTable]] | None = None,
    title: str = "Compositional suites",
) -> Path:
    """Write one static HTML page.

    Args:
        tables: Name of a model -> its tables, one a suite.
        path: The file to write.
        galleries: Name of a model -> its tables of retrieval, one a gallery; shown after its suites.
        title: Of the page.

    Returns:
        The path. Everything is within the file; names are escaped.

    Raises:
        ValueError: No scores.

    Example:
        >>> import tempfile
        >>> from eqben_builder.scoring import Share
        >>> from eqben_builder.suites import SuiteLine, SuiteTable
        >>> line = SuiteLine("all questions", "right", 1, 0, Share(0, 0, 0, 0), None, {}, None, {})
        >>> table = SuiteTable("aro", line, (), (), ("note",), {})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = write_suites_page({"a < b": [table]}, f"{folder}/page.html")
        ...     "a &lt; b" in path.read_text()
        True
    """
    galleries = galleries or {}
    if not tables and not galleries:
        raise ValueError("no scores to show")
    models = {name: (tables.get(name, ()), galleries.get(name, ())) for name in dict.fromkeys([*tables, *galleries])}
    return write_page(path, "suites.html", title=title, models=models, published_of=published_of)
