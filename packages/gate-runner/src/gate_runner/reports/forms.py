"""A report in the form that was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gate_runner.errors import UsageError, printable
from gate_runner.reports.contents import gather
from gate_runner.reports.looks import looks
from gate_runner.reports.page import build_page
from gate_runner.reports.tables import (
    as_csv,
    as_latex,
    as_markdown,
    classes_as_csv,
    confusions_as_csv,
    hardest_as_markdown,
)
from gate_runner.runs.stored import StoredRun, as_written

_TABLES = {
    "md": as_markdown,
    "csv": as_csv,
    "latex": as_latex,
    "classes": classes_as_csv,
    "confusions": confusions_as_csv,
}


def report_text(
    runs: Sequence[StoredRun],
    form: str,
    *,
    pictures: int | None = None,
    data_root: Path | None = None,
    tests: bool = True,
    look: bool = False,
) -> str:
    """The report of one or more runs.

    Args:
        runs: with distinct labels, at least one.
        form: ``"html"`` for the page, or a table as ``"md"``, ``"csv"`` or ``"latex"``; ``"classes"`` is a CSV with a
            row for each class of each classification, ``"confusions"`` one for each pair that was confused.
        pictures: hardest test samples for each benchmark, on the page or as rows of Markdown; None for 4 on the page
            and none in a table.
        data_root: folder of original files, for these samples.
        tests: mark what a paired test does not tell from the best.
        look: load the first run's encoder, and show what its features are like.

    Returns:
        The text.

    Raises:
        UsageError: a form that there is not, or pictures in one that has no room.

    Example:
        >>> report_text([], "pdf")
        Traceback (most recent call last):
        ...
        gate_data.errors.UsageError: a report is one of html, md, csv, latex, classes, confusions, not 'pdf'
    """
    check_form(form, pictures)
    if form == "html":
        count = 4 if pictures is None else pictures
        after = looks(runs[0], pictures=count, data_root=data_root) if look else []
        with as_written(runs):
            return build_page(runs, pictures=count, data_root=data_root, tests=tests, after=after)
    with as_written(runs):
        contents = gather(runs, tests=tests)
        text = _TABLES[form](contents)
        hardest = f"\n{hardest_as_markdown(contents, pictures, data_root)}" if pictures else ""
    return printable(text + hardest, "\n\t")


def check_form(form: str, pictures: int | None) -> None:
    """See whether there is such a form, before any run is read.

    Raises:
        UsageError: as `report_text`.

    Example:
        >>> check_form("csv", 4)
        Traceback (most recent call last):
        ...
        gate_data.errors.UsageError: pictures go into html or md, not into csv
    """
    if form != "html" and form not in _TABLES:
        raise UsageError(f"a report is one of html, {', '.join(_TABLES)}, not {form!r}")
    if pictures is not None and pictures < 0:
        raise UsageError(f"pictures must be at least 0, not {pictures}")
    if pictures and form not in ("html", "md"):
        raise UsageError(f"pictures go into html or md, not into {form}")
