"""Names of classes from a file beside the data."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from gate_data.errors import DataError, UsageError
from gate_data.own.spec import OwnBenchmark
from gate_data.readers.source import read_text

_LISTS = ("classes.txt", "codes.txt", "labels.txt", "class_names.txt", "label_names.txt", "obj.names", "names.txt")
"""Files of names of classes, a line each."""


def names_from_file(path: Path, classes: Sequence[str]) -> tuple[str, ...]:
    """Words for classes from a file."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"class names {path}: {getattr(error, 'strerror', None) or error}") from error
    if path.suffix == ".json":
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"class names {path}: not JSON ({error})") from error
        if not isinstance(content, dict) or not all(isinstance(words, str) for words in content.values()):
            raise UsageError(f"class names {path}: expected an object from the data's names to words")
        return _looked_up(path, content, classes)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    parts = [re.split(r"[\t ,]+", line, maxsplit=1) for line in lines]
    by_name = {first: remainder[0].split(",")[0].strip().strip('"') for first, *remainder in parts if remainder}
    if any(name in by_name for name in classes):
        return _looked_up(path, by_name, classes)
    if len(lines) != len(classes):
        raise UsageError(f"class names {path}: {len(lines)} lines for {len(classes)} classes, and none names a class")
    return tuple(lines)


def _looked_up(path: Path, names: dict[str, str], classes: Sequence[str]) -> tuple[str, ...]:
    lacking = [name for name in classes if not names.get(name, "").strip()]
    if lacking:
        raise UsageError(f"class names {path}: {len(lacking)} of {len(classes)} are missing, such as {lacking[0]!r}")
    return tuple(names[name] for name in classes)


def listed_names(*folders: Path) -> tuple[str, ...]:
    """The lines of the first file in these folders that is called like a list of classes; none without one."""
    paths = (folder / name for folder in folders for name in _LISTS)
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        return ()
    return _lines(path)


def _lines(path: Path) -> tuple[str, ...]:
    return tuple(line.strip() for line in read_text(path).splitlines() if line.strip())


def named_classes(own: OwnBenchmark, folder: Path) -> tuple[str, ...]:
    """The names that the file gives, itself or in another; none where they are the data's."""
    where, names = "field 'classes.names'", own.classes.names
    if own.classes.file:
        where, names = str(folder / own.classes.file), _lines(folder / own.classes.file)
    if doubled := [name for name, count in Counter(names).items() if count > 1]:
        raise DataError(f"{where}: the class {doubled[0]!r} comes twice")
    return names


def shown_names(own: OwnBenchmark, folder: Path, names: Sequence[str]) -> tuple[str, ...]:
    """What a reader, and a text encoder, should see for each name."""
    if own.classes.words:
        words = names_from_file(folder / own.classes.words, names)
        return tuple(own.classes.shown.get(name, word) for name, word in zip(names, words, strict=True))
    return tuple(own.classes.shown.get(name, name) for name in names)
