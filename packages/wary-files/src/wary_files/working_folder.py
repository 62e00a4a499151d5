"""Import a module that the user names, without opening the working folder to anything else."""

from __future__ import annotations

import importlib
import os
import sys
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any


def import_named(name: str) -> ModuleType:
    """Import a module by its dotted name: an installed one, else one of the working folder.

    ``sys.path`` stays as it is, so plug-ins and optional libraries never come from the working folder. Modules that
    were found there may import one another, at once or later, while they run.

    Args:
        name: a dotted name, such as ``lab.models``.

    Raises:
        ImportError: there is no such module, or it cannot import something.

    Example:
        >>> import_named("json").__name__
        'json'
    """
    folder = os.getcwd()  # noqa: PTH109 - text, as the import system has it
    finder = _finders.setdefault(folder, _Folder(folder))
    if finder not in sys.meta_path:
        sys.meta_path.append(finder)  # last: a file that is called like a library must not take its place
    importlib.invalidate_caches()
    finder.wanted = name.partition(".")[0]
    try:
        return importlib.import_module(name)
    finally:
        finder.wanted = ""


class _Folder:
    """Finds modules in one folder for the user, and for modules that it has found before."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.wanted = ""
        self.own: set[str] = set()

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Return where a top-level module lies, or None if something else asks."""
        if path is not None or not (name == self.wanted or _importer() in self.own):
            return None  # packages know where their modules lie
        spec = PathFinder.find_spec(name, [self.folder], target)
        if spec is not None:
            self.own.add(name)
        return spec


_finders: dict[str, _Folder] = {}


def _importer() -> str:
    """The top-level name of the module whose code is importing."""
    frame: Any = sys._getframe(2)
    while frame is not None:
        first = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if first not in ("importlib", "_frozen_importlib", "_frozen_importlib_external"):
            return first
        frame = frame.f_back
    return ""
