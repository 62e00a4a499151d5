"""From a benchmark's file to entries: whose image, and which target in the words of the data, not yet numbered."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from itertools import repeat
from pathlib import Path

from gate_data.boxes.files import remarks_of
from gate_data.cards import Hub
from gate_data.errors import DataError, MissingExtraError
from gate_data.own.annotated import SPLITS, annotated, coco_files, read_boxes, root_of
from gate_data.own.columns import splits_in
from gate_data.own.entry import Entry
from gate_data.own.spec import CAPTIONED, OwnBenchmark
from gate_data.own.webdataset import lacking, samples_of_shards
from gate_data.readers import Clip, Cut, Member, Row, files_of_classes, table
from gate_data.readers.captions import coco_captions
from gate_data.readers.clips import VIDEOS
from gate_data.readers.folders import PICTURES, is_saved
from gate_data.readers.source import File, Source
from gate_data.readers.turning import turned_maps

_LONGEST_NAME = 1000
"""Characters of a class or a group, such as a path."""


def entries_of(own: OwnBenchmark, folder: Path) -> tuple[list[Entry], str]:
    """All that a benchmark's file names, and what was left out of it."""
    if own.data.kind in ("coco", "voc", "yolo") and own.samples not in CAPTIONED:
        return _cut_out(own, folder)
    if own.data.kind == "webdataset":
        left_out: list[str] = []
        shown = list(samples_of_shards(own, folder, left_out))
        remark = lacking(left_out, len(shown))
        entries, note = _captioned(own, shown) if own.samples in CAPTIONED else (shown, "")
        return entries, "; ".join(filter(None, [remark, note]))
    entries = list(_READERS[own.data.kind](own, folder))
    if own.samples == "segmentation":
        return upright_maps(entries)
    if own.samples == "image-retrieval" and any(type(entry.source) is tuple for entry in entries):
        return _things(entries), ""
    return _captioned(own, entries) if own.samples in CAPTIONED else (entries, "")


def upright_maps(entries: list[Entry]) -> tuple[list[Entry], str]:
    """Entries whose class maps lie on their images as these are seen, and what was done for it."""
    pictures: list[File] = [entry.source for entry in entries]  # type: ignore[misc]  # one still image each
    maps: list[File] = [entry.target for entry in entries]  # type: ignore[misc]  # a file each
    turned, note = turned_maps(pictures, maps)
    return [entry._replace(target=target) for entry, target in zip(entries, turned, strict=True)], note


def _from_folders(own: OwnBenchmark, folder: Path) -> Iterator[Entry]:
    clips = own.samples.startswith("video")
    for split, inside in own.splits.named.items() or [("", "")]:
        root = root_of(own, folder, split) / inside
        listed = files_of_classes(root, VIDEOS if clips else PICTURES)
        tops = {name.partition("/")[0] for name in listed if "/" in name}
        words = splits_in(sorted(tops))  # seg_train/a, seg_test/a
        parts = splits_in(sorted(tops), exact=True) or (words if "train" in words and len(words) > 1 else {})
        if not own.splits.named and parts:
            lines = ", ".join(f'{split} = "{name}"' for split, name in parts.items())
            raise DataError(
                f"{root} holds {', '.join(parts.values())} with folders of classes in them, and the benchmark's file "
                f"names no splits: write {lines} under [splits], or remove the file so that it is written again"
            )
        for name, paths in listed.items():
            where = str(root / name)
            if clips:
                yield from [Entry((Clip(path, own.data.frames),), name, split, where) for path in paths]
            else:  # as Entry(path, name, split, where), of a million in a third of the time
                rows = zip(paths, *map(repeat, (name, split, where, "", "", ())), strict=False)
                yield from map(partial(tuple.__new__, Entry), rows)


def _from_tables(own: OwnBenchmark, folder: Path) -> Iterator[Entry]:
    files = {"": own.data.table} if own.data.table else own.splits.named
    if not files:
        raise DataError("field 'data.table' is missing: a table of all samples, or one per split under [splits]")
    for split, path in files.items():
        root = root_of(own, folder, split)
        for row in table(folder / path, _needed(own)):
            yield _of_row(own, root, row, split or _split_of(own, row))


def _from_maps(own: OwnBenchmark, folder: Path) -> Iterator[Entry]:
    for split, pairs in annotated(own, folder, needed=True).items():
        for picture, file in pairs:
            yield Entry(str(picture), str(file), split, str(file))


def _from_datasets(own: OwnBenchmark, folder: Path) -> Iterator[Entry]:
    """Rows that `datasets` saved; its images are unpacked once into the user's cache folder."""
    from gate_data.hub.fetching import fetched

    data, root = own.data, root_of(own, folder).resolve()
    if find_spec("datasets") is None:
        raise MissingExtraError(f"{root} is read through datasets: pip install 'gate-data[hub]'")
    if not is_saved(root):
        raise DataError(f"{root} is nothing that datasets' save_to_disk wrote: it has no dataset_dict.json")
    columns = _needed(own)[1:]
    target = data.target if data.target in columns else ""
    further = tuple(column for column in columns if column != target)
    roles = own.splits.named or {"train": "train"}
    train, validation, test = (roles.get(name, "") for name in SPLITS)
    hub = Hub(root.name, data.image, target, further, train, validation, test)
    for split, listed in fetched(hub, root.parent, None).tables.items():
        names = listed.names.get(target)
        for row in listed.rows:
            _refuse_paths_elsewhere(own, row)
            if names and isinstance(label := row.values.get(target), int | list):
                numbers = label if isinstance(label, list) else [label]
                if any(not isinstance(number, int) or not 0 <= number < len(names) for number in numbers):
                    raise row.error(target, f"a class from 0 to {len(names) - 1}: leave out rows of hidden labels")
                words = data.separator.join(names[number] for number in numbers)
                row = row._replace(values={**row.values, target: words})
            yield _of_row(own, root, row, split if own.splits.named else "")


def _refuse_paths_elsewhere(own: OwnBenchmark, row: Row) -> None:
    """Refuse a row of what `datasets` saved whose images are texts that name files outside of its folder."""
    for column in (own.data.image, own.data.image2, *([own.data.target] if own.samples == "segmentation" else [])):
        if isinstance(row.values.get(column), str):
            row.path(column)


def _from_coco(own: OwnBenchmark, folder: Path) -> Iterator[Entry]:
    """COCO's captions by image."""
    for split, path in coco_files(own).items():
        root = root_of(own, folder, split)
        for file, row in coco_captions(folder / path):
            named = row._replace(values={own.data.image: file, own.data.text: row.text("caption")})
            yield _of_row(own, root, named, split)


def _cut_out(own: OwnBenchmark, folder: Path) -> tuple[list[Entry], str]:
    """A sample for each box that is no crowd; those of one image stay together."""
    entries = []
    lists = read_boxes(own, folder)
    for split, listed in lists.items():
        for file, objects in zip(listed.files, listed.objects.rows, strict=True):
            for box, label, crowd in zip(objects["box"], objects["label"], objects["crowd"], strict=True):
                if not crowd:
                    x, y, wide, high = (float(side) for side in box)
                    cut = Cut(file, (x, y, x + wide, y + high))
                    entries.append(Entry(cut, listed.classes[label], split, file, group=file))
    return entries, "; ".join(remarks_of(lists))


_READERS = {
    "folders": _from_folders,
    "table": _from_tables,
    "coco": _from_coco,
    "maps": _from_maps,
    "datasets": _from_datasets,
}


def _needed(own: OwnBenchmark) -> list[str]:
    data = own.data
    of_task = {
        "pair-scoring": [data.image2, data.text, data.text2],
        **{name: [data.text] for name in CAPTIONED},
        "image-retrieval": [],  # pairs or labels, whichever column there is
        "relational": [data.target, data.text],
    }
    columns = [data.image, *of_task.get(own.samples, data.labels or [data.target])]
    return columns + [column for column in (own.splits.column, own.splits.group, *own.slices.columns) if column]


def _of_row(own: OwnBenchmark, root: Path, row: Row, split: str) -> Entry:
    data, task = own.data, own.samples
    first = _inside(root, row, data.image)
    source: Source | tuple[Source, ...] = first
    text: str | tuple[str, ...] = ""
    target: str | float | Member = 0.0
    if task == "pair-scoring" or (task == "image-retrieval" and data.image2 in row.values):
        source = (first, _inside(root, row, data.image2))
    if task == "pair-scoring":
        text = (row.text(data.text), row.text(data.text2))
    elif task in CAPTIONED:
        text = _captions(row, data.text)
    elif task in ("regression", "video-regression"):
        target = row.number(data.target)
    elif task == "segmentation":
        target = _inside(root, row, data.target)
    elif source is first:
        target = row.text(data.target) if task != "multi-label" else _tags(own, row)
        text = row.text(data.text) if task == "relational" else ""
        if task != "multi-label" and len(target) > _LONGEST_NAME:
            raise row.error(data.target, f"the name of a class, of at most {_LONGEST_NAME:,} characters")
    if task.startswith("video"):
        source = (Clip(first, data.frames),)
    if isinstance(target, str) and ("\n" in target or "\r" in target):
        raise row.error(data.target, "a label on one line: is a quote before it not closed?")
    group = row.mark(own.splits.group, needed=True, most=_LONGEST_NAME) if own.splits.group else ""
    slices = tuple(row.mark(column) for column in own.slices.columns)
    return Entry(source, target, split, row.where, text, group, slices)


def _tags(own: OwnBenchmark, row: Row) -> str:
    """A row's labels in one field, also where each has a column of 0 and 1 of its own."""
    data = own.data
    if not data.labels:
        return str(row.values.get(data.target) or "")
    marks = {"True": 1, "False": 0}
    values = {name: marks.get(str(row.values.get(name)), row.values.get(name)) for name in data.labels}
    checked = row._replace(values=values)
    return data.separator.join(name for name in data.labels if checked.integer(name, 0, 1))


def _inside(root: Path, row: Row, column: str) -> str | Member:
    if isinstance(held := row.values.get(column), Member):
        return held
    path = Path(row.text(column))
    if "\n" in row.text(column):
        raise row.error(column, "a path on one line: is a quote before it not closed?")
    if ".." in path.parts:
        raise row.error(column, f"a path inside {root}")
    return str(path if path.is_absolute() else root / path)


_LIST = re.compile(r"""\[\s*(["']).*\1\s*\]""", re.DOTALL)


def _captions(row: Row, column: str) -> tuple[str, ...]:
    """Return a row's caption, or all of a list of them, as JSON lines may hold it."""
    held = row.values.get(column)
    if not isinstance(held, list):
        return (_caption(row, column),)
    if not held:
        raise row.error(column, "a caption, or a list of at least one")
    return tuple(_caption(row._replace(values={column: caption}), column) for caption in held)


def _caption(row: Row, column: str) -> str:
    """Return a caption; a list of them, as programs write it into one cell, is no caption."""
    caption = row.text(column)
    if _LIST.fullmatch(caption):
        raise row.error(column, "one caption: give each of a list a row of its own")
    return caption


def _split_of(own: OwnBenchmark, row: Row) -> str:
    if not own.splits.column:
        return ""
    splits = {getattr(own.splits, name) or name: name for name in SPLITS}
    value = row.text(own.splits.column)
    if value not in splits:
        raise row.error(own.splits.column, f"one of {', '.join(splits)}")
    return splits[value]


def _captioned(own: OwnBenchmark, entries: Iterable[Entry]) -> tuple[list[Entry], str]:
    """A sample for each image with equally many captions, and what was left out for that.

    Retrieval without training takes all captions: an image with fewer than another has empty ones, which count nowhere.
    """
    by_picture: dict[str, list[Entry]] = {}
    for entry in entries:
        first = by_picture.setdefault(str(entry.source), [entry])[0]
        _refuse_torn(entry, first, str(entry.source))
        if entry is not first:
            by_picture[str(entry.source)].append(entry)
    listed = [(rows[0], [caption for entry in rows for caption in entry.text]) for rows in by_picture.values()]
    counts = sorted({len(captions) for _, captions in listed})
    if own.samples == "zero-shot-retrieval":
        most = counts[-1]
        return [
            first._replace(text=(*captions, *[""] * (most - len(captions)))) for first, captions in listed
        ], f"{sum(len(captions) for _, captions in listed):,} captions of {len(listed):,} images"
    words = "caption" if counts[0] == 1 else f"{counts[0]} captions"
    note = f"the first {words} of each image, of {counts[0]} to {counts[-1]}" if len(counts) > 1 else ""
    return [first._replace(text=tuple(captions[: counts[0]])) for first, captions in listed], note


def _refuse_torn(entry: Entry, earlier: Entry, path: str) -> None:
    if (entry.split, entry.group) != (earlier.split, earlier.group):
        raise DataError(f"{entry.where}: {path} is in another split or group than at {earlier.where}")


def _things(pairs: Sequence[Entry]) -> list[Entry]:
    """The images of pairs, each once: those that pairs join, over others too, show one thing, and stay together."""
    parent: dict[str, str] = {}

    def root(path: str) -> str:
        while parent.setdefault(path, path) != path:
            path = parent[path]
        return path

    rows = [(str(pair.source[0]), str(pair.source[1]), pair) for pair in pairs if isinstance(pair.source, tuple)]
    for first, second, _ in rows:
        parent[root(second)] = root(first)
    entries: dict[str, Entry] = {}
    for first, second, pair in rows:
        for path in (first, second):
            named = pair._replace(source=path, target=root(path), group=pair.group or root(path))
            _refuse_torn(named, entries.setdefault(path, named), path)
    return list(entries.values())
