"""What is odd about labels and folders of one's own data: said beside the score, or refused where it must be a slip."""

from __future__ import annotations

import os
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from gate_data.errors import DataError
from gate_data.own.annotated import root_of
from gate_data.own.entry import Entry
from gate_data.own.spec import CAPTIONED, OwnBenchmark
from gate_data.readers.clips import VIDEOS
from gate_data.readers.folders import PICTURES, is_loop, may_be_class
from gate_data.readers.scanning import inner_folders, scanned
from gate_data.readers.source import described
from wary_files.text import number_of

_BLANKS = ("nan", "none", "null", "n/a", "na", "<na>")
"""What tables hold where a value is missing, in lower case."""
_TRUTHS = {"true": 1.0, "false": 0.0}
_WITH_COMMA = re.compile(r"[+-]?[0-9]+([.,][0-9]+)*")
_NAMED = ("image-classification", "zero-shot", "video-classification", "knn", "clustering")
"""Tasks in which an image has one class."""
_SHOWN = 5


def odd_labels(own: OwnBenchmark, entries: Sequence[Entry]) -> Iterator[str]:
    """Yield what is odd about labels, captions and rows.

    These are labels that are one number in two forms, that mean a missing value or look like lists, images with two
    labels, captions of several images, and rows that are there twice.
    """
    if own.data.kind != "folders":  # where a file is in one place
        yield from _rows_twice(entries)
    if doubled := one_number({entry.group for entry in entries}):
        yield f"groups that are one number, written in several ways, are groups of their own: {_quoted(doubled)}"
    if own.samples in CAPTIONED:
        yield from _shared_captions(entries, counted=own.samples == "zero-shot-retrieval")
    if own.samples not in _NAMED:
        return
    labels = sorted({str(entry.target) for entry in entries})
    if doubled := one_number(labels):
        yield f"labels that are one number, written in several ways, are classes of their own: {_quoted(doubled)}"
    if blank := [label for label in labels if label.casefold() in _BLANKS]:
        count = sum(str(entry.target) in blank for entry in entries)
        are = number_of(count, "sample is", "samples are")
        yield f"{are} labelled {blank[0]!r}, which is a class here: leave out what has no label"
    if any("," in label for label in labels) and all(_WITH_COMMA.fullmatch(label) for label in labels):
        first = next(label for label in labels if "," in label)
        yield f"labels such as {first!r} are numbers with a comma, and classes here: with points they can be predicted"
    yield from _lists(labels)
    if own.data.kind == "folders":
        yield from _divided(labels)
    if own.data.kind != "folders":
        yield from _several_labels(entries)


def one_number(texts: Iterable[str]) -> list[list[str]]:
    """Return texts that are one number, written in several ways, such as 1 and 1.0; empty if there are none."""
    by_number: dict[float, list[str]] = defaultdict(list)
    for text in sorted(texts):
        number = number_in(text)
        if number is not None:
            by_number[number].append(text)
    return [names for names in by_number.values() if len(names) > 1]


def _quoted(names: Sequence[Sequence[str]]) -> str:
    return "; ".join(", ".join(map(repr, several)) for several in names[:_SHOWN])


def _rows_twice(entries: Sequence[Entry]) -> Iterator[str]:
    rows = [(entry.split, entry.source, entry.target, entry.text) for entry in entries]
    counts = Counter(rows)
    if len(counts) < len(entries):
        where = next(entry.where for entry, row in zip(entries, rows, strict=True) if counts[row] > 1)
        again = number_of(len(entries) - len(counts), "row equals another and counts", "rows equal another and count")
        yield f"{again} again, such as that of {where}"


def _shared_captions(entries: Sequence[Entry], *, counted: bool) -> Iterator[str]:
    pictures: dict[str, set[Any]] = defaultdict(set)
    for entry in entries:
        for caption in (entry.text,) if isinstance(entry.text, str) else entry.text:
            if caption:
                pictures[caption].add(entry.source)
    shared = {caption: len(sources) for caption, sources in pictures.items() if len(sources) > 1}
    if shared:
        most = max(shared, key=lambda caption: shared[caption])
        wrong = "as answers they count as wrong for one another's images, and equal scores share their places"
        yield (
            f"{number_of(len(shared), 'caption stands', 'captions stand')} with several images, such as {most!r:.80} "
            f"with {shared[most]}: "
            f"{'each of these images is a right answer' if counted else wrong}"
        )


def _lists(labels: Sequence[str]) -> Iterator[str]:
    """Labels that are other labels, one after the other."""
    names = {label.casefold() for label in labels}
    for sign in ",;|/+":
        listed = [label for label in labels if sign in label]
        whole = [label for label in listed if {part.strip().casefold() for part in label.split(sign)} <= names]
        if whole:
            single = "label is a list of others, and a class of its own"
            are = number_of(len(whole), single, "labels are lists of others, and classes of their own")
            yield (
                f"{are} here, such as {whole[0]!r}: "
                f'task = "multi-label" with separator = {sign!r} under [data] reads them'
            )
            return


def _divided(labels: Sequence[str]) -> Iterator[str]:
    """Folders around folders of classes that all have the same names, as those of folds or sessions do."""
    inner: dict[str, set[str]] = defaultdict(set)
    for label in labels:
        group, _, name = label.rpartition("/")
        inner[group].add(name)
    same = {frozenset(names) for names in inner.values()}
    if len(inner) > 1 and len(same) == 1 and len(next(iter(same))) > 1:
        first, second, *_ = sorted(inner)
        name = min(next(iter(same)))
        yield (
            f"{len(inner)} folders hold classes of the same names, and {first}/{name} and {second}/{name} are classes "
            "of their own: if they are one, move their images into one folder"
        )


def number_in(label: str) -> float | None:
    """Return the number that a label is, truth values too; None for any other. Whole numbers are exact."""
    if label.casefold() in _TRUTHS:
        return _TRUTHS[label.casefold()]
    for kind in (int, float):
        try:
            return kind(label)
        except ValueError:
            continue
    return None


def _several_labels(entries: Sequence[Entry]) -> Iterator[str]:
    first: dict[Any, str] = {}
    torn: dict[Any, set[str]] = {}
    for entry in entries:
        label = str(entry.target)
        if first.setdefault(entry.source, label) != label:
            torn.setdefault(entry.source, {first[entry.source]}).add(label)
    if torn:
        source = next(iter(torn))
        name = described(source[0] if type(source) is tuple else source)
        have, labels = number_of(len(torn), "image has", "images have"), ", ".join(sorted(torn[source]))
        yield f"{have} several labels, such as {name} ({labels})"


def hidden_labels(labels: Sequence[str], entries: Sequence[Entry]) -> None:
    """Refuse -1 among class numbers from 0 on: it marks labels that are kept secret."""
    others = [label for label in labels if label not in ("-1", "-1.0")]
    if len(others) == len(labels) or len(others) < 2 or not all(label.isdecimal() for label in others):
        return
    where = next(entry.where for entry in entries if str(entry.target) in ("-1", "-1.0"))
    raise DataError(
        f"{where}: the label is -1 among {others[0]} to {others[-1]}, as of samples whose labels are kept secret: "
        "leave these rows out, or, if it is a class, list all under [classes] names"
    )


def nearly_there(path: str) -> str:
    """Return the file beside a path that differs in case, code points or ending alone; empty without one."""
    folder, name = os.path.split(path)
    try:
        beside = sorted(os.listdir(folder or "."))  # noqa: PTH208 - names alone are wanted
    except (OSError, ValueError):
        return ""
    beside.sort(key=lambda entry: not in_other_code_points(entry, name))
    wanted = composed(name).casefold()
    by_case = (entry for entry in beside if composed(entry).casefold() == wanted)
    stems = {wanted, os.path.splitext(wanted)[0]}  # noqa: PTH122 - text
    by_end = (entry for entry in beside if os.path.splitext(entry.casefold())[0] in stems)  # noqa: PTH122
    return next(by_case, "") or next(by_end, "")


def composed(name: str) -> str:
    """Return a name whose letters are in one code point each, as far as there are such; macOS writes them in parts."""
    return unicodedata.normalize("NFC", name)


def in_other_code_points(first: str, second: str) -> bool:
    """Whether two names look the same and are not."""
    return first != second and composed(first) == composed(second)


def deeper(own: OwnBenchmark, folder: Path) -> Iterator[str]:
    """Images in folders below a class that has images of its own: these alone are taken."""
    if own.data.kind != "folders":
        return
    endings = VIDEOS if own.samples.startswith("video") else PICTURES
    counts: dict[str, int] = {}
    for split, inside in own.splits.named.items() or [("", "")]:
        for name in _listed(root_of(own, folder, split) / inside):
            counts |= _below(name, endings)
    if counts:
        shown = ", ".join(f"{name} {count:,}" for name, count in list(counts.items())[:_SHOWN])
        yield (
            f"{number_of(sum(counts.values()), 'file')} left out, in folders below classes that have files of their "
            f"own: {shown}{' …' if len(counts) > _SHOWN else ''}"
        )


def _below(folder: str, endings: Sequence[str]) -> dict[str, int]:
    """Files in the folders of a class that has files of its own, by folder."""
    inner = [entry.path for entry in inner_folders(folder) if may_be_class(entry.name) and not is_loop(entry)]
    if not inner:
        return {}
    counts: dict[str, int] = {}
    if not any(_is_one(entry.name, endings) for entry in scanned(folder)):  # a group of classes
        for path in inner:
            counts |= _below(path, endings)
        return counts
    for path in inner:
        files = (name for _, _, names in os.walk(path) for name in names)
        if count := sum(_is_one(name, endings) for name in files):
            counts[path] = count
    return counts


def _is_one(name: str, endings: Sequence[str]) -> bool:
    return name.lower().endswith(tuple(endings)) and not name.startswith("._")


def _listed(root: Path) -> list[str]:
    return sorted(entry.path for entry in inner_folders(root) if may_be_class(entry.name))
