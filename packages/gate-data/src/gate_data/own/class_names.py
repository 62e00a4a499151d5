"""Names of classes from a file beside the data."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from gate_data.errors import UsageError


def names_from_file(path: Path, classes: Sequence[str]) -> tuple[str, ...]:
    """Words for classes from a file.

    Args:
        path: ``.json`` from the data's name to words; lines of the data's name and words, as ImageNet's
            ``LOC_synset_mapping.txt``; or a line per class in the data's order.
        classes: names in the data.

    Raises:
        UsageError: the file is not there, is none of these, or lacks a class.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"class names {path}: {getattr(error, 'strerror', None) or error}") from error
    if path.suffix == ".json":
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"class names {path}: not JSON ({error})") from error
        if not isinstance(found, dict) or not all(isinstance(one, str) for one in found.values()):
            raise UsageError(f"class names {path}: expected an object from the data's names to words")
        return _looked_up(path, found, classes)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    parts = [re.split(r"[\t ,]+", line, maxsplit=1) for line in lines]
    by_name = {first: rest[0].split(",")[0].strip().strip('"') for first, *rest in parts if rest}
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
