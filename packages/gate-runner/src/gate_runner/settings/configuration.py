"""A whole request as a file: TOML that a person writes, or the manifest of a run folder."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gate_runner.errors import DataError, UsageError, printable, unknown
from gate_runner.settings.record import DECLARED, NAMES
from gate_runner.settings.signatures import accepted, parsed

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_OWN = ("names", "encoder", "output")
_CODE = {
    "language_model": "--setting language_model=…",
    "executor": "--executor",
    "executor_options": "--setting executor_options=…",
    "source": "--source",
}
"""Settings that can name code, a cluster and what it runs before a job, or the network: not a file's to choose."""
_BUILT_IN = {"executor": ("local",), "source": ("local", "built-in", "micro")}


@dataclass(frozen=True)
class Configuration:
    """What a file says of a run."""

    names: tuple[str, ...]  # packs and benchmarks; empty where it names none
    encoder: str  # a spec string that a file may choose, or empty
    output: Path | None  # the run folder
    options: Mapping[str, Any]  # settings by name


def read_configuration(path: Path, *, encoder: str | None = None, overridden: Collection[str] = ()) -> Configuration:
    """Read a configuration; the user has said the encoder, and some settings, in its place."""
    file = path / "manifest.json" if path.is_dir() else path
    try:
        text = file.read_text(encoding="utf-8-sig")
        values = _of_manifest(file, json.loads(text)) if file.suffix == ".json" else tomllib.loads(text)
    except OSError as error:
        raise DataError(f"--config {file}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        if isinstance(error, UsageError):
            raise
        raise DataError(f"--config {file} cannot be read: {error}") from error
    values = _ungrouped(values, file)
    keys = [*_OWN, *NAMES]
    for key in values:
        if key not in keys:
            raise unknown(f"key of --config {file}:", key, keys)
    names = values.pop("names", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise UsageError(f"--config {file}: names must be a list of packs and benchmarks, not {names!r:.60}")
    spec, output = values.pop("encoder", ""), values.pop("output", None)
    for key, flag in _CODE.items():
        if key not in overridden and values.get(key) not in (None, {}, *_BUILT_IN.get(key, ())):
            what = {"source": "the network", "executor": "what starts the work"}.get(key, "code")
            raise UsageError(f"--config {file} names {what} by {key} = {values[key]!r:.60}: say {flag} yourself")
    for key, value in values.items():
        _check_type(key, value, f"--config {file}")
    if spec and encoder is None:
        from vision_features.encoders.named import spec_of_file

        spec = spec_of_file(spec, file)
    return Configuration(tuple(names), encoder or str(spec), None if output is None else _place(output, file), values)


def _place(output: object, file: Path) -> Path:
    """Return the run folder that a file names: a new or empty one, or a run's, below its own or the working folder."""
    where = f"--config {file}: output is {output!r:.60}"
    if not isinstance(output, str) or not output.strip() or printable(output) != output:
        raise UsageError(f"{where}: expected a folder's name without control characters")
    folder = Path(output)
    place, roots = folder.resolve(), (Path.cwd().resolve(), file.parent.resolve())
    if not any(place != root and place.is_relative_to(root) for root in roots):
        raise UsageError(f"{where}, which is not below {roots[0]} or the file's folder: say --output yourself")
    if place.is_dir() and not (place / "manifest.json").is_file() and any(place.iterdir()):
        raise UsageError(f"{where}, which holds something else than a run: say --output yourself")
    return folder


def settings_in(texts: Iterable[str]) -> dict[str, Any]:
    """Settings from texts ``NAME=VALUE`` of ``--setting``: a value is TOML, or a text, with commas for several."""
    values: dict[str, Any] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not name or not sign:
            raise UsageError(f"--setting {text!r}: expected NAME=VALUE")
        if name not in NAMES:
            raise unknown("setting", name, NAMES)
        values[name] = parsed(value)
        try:
            _check_type(name, values[name], "--setting")
        except UsageError:
            if not isinstance(values[name], str):
                raise
            values[name] = value.split(",")
            _check_type(name, values[name], "--setting")
    return values


@cache
def _kinds() -> dict[str, TypeAdapter[Any]]:
    """What checks each setting."""
    from pydantic import ConfigDict, TypeAdapter

    return {name: TypeAdapter(accepted(name), config=ConfigDict(strict=True)) for name in NAMES}


def _check_type(key: str, value: Any, where: str) -> None:
    from pydantic import ValidationError

    try:
        _kinds()[key].validate_python(value)
    except ValidationError as error:
        messages = dict.fromkeys(entry["msg"] for entry in error.errors())
        raise UsageError(f"{where}: {key} is {value!r:.60}: {'; or '.join(messages)}") from error


def _ungrouped(values: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """Keys below the tables of groups beside the others."""
    groups = {declared.group for declared in DECLARED.values()}
    flat = {key: value for key, value in values.items() if key not in groups}
    for group in groups & values.keys():
        names = [name for name, declared in DECLARED.items() if declared.group == group]
        if not isinstance(values[group], dict):
            raise UsageError(f"--config {file}: {group} is a table of settings, not {values[group]!r:.60}")
        for key, value in values[group].items():
            if key not in names:
                raise unknown(f"key of --config {file}: [{group}]", key, names)
            if key in flat:
                raise UsageError(f"--config {file} says {key} twice, in [{group}] and above it")
            flat[key] = value
    return flat


def _of_manifest(file: Path, raw: object) -> dict[str, Any]:
    runs = raw.get("runs") if isinstance(raw, dict) else None
    last = runs[-1] if isinstance(runs, list) and runs else None
    request = last.get("request") if isinstance(last, dict) else None
    if not isinstance(request, dict):
        raise DataError(f"--config {file} holds no request: it is no manifest, or gate-runner 0.1 wrote it")
    return dict(request)
