"""Every setting by name, in the signature of Python's functions and of commands, and as words of a command line."""

from __future__ import annotations

import inspect
import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

from gate_runner.settings.record import DECLARED, HINTS, NAMES, Settings, option_of

Function = TypeVar("Function", bound=Callable[..., Any])

COMMAND_LINE: dict[str, Any] = {"isolate": "worker"}
"""Where the command line starts from another value than Python: it must survive what a benchmark does."""


PANELS = {
    **dict.fromkeys(("data", "features"), "Data and read-outs"),
    **dict.fromkeys(("training", "sweep"), "Training and sweeps"),
    "machine": "The machine",
}
"""Under what ``run --help`` shows the settings of a group."""
FIRST = ("limit", "seeds", "tune")
"""Settings that stand above these headings."""


def accepted(name: str) -> Any:
    """The type of what may be said of a setting."""
    return HINTS[name] if DECLARED[name].accepts is None else DECLARED[name].accepts


def spelled_out(function: Function) -> Function:
    """Show the single keywords in the signature of a function that takes ``**options``."""
    return _signed(function, inspect.signature(function), accepted, NAMES)


def as_command(function: Function) -> Function:
    """The same for a command, whose options Typer reads from the signature: the common settings alone."""
    signature = inspect.signature(function, eval_str=True)
    return _signed(function, signature, _panelled, [name for name in NAMES if DECLARED[name].common])


def with_options(*names: str, **defaults: Any) -> Callable[[Function], Function]:
    """The same for a command that has some of the settings only, a few with defaults of its own."""

    def signed(function: Function) -> Function:
        return _signed(function, inspect.signature(function, eval_str=True), _option, names, defaults)

    return signed


def _signed(
    function: Function,
    signature: inspect.Signature,
    annotate: Callable[[str], Any],
    names: Sequence[str],
    starts: Mapping[str, Any] | None = None,
) -> Function:
    own = [entry for entry in signature.parameters.values() if entry.kind is not inspect.Parameter.VAR_KEYWORD]
    defaults = Settings().changed(**({} if annotate is accepted else {**COMMAND_LINE, **(starts or {})}))
    options = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None if (value := getattr(defaults, name)) == {} else value,
            annotation=annotate(name),
        )
        for name in NAMES
        if name in names and name not in signature.parameters
    ]
    vars(function)["__signature__"] = signature.replace(parameters=[*own, *options])
    return function


def _panelled(name: str) -> Any:
    """A setting's option under its heading."""
    panel = None if name in FIRST else PANELS[DECLARED[name].group]
    return _option(name, rich_help_panel=panel)


def _option(name: str, **shown: Any) -> Any:
    """A setting's annotation as Typer takes it."""
    import typer

    declared, kind = DECLARED[name], accepted(name)
    kinds = get_args(kind) if get_origin(kind) is UnionType or isinstance(kind, UnionType) else (kind,)
    optional = type(None) in kinds
    several = next((kind for kind in kinds if get_origin(kind) is Sequence), None)
    if name == "tune" or get_origin(kind) is Literal:
        typer_type: Any = str
    elif declared.read is Path or name == "items":
        typer_type = Path | None
    elif several is not None or get_origin(kind) is Sequence:
        typer_type = list[int] if int in get_args(several or kind) and str not in kinds else list[str]
    elif str in kinds:
        typer_type = str | None if optional else str
    else:
        typer_type = kind
    switch = kind is bool and not getattr(Settings(), name)
    flags = [option_of(name)] if switch or declared.flag else []
    text = declared.help.partition("\n")[0]
    return Annotated[typer_type, typer.Option(*flags, help=text, metavar=declared.metavar, **shown)]


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
    """Settings as words of a command line."""
    start = Settings().changed(**COMMAND_LINE)
    words: list[str] = []
    for name, declared in DECLARED.items():
        value = getattr(settings, name)
        if value == getattr(start, name):
            continue
        if not declared.common:
            words += ["--setting", f"{name}={written(value)}"]
            continue
        flag = option_of(name)
        if isinstance(value, Mapping):
            value = tuple(f"{key}={text}" for key, text in value.items())
        for entry in value if isinstance(value, tuple) else (value,):
            words += ([flag] if entry else [f"--no-{flag[2:]}"]) if isinstance(entry, bool) else [flag, str(entry)]
    return words
