"""From a benchmark's file to entries: whose picture, and which target in the words of the data, not yet numbered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from gate_data.cards import Hub
from gate_data.errors import DataError, MissingExtraError
from gate_data.own.annotated import SPLITS, annotated, read_boxes, root_of
from gate_data.own.spec import OwnBenchmark
from gate_data.readers import Clip, Cut, Member, Row, files_of_classes, table
from gate_data.readers.captions import coco_captions
from gate_data.readers.clips import VIDEOS
from gate_data.readers.folders import PICTURES, is_saved
from gate_data.readers.source import Source, file_of


@dataclass(frozen=True)
class Entry:
    """A sample before its class has a number."""

    source: Source | tuple[Source, ...]
    target: str | float | Member
    text: str | tuple[str, ...]
    group: str
    split: str
    where: str

    @property
    def paths(self) -> list[str]:
        """Files that have to be there."""
        sources = self.source if type(self.source) is tuple else (self.source,)
        return [file_of(source) for source in sources]  # type: ignore[arg-type]  # a plain tuple holds sources


def entries_of(own: OwnBenchmark, folder: Path) -> tuple[list[Entry], str]:
    """All that a benchmark's file names, and what was left out of it."""
    return _gathered(own, _READERS[own.data.kind](own, folder))


def _from_folders(own: OwnBenchmark, folder: Path) -> list[Entry]:
    clips = own.samples.startswith("video")
    entries = []
    for split, inside in own.splits.named.items() or [("", "")]:
        root = root_of(own, folder, split)
        for name, paths in files_of_classes(root / inside, VIDEOS if clips else PICTURES).items():
            sources = [(Clip(path, own.data.frames),) for path in paths] if clips else paths
            entries += [Entry(source, name, "", "", split, str(root / inside / name)) for source in sources]
    return entries


def _from_tables(own: OwnBenchmark, folder: Path) -> list[Entry]:
    data, files = own.data, own.splits.named
    if data.table:
        root = root_of(own, folder)
        return [_of_row(own, root, row, _split_of(own, row)) for row in table(folder / data.table, _needed(own))]
    if not files:
        raise DataError("field 'data.table' is missing: a table of all samples, or one per split under [splits]")
    return [
        _of_row(own, root_of(own, folder, split), row, split)
        for split, path in files.items()
        for row in table(folder / path, _needed(own))
    ]


def _from_maps(own: OwnBenchmark, folder: Path) -> list[Entry]:
    pairs = annotated(own, folder, needed=True)
    return [
        Entry(str(picture), str(file), "", "", split, str(file))
        for split, annotations in pairs.items()
        for picture, file in annotations
    ]


def _from_datasets(own: OwnBenchmark, folder: Path) -> list[Entry]:
    """Rows that `datasets` saved; its pictures are unpacked once into the user's cache folder."""
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
    tables = fetched(hub, root.parent, None).tables
    entries = []
    for split, listed in tables.items():
        names = listed.names.get(target)
        for row in listed.rows:
            if names and isinstance(label := row.values.get(target), int | list):
                numbers = label if isinstance(label, list) else [label]
                words = data.separator.join(names[number] for number in numbers if 0 <= number < len(names))
                row = row._replace(values={**row.values, target: words})
            entries.append(_of_row(own, root, row, split if own.splits.named else ""))
    return entries


def _needed(own: OwnBenchmark) -> list[str]:
    data = own.data
    columns = [data.image]
    if own.samples == "pair-scoring":
        columns += [data.image2, data.text, data.text2]
    elif own.samples == "image-text":
        columns.append(data.text)
    elif own.samples == "image-retrieval":
        pass  # pairs or labels, whichever column there is
    else:
        columns += [*(data.labels or [data.target]), *([data.text] if own.samples == "relational" else [])]
    return columns + [column for column in (own.splits.column, own.splits.group) if column]


def _of_row(own: OwnBenchmark, root: Path, row: Row, split: str) -> Entry:
    data, task = own.data, own.samples
    first = _inside(root, row, data.image)
    source: Source | tuple[Source, ...] = first
    text: str | tuple[str, ...] = ""
    target: str | float | Member = 0.0
    if task == "pair-scoring":
        source = (first, _inside(root, row, data.image2))
        text = (row.text(data.text), row.text(data.text2))
    elif task == "image-text":
        text = (row.text(data.text),)
    elif task == "image-retrieval" and data.image2 in row.values:
        source = (first, _inside(root, row, data.image2))
    elif task in ("regression", "video-regression"):
        target = row.number(data.target)
    elif task == "segmentation":
        target = _inside(root, row, data.target)
    else:
        target = row.text(data.target) if task != "multi-label" else _tags(own, row)
        text = row.text(data.text) if task == "relational" else ""
    if task.startswith("video"):
        source = (Clip(first, data.frames),)
    group = row.text(own.splits.group) if own.splits.group else ""
    return Entry(source, target, text, group, split, row.where)


def _tags(own: OwnBenchmark, row: Row) -> str:
    """A row's labels in one field, also where each has a column of 0 and 1 of its own."""
    data = own.data
    if not data.labels:
        return str(row.values.get(data.target) or "")
    marks = {"True": 1, "False": 0}
    values = {name: marks.get(str(row.values.get(name)), row.values.get(name)) for name in data.labels}
    checked = row._replace(values=values)
    return data.separator.join(name for name in data.labels if checked.integer(name, 0, 1))


def _gathered(own: OwnBenchmark, entries: list[Entry]) -> tuple[list[Entry], str]:
    """Of image-text, a sample for each picture with all its captions, equally many; what was left out for that."""
    if own.samples == "image-retrieval" and any(type(entry.source) is tuple for entry in entries):
        return _things(entries), ""
    if own.samples != "image-text":
        return entries, ""
    by_picture: dict[str, list[Entry]] = {}
    for entry in entries:
        by_picture.setdefault(str(entry.source), []).append(entry)
    for rows in by_picture.values():
        for entry in rows:
            if (entry.split, entry.group) != (rows[0].split, rows[0].group):
                raise DataError(f"{entry.where}: {entry.source} is in another split or group than at {rows[0].where}")
    counts = sorted({len(rows) for rows in by_picture.values()})
    note = f"the first {counts[0]} captions of each picture, of {counts[0]} to {counts[-1]}" if len(counts) > 1 else ""
    captions = {key: tuple(str(entry.text[0]) for entry in rows[: counts[0]]) for key, rows in by_picture.items()}
    return [replace(rows[0], text=captions[key]) for key, rows in by_picture.items()], note


def _things(pairs: Sequence[Entry]) -> list[Entry]:
    """The pictures of pairs, each once: those that pairs join, over others too, show one thing, and stay together."""
    rows: list[tuple[str, str, Entry]] = []
    parent: dict[str, str] = {}

    def root(path: str) -> str:
        while parent.setdefault(path, path) != path:
            path = parent[path]
        return path

    for pair in pairs:
        first, second = map(str, pair.source) if isinstance(pair.source, tuple) else ("", "")
        rows.append((first, second, pair))
        parent[root(second)] = root(first)
    entries: dict[str, Entry] = {}
    for first, second, pair in rows:
        for path in (first, second):
            named = replace(pair, source=path, target=root(path), group=pair.group or root(path))
            earlier = entries.setdefault(path, named)
            if (earlier.split, earlier.group) != (named.split, named.group):
                raise DataError(f"{pair.where}: {path} is in another split or group than at {earlier.where}")
    return list(entries.values())


def _inside(root: Path, row: Row, column: str) -> str | Member:
    if isinstance(held := row.values.get(column), Member):
        return held
    path = Path(row.text(column))
    if ".." in path.parts:
        raise row.error(column, f"a path inside {root}")
    return str(path if path.is_absolute() else root / path)


def _split_of(own: OwnBenchmark, row: Row) -> str:
    if not own.splits.column:
        return ""
    splits = {getattr(own.splits, name) or name: name for name in ("train", "validation", "test")}
    value = row.text(own.splits.column)
    if value not in splits:
        raise row.error(own.splits.column, f"one of {', '.join(splits)}")
    return splits[value]


def _from_coco(own: OwnBenchmark, folder: Path) -> list[Entry]:
    """COCO's captions by picture, or its boxes, cut out."""
    data = own.data
    if own.samples != "image-text":
        return _cut_out(own, folder)
    files = own.splits.named or {"": data.table}
    if not all(files.values()):
        raise DataError("field 'data.table' is missing: the COCO file of all pictures, or one per split under [splits]")
    entries = []
    for split, path in files.items():
        captions = coco_captions(folder / path)
        named = (row._replace(values={data.image: file, data.text: row.text("caption")}) for file, row in captions)
        entries += [_of_row(own, root_of(own, folder, split), row, split) for row in named]
    return entries


def _cut_out(own: OwnBenchmark, folder: Path) -> list[Entry]:
    """A sample for each box that is no crowd; those of one picture stay together."""
    entries = []
    for split, listed in read_boxes(own, folder).items():
        for file, objects in zip(listed.files, listed.objects.rows, strict=True):
            for box, label, crowd in zip(objects["box"], objects["label"], objects["crowd"], strict=True):
                if not crowd:
                    x, y, wide, high = (float(side) for side in box)
                    cut = Cut(file, (x, y, x + wide, y + high))
                    entries.append(Entry(cut, listed.classes[label], "", file, split, file))
    return entries


_READERS = {
    "folders": _from_folders,
    "table": _from_tables,
    "coco": _from_coco,
    "voc": _cut_out,
    "yolo": _cut_out,
    "maps": _from_maps,
    "datasets": _from_datasets,
}
