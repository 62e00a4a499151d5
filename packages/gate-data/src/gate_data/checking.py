"""What lies under a data root: which data sets, whether they are whole, and whether their splits overlap."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from gate_data.cards import ICINW, SHEETS
from gate_data.coop.cards import COOP
from gate_data.errors import DataError, UsageError
from gate_data.imports import named
from gate_data.original_files import MAP_SIDE, Originals, Sample, counted
from gate_data.pictures import content_of
from gate_data.readers import Stored
from gate_data.readers.clips import read_clip
from gate_data.readers.decode import decode
from gate_data.readers.source import Clip, Source, described, file_of
from gate_data.readers.splits import spread
from wary_files.text import number_of

Item = TypeVar("Item")
_SAMPLED = 64
"""Images of each split that are decoded where not all are."""
_HASHED = 2000
"""Images of each split whose contents are compared where not all are."""


@dataclass(frozen=True)
class Found:
    """What was found of one data set.

    Args:
        benchmark: its id.
        state: ``"missing"``, ``"whole"``, ``"incomplete"`` (other counts than expected) or ``"wrong"``.
        counts: samples to train (with those that validate) and to test.
        expected: the same, as published; None where no number is.
        problems: what is wrong, or where to get what is missing.

    Example:
        >>> Found("cifar100", "whole", (50_000, 10_000)).problems
        ()
    """

    benchmark: str
    state: str
    counts: tuple[int, int] | None = None
    expected: tuple[int, int] | None = None
    problems: Sequence[str] = field(default_factory=tuple)


def check(root: str | PathLike[str], data_sets: Iterable[str] = (), *, deep: bool = False) -> list[Found]:
    """Look at data sets under a data root, all that are known by default.

    Args:
        root: the data root.
        data_sets: their names, as `gate_data.load` takes them.
        deep: whether every image and clip is decoded and hashed, not a sample of them.

    Returns:
        One row for each data set, in their order.

    Raises:
        UsageError: no such data set; the message shows the nearest.
        DataError: the root is not a folder.

    Example:
        >>> import tempfile
        >>> [(row.benchmark, row.state) for row in check(tempfile.mkdtemp(), ["CIFAR100", "gate/food101"])]
        [('cifar100', 'missing'), ('food101', 'missing')]
    """
    from gate_data.naming import resolve
    from gate_data.originals_by_name import ORIGINALS

    wanted = [data_sets] if isinstance(data_sets, str) else list(data_sets)
    names = [resolve(name) or name for name in wanted] or list(ORIGINALS)
    if missing := [name for name in names if name not in ORIGINALS]:
        raise UsageError(f"{missing[0]!r} has no files of its own under a data root")
    return check_data({name: named(ORIGINALS[name]) for name in names}, Path(root).expanduser(), deep)


def check_data(originals: Mapping[str, Originals[Any]], root: Path, deep: bool = False) -> list[Found]:
    """Look at every data set under a data root.

    Args:
        originals: how each data set's files are read, by its id.
        root: the data root.
        deep: whether every image and clip is decoded and hashed, not a sample of them.

    Returns:
        One row for each data set.

    Raises:
        DataError: the root is no folder.

    Example:
        >>> import tempfile
        >>> from gate_data.originals.classification import cifar100
        >>> [check.state for check in check_data({"cifar100": cifar100}, Path(tempfile.mkdtemp()))]
        ['missing']
    """
    if not root.is_dir():
        raise DataError(f"data root {root} is not a folder")
    return [_checked(name, files, root, deep) for name, files in originals.items()]


def _checked(name: str, originals: Originals[Any], root: Path, deep: bool) -> Found:
    sheet, of_coop = SHEETS.get(name) or ICINW.get(name), COOP.get(name)
    try:
        folder = originals.find(root)
    except DataError as error:
        where = f"; {sheet.site}, about {sheet.gigabytes:g} GB" if sheet is not None and sheet.gigabytes else ""
        where = where if of_coop is None else f"; {of_coop.site}"
        return Found(name, "missing", problems=(f"{error}{where}",))
    expected = sheet.sizes if sheet is not None and any(sheet.sizes) else None
    if of_coop is not None:
        expected = sum(of_coop.sizes[:2]), of_coop.sizes[2]
    try:
        originals.check(folder)
        parts = originals.parts(folder) if originals.parts is not None else None
    except DataError as error:
        return Found(name, "wrong", expected=expected, problems=(str(error),))
    if parts is None:
        return Found(name, "whole", expected=expected, problems=("its files are in one piece",))
    sides = {"train": parts.train, "validation": parts.validation or (), "test": parts.test}
    problems = [*_overlaps(sides), *_same_contents(sides, deep)]
    read_map: Any = originals.form.read_map
    for samples in sides.values():
        problems += _unreadable(_sources(samples), _look, deep)
        if read_map is not None:
            pictured = originals.form.target == "map"

            def look(sample: Sample, pictured: bool = pictured) -> object:
                about = {"picture": sample.source} if pictured else {}
                return read_map(sample.target, side=MAP_SIDE, **about)

            problems += _unreadable(samples, look, deep)
    counts = counted(parts)
    published = SHEETS.get(name)
    differs = "" if published is None else published.differs(*counts, len(parts.classes))
    short = differs or parts.missing or (published is None and expected is not None and counts != expected)
    state = "wrong" if problems else "incomplete" if short else "whole"
    return Found(name, state, counts, expected, tuple(problems or filter(None, [differs, parts.note])))


def _overlaps(sides: Mapping[str, Sequence[Sample]]) -> Iterator[str]:
    """Files, and patients, lesions, films or scenes, that are in two splits."""
    for (first, members), (second, further) in itertools.combinations(sides.items(), 2):
        texts = any(sample.text for sample in members)  # of an image several questions may be asked, in one split
        if files := {sample.source for sample in members} & {sample.source for sample in further}:
            example: Any = next(iter(files))
            shown = described(example[0] if type(example) is tuple else example)
            yield f"{number_of(len(files), 'file is', 'files are')} in {first} and in {second}, such as {shown}"
        groups = ({sample.group for sample in members} & {sample.group for sample in further}) - {""}
        if groups and not texts:
            are = number_of(len(groups), "group is", "groups are")
            yield f"{are} in {first} and in {second}, such as {min(groups)}"


def _same_contents(sides: Mapping[str, Sequence[Sample]], deep: bool) -> Iterator[str]:
    owners: dict[bytes, tuple[str, str]] = {}
    for name, samples in sides.items():
        files = [source for source in _sources(samples) if not isinstance(source, Stored)]
        for source in _some(files, deep, _HASHED):
            try:
                digest = content_of(source)
            except DataError as error:
                yield str(error)
                continue
            owner, earlier = owners.setdefault(digest, (name, described(source)))
            if owner != name and earlier != described(source):
                yield f"{described(source)} of {name} has the content of {earlier} of {owner}"


def _look(source: Source) -> None:
    if isinstance(source, Clip):
        read_clip(source._replace(frames=1))
    elif not file_of(source).endswith((".nii", ".nii.gz")):
        decode(source)


def _unreadable(items: Sequence[Item], read: Callable[[Item], object], deep: bool) -> Iterator[str]:
    """What is wrong with images, clips and maps that cannot be read, or with maps that hold a value that is none."""
    for item in _some(items, deep, _SAMPLED):
        try:
            read(item)
        except DataError as error:
            yield str(error)


def _some(items: Sequence[Item], deep: bool, count: int) -> Sequence[Item]:
    """All, or a drawn few."""
    return items if deep else [items[row] for row in spread([0] * len(items), count)]


def _sources(samples: Iterable[Sample]) -> list[Source]:
    """Each different source once."""
    flat: Any = (s.source if type(s.source) is tuple else (s.source,) for s in samples)  # a plain tuple holds sources
    return list(dict.fromkeys(itertools.chain.from_iterable(flat)))
