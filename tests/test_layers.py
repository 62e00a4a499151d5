"""The runner's folders in layers: nothing points up, in strings and inside functions neither."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

RUNNER = Path(__file__).parents[1] / "packages" / "gate-runner" / "src" / "gate_runner"
LAYERS = (
    {"__init__", "cli"},
    {"commands"},
    {"api"},
    {"trackers", "exporting", "importing"},
    {"reports"},
    {"choosing"},
    {"comparison"},
    {"monitoring"},
    {"planning"},
    {"executors"},
    {"adapting", "finetuning"},
    {"runs"},
    {"benchmarks"},
    {"tasks", "detection"},
    {"benchmark"},
    {"suites", "shifts"},
    {"stand_ins"},
    {"plugins"},
    {"settings"},
    {"files", "machine", "terminal", "charts"},
    {"errors"},
    {"__about__"},
)
"""From the top; a folder may use those below it and beside it."""
DOTTED = re.compile(r"gate_runner\.([a-z_]+)[\w.]*(?::\w+)?")


def uses(source: str) -> set[str]:
    """Folders and modules of the runner that a source text names: imports anywhere, and ``"module:name"`` strings."""
    named: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module:
            modules = [node.module]
            if node.module == "gate_runner":
                modules = [f"gate_runner.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            modules = [node.value]
        else:
            continue
        named |= {match[1] for module in modules if (match := DOTTED.fullmatch(module))}
    return named


def upwards(folder: Path) -> dict[tuple[str, str], list[str]]:
    """Edges that point up, and the files that have them."""
    level = {name: number for number, names in enumerate(LAYERS) for name in names}
    edges: dict[tuple[str, str], list[str]] = {}
    for path in sorted(folder.rglob("*.py")):
        inside = path.relative_to(folder)
        own = inside.parts[0].removesuffix(".py")
        for other in uses(path.read_text(encoding="utf-8")):
            if other in level and level[own] > level[other]:
                edges.setdefault((own, other), []).append(str(inside))
    return edges


def test_every_folder_has_a_layer() -> None:
    folders = {path.stem for path in RUNNER.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    assert folders == set().union(*LAYERS)


def test_nothing_points_up() -> None:
    assert upwards(RUNNER) == {}


@pytest.mark.parametrize(
    "line",
    [
        "from gate_runner.reports import page",
        "def late():\n    import gate_runner.reports.page",
        'WHERE = "gate_runner.reports.page:build_page"',
    ],
)
def test_an_edge_that_points_up_is_seen(line: str, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "part.py").write_text(line)
    assert upwards(tmp_path) == {("runs", "reports"): ["runs/part.py"]}
