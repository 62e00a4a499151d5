"""Every setting by name, in the signature of Python's functions and of commands, and as words of a command line."""

from __future__ import annotations

import inspect
import json
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import fields
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

from gate_runner.options import COMMON, PANELS, Options
from gate_runner.settings import Settings

Function = TypeVar("Function", bound=Callable[..., Any])

COMMAND_LINE: Options = {"isolate": "worker"}
"""Where the command line starts from another value than Python: it must survive what a benchmark does."""


def spelled_out(function: Function) -> Function:
    """Show the single keywords in the signature of a function that takes ``**options: Unpack[Options]``."""
    return _signed(function, inspect.signature(function), lambda hint: get_args(hint)[0])


def as_command(function: Function) -> Function:
    """The same for a command, whose options Typer reads from the signature; those that are not common are not shown."""
    return _signed(function, inspect.signature(function, eval_str=True), _said, shown=COMMON, **COMMAND_LINE)


def with_options(*names: str) -> Callable[[Function], Function]:
    """The same for a command that has some of the settings only."""

    def signed(function: Function) -> Function:
        return _signed(function, inspect.signature(function, eval_str=True), _said, names)

    return signed


def _signed(
    function: Function,
    signature: inspect.Signature,
    annotate: Callable[[Any], Any],
    names: Sequence[str] = (),
    shown: Iterable[str] | None = None,
    **other: Any,
) -> Function:
    hints = get_type_hints(Options, include_extras=True)
    defaults = Settings().changed(**other)
    own = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
    every = [
        inspect.Parameter(
            one.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None if (value := getattr(defaults, one.name)) == {} else value,
            annotation=annotate(hints[one.name])
            if shown is None
            else _changed(annotate(hints[one.name]), one.name not in shown, PANELS.get(one.name)),
        )
        for one in fields(Settings)
        if not names or one.name in names
    ]
    vars(function)["__signature__"] = signature.replace(
        parameters=[*own, *(one for one in every if one.name not in signature.parameters)]
    )
    return function


def _said(hint: Any) -> Any:
    """A hint as Typer takes it."""
    there, option, *here = get_args(hint)
    return Annotated[here[0] if here else there, option]


def _changed(hint: Any, hidden: bool, panel: str | None) -> Any:
    """A hint whose option ``--help`` shows under a heading, or not at all: one of the last release, until 0.4."""
    kind, option = get_args(hint)
    changed = copy(option)
    changed.hidden, changed.rich_help_panel = hidden, panel
    return Annotated[kind, changed]


def flag_of(name: str) -> str:
    """The option that a setting has, or had."""
    option = get_args(get_type_hints(Options, include_extras=True)[name])[1]
    return option.default if isinstance(option.default, str) else f"--{name.replace('_', '-')}"


def parsed(text: str) -> Any:
    """A value of TOML, or the text itself where it is none."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def written(value: Any) -> str:
    """A value as ``--setting`` takes it: TOML, or a text that is none."""
    if isinstance(value, tuple):
        return json.dumps(list(value))
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {json.dumps(text)}" for key, text in value.items()) + "}"
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    return text if isinstance(value, int | float) or parsed(text) == text else json.dumps(text)


def words_for(settings: Settings) -> list[str]:
    """Settings as words of a command line.

    Example:
        >>> words_for(Settings(limit=40, seeds=(0, 3), isolate="worker"))
        ['--limit', '40', '--seed', '0', '--seed', '3']
    """
    start = Settings().changed(**COMMAND_LINE)
    words: list[str] = []
    for one in fields(Settings):
        value = getattr(settings, one.name)
        if value == getattr(start, one.name):
            continue
        if one.name not in COMMON:
            words += ["--setting", f"{one.name}={written(value)}"]
            continue
        flag = flag_of(one.name)
        if isinstance(value, Mapping):
            value = tuple(f"{key}={text}" for key, text in value.items())
        for each in value if isinstance(value, tuple) else (value,):
            switched = {True: [flag], False: [f"--no-{flag.removeprefix('--')}"]}
            words += switched[each] if isinstance(each, bool) else [flag, str(each)]
    return words
