"""No module of a package needs another that needs it, wherever the import stands."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGES = Path(__file__).parents[1] / "packages"


ONE_OBJECT = {"oven_retrieval.kb": {"oven_retrieval.building", "oven_retrieval.names"}}
"""``KnowledgeBase.from_names(names).link(text)`` is one object; methods import what builds on it, when called."""


def imports(source: Path) -> dict[str, set[str]]:
    """The modules below a folder, and which of each other they import: also in functions, and for types alone."""
    files = {}
    for path in source.rglob("*.py"):
        parts = path.relative_to(source).with_suffix("").parts
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    collected: dict[str, set[str]] = {}
    for name, path in files.items():
        named: set[str] = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                named |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                inside = {f"{node.module}.{alias.name}" for alias in node.names}
                named |= inside & files.keys() or {node.module}
        collected[name] = (named & files.keys()) - {name} - ONE_OBJECT.get(name, set())
    return collected


def circle(source: Path) -> list[str]:
    """The modules of one circle of imports, or none."""
    try:
        TopologicalSorter(imports(source)).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


@pytest.mark.parametrize("folder", sorted(path.parent.name for path in PACKAGES.glob("*/src")))
def test_no_circle_of_imports(folder: str) -> None:
    assert not circle(PACKAGES / folder / "src")


def test_a_circle_is_seen(tmp_path: Path) -> None:
    package = tmp_path / "thing"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "one.py").write_text("from thing import two\n")
    (package / "two.py").write_text("def late():\n    from thing.one import name\n")
    assert set(circle(tmp_path)) == {"thing.one", "thing.two"}
    (package / "two.py").write_text("import os\n")
    assert not circle(tmp_path)
