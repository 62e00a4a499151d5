"""The page ``docs/promised.md``: what the papers' systems do, line by line, where it is here, and what tests it.

python website/promised.py  writes it from website/promised.toml
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "promised.md"
ROWS = Path(__file__).with_suffix(".toml")
STATES = ("works", "otherwise", "partly", "missing")

PAPERS = {
    "elevater": (
        "ELEVATER",
        (
            "*ELEVATER: A Benchmark and Toolkit for Evaluating Language-Augmented Visual Models*, Li et al., NeurIPS "
            "2022 (data sets and benchmarks), with its supplement; [arXiv 2204.08790](https://arxiv.org/abs/2204.08790)."
        ),
    ),
    "oven": (
        "OVEN",
        (
            "*Open-domain Visual Entity Recognition: Towards Recognizing Millions of Wikipedia Entities*, Hu et al., "
            "ICCV 2023; [arXiv 2302.11154](https://arxiv.org/abs/2302.11154)."
        ),
    ),
    "gate": (
        "EEVEE and GATE",
        (
            "*EEVEE and GATE: Finding the right benchmarks and how to run them seamlessly*, anonymous authors; "
            "[OpenReview](https://openreview.net/forum?id=LDu822E45Q)."
        ),
    ),
    "eqben": (
        "EqSim and EqBen",
        (
            "*Equivariant Similarity for Vision-Language Foundation Models*, Wang et al., ICCV 2023; "
            "[arXiv 2303.14465](https://arxiv.org/abs/2303.14465)."
        ),
    ),
}
"""Heading and reference of each paper."""

_HEAD = """---
hide:
  - navigation
  - toc
---

# What the papers' systems do, and where it is

Find a feature of the ELEVATER, OVEN, EEVEE/GATE or EqSim/EqBen papers, its code, and the test that runs it.
A row works as the paper describes it, works otherwise for the reason given, works in part, or is missing.
The papers' own data and weights are not part of this repository.

This page is written by `python website/promised.py` from `website/promised.toml`.
"""


@cache
def rows() -> tuple[dict[str, Any], ...]:
    """Return the rows in the page's order: paper, number, item, place, here, state, reason, tests."""
    return tuple(tomllib.loads(ROWS.read_text(encoding="utf-8"))["row"])


def page() -> str:
    """Return the page's Markdown."""
    lines = [_HEAD, "| | " + " | ".join(STATES) + " |", "|---|" + "--:|" * len(STATES)]
    for paper, (title, _) in PAPERS.items():
        lines.append(f"| {title} | " + " | ".join(_counts(paper)) + " |")
    for paper, (title, reference) in PAPERS.items():
        lines += ["", f"## {title}", "", reference, ""]
        lines += ['<div class="papers-rows" markdown>', "", "| # | in the paper | here | state | test |"]
        lines += ["|--:|---|---|---|---|", *(_line(row) for row in rows() if row["paper"] == paper), "", "</div>"]
    return "\n".join(lines) + "\n"


def _counts(paper: str) -> Iterator[str]:
    counted = Counter(row["state"] for row in rows() if row["paper"] == paper)
    return (str(counted[state]) for state in STATES)


def _line(row: dict[str, Any]) -> str:
    split = (test.partition("::") for test in row["tests"])
    tests = "; ".join(f"[{name.removeprefix('test_').replace('_', ' ')}](../{path}#{name})" for path, _, name in split)
    item = f"{row['item']} ({row['place']})" if row["place"] else row["item"]
    cells = [item, row["here"], f"{row['state']}: {row['reason']}" if row["reason"] else row["state"]]
    return f"| {row['number']} | " + " | ".join(cell.replace("|", "\\|") for cell in cells) + f" | {tests} |"


@cache
def functions_of(path: Path) -> frozenset[str]:
    """Return the names of all functions that a file of Python defines."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def places_of(here: str) -> list[str]:
    """Return the dotted names of the project's packages that a cell holds."""
    packages = "|".join(path.name for path in ROOT.glob("packages/*/src/*") if path.is_dir())
    return re.findall(rf"`((?:{packages})(?:\.\w+)+)", here)


def is_there(name: str) -> bool:
    """Return whether a dotted name is a module, or is exported by the package that it begins with."""
    package, *parts = name.split(".")
    (source,) = ROOT.glob(f"packages/*/src/{package}")
    path = source.joinpath(*parts)
    if path.is_dir() or path.with_suffix(".py").is_file():
        return True
    stub, module = source / "__init__.pyi", source / "__init__.py"
    exported = (stub if stub.is_file() else module).read_text(encoding="utf-8")
    return len(parts) == 1 and re.search(rf"\b{parts[0]}\b", exported) is not None


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
