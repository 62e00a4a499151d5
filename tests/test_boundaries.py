"""Who may import whom, proved in a subprocess; and that the proof can fail."""

from __future__ import annotations

import ast
import atexit
import contextlib
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from functools import cache
from graphlib import TopologicalSorter
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
IMPORT_NAMES = {
    "wary-files": "wary_files",
    "paired-scores": "paired_scores",
    "eqsim": "eqsim",
    "knowledge-prompts": "knowledge_prompts",
    "adapters": "vision_adapters",
    "eqben-builder": "eqben_builder",
    "oven-retrieval": "oven_retrieval",
    "eevee": "eevee",
    "gate-data": "gate_data",
    "vision-features": "vision_features",
    "gate-runner": "gate_runner",
}
ARROWS: dict[str, set[str]] = {
    "wary-files": set(),
    "paired-scores": set(),
    "eqsim": set(),
    "knowledge-prompts": {"wary-files"},
    "adapters": {"paired-scores", "wary-files"},
    "eqben-builder": {"paired-scores", "wary-files"},
    "oven-retrieval": {"paired-scores", "wary-files"},
    "eevee": {"wary-files"},
    "gate-data": {"wary-files"},
    "vision-features": {"adapters", "gate-data", "knowledge-prompts", "paired-scores", "wary-files"},
}
"""Which of ours a library imports and requires: `docs/architecture.md` draws them. `gate-runner` requires all."""
LIBRARIES = {folder: name for folder, name in IMPORT_NAMES.items() if folder != "gate-runner"}
HEAVY = {
    "accelerate", "av", "bpy", "cv2", "datasets", "diffusers", "httpx", "lightning", "matplotlib", "mitsuba", "nibabel",
    "nltk", "numba", "oidn", "pandas", "peft", "pyarrow", "rapidfuzz",
    "sentence_transformers", "submitit", "tensorboard", "transformers", "wandb", "webdataset",
}  # fmt: skip
"""Extras: imported where they are used, never by importing a package."""
IF_INSTALLED = {
    "eqsim": {"jaxtyping"},  # for types alone
    "paired-scores": {"jaxtyping"},
    "knowledge-prompts": {"jaxtyping", "open_clip", "torch"},  # for types alone; an encoder by its name, its tensors
    "vision-features": {"pyarrow"},  # a table in Parquet
    "gate-runner": {"lightning", "umap"},  # a callback, a map of features
}
"""What a package takes where a user has it, and names where it is missing."""


def modules_of(folder: str) -> list[str]:
    """Every module of a package, by name; the scripts that run when imported are not among them."""
    source = ROOT / "packages" / folder / "src"
    names = []
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        if parts[-1] != "__main__":
            names.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return names


def loaded_by(modules: list[str], *, path: list[str] | None = None) -> set[str]:
    """Top-level names in ``sys.modules`` after importing modules in a fresh interpreter."""
    return set(_names_after(tuple(modules), tuple(path or ())))


@cache
def _names_after(modules: tuple[str, ...], path: tuple[str, ...]) -> frozenset[str]:
    return _answered(_interpreter(with_torch=False), modules, path)


def loaded_after_torch(modules: list[str]) -> set[str]:
    """Return the same where torch, whose import takes longest, is loaded before: of libraries that name it."""
    return set(_answered(_interpreter(with_torch=True), tuple(modules), ()))


_IMPORTING = """
import importlib, json, os, sys
importlib.invalidate_caches()
if sys.argv[1] == "torch": import torch
for line in sys.stdin:
    if os.fork():
        if os.wait()[1]: print("null", flush=True)
        continue
    modules, path = json.loads(line)
    sys.path[:0] = path
    for name in modules: importlib.import_module(name)
    print(json.dumps(sorted({name.split(".")[0] for name in sys.modules})), flush=True)
    os._exit(0)
"""
"""An interpreter that imports nothing itself: for each line it forks, and the copy imports."""


@cache
def _interpreter(*, with_torch: bool) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "ignore", "-c", _IMPORTING, "torch" if with_torch else ""]
    started = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(started.communicate)  # the end of its input ends it
    return started


def _answered(interpreter: subprocess.Popen[str], modules: tuple[str, ...], path: tuple[str, ...]) -> frozenset[str]:
    assert interpreter.stdin is not None
    assert interpreter.stdout is not None
    print(json.dumps([modules, path]), file=interpreter.stdin, flush=True)
    names = None
    for line in iter(interpreter.stdout.readline, ""):
        if line.startswith(("[", "null")):  # a module may print, too
            names = json.loads(line)
            break
    assert names is not None, f"importing {modules} failed: the error is above"
    return frozenset(names)


@cache
def imported_names(folder: str) -> set[str]:
    """Top-level names in every import statement of a package, also inside functions and under TYPE_CHECKING."""
    names: set[str] = set()
    for path in (ROOT / "packages" / folder / "src").rglob("*.py"):
        names |= names_in(path.read_text())
    return names


def names_in(source: str) -> set[str]:
    """Top-level names that a source text imports, absolutely."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.split(".")[0])
    return names


def needed_to_collect(source: str) -> tuple[set[str], list[str]]:
    """Top-level names that a test module imports as it is read, and those that it skips itself without."""
    names: set[str] = set()
    skipped: list[str] = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= names_in(ast.unparse(node)) - set(skipped)
        elif isinstance(node, ast.Expr | ast.Assign):
            skipped += re.findall(r"importorskip\('(\w+)", ast.unparse(node))
    return names, skipped


def project_of(folder: str) -> dict[str, Any]:
    """The [project] table of a package."""
    return tomllib.loads((ROOT / "packages" / folder / "pyproject.toml").read_text())["project"]  # type: ignore[no-any-return]


def declared(folder: str) -> dict[str, list[str]]:
    """The dependencies of a package: required, and by extra."""
    project = project_of(folder)
    return {"": project["dependencies"], **project.get("optional-dependencies", {})}


def undeclared(imports: set[str], requirements: dict[str, list[str]]) -> set[str]:
    """Imports of third parties that come with no required dependency and with no extra."""
    distributions = _distributions()
    brought = brought_by({distribution_name(requirement) for group in requirements.values() for requirement in group})
    return {
        name
        for name in imports - set(sys.stdlib_module_names)
        if not brought & {distribution_name(distribution) for distribution in distributions.get(name, [name])}
    }


@cache
def _distributions() -> Mapping[str, list[str]]:
    """The distributions of each top-level name; they are read from disk, a second each time."""
    return packages_distributions()


@cache
def _required_by(name: str) -> frozenset[str]:
    """What an installed distribution requires without an extra; nothing where it is not installed."""
    with contextlib.suppress(PackageNotFoundError):
        return frozenset(distribution_name(text) for text in requires(name) or [] if "extra ==" not in text)
    return frozenset()


def brought_by(names: set[str]) -> set[str]:
    """Distributions and all that they require without an extra, as far as they are installed."""
    closure: set[str] = set()
    while names:
        closure |= names
        names = {required for name in names for required in _required_by(name)} - closure
    return closure


def below(folder: str) -> set[str]:
    """All libraries that a library's arrows lead to, at once or through another."""
    reached = set(ARROWS[folder])
    return reached.union(*(below(name) for name in reached))


def distribution_name(requirement: str) -> str:
    """The normalised name in a requirement."""
    return re.sub(r"[-_.]+", "-", re.split(r"[\s\[<>=!~;@(]", requirement)[0]).lower()


def test_arrows_point_downwards() -> None:
    assert ARROWS.keys() == LIBRARIES.keys()
    order = list(TopologicalSorter(ARROWS).static_order())  # raises for a circle
    assert "gate-runner" not in order


@pytest.mark.parametrize("folder", LIBRARIES)
def test_a_library_imports_those_of_its_arrows_and_no_other(folder: str) -> None:
    others = set(IMPORT_NAMES.values()) - {IMPORT_NAMES[folder]}
    assert imported_names(folder) & others == {IMPORT_NAMES[below] for below in ARROWS[folder]}


@pytest.mark.parametrize("folder", IMPORT_NAMES)
def test_what_a_package_imports_is_declared(folder: str) -> None:
    imports = imported_names(folder) - set(IMPORT_NAMES.values()) - IF_INSTALLED.get(folder, set())
    assert undeclared(imports, declared(folder)) == set()


@pytest.mark.parametrize("folder", LIBRARIES)
def test_tests_of_a_library_are_read_where_it_is_installed_alone(folder: str) -> None:
    ours = {IMPORT_NAMES[folder], *(IMPORT_NAMES[name] for name in below(folder))}
    paths = sorted((ROOT / "packages" / folder / "tests").rglob("*.py"))
    assert paths
    for path in paths:
        names, skipped = needed_to_collect(path.read_text())
        present = {"": [*declared(folder)[""], "pytest", "hypothesis", *skipped]}
        for name in ARROWS[folder]:
            present[name] = declared(name)[""]
        assert undeclared(names - ours, present) == set(), path.name


@pytest.mark.parametrize("folder", LIBRARIES)
def test_importing_all_of_a_library_loads_no_other_and_no_extra(folder: str) -> None:
    # What a required dependency of the package drags in is not the package's own doing.
    named = {distribution_name(requirement) for group in declared(folder).values() for requirement in group}
    loaded = loaded_after_torch if "torch" in named else loaded_by
    own = loaded(modules_of(folder))
    innocent = {"numba"} if folder == "oven-retrieval" else set()  # `names.compiled` is for it
    required = {
        "eqsim": ["torch"],
        "adapters": ["torch", "sklearn"],
        "eevee": ["deap"],
        "oven-retrieval": ["rapidfuzz"],
        "vision-features": ["open_clip", "timm"],
    }.get(folder, [])
    others = set(IMPORT_NAMES.values()) - {IMPORT_NAMES[folder], *(IMPORT_NAMES[name] for name in below(folder))}
    assert not own & others
    heavy = (own & HEAVY) - innocent
    assert not heavy or not heavy - loaded(required)


def test_eqsim_needs_torch_alone() -> None:
    assert [name.split(">")[0] for name in declared("eqsim")[""]] == ["torch"]
    modules = [name for name in modules_of("eqsim") if "triton" not in name]
    third_party = loaded_after_torch(modules) - loaded_after_torch([]) - set(sys.stdlib_module_names) - {"eqsim"}
    assert third_party == set()


@pytest.mark.parametrize("folder", ["eqsim", "paired-scores", "knowledge-prompts"])
def test_what_a_package_takes_if_installed_is_not_loaded_with_it(folder: str) -> None:
    assert not loaded_by(modules_of(folder)) & (IF_INSTALLED[folder] - loaded_after_torch([]))


def test_a_package_requires_those_of_its_arrows() -> None:
    distributions = {folder: project_of(folder)["name"] for folder in IMPORT_NAMES}
    for folder in LIBRARIES:
        for extra, requirements in declared(folder).items():
            named = {re.split(r"[\s\[<>=!~;@]", requirement)[0] for requirement in requirements}
            ours = named & (set(distributions.values()) - {distributions[folder]})
            assert ours == (set() if extra else {distributions[below] for below in ARROWS[folder]}), (folder, extra)
    runner = declared("gate-runner")[""]
    for folder in LIBRARIES:
        named = re.compile(rf"{distributions[folder]}(\[[^]]*\])?>")
        (requirement,) = [requirement for requirement in runner if named.match(requirement)]
        assert "@" not in requirement


def test_the_command_line_module_loads_no_library() -> None:
    loaded = loaded_by(["gate_runner.cli"])
    libraries = set(LIBRARIES.values()) - {"gate_data", "vision_features", "wary_files"}  # cards, names and errors
    assert not loaded & ({"torch", "numpy"} | libraries | HEAVY)
    code = "import sys, gate_runner.cli; print(*(name for name in sys.modules if name.startswith('vision_features.')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True)
    names = {"encoders", "encoders.devices", "errors", "readouts"}
    assert set(done.stdout.split()) <= {f"vision_features.{name}" for name in names}


class TestTheTests:
    """A boundary test that cannot fail protects nothing."""

    def test_an_import_inside_a_function_is_seen(self) -> None:
        assert names_in("def f():\n    from eevee.table import Table\n") == {"eevee"}
        assert names_in("if TYPE_CHECKING:\n    import eqsim.functional as F\n") == {"eqsim"}
        assert names_in("from . import table\n") == set()

    def test_a_module_that_imports_a_sibling_is_seen(self, tmp_path: Path) -> None:
        package = tmp_path / "intruder"
        package.mkdir()
        (package / "__init__.py").write_text("")
        (package / "inner.py").write_text("import knowledge_prompts\n")
        assert "knowledge_prompts" not in loaded_by(["intruder"], path=[str(tmp_path)])
        assert "knowledge_prompts" in loaded_by(["intruder", "intruder.inner"], path=[str(tmp_path)])

    def test_an_import_that_is_not_declared_is_seen(self) -> None:
        assert undeclared({"os", "yaml", "PIL"}, {"": ["Pillow>=11"]}) == {"yaml"}
        assert undeclared({"yaml", "PIL"}, {"": ["Pillow>=11"], "yaml": ["PyYAML"]}) == set()

    def test_an_import_of_a_test_module_is_seen(self) -> None:
        source = "import numpy\n{}import pandas\ndef test_it():\n    import torch\n"
        assert needed_to_collect(source.format("")) == ({"numpy", "pandas"}, [])
        skipping = "pytest.importorskip('pandas')\n"
        assert needed_to_collect(source.format(skipping)) == ({"numpy"}, ["pandas"])

    def test_every_module_is_looked_at(self) -> None:
        assert "gate_runner.executors.run" in modules_of("gate-runner")
        assert "eqsim" in modules_of("eqsim")
