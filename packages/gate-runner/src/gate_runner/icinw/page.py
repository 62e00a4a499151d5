"""A grid's folder as one HTML page, or as tables for a paper."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from gate_runner.__about__ import __version__
from gate_runner.errors import DataError, UsageError
from gate_runner.icinw.figures import curves, parameters
from gate_runner.icinw.record import Record, read_cells
from gate_runner.icinw.tables import all_tables
from gate_runner.reports.markup import folded, note, scroll, table
from gate_runner.reports.paper_table import Table
from gate_runner.runs.folder import read_manifest

_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def grid_report(folder: Path, form: str = "html") -> str:
    """The report of a grid's run folder.

    Args:
        folder: that `run_grid` filled, wholly or in part.
        form: ``"html"`` for the page with figures, or every table as ``"md"``, ``"csv"`` or ``"latex"``.

    Returns:
        The text.

    Raises:
        UsageError: no cells, or another form.
        DataError: a file that is no cell.

    Example:
        >>> import tempfile
        >>> from gate_runner.icinw import Cell
        >>> from gate_runner.icinw.record import save
        >>> cell = Cell("digits", 0, "frozen", "language", "2p", "none", 0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = save(Path(folder), Record(cell, "ok", metric="accuracy", value=0.75))
        ...     "75.00" in grid_report(Path(folder), "md")
        True
    """
    records = read_cells(folder)
    if not records:
        raise UsageError(f"{folder} holds no cells of a grid yet")
    tables = all_tables(records)
    makers = {"md": Table.as_markdown, "csv": Table.as_csv, "latex": Table.as_latex}
    if form in makers:
        return "\n".join(makers[form](one) for one in tables)
    if form != "html":
        raise UsageError(f"a report is one of html, {', '.join(makers)}, not {form!r}")
    return _page(folder, records, tables)


def _page(folder: Path, records: list[Record], tables: list[Table]) -> str:
    manifest = _manifest(folder)
    encoder = manifest["identity"]["encoder"]
    title = f"ELEVATER's grid: {encoder.get('spec', '')}"
    sections = [(one.id, one.title, _section(one)) for one in tables]
    drawn = [one for one in (curves(records), parameters(records)) if one]
    each = [curves(records, name) for name in dict.fromkeys(one.cell.dataset for one in records)]
    if drawn:
        more = folded("Each data set", "".join(each)) if any(each) else ""
        sections.insert(1, ("figures", "Sample efficiency and parameters (figures 6 and 7)", "".join(drawn) + more))
    sections.append(("run", "Run", _about(folder, manifest)))
    links = "".join(f'<a href="#{name}">{escape(heading)}</a>' for name, heading, _ in sections)
    body = "".join(f'<section id="{name}"><h2>{escape(head)}</h2>{inside}</section>' for name, head, inside in sections)
    style = files("gate_runner").joinpath("reports", "page.css").read_text(encoding="utf-8")
    made = any(one.cell.dataset.startswith("icinw-") for one in records)
    warned = "The micro world's sets are made up: their scores say nothing of ELEVATER's 20 data sets." if made else ""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)}</title><style>{style}</style></head>\n<body><header><h1>{escape(title)}</h1>"
        f'<p class="lede">{len(records):,} cells, {sum(one.status == "ok" for one in records):,} with a value.</p>'
        f'<nav aria-label="Sections">{links}</nav></header><main>'
        + (f'<p class="banner" role="note">{escape(warned)}</p>' if warned else "")
        + f"{body}</main><footer>Made by gate-runner {escape(__version__)}.</footer></body></html>\n"
    )


def _section(one: Table) -> str:
    inside = table(one.heads, one.rows, words=one.words)
    return (note(one.note) if one.note else "") + scroll(inside, one.title)


def _about(folder: Path, manifest: dict[str, Any]) -> str:
    encoder, last = manifest["identity"]["encoder"], (manifest["runs"] or [{}])[-1]
    taxonomy = last.get("taxonomy", {})
    counted = last.get("features", {})
    entries = [
        ("Folder", str(folder)),
        ("Encoder", str(encoder.get("spec", ""))),
        ("Weights", f"{encoder['parameters']:,} parameters" if encoder.get("parameters") else "not visible"),
        ("Gives", ", ".join(encoder.get("provides", [])) or "pooled features alone"),
        *((name.replace("_", " ").capitalize(), str(value)) for name, value in taxonomy.items()),
        ("Probe", str(manifest["identity"].get("probe", ""))),
        ("Pictures", f"{counted.get('images', 0):,}, encoded {counted.get('encoded', 0):,} times" if counted else ""),
        ("Last command", " ".join(map(str, last.get("command", [])))),
    ]
    return f"<dl>{''.join(f'<dt>{escape(k)}</dt><dd>{escape(v)}</dd>' for k, v in entries if v)}</dl>"


def _manifest(folder: Path) -> dict[str, Any]:
    try:
        return read_manifest(folder / "manifest.json")
    except OSError as error:
        raise DataError(f"{folder / 'manifest.json'} is not a grid's manifest: {error!r}") from error
