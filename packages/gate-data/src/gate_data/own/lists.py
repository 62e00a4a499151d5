"""From a benchmark's file to lists of samples: whose picture, which target, in which split."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gate_data.cards.sheet import Hub
from gate_data.errors import DataError, MissingExtraError
from gate_data.original_files import Parts, Sample
from gate_data.own.annotated import SPLITS, annotated, root_of
from gate_data.own.class_names import named_classes, shown_names
from gate_data.own.doubts import left_out
from gate_data.own.spec import OwnBenchmark
from gate_data.readers import (
    Clip,
    Cut,
    Member,
    Row,
    Source,
    dealt,
    files_of_classes,
    held_out,
    held_out_by_label,
    table,
)
from gate_data.readers.captions import coco_captions
from gate_data.readers.clips import VIDEOS
from gate_data.readers.folders import PICTURES, is_saved
from gate_data.readers.source import file_of

_NAMED = frozenset(
    {
        *("image-classification", "zero-shot", "multi-label", "relational", "video-classification"),
        *("knn", "image-retrieval", "clustering"),
    }
)
"""Tasks whose targets are names of classes."""
_UNTRAINED = frozenset({"zero-shot", "multi-label", "image-retrieval", "clustering"})
"""Tasks for which a class in test need not be in training."""
_SHOWN_PATHS = 5


@dataclass(frozen=True)
class _Found:
    """A sample before its class has a number."""

    source: Source | tuple[Source, ...]
    target: str | float | Member
    text: str | tuple[str, ...]
    group: str
    split: str
    where: str


def parts_of(own: OwnBenchmark, folder: Path, *, skip_missing: bool = False) -> Parts:
    """All samples that a benchmark's file names, in their splits.

    Args:
        own: what the file says.
        folder: in which it lies; its paths are relative to this.
        skip_missing: whether samples whose files are not there are left out and counted, and not an error.
    """
    found, note = _gathered(own, _READERS[own.data.kind](own, folder))
    missing, count = _missing(found)
    if missing and not skip_missing:
        raise DataError(_told_missing(missing, count))
    if missing:
        found = [one for one in found if not missing.keys() & set(_paths(one))]
        first = ", ".join(Path(path).name for path in list(missing)[:3])
        note = "; ".join(filter(None, [note, f"{len(missing)} files are not there, and left out: {first}"]))
    note = "; ".join(filter(None, [note, left_out(own, folder)]))
    names = _class_names(own, folder, found)
    samples = _numbered(own, found, names)
    train, validation, test = _split(own, found, samples)
    if own.benchmark.task in _NAMED:
        _refuse_unseen(own, train, test, names)
    return Parts(train, test, validation, shown_names(own, folder, names), note)


def _from_folders(own: OwnBenchmark, folder: Path) -> list[_Found]:
    splits = {name: given for name in SPLITS if (given := getattr(own.splits, name))}
    clips = own.benchmark.task.startswith("video")
    found = []
    for split, inside in splits.items() or [("", "")]:
        root = root_of(own, folder, split)
        for name, paths in files_of_classes(root / inside, VIDEOS if clips else PICTURES).items():
            sources = [(Clip(path, own.data.frames),) for path in paths] if clips else paths
            found += [_Found(one, name, "", "", split, str(root / inside / name)) for one in sources]
    return found


def _from_tables(own: OwnBenchmark, folder: Path) -> list[_Found]:
    data, splits = own.data, own.splits
    if data.table:
        root = root_of(own, folder)
        return [_of_row(own, root, row, _split_of(own, row)) for row in table(folder / data.table, _needed(own))]
    given = {name: path for name in SPLITS if (path := getattr(splits, name))}
    if not given:
        raise DataError("field 'data.table' is missing: a table of all samples, or one per split under [splits]")
    return [
        _of_row(own, root_of(own, folder, split), row, split)
        for split, path in given.items()
        for row in table(folder / path, _needed(own))
    ]


def _from_maps(own: OwnBenchmark, folder: Path) -> list[_Found]:
    pairs = annotated(own, folder, needed=True)
    return [
        _Found(str(picture), str(file), "", "", split, str(file))
        for split, some in pairs.items()
        for picture, file in some
    ]


def _from_datasets(own: OwnBenchmark, folder: Path) -> list[_Found]:
    """Rows that `datasets` saved; its pictures are unpacked once into the user's cache folder."""
    from gate_data.hub.fetching import fetched

    data, place = own.data, root_of(own, folder).resolve()
    if find_spec("datasets") is None:
        raise MissingExtraError(f"{place} is read through datasets: pip install 'gate-data[hub]'")
    if not is_saved(place):
        raise DataError(f"{place} is nothing that datasets' save_to_disk wrote: it has no dataset_dict.json")
    given = {name: part for name in SPLITS if (part := getattr(own.splits, name))}
    columns = _needed(own)[1:]
    target = data.target if data.target in columns else ""
    others = tuple(one for one in columns if one != target)
    roles = given or {"train": "train"}
    hub = Hub(place.name, data.image, target, others, *(roles.get(name, "") for name in SPLITS))
    tables = fetched(hub, place.parent, None).tables
    found = []
    for split, listed in tables.items():
        names = listed.names.get(target)
        for row in listed.rows:
            named = row
            if names and isinstance(label := row.values.get(target), int | list):
                numbers = label if isinstance(label, list) else [label]
                said = data.separator.join(names[number] for number in numbers if 0 <= number < len(names))
                named = row._replace(values={**row.values, target: said})
            found.append(_of_row(own, place, named, split if given else ""))
    return found


def _needed(own: OwnBenchmark) -> list[str]:
    data = own.data
    columns = [data.image]
    if own.benchmark.task == "pair-scoring":
        columns += [data.image2, data.text, data.text2]
    elif own.benchmark.task == "image-text":
        columns.append(data.text)
    elif own.benchmark.task == "image-retrieval":
        pass  # pairs or labels, whichever column there is
    else:
        columns += [*(data.labels or [data.target]), *([data.text] if own.benchmark.task == "relational" else [])]
    return columns + [one for one in (own.splits.column, own.splits.group) if one]


def _of_row(own: OwnBenchmark, root: Path, row: Row, split: str) -> _Found:
    data, task = own.data, own.benchmark.task
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
    return _Found(source, target, text, group, split, row.where)


def _tags(own: OwnBenchmark, row: Row) -> str:
    """A row's labels in one field, also where each has a column of 0 and 1 of its own."""
    data = own.data
    if not data.labels:
        return str(row.values.get(data.target) or "")
    marks = {"True": 1, "False": 0}
    values = {name: marks.get(str(row.values.get(name)), row.values.get(name)) for name in data.labels}
    checked = row._replace(values=values)
    return data.separator.join(name for name in data.labels if checked.integer(name, 0, 1))


def _gathered(own: OwnBenchmark, found: list[_Found]) -> tuple[list[_Found], str]:
    """Of image-text, a sample for each picture with all its captions, equally many; what was left out for that."""
    if own.benchmark.task == "image-retrieval" and any(type(one.source) is tuple for one in found):
        return _things(found), ""
    if own.benchmark.task != "image-text":
        return found, ""
    by_picture: dict[str, list[_Found]] = {}
    for one in found:
        by_picture.setdefault(str(one.source), []).append(one)
    for rows in by_picture.values():
        for one in rows:
            if (one.split, one.group) != (rows[0].split, rows[0].group):
                raise DataError(f"{one.where}: {one.source} is in another split or group than at {rows[0].where}")
    counts = sorted({len(rows) for rows in by_picture.values()})
    note = f"the first {counts[0]} captions of each picture, of {counts[0]} to {counts[-1]}" if len(counts) > 1 else ""
    captions = {key: tuple(str(one.text[0]) for one in rows[: counts[0]]) for key, rows in by_picture.items()}
    return [replace(rows[0], text=captions[key]) for key, rows in by_picture.items()], note


def _things(pairs: Sequence[_Found]) -> list[_Found]:
    """The pictures of pairs, each once: those that pairs join, over others too, show one thing, and stay together."""
    rows: list[tuple[str, str, _Found]] = []
    thing: dict[str, str] = {}

    def root(path: str) -> str:
        while thing.setdefault(path, path) != path:
            path = thing[path]
        return path

    for pair in pairs:
        first, second = map(str, pair.source) if isinstance(pair.source, tuple) else ("", "")
        rows.append((first, second, pair))
        thing[root(second)] = root(first)
    found: dict[str, _Found] = {}
    for first, second, pair in rows:
        for path in (first, second):
            named = replace(pair, source=path, target=root(path), group=pair.group or root(path))
            other = found.setdefault(path, named)
            if (other.split, other.group) != (named.split, named.group):
                raise DataError(f"{pair.where}: {path} is in another split or group than at {other.where}")
    return list(found.values())


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
    given = {getattr(own.splits, name) or name: name for name in ("train", "validation", "test")}
    said = row.text(own.splits.column)
    if said not in given:
        raise row.error(own.splits.column, f"one of {', '.join(given)}")
    return given[said]


def _from_coco(own: OwnBenchmark, folder: Path) -> list[_Found]:
    """COCO's captions by picture, or its boxes, cut out."""
    data = own.data
    if own.benchmark.task != "image-text":
        return _cut_out(own, folder)
    given = {name: path for name in SPLITS if (path := getattr(own.splits, name))}
    files = given or {"": data.table}
    if not all(files.values()):
        raise DataError("field 'data.table' is missing: the COCO file of all pictures, or one per split under [splits]")
    found = []
    for split, path in files.items():
        captions = coco_captions(folder / path)
        named = (row._replace(values={data.image: file, data.text: row.text("caption")}) for file, row in captions)
        found += [_of_row(own, root_of(own, folder, split), row, split) for row in named]
    return found


def _cut_out(own: OwnBenchmark, folder: Path) -> list[_Found]:
    """A sample for each box that is no crowd; those of one picture stay together."""
    from gate_data.own.boxes import read_boxes

    found = []
    for split, listed in read_boxes(own, folder).items():
        for file, objects in zip(listed.files, listed.objects.rows, strict=True):
            for (left, top, wide, high), label, crowd in zip(
                objects["box"], objects["label"], objects["crowd"], strict=True
            ):
                if not crowd:
                    cut = Cut(file, (float(left), float(top), float(left + wide), float(top + high)))
                    found.append(_Found(cut, listed.classes[label], "", file, split, file))
    return found


def _missing(found: Sequence[_Found]) -> tuple[dict[str, str], int]:
    """Files that are not there and who names them, and how many there should be: looked at before an hour of work."""
    missing: dict[str, str] = {}
    known: dict[str, bool] = {}
    for one in found:
        for path in _paths(one):
            if path not in known:
                try:
                    known[path] = Path(path).is_file()
                except OSError:  # a name that no file can have
                    known[path] = False
            if not known[path]:
                missing.setdefault(path, one.where)
    return missing, len(known)


def _told_missing(missing: Mapping[str, str], count: int) -> str:
    first = "; ".join(f"{path} ({where})" for path, where in list(missing.items())[:_SHOWN_PATHS])
    hint = "; paths with \\ are Windows's: write / instead" if os.sep == "/" and "\\" in first else ""
    return f"{len(missing)} of {count} files are not there: {first}{' …' if len(missing) > 5 else ''}{hint}"


def _paths(one: _Found) -> list[str]:
    sources = one.source if type(one.source) is tuple else (one.source,)
    return [file_of(each) for each in sources]  # type: ignore[arg-type]  # a plain tuple holds sources


def _class_names(own: OwnBenchmark, folder: Path, found: Sequence[_Found]) -> tuple[str, ...]:
    """Names in the order of their indices: given, or sorted."""
    if own.benchmark.task not in _NAMED:
        return own.classes.names
    said = sorted({name for one in found for name in _names_in(own, one)})
    by_case: dict[str, str] = {}
    for name in said:
        other = by_case.setdefault(_as_seen(name), name)
        if other != name:
            raise DataError(
                f"classes {other!a} and {name!a} differ only in their case, or in what is not seen: are they "
                "one? Rename one of them"
            )
    given = named_classes(own, folder)
    unknown = sorted(set(said) - set(given)) if given else []
    if unknown:
        raise DataError(f"classes that the list of names lacks: {', '.join(unknown[:8])}")
    names = given or tuple(said)
    if len(names) < (1 if own.benchmark.task == "multi-label" else 2):
        raise DataError(f"one class only ({', '.join(names)}): there is nothing to tell apart")
    return names


def _as_seen(name: str) -> str:
    """A name without its case, in one composition, and without signs that have no width."""
    return "".join(sign for sign in unicodedata.normalize("NFC", name).casefold() if unicodedata.category(sign) != "Cf")


def _names_in(own: OwnBenchmark, one: _Found) -> list[str]:
    if own.benchmark.task != "multi-label":
        return [str(one.target)]
    return [name.strip() for name in str(one.target).split(own.data.separator) if name.strip()]


def _numbered(own: OwnBenchmark, found: Sequence[_Found], names: Sequence[str]) -> list[Sample]:
    number = {name: place for place, name in enumerate(names)}
    named = own.benchmark.task in _NAMED

    def target(one: _Found) -> object:
        if own.benchmark.task == "multi-label":
            mine = set(_names_in(own, one))
            return tuple(int(name in mine) for name in names)
        return number[str(one.target)] if named else one.target

    return [Sample(one.source, target(one), one.text, one.group) for one in found]


def _split(
    own: OwnBenchmark, found: Sequence[_Found], samples: Sequence[Sample]
) -> tuple[list[Sample], list[Sample], list[Sample]]:
    """Three lists; what nobody gave is drawn, by group or by class."""
    rows: dict[str, list[int]] = {"train": [], "validation": [], "test": [], "": []}
    for row, one in enumerate(found):
        rows[one.split].append(row)
    trained = own.benchmark.task not in ("zero-shot", "pair-scoring")
    if not trained:
        chosen = rows["test"] or rows[""] or rows["train"]
        return [], [], [samples[row] for row in chosen]
    rows["train"] += rows[""]
    if any(one.group for one in found):  # what is given: what is drawn keeps groups whole
        _refuse_torn({name: [samples[row].group for row in rows[name]] for name in ("train", "validation", "test")})
    if not rows["test"]:
        rows["train"], rows["test"] = _drawn(own, samples, rows["train"], own.splits.test_share)
    if not rows["validation"]:
        rows["train"], rows["validation"] = _drawn(own, samples, rows["train"], own.splits.validation_share)
    train, validation, test = ([samples[row] for row in rows[name]] for name in ("train", "validation", "test"))
    return train, validation, test


def _drawn(
    own: OwnBenchmark, samples: Sequence[Sample], rows: Sequence[int], share: float
) -> tuple[list[int], list[int]]:
    """Rows that stay, and rows that are taken from them."""
    seed = own.splits.seed
    pairs = own.benchmark.task == "image-retrieval"  # a thing is its own class, and cannot be on both sides
    targets: list[Any] = [0 if pairs and samples[row].group else samples[row].target for row in rows]
    classes = [target if isinstance(target, int) else 0 for target in targets]
    if any(samples[row].group for row in rows):
        stay, taken = dealt([samples[row].group for row in rows], [1 - share], classes, seed=seed)
    elif targets and type(targets[0]) is tuple and own.benchmark.task == "multi-label":
        stay, taken = held_out_by_label(targets, share, seed=seed)
    else:
        stay, taken = held_out(classes, share, seed=seed)
    return [rows[place] for place in stay], [rows[place] for place in taken]


def _refuse_torn(groups: dict[str, list[str]]) -> None:
    for first, second in (("train", "test"), ("train", "validation"), ("validation", "test")):
        both = sorted(set(groups[first]) & set(groups[second]))
        if both:
            raise DataError(f"{len(both)} groups are in {first} and in {second}: {', '.join(both[:5])}")


def _refuse_unseen(own: OwnBenchmark, train: Iterable[Sample], test: Iterable[Sample], names: Sequence[str]) -> None:
    if own.benchmark.task in _UNTRAINED:
        return
    unseen = sorted({one.target for one in test} - {one.target for one in train})
    if unseen:
        raise DataError(f"classes in test that training lacks: {', '.join(names[index] for index in unseen[:8])}")


_READERS = {
    "folders": _from_folders,
    "table": _from_tables,
    "coco": _from_coco,
    "voc": _cut_out,
    "yolo": _cut_out,
    "maps": _from_maps,
    "datasets": _from_datasets,
}
