"""A report in the form that was asked for."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Literal

from gate_runner.errors import UsageError, printable
from gate_runner.files import write
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
from gate_runner.runs.stored import Stored, as_written, read_runs

_TABLES = {
    "md": as_markdown,
    "csv": as_csv,
    "latex": as_latex,
    "classes": classes_as_csv,
    "confusions": confusions_as_csv,
}


def report(
    *sources: Stored,
    output: str | PathLike[str] | None = None,
    form: Literal["html", "md", "csv", "latex", "classes", "confusions"] = "html",
    pictures: int | None = None,
    data_root: str | PathLike[str] | None = None,
    tests: bool = True,
    look: bool = False,
) -> str:
    """One page of one or more runs, or a table for a paper.

    Args:
        sources: runs or their folders, at least one.
        output: file to write the text into, if any.
        form: ``"html"`` for the page, or a table as ``"md"``, ``"csv"`` or ``"latex"``; ``"classes"`` is a CSV with a
            row for each class of each classification, ``"confusions"`` one for each pair that was confused.
        pictures: hardest test samples for each benchmark; None for 4 on the page and none in a table. In Markdown they
            are rows of a table: what they are, and what was predicted.
        data_root: folder of original files, for these samples.
        tests: mark what a paired test does not tell from the best.
        look: load the first run's encoder, and show on the page what its features are like: the hardest pictures'
            neighbours in training, a map of the test split, and what places show.

    Returns:
        The text.

    Raises:
        UsageError: no runs, a folder that holds none, a form that there is not, or pictures in one that has no room.
        StorageError: the file cannot be written; an old one is still there.

    Example:
        >>> import tempfile
        >>> import gate_runner
        >>> folder = tempfile.mkdtemp()
        >>> done = gate_runner.run("digits", encoder="micro-clip/random", output=folder, limit=40, show=False)
        >>> report(done, form="csv").splitlines()[0].split(",")[0]
        'run'
        >>> report(done, form="csv", pictures=4)
        Traceback (most recent call last):
        ...
        gate_data.errors.UsageError: pictures go into html or md, not into csv
    """
    _check_form(form, pictures)
    if not sources:
        raise UsageError("no run to report; expected at least one")
    runs, root = read_runs(sources), None if data_root is None else Path(data_root)
    if form == "html":
        count = 4 if pictures is None else pictures
        after = looks(runs[0], pictures=count, data_root=root) if look else []
        with as_written(runs):
            text = build_page(runs, pictures=count, data_root=root, tests=tests, after=after)
    else:
        with as_written(runs):
            contents = gather(runs, tests=tests)
            table = _TABLES[form](contents)
            hardest = f"\n{hardest_as_markdown(contents, pictures, root)}" if pictures else ""
        text = printable(table + hardest, "\n\t")
    if output is not None:
        write(Path(output), text.encode())
    return text


def _check_form(form: str, pictures: int | None) -> None:
    """See whether there is such a form, before any run is read."""
    if form != "html" and form not in _TABLES:
        raise UsageError(f"--format must be one of html, {', '.join(_TABLES)}, not {form!r}")
    if pictures is not None and pictures < 0:
        raise UsageError(f"pictures must be at least 0, not {pictures}")
    if pictures and form not in ("html", "md"):
        raise UsageError(f"pictures go into html or md, not into {form}")
