"""``docs/gate.md``, written from the sheets: ``python -m gate_runner.benchmarks.page > docs/gate.md``."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from gate_data.cards import SHEETS, Sheet
from gate_runner.benchmarks.paper import PaperRow, paper_row
from gate_runner.benchmarks.registry import BENCHMARKS

_HEAD = """# GATE's 31 data sets: what the paper's code did, what we do, and why

This page is written by `python -m gate_runner.benchmarks.page > docs/gate.md` from the runner's own metadata.

A row of the paper's table can stand beside ours where the last line of a data set says so. `gate-runner check-data
ROOT` says which data sets lie under a folder and whether they are whole. Sizes are samples to train on (with those that
validate) and to score.

`--source hub` (extra `hub`) reads the same benchmark through Hugging Face `datasets`: rows are streamed once and kept,
as the pictures' own files, under the user's cache folder (`GATE_RUNNER_CACHE`), with the repository's revision in the
result's note; later runs need no network. A killed reading continues. No code of a repository is ever run. With
`--data-root ROOT`, copies are read from `ROOT/OWNER/NAME`, as `hf download --repo-type dataset OWNER/NAME --local-dir
ROOT/OWNER/NAME` makes them.
"""


def page() -> str:
    """The page as Markdown.

    Example:
        >>> page().splitlines()[0]
        "# GATE's 31 data sets: what the paper's code did, what we do, and why"
    """
    return _HEAD + "".join(_section(sheet) for sheet in SHEETS.values())


def _section(sheet: Sheet) -> str:
    sizes = " / ".join(f"{count:,}" for count in sheet.sizes) if sheet.sizes[0] else f"{sheet.sizes[1]:,} to score"
    if sheet.drawn:
        sizes = f"{sum(sheet.sizes):,} together"
    facts = [
        ("Task", f"{sheet.task}; {', '.join(sheet.metrics)}"),
        ("Classes", f"{sheet.classes:,}" if sheet.classes else "none"),
        ("Samples", sizes),
        ("From", f"<{sheet.site}>" + (f", about {sheet.gigabytes:g} GB" if sheet.gigabytes else "")),
        ("`--source hub`", _hub(sheet)),
        ("Terms", sheet.licence),
        ("Cite", sheet.citation),
        ("GATE's code", sheet.gate),
        ("Here", sheet.ours),
        *((f"Beside the paper's rows{of}", row.words) for of, row in _rows(sheet)),
    ]
    lines = "".join(f"- {name}: {text}\n" for name, text in facts)
    return f"\n## `{sheet.id}`: {sheet.title}\n\n{lines}"


def _rows(sheet: Sheet) -> Iterator[tuple[str, PaperRow]]:
    """The benchmark's own, and those of others that answer to the same row of the paper."""
    for name in (sheet.id, *(id_ for id_ in BENCHMARKS if id_ != sheet.id)):
        row = paper_row(name, "local")
        if row is not None and row.benchmark == sheet.id:
            yield "" if name == sheet.id else f", `{name}`", row


def _hub(sheet: Sheet) -> str:
    hub = sheet.hub
    if hub is None:
        return f"no: {sheet.no_hub}"
    splits = ", ".join(split for split in (hub.train, hub.validation, hub.test) if split)
    columns = ", ".join(f"`{column}`" for column in hub.columns)
    more = "; with `--limit`, only so many rows are read" if hub.streamed else ""
    return f"`{hub.id}`{f', configuration {hub.config}' if hub.config else ''}: {splits}; columns {columns}{more}"


if __name__ == "__main__":
    sys.stdout.write(page())
