"""A test that asserts in a loop over files says first that there are files: over none, it would pass of itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LISTINGS = ("glob", "rglob", "iterdir")


def _lists_files(expression: ast.AST) -> bool:
    calls = (node for node in ast.walk(expression) if isinstance(node, ast.Call))
    return any(isinstance(call.func, ast.Attribute) and call.func.attr in LISTINGS for call in calls)


def _asserts(node: ast.AST) -> bool:
    return any(isinstance(inner, ast.Assert) for inner in ast.walk(node))


def _names(node: ast.AST) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def vacuous(source: str) -> Iterator[int]:
    """Lines that assert over each of a folder's files, of which there may be none.

    A count is an assertion, or an unpacking, of the listing's name before the loop.
    """
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef) or not function.name.startswith("test_"):
            continue
        listed: set[str] = set()
        counted: set[str] = set()
        for node in sorted(_statements(function), key=lambda node: (node.lineno, node.col_offset)):
            if isinstance(node, ast.Assign) and _lists_files(node.value) and _is_listing(node.value):
                listed |= {target.id for target in node.targets if isinstance(target, ast.Name)}
            elif isinstance(node, ast.For) and _asserts(node):
                unsure = {name for name in _names(node.iter) & listed if name not in counted}
                if _lists_files(node.iter) or unsure:
                    yield node.lineno
            elif isinstance(node, ast.Assert):
                if _holds_for_all_files(node.test, listed - counted):
                    yield node.lineno
                counted |= _names(node.test)


def _statements(function: ast.FunctionDef) -> list[ast.stmt]:
    return [node for node in ast.walk(function) if isinstance(node, ast.stmt) and node is not function]


def _is_listing(value: ast.expr) -> bool:
    """Whether a value is the listing itself, sorted or as a list, and not something that is made of it."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in ("sorted", "list"):
        return _is_listing(value.args[0])
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in LISTINGS


def _holds_for_all_files(test: ast.expr, uncounted: set[str]) -> bool:
    """Whether an assertion is ``all(... for file in files)``."""
    if not (isinstance(test, ast.Call) and isinstance(test.func, ast.Name) and test.func.id == "all"):
        return False
    loops = [loop for node in ast.walk(test) if isinstance(node, ast.GeneratorExp) for loop in node.generators]
    return any(_lists_files(loop.iter) or bool(_names(loop.iter) & uncounted) for loop in loops)


def test_no_assertion_is_over_files_that_may_not_be_there() -> None:
    files = [path for pattern in ("packages/*/tests/**/*.py", "tests/*.py") for path in ROOT.glob(pattern)]
    assert len(files) > 200
    sources = {path: path.read_text(encoding="utf-8") for path in files}
    listing = [path for path, source in sources.items() if any(f".{name}(" in source for name in LISTINGS)]
    empty = [f"{path.relative_to(ROOT)}:{line}" for path in listing for line in vacuous(sources[path])]
    assert not empty, "assert first that there are files:\n" + "\n".join(empty)


@pytest.mark.parametrize(
    ("lines", "refused"),
    [
        ("for path in folder.glob('*.json'):\n  assert path.stat().st_size", True),
        ("for path in sorted(folder.iterdir()):\n  assert path.is_file()", True),
        ("paths = sorted(folder.rglob('*'))\n for path in paths:\n  assert path.is_file()", True),
        ("assert all(path.is_file() for path in folder.glob('*'))", True),
        (
            "paths = list(folder.glob('*'))\n assert len(paths) == 3\n for path in paths:\n  assert path.is_file()",
            False,
        ),
        ("paths = list(folder.glob('*'))\n assert all(path.is_file() for path in paths)", True),
        ("(path,) = folder.glob('*')\n assert path.is_file()", False),
        ("for path in folder.glob('*.json'):\n  path.unlink()", False),
        ("names = [path.name for path in folder.glob('*')]\n assert names == ['a']", False),
    ],
)
def test_what_is_refused(lines: str, refused: bool) -> None:
    assert bool(list(vacuous(f"def test_it(folder):\n {lines}\n"))) is refused
