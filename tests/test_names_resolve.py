"""A name that is written down exists: exports, ``module:function`` strings, and what pages and docstrings name."""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from website.public import public_modules  # noqa: E402

PACKAGES = sorted(path.parent.name for path in ROOT.glob("packages/*/src/*/__about__.py"))
OURS = "|".join(PACKAGES)
STRING = re.compile(rf"((?:{OURS})(?:\.\w+)+):([A-Za-z]\w*)")
QUOTED = re.compile(rf"`~?((?:{OURS})(?:\.[A-Za-z_]\w*)+)(?=[(`:])")
IMPORTED = re.compile(rf"^(?:>>> |\.\.\. )?\s*from ((?:{OURS})[\w.]*) import (?:\(([^)]*)\)|([^\n(]+))$", re.MULTILINE)
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "packages/*/*.md")
    for path in ROOT.glob(pattern)
    if path.name != "CHANGELOG.md"  # it names what is gone
)
CODE = sorted(
    path
    for pattern in ("packages/*/src/**/*.py", "packages/*/benchmarks/*.py", "experiments/**/*.py", "website/*.py")
    for path in ROOT.glob(pattern)
)


@cache
def missing(dotted: str) -> str:
    """What of a dotted name is not there: the module, or the first name that it lacks; empty if all is."""
    parts = dotted.split(".")
    for count in range(len(parts), 0, -1):
        module = ".".join(parts[:count])
        try:
            value = importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{module}.".startswith(f"{error.name}."):
                raise
            continue
        for name in parts[count:]:
            if name in getattr(value, "__dataclass_fields__", ()):
                return ""
            if not hasattr(value, name):
                return f"{module} has no {name}"
            value = getattr(value, name)
        return ""
    return f"no module {parts[0]}"


def dotted_names(page: str) -> Iterator[str]:
    """Names that a text quotes, and those that its code imports."""
    for match in QUOTED.finditer(page):
        yield match[1]
    for block in re.findall(r"```(?:python|py|pycon)\n(.*?)```", page, re.DOTALL):
        for match in IMPORTED.finditer(block):
            for name in (match[2] or match[3]).split("#")[0].split(","):
                if name.strip():
                    yield f"{match[1]}.{name.strip().split(' as ')[0]}"


def strings(source: str) -> Iterator[str]:
    """The ``module:name`` strings of a source, dotted; the beginning of a formatted one is none."""
    tree = ast.parse(source)
    formatted = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in formatted:
            match = STRING.fullmatch(node.value)
            if match:
                yield f"{match[1]}.{match[2]}"


def imports(source: str) -> Iterator[str]:
    """Names of ours that a source imports from modules, dotted, wherever it does."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").split(".")[0] in PACKAGES:
            yield from (f"{node.module}.{name.name}" for name in node.names)


def test_a_name_that_is_not_there_is_found() -> None:
    assert missing("gate_runner.tasks.job.Job.timed") == missing("paired_scores") == ""
    assert missing("gate_runner.tasks.job.Jub") == "gate_runner.tasks.job has no Jub"
    assert missing("gate_runner.no_folder.Job") == "gate_runner has no no_folder"
    assert list(strings("a = 'gate_runner.x:y'\nb = f'gate_runner.x:{a}'\nc = 'eqsim:v1'\n")) == ["gate_runner.x.y"]
    page = "Call `eqsim.f(x)` or `eevee.g.H`.\n```python\nfrom eqsim import (\n    a,\n    b as c,\n)\n```\n"
    assert list(imports("def f():\n    from eqsim.a import b as c\nfrom numpy import array\n")) == ["eqsim.a.b"]
    assert list(dotted_names(page)) == ["eqsim.f", "eevee.g.H", "eqsim.a", "eqsim.b"]


@pytest.mark.parametrize("package", PACKAGES)
def test_exports_are_there(package: str) -> None:
    modules = {name: module for name, module in public_modules().items() if name.split(".")[0] == package}
    assert modules
    for name, module in modules.items():
        for public_name in module.names:
            home, own_name = module.homes.get(public_name, (name, public_name))
            exported = getattr(importlib.import_module(name), public_name)
            assert exported is getattr(importlib.import_module(home), own_name), f"{name}.{public_name}"


def test_what_strings_name_is_there() -> None:
    sources = {path: path.read_text("utf-8") for path in CODE}
    named = [(path, dotted) for path, source in sources.items() if STRING.search(source) for dotted in strings(source)]
    assert len(named) > 50
    assert [f"{path.relative_to(ROOT)}: {lack}" for path, dotted in named if (lack := missing(dotted))] == []


def test_what_pages_and_docstrings_name_is_there() -> None:
    named = [(path, dotted) for path in [*PAGES, *CODE] for dotted in dotted_names(path.read_text("utf-8"))]
    assert len(named) > 500
    assert [f"{path.relative_to(ROOT)}: {lack}" for path, dotted in named if (lack := missing(dotted))] == []


def test_what_scripts_import_is_there() -> None:
    """A module that moves leaves scripts behind that import it, and that no test runs."""
    scripts = [path for path in CODE if "src" not in path.relative_to(ROOT).parts]
    named = [(path, dotted) for path in scripts for dotted in imports(path.read_text("utf-8"))]
    assert len(named) > 300
    assert [f"{path.relative_to(ROOT)}: {lack}" for path, dotted in named if (lack := missing(dotted))] == []
