"""Results as JSON: plain data with ids, and the hash of the table that they belong to."""

from __future__ import annotations

import json
import math
from dataclasses import fields, is_dataclass
from itertools import repeat
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from eevee.errors import EeveeError
from eevee.tables.frames import frame_of
from wary_files.json_files import JsonFileError, read_json

if TYPE_CHECKING:
    from eevee.tables.table import ResultTable


class Recorded:
    """Mixin of the result dataclasses: `to_dict` and `to_json`."""

    def to_dict(self) -> dict[str, Any]:
        """As plain data: dicts, lists, strings, numbers; NaN becomes null."""
        plain = plain_data(self)
        return {"result": type(self).__name__, **plain}

    def to_json(self, path: str | Path | None = None) -> str:
        """As JSON text; written to `path` as well, in one step, where one is given."""
        text = json.dumps(self.to_dict(), indent=1, allow_nan=False)
        if path is not None:
            write_text(Path(path), text + "\n")
        return text

    def to_frame(self) -> Any:  # pandas has no types of its own
        """As a pandas frame: a ranking's places, a prediction's cells, a front's points, else one row of the numbers.

        Raises:
            EeveeError: pandas is not installed; names the extra.
        """
        return frame_of(self._rows())

    def _rows(self) -> list[dict[str, Any]]:
        """What `to_frame` shows."""
        plain = plain_data(self)
        return [{name: value for name, value in plain.items() if not isinstance(value, (dict, list))}]


def plain_data(value: Any) -> Any:
    """Dataclasses, tuples and mappings as dicts and lists; what is not finite as None; others by `repr`."""
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain_data(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, dict):
        return {str(key): plain_data(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_data(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, (str, int, float)) else repr(value)


def write_text(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old or the new one, never half of it.

    A pipe or a device, such as /dev/stdout, is written to as it is; any other link is replaced.
    """
    from wary_files.durable import write_whole

    try:
        is_device = path.absolute().is_relative_to("/dev") or (path.exists() and not path.is_file())
        write_whole(path, text.encode("utf-8"), follow=is_device)
    except OSError as error:
        raise EeveeError(f"{path}: cannot be written ({error.strerror})") from None


def read_recorded(path: str | Path, command: str) -> dict[str, Any]:
    """What the JSON of a result holds; a file that holds none is an error that names it and the command."""
    where = Path(path)
    try:
        raw = read_json(where)
    except OSError as error:
        raise EeveeError(f"{where}: cannot be read ({error.strerror})") from None
    except JsonFileError as error:
        raise EeveeError(f"{where}: not JSON, so not a result of {command} ({error.reason})") from None
    if not isinstance(raw, dict):
        raise EeveeError(f"{where}: not a result of {command}")
    return raw


def restored(kind: Any, raw: Any) -> Any:
    """A value of a type from what its JSON holds: dataclasses, tuples and dicts of them; what does not fit is an error.

    The names of a dataclass's types must be known to its module when the program runs.
    """
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return None if raw is None else restored(parts[0], raw)
    if origin is tuple:
        kinds = repeat(parts[0]) if parts[-1] is Ellipsis else parts
        return tuple(restored(part, value) for part, value in zip(kinds, _of(list, raw), strict=False))
    if origin is dict:
        return {key: restored(parts[1], value) for key, value in _of(dict, raw).items()}
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(**{key: restored(hints[key], value) for key, value in _of(dict, raw).items()})  # type: ignore[operator]  # a class
    if kind is float:
        return math.nan if raw is None else float(raw)
    return raw


def _of(kind: type, raw: Any) -> Any:
    if not isinstance(raw, kind):
        raise TypeError(f"{str(raw)[:40]!r} in place of a {kind.__name__}")
    return raw


def read_result(path: str | Path, table: ResultTable) -> dict[str, Any]:
    """Read a result and refuse one that belongs to another table."""
    command = "`eevee select` or `eevee score`"
    raw = read_recorded(path, command)
    if not isinstance(raw.get("data_hash"), str) or "benchmarks" not in raw:
        raise EeveeError(f"{path}: not a result of {command}; expected data_hash and benchmarks")
    if raw["data_hash"] != table.hash:
        raise EeveeError(
            f"{path}: made from another table (hash {raw['data_hash'][:12]}; {table.name} has {table.hash[:12]})"
        )
    return raw
