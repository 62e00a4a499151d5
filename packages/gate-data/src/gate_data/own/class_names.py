"""Names of classes from a file beside the data."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from gate_data.errors import DataError
from gate_data.own.spec import OwnBenchmark
from gate_data.readers.source import read_text
from wary_files.class_names import names_from_file

_LISTS = ("classes.txt", "codes.txt", "labels.txt", "class_names.txt", "label_names.txt", "obj.names", "names.txt")
"""Files of names of classes, a line each."""
BY_LINE = "classnames.txt"
"""The list beside shards, whose line n is class n, whatever stands in it."""


def refuse_alike(names: Iterable[str]) -> None:
    """Refuse classes whose names differ in their case alone, or in what is not seen."""
    by_case: dict[str, str] = {}
    for name in names:
        first = by_case.setdefault(as_seen(name), name)
        if first != name:
            raise DataError(
                f"classes {first!a} and {name!a} differ only in their case, or in what is not seen: are they "
                "one? Rename one of them"
            )


def as_seen(name: str) -> str:
    """Return a name without its case, in one composition, without signs of no width, and with single blanks inside."""
    folded = unicodedata.normalize("NFC", name).casefold()
    return " ".join("".join(sign for sign in folded if unicodedata.category(sign) != "Cf").split())


def listed_names(*folders: Path) -> tuple[tuple[str, ...], Path | None]:
    """Return the lines of the first file in these folders that is called like a list of classes, and its path."""
    paths = (folder / name for folder in folders for name in _LISTS)
    path = next((path for path in paths if path.is_file()), None)
    return ((), None) if path is None else (_lines(path), path)


def _lines(path: Path) -> tuple[str, ...]:
    """Return a name a line; one that is empty between others would shift the numbers of what follows."""
    lines = [line.strip() for line in read_text(path).rstrip().split("\n")]
    if lines == [""]:
        return ()
    if "" in lines:
        raise DataError(f"{path}, line {lines.index('') + 1} is empty: give it the name of its class, or remove it")
    return tuple(lines)


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
        path = folder / own.classes.words
        by_line = own.data.kind == "webdataset" and path.name == BY_LINE
        words = _lines(path) if by_line else names_from_file(path, names)
        if len(words) != len(names):
            raise DataError(f"{path}: {len(words)} lines for {len(names)} classes")
        return tuple(own.classes.shown.get(name, word) for name, word in zip(names, words, strict=True))
    return tuple(own.classes.shown.get(name, name) for name in names)
