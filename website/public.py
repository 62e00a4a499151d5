"""The public names of all packages, read from their `__all__` without importing anything."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SKIPPED = {"__version__"}


@dataclass
class Module:
    """A module that has an `__all__`.

    Args:
        name: dotted.
        package: the folder under `packages/`.
        summary: first line of its docstring.
        names: public names, sorted.
        homes: of each name the module and name where it was imported from; itself where it is defined.
    """

    name: str
    package: str
    summary: str
    names: tuple[str, ...] = ()
    homes: dict[str, tuple[str, str]] = field(default_factory=dict)


def module_name(path: Path, source: Path) -> str:
    """Dotted name of a file below a source folder."""
    parts = path.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def public_modules() -> dict[str, Module]:
    """Every module that has an `__all__`, by name."""
    modules = {}
    for source in sorted(ROOT.glob("packages/*/src")):
        for path in sorted(source.rglob("*.py")):
            text, stub = path.read_text(encoding="utf-8"), path.with_suffix(".pyi")
            if "__all__" not in text and not stub.exists():
                continue
            tree, name = ast.parse(text), module_name(path, source)
            names, tree = _stub(stub, name, tree) if stub.exists() else (_listed(tree), tree)
            if names is not None:
                summary = (ast.get_docstring(tree) or "").split("\n\n")[0].replace("\n", " ")
                public = tuple(sorted(set(names) - SKIPPED))
                modules[name] = Module(name, source.parent.name, summary, public, _homes(tree, name, public))
    return modules


def _listed(tree: ast.Module) -> list[str] | None:
    """The value of `__all__`; a starred name in it stands for a dictionary's keys."""
    values = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    if "__all__" not in values:
        return None
    names: list[str] = []
    for item in getattr(values["__all__"], "elts", []):
        if isinstance(item, ast.Starred) and isinstance(item.value, ast.Name):
            names += [ast.literal_eval(key) for key in getattr(values[item.value.id], "keys", [])]
        else:
            names.append(ast.literal_eval(item))
    return names


def _stub(path: Path, module: str, tree: ast.Module) -> tuple[list[str] | None, ast.Module]:
    """What a package imports when it is asked for, by the stub beside it, and those imports in absolute form."""
    imports = [node for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.ImportFrom)]
    for node in imports:
        node.module, node.level = f"{module}.{node.module}", 0
    names = [alias.asname or alias.name for node in imports for alias in node.names]
    return names, ast.Module([*tree.body, *imports], [])


def _homes(tree: ast.Module, module: str, names: tuple[str, ...]) -> dict[str, tuple[str, str]]:
    homes = {name: (module, name) for name in names}
    for node in tree.body:  # a dictionary of names and the submodules that they are imported from when they are used
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "_HOMES":
            homes |= {name: (f"{module}.{home}", name) for name, home in ast.literal_eval(node.value).items()}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                if (alias.asname or alias.name) in homes:
                    homes[alias.asname or alias.name] = (node.module, alias.name)
    return homes


def canonical(module: str, name: str) -> tuple[str, str]:
    """Where a public name is defined, through all modules that pass it on."""
    modules = public_modules()
    objects = set()
    while (module, name) not in objects and module in modules and name in modules[module].homes:
        objects.add((module, name))
        module, name = modules[module].homes[name]
    return module, name


def documented_at() -> dict[tuple[str, str], str]:
    """Of each public (module, name) the dotted path at which the reference shows it: the shortest of its object."""
    best: dict[tuple[str, str], str] = {}
    every = [(module, name) for module, module_names in public_modules().items() for name in module_names.names]
    for module, name in sorted(every, key=lambda pair: (pair[0].count("."), pair)):
        best.setdefault(canonical(module, name), f"{module}.{name}")
    return {pair: best[canonical(*pair)] for pair in every}
