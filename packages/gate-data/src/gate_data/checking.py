"""What lies under a data root: which data sets, whether they are whole, and whether their splits overlap."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from gate_data.cards import ICINW, SHEETS
from gate_data.errors import DataError
from gate_data.original_files import MAP_SIDE, Originals, Sample, counted
from gate_data.readers import Stored
from gate_data.readers.clips import read_clip
from gate_data.readers.decode import decode
from gate_data.readers.source import Clip, Cut, Source, described, read_bytes, stamp
from gate_data.readers.splits import spread

Item = TypeVar("Item")
_SAMPLED = 64
"""Pictures of each split that are decoded where not all are."""
_HASHED = 2000
"""Pictures of each split whose contents are compared where not all are."""


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


def check_data(originals: Mapping[str, Originals[Any]], root: Path, deep: bool = False) -> list[Found]:
    """Look at every data set under a data root.

    Args:
        originals: how each data set's files are read, by its id.
        root: the data root.
        deep: whether every picture and clip is decoded and hashed, not a sample of them.

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
    sheet = SHEETS.get(name) or ICINW.get(name)
    try:
        folder = originals.find(root)
    except DataError as error:
        where = f"; {sheet.site}, about {sheet.gigabytes:g} GB" if sheet is not None and sheet.gigabytes else ""
        return Found(name, "missing", problems=(f"{error}{where}",))
    expected = sheet.sizes if sheet is not None and any(sheet.sizes) else None
    try:
        originals.check(folder)
        parts = originals.parts(folder) if originals.parts is not None else None
    except DataError as error:
        return Found(name, "wrong", expected=expected, problems=(str(error),))
    if parts is None:
        return Found(name, "whole", expected=expected, problems=("its files are in one piece",))
    sides = {"train": list(parts.train), "validation": list(parts.validation or ()), "test": list(parts.test)}
    problems = [
        *_overlaps(sides),
        *_same_contents(sides, deep),
        *_broken(sides, deep),
        *_wrong_maps(sides, originals.form.read_map, deep),
    ]
    counts = counted(parts)
    published = SHEETS.get(name)
    differs = "" if published is None else published.differs(*counts, len(parts.classes))
    short = differs or parts.missing or (published is None and expected is not None and counts != expected)
    right = "incomplete" if short else "whole"
    state = "wrong" if problems else right
    remarks = tuple(filter(None, [differs, parts.note]))
    return Found(name, state, counts, expected, tuple(problems) or remarks)


def _overlaps(sides: Mapping[str, Sequence[Sample]]) -> list[str]:
    """Files, and patients, lesions, films or scenes, that are in two splits."""
    shared_by = []
    for (first, members), (second, further) in itertools.combinations(sides.items(), 2):
        texts = any(sample.text for sample in members)  # of a picture several questions may be asked, in one split
        files = {sample.source for sample in members} & {sample.source for sample in further}
        if files:
            example = next(iter(files))
            shown = described(example[0]) if type(example) is tuple else described(example)  # type: ignore[arg-type]
            shared_by.append(f"{len(files)} files are in {first} and in {second}, such as {shown}")
        groups = ({sample.group for sample in members} & {sample.group for sample in further}) - {""}
        if groups and not texts:
            shared_by.append(f"{len(groups)} groups are in {first} and in {second}, such as {min(groups)}")
    return shared_by


def _same_contents(sides: Mapping[str, Sequence[Sample]], deep: bool) -> list[str]:
    owners: dict[str, tuple[str, str]] = {}
    twins = []
    for name, samples in sides.items():
        sources = [source for source in _sources(samples) if not isinstance(source, Stored)]
        for source in _some(sources, deep, _HASHED):
            inner: Any = source.source if isinstance(source, Cut | Clip) else source
            box = str(source.box) if isinstance(source, Cut) else ""
            try:
                digest = hashlib.sha256(read_bytes(inner)).hexdigest() + box
            except DataError as error:
                twins.append(str(error))
                continue
            owner = owners.setdefault(digest, (name, described(source)))
            if owner[0] != name and owner[1] != described(source):
                twins.append(f"{described(source)} of {name} has the content of {owner[1]} of {owner[0]}")
    return twins


def _broken(sides: Mapping[str, Sequence[Sample]], deep: bool) -> list[str]:
    broken = []
    for samples in sides.values():
        for source in _some(_sources(samples), deep, _SAMPLED):
            try:
                if isinstance(source, Clip):
                    read_clip(source._replace(frames=1))
                elif not str(stamp(source)).split()[0].endswith((".nii", ".nii.gz")):
                    decode(source)
            except DataError as error:
                broken.append(str(error))
    return broken


def _wrong_maps(sides: Mapping[str, Sequence[Sample]], read: Callable[[Any, int], Any] | None, deep: bool) -> list[str]:
    """Class maps and depths that cannot be read, or hold a value that is none."""
    if read is None:
        return []
    wrong = []
    for samples in sides.values():
        for sample in _some(samples, deep, _SAMPLED):
            try:
                read(sample.target, MAP_SIDE)
            except DataError as error:
                wrong.append(str(error))
    return wrong


def _some(items: Sequence[Item], deep: bool, count: int) -> list[Item]:
    """All, or a drawn few."""
    return list(items) if deep else [items[row] for row in spread([0] * len(items), count)]


def _sources(samples: Iterable[Sample]) -> list[Source]:
    """Each different source once."""
    flat: dict[Source, None] = {}
    for sample in samples:
        for source in sample.source if type(sample.source) is tuple else (sample.source,):
            flat.setdefault(source)  # type: ignore[arg-type]  # a plain tuple holds sources
    return list(flat)
