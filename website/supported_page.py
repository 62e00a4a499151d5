"""The page of what is supported: python -m website.supported_page writes docs/supported.md from `gate-runner ls`."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from website.public import ROOT

PAGE = ROOT / "docs" / "supported.md"

HEAD = """---
description: Data sets, suites, task types, metrics, encoders and settings that gate-runner knows, as it lists them.
---

# Supported data sets, metrics, encoders and settings

You can look up here what `gate-runner` knows. `python -m website.supported_page` writes this page from
`gate-runner ls`. Names from plug-ins are listed on the machine that has them.
"""

LISTS = (
    (
        "encoders",
        "Encoders",
        "A spec string names an encoder. [Adding an encoder](adding/encoder.md) shows how yours is named.",
    ),
    ("tasks", "Task types", "[Which metric when](which-metric.md) compares the metrics."),
    ("metrics", "Metrics", "Each is in [`paired-scores`](packages/paired-scores.md), unless its task computes it."),
    ("packs", "Packs", "A pack is a list of benchmarks with one name."),
    (
        "benchmarks",
        "Benchmarks",
        "`local` reads a data set's own files, `micro` draws a synthetic stand-in, `hub` reads a copy.",
    ),
    ("settings", "Settings", "A setting without an option of its own is passed as `--setting NAME=VALUE`."),
)
"""Name of the list for ``gate-runner ls``, heading, and a sentence above it."""


def rows_of(name: str) -> list[dict[str, str]]:
    """Return what ``gate-runner ls NAME --json`` prints, without plug-ins."""
    from gate_runner.cli import main

    printed = io.StringIO()
    arguments = mock.patch.object(sys, "argv", ["gate-runner", "ls", name, "--json"])
    with arguments, contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        main()
    rows: list[dict[str, str]] = json.loads(printed.getvalue())
    return rows


def table(rows: list[dict[str, str]]) -> str:
    r"""Return rows as a Markdown table, its first column as code; a bar in a cell is escaped.

    Example:
        >>> print(table([{"a": "1|2", "b": "x"}]))
        | a | b |
        |---|---|
        | `1\|2` | x |
    """
    names = list(rows[0])
    cells = [[str(row[name]).replace("|", r"\|") for name in names] for row in rows]
    lines = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    return "\n".join([*lines, *(f"| `{first}` | {' | '.join(rest)} |" for first, *rest in cells)])


def suites() -> list[dict[str, str]]:
    """Return the suites of minimal pairs, with their questions."""
    from eqben_builder.suites import SUITES

    return [
        {"suite": name, "subsets": " ".join(suite.counts), "questions": f"{sum(suite.counts.values()):,}"}
        for name, suite in SUITES.items()
    ]


def page() -> str:
    """Return the page's Markdown."""
    parts = [HEAD]
    for name, heading, text in LISTS:
        parts.append(f"\n## {heading}\n\n{text}\n\n{table(rows_of(name))}\n")
        if name == "packs":
            text = "`gate-runner run compositional` and `eqben score` [read them](packages/eqben-builder.md#suites)."
            parts.append(f"\n## Compositional suites\n\n{text}\n\n{table(suites())}\n")
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
