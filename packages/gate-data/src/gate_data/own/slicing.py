"""By what test samples are sliced: columns, levels of folders, EXIF fields; and what is no slice."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from PIL import ExifTags

from gate_data.errors import DataError
from gate_data.original_files import Parts, Sample
from gate_data.own.class_names import as_seen
from gate_data.own.entry import MISSING, Entry
from gate_data.own.odd import one_number
from gate_data.own.spec import OwnBenchmark
from gate_data.readers.decode import open_picture
from gate_data.readers.source import Cut, Member, Source, file_of

_IFD = 0x8769
"""EXIF's tag of the camera's own fields."""


def sliced_by(own: OwnBenchmark, root: Path, entry: Entry) -> tuple[tuple[str, str], ...]:
    """Return names and values of an entry's slices but those of EXIF."""
    named = own.slices
    if named.columns and not entry.slices:
        raise DataError(
            f"field 'slices.columns' names {named.columns[0]!r}, and data of kind {own.data.kind!r} have no columns: "
            "slice by 'folders' or 'exif'"
        )
    values = [(name, value or MISSING) for name, value in zip(named.columns, entry.slices, strict=False)]
    if named.folders:
        folders = Path(os.path.relpath(entry.paths[0], root)).parts[:-1]
        for level in named.folders:
            if level < 1:
                raise DataError(
                    f"field 'slices.folders' has the level {level}; expected 1 for the first folder, or more"
                )
            values.append((f"folder {level}", folders[level - 1] if level <= len(folders) else MISSING))
    return tuple(values)


def refuse_missing_twice(own: OwnBenchmark, entries: Sequence[Entry]) -> None:
    """Refuse a column that has the word for a missing value, and missing values: both would be one slice."""
    for at, name in enumerate(own.slices.columns):
        blank = next((entry for entry in entries if entry.slices and not entry.slices[at]), None)
        word = next((entry for entry in entries if entry.slices and entry.slices[at] == MISSING), None)
        if blank is not None and word is not None:
            raise DataError(
                f"field 'slices': {name!r} has no value at {blank.where} and {MISSING!r} at {word.where}, which is "
                "what missing values are called: give one of them another word"
            )


def refuse_slices(own: OwnBenchmark, samples: Sequence[Sample]) -> None:
    """Refuse what has a value of its own for nearly every test sample, and a column's values that look like one."""
    for at, (name, _) in enumerate(samples[0].slices if samples else ()):
        values = {sample.slices[at][1] for sample in samples}
        if len(samples) > 3 and len(values) > len(samples) / 2:
            raise DataError(
                f"field 'slices': {name!r} has {len(values):,} values for {len(samples):,} test samples, such as "
                f"{min(values)!r}: a slice has several samples; name a column that they share"
            )
        by_look: dict[str, list[str]] = {}
        for value in sorted(values) if name in own.slices.columns else ():
            by_look.setdefault(as_seen(value), []).append(value)
        for alike in (*by_look.values(), *(one_number(values) if by_look else ())):
            if len(alike) > 1:
                raise DataError(
                    f"field 'slices': {name!r} has the values {alike[0]!a} and {alike[1]!a} for what looks like one "
                    "slice: write it alike in all rows"
                )


def with_exif(own: OwnBenchmark, parts: Parts) -> Parts:
    """The same with the EXIF fields of test samples that the file names, read from the images' headers."""
    if not own.slices.exif:
        return parts
    tags = {name: tag for tag, name in (*ExifTags.TAGS.items(), *((key.value, key.name) for key in ExifTags.Base))}
    for name in own.slices.exif:
        if name not in tags:
            raise DataError(f"field 'slices.exif' names {name!r}, which is no EXIF field; expected one such as 'Model'")
    wanted = {name: tags[name] for name in own.slices.exif}
    sliced = [sample._replace(slices=(*sample.slices, *_exif(sample, wanted))) for sample in parts.test]
    refuse_slices(own, sliced)
    return replace(parts, test=sliced)


def _exif(sample: Sample, wanted: dict[str, int]) -> list[tuple[str, str]]:
    source: Source = sample.source[0] if type(sample.source) is tuple else sample.source  # type: ignore[assignment]
    file = source.source if isinstance(source, Cut) else source
    values: dict[int, object] = {}
    try:
        with open_picture(file if isinstance(file, Member) else file_of(source)) as image:
            exif = image.getexif()
            values = {**exif, **exif.get_ifd(_IFD)}
    except (DataError, OSError, ValueError, KeyError, TypeError, SyntaxError):
        pass  # what cannot be read is said when it is decoded; EXIF that is broken is none
    return [(f"EXIF {name}", " ".join(str(values.get(tag, "")).split()).strip("\0 ")[:80] or MISSING)
            for name, tag in wanted.items()]  # fmt: skip
