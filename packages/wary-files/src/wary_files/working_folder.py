"""Import a module that the user names, without opening the working folder to anything else."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from importlib.machinery import ModuleSpec, PathFinder
from operator import attrgetter
from types import MappingProxyType, ModuleType
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


def named(spec: str, kind: str, *, error: type[Exception] = ValueError) -> Any:
    """What ``MODULE:NAME`` names; a dotted name is followed.

    Args:
        spec: as the user gave it.
        kind: what it is of, for messages, such as ``encoder``.
        error: what is raised.

    Raises:
        Exception: ``error``, for another form, a module that cannot be imported, or a name that it lacks.

    Example:
        >>> named("math:sqrt", "function")(9)
        3.0
    """
    module_name, _, name = spec.partition(":")
    if not module_name or not name:
        raise error(f"{kind} {spec!r}: expected MODULE:FUNCTION")
    try:
        module = import_named(module_name)
    except Exception as problem:
        raise error(f"{kind} {spec!r}: cannot import {module_name!r}: {_why(module_name, problem)}") from problem
    try:
        return attrgetter(name)(module)
    except AttributeError:
        raise error(f"{kind} {spec!r}: module {module_name!r} has no {name!r}") from None


def made_by(spec: str, kind: str, *, error: type[Exception] = ValueError, device: str | None = None) -> Any:
    """What the function of ``MODULE:FUNCTION`` returns, called without arguments or with its ``device``.

    Args:
        spec: as the user gave it.
        kind: what is made, for messages.
        error: what is raised.
        device: given to a function that takes one by this name.

    Raises:
        Exception: ``error``, as of `named`; for a function that asks for more; or with what it raised itself.

    Example:
        >>> made_by("collections:OrderedDict", "table")
        OrderedDict()
    """
    make, name = named(spec, kind, error=error), spec.partition(":")[2]
    try:
        parameters = inspect.signature(make).parameters
    except (TypeError, ValueError):  # something built in
        parameters = MappingProxyType({})
    takes_device = any(key == "device" or rest.kind is rest.VAR_KEYWORD for key, rest in parameters.items())
    given = {"device": device} if device is not None and takes_device else {}
    required = [key for key, parameter in parameters.items() if _required(parameter) and key not in given]
    if required:
        raise error(
            f"{kind} {spec!r}: {name} takes {', '.join(required)}; expected a function without arguments that returns "
            f"the {kind}"
        )
    try:
        return make(**given)
    except Exception as problem:
        raise error(f"{kind} {spec!r}: {name}() raised {type(problem).__name__}: {problem}") from problem


def _required(parameter: inspect.Parameter) -> bool:
    several = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    return parameter.default is parameter.empty and not several


def _why(module_name: str, problem: Exception) -> str:
    """Why a module is not imported; a file's name in its place is the most frequent reason."""
    stem = module_name.removesuffix(".py")
    if stem != module_name:
        return f"name the module, not its file: {stem.lstrip('./').replace('/', '.')}:…"
    return str(problem) if isinstance(problem, ImportError) else f"{type(problem).__name__}: {problem}"


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
