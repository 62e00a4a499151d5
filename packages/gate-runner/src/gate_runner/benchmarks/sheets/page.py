"""``docs/gate.md``, written from the sheets: ``python -m gate_runner.benchmarks.sheets.page > docs/gate.md``."""

from __future__ import annotations

import sys

from gate_runner.benchmarks.sheets import SHEETS
from gate_runner.benchmarks.sheets.sheet import Sheet

_HEAD = """# GATE's 31 data sets: what the paper's code did, what we do, and why

This page is written by `python -m gate_runner.benchmarks.sheets.page > docs/gate.md` from the runner's own metadata.

A row of the paper's table can stand beside ours where the last line of a data set says so. `gate-runner check-data
ROOT` says which data sets lie under a folder and whether they are whole. Sizes are samples to train on (with those that
validate) and to score. Hub ids are for finding a copy: the runner reads original files.
"""


def page() -> str:
    """The page as Markdown.

    Example:
        >>> page().splitlines()[0]
        "# GATE's 31 data sets: what the paper's code did, what we do, and why"
    """
    return _HEAD + "".join(_section(sheet) for sheet in SHEETS.values())


def _section(sheet: Sheet) -> str:
    sizes = " / ".join(f"{count:,}" for count in sheet.sizes) if any(sheet.sizes) else "see its authors"
    facts = [
        ("Task", f"{sheet.task}; {', '.join(sheet.metrics)}"),
        ("Classes", f"{sheet.classes:,}" if sheet.classes else "none"),
        ("Samples", sizes),
        ("From", f"<{sheet.site}>" + (f", about {sheet.gigabytes:g} GB" if sheet.gigabytes else "")),
        ("Hub id", f"`{sheet.hub.id}`" if sheet.hub else "none in a form that is known"),
        ("Terms", sheet.licence),
        ("Cite", sheet.citation),
        ("GATE's code", sheet.gate),
        ("Here", sheet.ours),
        ("Beside the paper's rows", f"{'yes' if sheet.comparable else 'no'}: {sheet.reason}"),
    ]
    lines = "".join(f"- {name}: {text}\n" for name, text in facts)
    return f"\n## `{sheet.id}`: {sheet.title}\n\n{lines}"


if __name__ == "__main__":
    sys.stdout.write(page())
