"""A name says what it holds: no variable, parameter or loop is called by a word for anything."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = (
    "packages/*/src/**/*.py",
    "packages/*/tests/**/*.py",
    "packages/*/benchmarks/*.py",
    "experiments/**/*.py",
    "website/*.py",
    "tests/*.py",
)
EMPTY = {"one", "ones", "found", "said", "told", "asked", "kept", "there"}
"""Words that say of a value only that there is one."""
SAID_BY_USERS = {
    "eevee/answers/scoring.py: asked",
    "eevee/answers/selecting.py: asked",
    "eevee/searching/search.py: asked",
    "eqben_builder/building/folder.py: kept",
    "eqben_builder/building/verification.py: found",
    "eqben_builder/pages/review.py: kept",
    "oven_retrieval/evidence.py: found",
    "oven_retrieval/generation/answers.py: asked",
    "oven_retrieval/refusal.py: there",
    "oven_retrieval/vectors/exact.py: found",
    "oven_retrieval/ranking.py: found",
    "vision_adapters/detection/matching.py: found",
    "vision_adapters/training/outcome.py: kept",
    "vision_adapters/training/wise_ft.py: kept",
}
"""Keywords and fields of the last release, or of a result's JSON."""


def bound_names(source: str) -> Iterator[tuple[int, str]]:
    """Line and name of all that a module assigns, loops over or takes."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg


def test_the_look_sees_every_way_to_bind_a_name() -> None:
    source = "def f(one, *, said=1):\n    found = [kept for kept in one]\n    with open(told) as ones:\n        pass\n"
    assert sorted(name for _, name in bound_names(source)) == ["found", "kept", "one", "ones", "said"]


@pytest.mark.parametrize("pattern", SOURCES)
def test_names_say_what_they_hold(pattern: str) -> None:
    poor = []
    for path in sorted(ROOT.glob(pattern)):
        where = re.sub(r"^packages/[^/]+/src/", "", path.relative_to(ROOT).as_posix())
        for line, name in bound_names(path.read_text(encoding="utf-8")):
            if name in EMPTY and f"{where}: {name}" not in SAID_BY_USERS:
                poor.append(f"{where}:{line}: {name}")
    assert not poor, "call these by what they hold:\n" + "\n".join(poor)
