"""Pages of measured results, from the JSON files that the benchmark scripts and experiments wrote."""

from __future__ import annotations

import json
from itertools import takewhile
from pathlib import Path
from typing import Any

from website.public import ROOT

AGES = ROOT / "website/result_ages.json"
"""By result file: digests of its script when it was written and of itself, and why it stays where both differ."""

OLDER = "older"
MOST_ROWS = 60
"""Of one table; the file itself is linked."""


def ages() -> dict[str, dict[str, str]]:
    """What `website.result_ages` entered of result files."""
    entries: dict[str, dict[str, str]] = json.loads(AGES.read_text(encoding="utf-8"))
    return entries


def results_of(folder: Path) -> list[Path]:
    """Result files of a folder of scripts."""
    return sorted((folder / "results").glob("*.json"))


def script_of(result: Path) -> Path:
    """The script that wrote a result: the one whose name shares the most words with it.

    Raises:
        FileNotFoundError: there is none; every result needs the script that makes it again.
    """
    words = result.name.split(".")[0].split("_")
    best: tuple[int, bool] = (0, False)
    nearest: Path | None = None
    for script in [*sorted(result.parents[1].glob("*.py")), *sorted(result.parents[1].glob("*/run.py"))]:
        name = script.parent.name if script.name == "run.py" else script.stem
        pairs = zip(words, name.split("_"), strict=False)
        shared = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
        rank = (shared, "json" in script.read_text(encoding="utf-8"))
        if shared and rank > best:
            best, nearest = rank, script
    if nearest is None:
        raise FileNotFoundError(f"no script beside {result.relative_to(ROOT)} makes it")
    return nearest


def result_folders() -> dict[str, Path]:
    """Name of a page to the folder of its scripts."""
    folders = {path.parents[0].name: path for path in sorted(ROOT.glob("packages/*/benchmarks")) if results_of(path)}
    return {**folders, "experiments": ROOT / "experiments", "website": ROOT / "website"}


def result_pages() -> dict[str, str]:
    """Path to Markdown, for each package, the experiments across packages, and the list of them."""
    pages, rows = {}, []
    for name, folder in result_folders().items():
        pages[f"results/{name}.md"] = _page(name, folder)
        makers = [script_of(path) for path in results_of(folder)]
        scripts = sorted({maker.parent.name if maker.name == "run.py" else maker.stem for maker in makers})
        rows.append(f"| [{name}]({name}.md) | {', '.join(f'`{script}`' for script in scripts)} |")
    pages["results/index.md"] = "\n".join(
        [
            "# Results",
            "",
            "Everything that was measured, as the scripts wrote it; these pages are made from the files. Each script",
            "checks correctness first and prints no speed where that fails.",
            "",
            "[Scores of encoders](encoders.md) on real sets, and two published tables, have a page of their own.",
            "",
            "| where | scripts |",
            "|---|---|",
            *rows,
            "",
        ]
    )
    return pages


def _page(name: str, folder: Path) -> str:
    lines, entries = [f"# Results: {name}", ""], ages()
    for path in results_of(folder):
        script, source = script_of(path).relative_to(ROOT), path.relative_to(ROOT)
        lines += [
            f"## {path.stem.replace('_', ' ')}",
            "",
            f"Made by [`{script}`](code:{script}); the file is [`{source}`](code:{source}).",
            "",
        ]
        if reason := entries.get(source.as_posix(), {}).get(OLDER):
            lines += [f"Older than its script: {reason}.", ""]
        beside = path.with_name(f"{path.name.split('.')[0]}.md")
        if beside.exists():
            lines += [beside.read_text(encoding="utf-8").strip(), ""]
        else:
            lines += tables(json.loads(path.read_text(encoding="utf-8")))
    return "\n".join(lines) + "\n"


def tables(values: Any) -> list[str]:
    """Any JSON as Markdown: single values in one table, each list of records in one of its own."""
    single, records = _flattened(values)
    lines = []
    if single:
        lines += ["| what | value |", "|---|---|", *(f"| {_cell(key)} | {_cell(value)} |" for key, value in single), ""]
    for title, rows in records:
        columns = list(dict.fromkeys(key for row in rows for key in row))
        if title:
            lines += [f"**{_cell(title)}**", ""]
        lines += ["| " + " | ".join(_cell(key) for key in columns) + " |", "|" + "---|" * len(columns)]
        lines += ["| " + " | ".join(_cell(row.get(key, "")) for key in columns) + " |" for row in rows[:MOST_ROWS]]
        lines += [""]
        if len(rows) > MOST_ROWS:
            lines += [f"The file has {len(rows) - MOST_ROWS} more rows.", ""]
    return lines


def _flattened(values: Any, prefix: str = "") -> tuple[list[tuple[str, Any]], list[tuple[str, list[dict[str, Any]]]]]:
    single: list[tuple[str, Any]] = []
    records: list[tuple[str, list[dict[str, Any]]]] = []
    if isinstance(values, list) and values and all(isinstance(row, dict) for row in values):
        return [], [(prefix, values)]
    if not isinstance(values, dict):
        return [(prefix, values)], []
    if len(values) > 1 and all(isinstance(row, dict) and row for row in values.values()):
        keys = [tuple(row) for row in values.values()]
        if len(set(keys)) == 1 and not any(isinstance(cell, dict) for row in values.values() for cell in row.values()):
            return [], [(prefix, [{"": name, **row} for name, row in values.items()])]
    for key, value in values.items():
        inner, more = _flattened(value, f"{prefix}: {key}" if prefix else str(key))
        single += inner
        records += more
    return single, records


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e5 else f"{value:,.0f}"
    if isinstance(value, int):
        return f"{value:,}" if abs(value) >= 1e5 else str(value)
    if isinstance(value, list):
        return ", ".join(_cell(item) for item in value)
    if isinstance(value, dict):
        return "; ".join(f"{_cell(key)}: {_cell(item)}" for key, item in value.items())
    return str(value).replace("|", "\\|").replace("_", " ").replace("<", "&lt;").replace("\n", " ")
