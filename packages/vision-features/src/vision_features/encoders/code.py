"""Digests of what an encoder's answers rest on beside its weights: its source files, or its folder's configuration."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import inspect
import linecache
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

_WEIGHTS = frozenset(
    {".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".onnx", ".gguf", ".npz", ".npy", ".md"}
)
"""Endings of a model's folder that the fingerprint covers, or that nothing is read from."""
_LARGEST = 64_000_000
"""Bytes of a tokenizer's or configuration's file, at most; what is larger is taken for weights."""

_DEFINITIONS: dict[tuple[str, str], tuple[list[str], str]] = {}
"""Lines of a file when it was last parsed and the definition among them, by the file and a class's name."""


def digest_of_module(name: str) -> str:
    """Digest the source of an imported module and of all modules that it imports from beside it.

    Of a module that is installed these are those in its folder. A module without a file has no digest.
    """
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None)
    if file is None or not file.endswith(".py"):
        return ""
    return _digest(_beside(name, Path(file)))


def digest_of_classes(model: Any) -> str:
    """Digest the definitions of the classes of a model and its parts, but for those of installed packages."""
    classes = {type(part) for part in (model.modules() if hasattr(model, "modules") else [model])}
    sources = set()
    for kind in {base for part in classes for base in part.__mro__}:
        file = getattr(sys.modules.get(kind.__module__), "__file__", None)
        if kind.__module__ != "builtins" and (file is None or not _is_installed(Path(file))):
            with contextlib.suppress(OSError, TypeError):  # written where nobody can read it
                sources.add(_definition(kind))
    return hashlib.sha256(repr(sorted(sources)).encode()).hexdigest()[:32] if sources else ""


def _definition(kind: type) -> str:
    """Return the source of a class, for which its file is parsed again only after a change."""
    file = inspect.getsourcefile(kind)
    if file is None:
        return inspect.getsource(kind)
    linecache.checkcache(file)
    lines, key = linecache.getlines(file), (file, kind.__qualname__)
    if key not in _DEFINITIONS or _DEFINITIONS[key][0] is not lines:
        _DEFINITIONS[key] = lines, inspect.getsource(kind)
    return _DEFINITIONS[key][1]


def digest_of_folder(folder: Path) -> str:
    """Digest the files of a model's folder that are not weights: configurations, tokenizer, vocabulary."""
    return _digest(
        file
        for file in folder.iterdir()
        if file.is_file() and file.suffix not in _WEIGHTS and file.stat().st_size <= _LARGEST
    )


def _digest(files: Iterable[Path]) -> str:
    whole = hashlib.sha256()
    for name, content in sorted((file.name, file.read_bytes()) for file in files):
        whole.update(f"{name} {len(content)} ".encode())
        whole.update(content)
    return whole.hexdigest()[:32]


def _beside(name: str, file: Path) -> set[Path]:
    """A module's file, and those that it imports, directly or not, from the folder that its name begins in."""
    packages = name.split(".")[: None if file.name == "__init__.py" else -1]
    root = file.resolve().parents[len(packages)]
    only = packages if _is_installed(file) else []
    files: set[Path] = set()
    waiting = [(file.resolve(), packages)]
    while waiting:
        path, package = waiting.pop()
        if path in files:
            continue
        files.add(path)
        for imported in _imports(path, package):
            if imported[: len(only)] == only:
                waiting += [(target, inside) for target, inside in _files_of(root, imported) if target not in files]
    return files


def _imports(path: Path, package: list[str]) -> Iterator[list[str]]:
    """The dotted names that a file may import, each as its parts."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = [*above, *(node.module.split(".") if node.module else [])]
            yield from ([*base, alias.name] for alias in node.names)
            if base:
                yield base


def _files_of(root: Path, imported: list[str]) -> Iterator[tuple[Path, list[str]]]:
    """The files below a folder that importing a name runs: of the packages on the way, and of the module."""
    for depth in range(1, len(imported) + 1):
        place = root.joinpath(*imported[:depth])
        if (place / "__init__.py").is_file():
            yield place / "__init__.py", imported[:depth]
        elif place.with_suffix(".py").is_file():
            yield place.with_suffix(".py"), imported[: depth - 1]


def _is_installed(file: Path) -> bool:
    return any(file.is_relative_to(place) for place in _installed())


@cache
def _installed() -> tuple[str, ...]:
    """Return the folders of Python, of installed packages and of this one."""
    paths = sysconfig.get_paths()
    return (*(paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")), str(Path(__file__).parents[1]))
