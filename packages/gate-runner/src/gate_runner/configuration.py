"""A whole request as a file: TOML that a person writes, or the manifest of a run folder."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from gate_runner.errors import DataError, UsageError, unknown
from gate_runner.settings import Settings
from gate_runner.signatures import parsed

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from gate_runner.runs.request import RunRequest

_OWN = ("names", "encoder", "output")
_CODE = {
    "language_model": "--setting language_model=…",
    "executor": "--executor",
    "executor_options": "--setting executor_options=…",
}
"""Settings that can name code, or a cluster and what it runs before a job: a file does not choose these."""
_BUILT_IN_EXECUTORS = ("local", "ray", "slurm")


@dataclass(frozen=True)
class Configuration:
    """What a file says of a run.

    Args:
        names: packs and benchmarks; empty where it names none.
        encoder: a spec string that a file may choose, or empty.
        output: the run folder, or None.
        options: settings by name.

    Example:
        >>> Configuration(("digits",), options={"limit": 40}).options["limit"]
        40
    """

    names: tuple[str, ...] = ()
    encoder: str = ""
    output: Path | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


def read_configuration(path: Path, *, encoder: str | None = None) -> Configuration:
    r"""Read a configuration.

    Args:
        path: of a TOML file with ``names``, ``encoder``, ``output`` and fields of `Settings`; or of a run folder or its
            ``manifest.json``, whose last run is taken, without its folder.
        encoder: the spec that was said besides, which goes before the file's.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "run.toml"
        >>> _ = path.write_text('names = ["digits"]\nlimit = 40\nseeds = [0, 1]\n')
        >>> read_configuration(path).options
        {'limit': 40, 'seeds': [0, 1]}
    """
    file = path / "manifest.json" if path.is_dir() else path
    try:
        text = file.read_text(encoding="utf-8")
        values = _of_manifest(file, json.loads(text)) if file.suffix == ".json" else tomllib.loads(text)
    except OSError as error:
        raise DataError(f"--config {file}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        if isinstance(error, UsageError):
            raise
        raise DataError(f"--config {file} cannot be read: {error}") from error
    known = [*_OWN, *(one.name for one in fields(Settings))]
    for key in values:
        if key not in known:
            raise unknown(f"key of --config {file}:", key, known)
    names = values.pop("names", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise UsageError(f"--config {file}: names must be a list of packs and benchmarks, not {names!r:.60}")
    spec, output = values.pop("encoder", ""), values.pop("output", None)
    for key, flag in _CODE.items():
        if values.get(key) not in (None, {}, *_BUILT_IN_EXECUTORS):
            raise UsageError(f"--config {file} names code by {key} = {values[key]!r:.60}: say {flag} yourself")
    for key, value in values.items():
        _check_type(key, value, f"--config {file}")
    if "knowledge_from" in values:
        from gate_runner.class_words import built_in_knowledge

        built_in_knowledge([values["knowledge_from"]], file)
    if spec and encoder is None:
        from gate_runner.encoders.named import spec_of_file

        spec = spec_of_file(spec, file)
    return Configuration(tuple(names), encoder or str(spec), None if output is None else Path(str(output)), values)


def settings_in(said: Iterable[str]) -> dict[str, Any]:
    """Settings from texts ``NAME=VALUE``, of ``--setting``: a value is TOML, or else a text, with commas for several.

    Example:
        >>> settings_in(["wise_ft=best", "retries=2", "encode_again=true"])
        {'wise_ft': 'best', 'retries': 2, 'encode_again': True}
        >>> settings_in(["executor_options=partition=gpu,gpus=2"])
        {'executor_options': ['partition=gpu', 'gpus=2']}
    """
    known = [one.name for one in fields(Settings)]
    values: dict[str, Any] = {}
    for text in said:
        name, sign, value = text.partition("=")
        if not name or not sign:
            raise UsageError(f"--setting {text!r}: expected NAME=VALUE")
        if name not in known:
            raise unknown("setting", name, known)
        values[name] = parsed(value)
        try:
            _check_type(name, values[name], "--setting")
        except UsageError:
            if not isinstance(values[name], str):
                raise
            values[name] = value.split(",")
            _check_type(name, values[name], "--setting")
    return values


def as_values(request: RunRequest) -> dict[str, Any]:
    """What a manifest keeps of a request, to be given back by ``--config``: what differs from the defaults.

    Example:
        >>> from gate_runner.runs.request import make_request
        >>> as_values(make_request("digits", settings=Settings(limit=40)))
        {'names': ['digits'], 'encoder': 'micro-clip', 'limit': 40}
    """
    start, values = Settings().to_mapping(), request.settings.to_mapping()
    changed = {key: value for key, value in values.items() if value != start[key]}
    changed.pop("items", None)  # a file of its own
    names = [one.sources.get("file", one.id) for one in request.benchmarks]
    return {"names": names, "encoder": request.spec, **changed}


@cache
def _kinds() -> dict[str, TypeAdapter[Any]]:
    """What checks each setting."""
    from pydantic import ConfigDict, TypeAdapter

    from gate_runner.options import Options

    return {key: TypeAdapter(kind, config=ConfigDict(strict=True)) for key, kind in get_type_hints(Options).items()}


def _check_type(key: str, value: Any, where: str) -> None:
    from pydantic import ValidationError

    try:
        _kinds()[key].validate_python(value)
    except ValidationError as error:
        said = dict.fromkeys(one["msg"] for one in error.errors())
        raise UsageError(f"{where}: {key} is {value!r:.60}: {'; or '.join(said)}") from error


def _of_manifest(file: Path, raw: object) -> dict[str, Any]:
    runs = raw.get("runs") if isinstance(raw, dict) else None
    last = runs[-1] if isinstance(runs, list) and runs else None
    request = last.get("request") if isinstance(last, dict) else None
    if not isinstance(request, dict):
        raise DataError(f"--config {file} holds no request: it is no manifest, or gate-runner 0.1 wrote it")
    return dict(request)
