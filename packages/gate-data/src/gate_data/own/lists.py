"""From a benchmark's file to lists of samples: whose picture, which target, in which split."""

from __future__ import annotations

import os
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gate_data.errors import DataError
from gate_data.original_files import Parts, Sample
from gate_data.own.class_names import names_from_file
from gate_data.own.spec import OwnBenchmark
from gate_data.readers import Clip, Cut, Row, Source, dealt, files_of_classes, held_out, table
from gate_data.readers.boxes import coco
from gate_data.readers.captions import coco_captions
from gate_data.readers.clips import VIDEOS
from gate_data.readers.folders import PICTURES

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
    target: str | float
    text: str | tuple[str, ...]
    group: str
    split: str
    where: str


def parts_of(own: OwnBenchmark, folder: Path) -> Parts:
    """All samples that a benchmark's file names, in their splits.

    Args:
        own: what the file says.
        folder: in which it lies; its paths are relative to this.

    Returns:
        Lists, of which no picture has been read.

    Raises:
        DataError: a path that is not there (the first five, and how many), a class in test that training lacks, fewer
            than two classes, a group on both sides, or names that differ only in their case; the message shows them.
    """
    read = {"folders": _from_folders, "table": _from_tables, "coco": _from_coco}[own.data.kind]
    found, note = _gathered(own, read(own, folder))
    _refuse_missing(found)
    names = _class_names(own, folder, found)
    samples = _numbered(own, found, names)
    train, validation, test = _split(own, found, samples)
    if own.benchmark.task in _NAMED:
        _refuse_unseen(own, train, test, names)
    return Parts(train, test, validation, shown_names(own, folder, names), note)


def _root(own: OwnBenchmark, folder: Path) -> Path:
    """The folder of pictures, by its shortest name."""
    root = folder / own.data.root
    short = Path(os.path.normpath(root))
    return short if short.exists() and root.exists() and short.samefile(root) else root


def _from_folders(own: OwnBenchmark, folder: Path) -> list[_Found]:
    root = _root(own, folder)
    splits = {name: given for name in ("train", "validation", "test") if (given := getattr(own.splits, name))}
    clips = own.benchmark.task.startswith("video")
    found = []
    for split, inside in splits.items() or [("", "")]:
        for name, paths in files_of_classes(root / inside, VIDEOS if clips else PICTURES).items():
            sources = [(Clip(path, own.data.frames),) for path in paths] if clips else paths
            found += [_Found(one, name, "", "", split, str(root / inside / name)) for one in sources]
    return found


def _from_tables(own: OwnBenchmark, folder: Path) -> list[_Found]:
    data, splits = own.data, own.splits
    root = _root(own, folder)
    if data.table:
        return [_of_row(own, root, row, _split_of(own, row)) for row in table(folder / data.table, _needed(own))]
    given = {name: path for name in ("train", "validation", "test") if (path := getattr(splits, name))}
    if not given:
        raise DataError("field 'data.table' is missing: a table of all samples, or one per split under [splits]")
    return [
        _of_row(own, root, row, split) for split, path in given.items() for row in table(folder / path, _needed(own))
    ]


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
        columns += [data.target, *([data.text] if own.benchmark.task == "relational" else [])]
    return columns + [one for one in (own.splits.column, own.splits.group) if one]


def _of_row(own: OwnBenchmark, root: Path, row: Row, split: str) -> _Found:
    data, task = own.data, own.benchmark.task
    source: Source | tuple[Source, ...] = _inside(root, row, data.image)
    text: str | tuple[str, ...] = ""
    target: str | float = 0.0
    if task == "pair-scoring":
        source = (str(source), _inside(root, row, data.image2))
        text = (row.text(data.text), row.text(data.text2))
    elif task == "image-text":
        text = (row.text(data.text),)
    elif task == "image-retrieval" and data.image2 in row.values:
        source = (str(source), _inside(root, row, data.image2))
    elif task == "video-regression":
        target = row.number(data.target)
    elif task == "segmentation":
        target = _inside(root, row, data.target)
    else:
        target = row.text(data.target) if task != "multi-label" else str(row.values.get(data.target) or "")
        text = row.text(data.text) if task == "relational" else ""
    if task.startswith("video"):
        source = (Clip(str(source), data.frames),)
    group = row.text(own.splits.group) if own.splits.group else ""
    return _Found(source, target, text, group, split, row.where)


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


def _inside(root: Path, row: Row, column: str) -> str:
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
    data, root = own.data, _root(own, folder)
    given = {name: path for name in ("train", "validation", "test") if (path := getattr(own.splits, name))}
    files = given or {"": data.table}
    if not all(files.values()):
        raise DataError("field 'data.table' is missing: the COCO file of all pictures, or one per split under [splits]")
    found = []
    for split, path in files.items():
        if own.benchmark.task == "image-text":
            captions = coco_captions(folder / path)
            named = (row._replace(values={data.image: file, data.text: row.text("caption")}) for file, row in captions)
            found += [_of_row(own, root, row, split) for row in named]
            continue
        pictures, names = coco(folder / path)
        for picture in pictures:
            source = str(root / picture.file)
            for box in picture.boxes:
                cut = Cut(source, (box.left, box.top, box.right, box.bottom))
                found.append(_Found(cut, names[box.label], "", picture.file, split, f"{folder / path}, {picture.file}"))
    return found


def _refuse_missing(found: Sequence[_Found]) -> None:
    """Every path once: a table of a million rows is looked at before an hour of work, not after it."""
    missing: dict[str, str] = {}
    known: dict[str, bool] = {}
    for one in found:
        for path in _paths(one):
            if path not in known:
                known[path] = Path(path).is_file()
            if not known[path]:
                missing.setdefault(path, one.where)
    if missing:
        first = "; ".join(f"{path} ({where})" for path, where in list(missing.items())[:_SHOWN_PATHS])
        raise DataError(
            f"{len(missing)} of {len(known)} files are not there: {first}{' …' if len(missing) > 5 else ''}"
        )


def _paths(one: _Found) -> list[str]:
    sources = one.source if type(one.source) is tuple else (one.source,)
    return [str(each.source if isinstance(each, Clip | Cut) else each) for each in sources]


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


def named_classes(own: OwnBenchmark, folder: Path) -> tuple[str, ...]:
    """The names that the file gives, itself or in another; none where they are the data's."""
    where, names = "field 'classes.names'", own.classes.names
    if own.classes.file:
        path = folder / own.classes.file
        try:
            where = str(path)
            names = tuple(line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip())
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    if doubled := [name for name, count in Counter(names).items() if count > 1]:
        raise DataError(f"{where}: the class {doubled[0]!r} comes twice")
    return names


def shown_names(own: OwnBenchmark, folder: Path, names: Sequence[str]) -> tuple[str, ...]:
    """What a reader, and a text encoder, should see for each name."""
    if own.classes.words:
        words = names_from_file(folder / own.classes.words, names)
        return tuple(own.classes.shown.get(name, word) for name, word in zip(names, words, strict=True))
    return tuple(own.classes.shown.get(name, name) for name in names)


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
    targets = [0 if pairs and samples[row].group else samples[row].target for row in rows]
    classes = [target if isinstance(target, int) else 0 for target in targets]
    if any(samples[row].group for row in rows):
        stay, taken = dealt([samples[row].group for row in rows], [1 - share], classes, seed=seed)
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
