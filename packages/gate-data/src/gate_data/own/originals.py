"""From a benchmark's file to a way of reading what it names: lists of samples with their targets, in splits.

One file of more than 400 lines: the steps from entries to splits hand on the same lists.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any, Literal

from gate_data.data import Data
from gate_data.errors import DataError
from gate_data.near_splits import NEAR, near_column, near_known
from gate_data.original_files import MAP_SIDE, Form, Originals, Parts, Sample, from_lists, to_data
from gate_data.own.annotated import boxed, root_of
from gate_data.own.class_names import named_classes, refuse_alike, shown_names
from gate_data.own.columns import TABLES
from gate_data.own.corrections import Correction, corrected, read_corrections
from gate_data.own.entries import entries_of
from gate_data.own.entry import Entry
from gate_data.own.odd import deeper, hidden_labels, in_other_code_points, nearly_there, odd_labels
from gate_data.own.reading import read_benchmark
from gate_data.own.slicing import refuse_missing_twice, refuse_slices, sliced_by, with_exif
from gate_data.own.spec import CAPTIONED, OwnBenchmark
from gate_data.readers import IGNORED, ClassMap, Clip, Cut, Member, described, held_out
from gate_data.readers.clips import VIDEOS
from gate_data.readers.decode import open_picture
from gate_data.readers.folders import PICTURES, may_be_class
from gate_data.readers.group_splits import group_split
from gate_data.readers.scanning import endings_in, inner_folders, is_all_files, scanned
from gate_data.readers.source import Turned
from gate_data.readers.splits import held_out_by_label, spread
from gate_data.request import DataRequest
from wary_files.class_names import in_class_order
from wary_files.text import number_of

_SIZED, _SMALLEST, _STEP = 32, 32, 16
"""Class maps whose sizes are looked at; the least side that is made of them, and what it is a multiple of."""
_LISTED_FROM = 8
"""Files of one folder from which on the folder is listed to see whether they are there."""
_BOXES = ("coco", "voc", "yolo")
_FORMS: Mapping[str, Literal["labels", "map", "value"]] = {
    "multi-label": "labels",
    "segmentation": "map",
    "regression": "value",
    "video-regression": "value",
}
_NAMED = (
    *("image-classification", "zero-shot", "multi-label", "relational", "video-classification"),
    *("knn", "image-retrieval", "clustering"),
)
"""Tasks whose targets are names of classes."""
_UNTRAINED = ("zero-shot", "multi-label", "image-retrieval", "clustering")
"""Tasks for which a class in test need not be in training."""
UNFITTED = ("zero-shot", "pair-scoring", "zero-shot-retrieval")
"""Tasks for which nothing is trained."""
_WITHOUT_TRAINING = ("zero-shot-segmentation",)
"""Tasks that take training samples where there are some, and do without."""
_BESIDE = (*TABLES, ".txt", ".json", ".xml", ".md", ".toml", ".yaml", ".yml", ".db", ".ini")
"""Endings of what lies beside images and is not missed."""
_EXTRAS = {".heic": "heic", ".heif": "heic", ".dcm": "medical", ".dicom": "medical"}
"""Endings that are read with an extra."""


def originals_of(path: Path, *, skip_missing: bool = False) -> Originals[Path]:
    """How what a benchmark's file names is read; see `originals_from`.

    Example:
        >>> originals_of(Path("birds/benchmark.toml")).check(Path("birds"))  # doctest: +SKIP
    """
    return originals_from(read_benchmark(path), path, skip_missing=skip_missing)


def originals_from(own: OwnBenchmark, path: Path, *, skip_missing: bool = False) -> Originals[Path]:
    """How what a benchmark's file says is read, like a data set's original files, where no such file need be there.

    Args:
        own: what the file says, see `read_benchmark`.
        path: the file's place, in errors and for the paths in it.
        skip_missing: whether its check leaves out files that are not there, as a request that skips what cannot be read
            has it.

    Raises:
        DataError: fields that do not fit one another.

    Example:
        >>> own = OwnBenchmark.model_validate({"benchmark": {"id": "birds"}, "data": {"kind": "folders"}})
        >>> originals_from(own, Path("birds/benchmark.toml")).expected
        'what benchmark.toml names'
    """
    task = own.samples
    if task == "detection":
        return boxed(own, path)
    originals = from_lists(
        f"what {path.name} names",
        lambda root: root,
        lambda root: parts_of(own, root, skip_missing=skip_missing),
        target=_FORMS.get(task, "class"),
        share=own.splits.validation_share,
        grouped=bool(own.splits.group),
        # boxes are cut out, and class maps show whole images
        fit="whole" if task == "segmentation" or (own.data.kind in _BOXES and task not in CAPTIONED) else "crop",
        trained=task not in UNFITTED and own.benchmark.task not in _WITHOUT_TRAINING,
        maps=_class_map(own, path) if task == "segmentation" else None,
    )

    def load(root: Path, request: DataRequest) -> Data[Any]:
        lists, form = parts_of(own, root, skip_missing=request.skip_unreadable), originals.form
        lists = with_exif(own, lists)
        if request.note_near and not request.drop_near:
            lists = _with_near(lists, form)
        shaped = replace(form, map_side=_map_side(lists)) if task == "segmentation" else form
        return to_data(lists, shaped, request, str(root))

    return replace(originals, load=load)


def _with_near(parts: Parts, form: Form) -> Parts:
    """The same, whose note and test samples say which test images are near copies of others."""
    copies = near_known(parts.splits(form.share, form.grouped))
    if copies is None or not copies.leaked:
        return parts
    marks = near_column(parts.test, copies).get(NEAR, ())
    test = [
        sample._replace(slices=(*sample.slices, (NEAR, mark))) for sample, mark in zip(parts.test, marks, strict=True)
    ]
    return replace(parts, test=test, note="; ".join(filter(None, [parts.note, copies.sentence])))


def _map_side(parts: Parts) -> int:
    """A side for all class maps: that of the largest of a few, up to `MAP_SIDE`. Small maps gain nothing by more."""
    largest = _SMALLEST
    for row in spread([0] * len(parts.train), _SIZED):
        source = parts.train[row].target
        source = source.source if isinstance(source, Turned) else source
        if not isinstance(source, str | Member):
            return MAP_SIDE
        with open_picture(source) as image:
            largest = max(largest, *image.size)
    return min(MAP_SIDE, -(-largest // _STEP) * _STEP)


def _class_map(own: OwnBenchmark, path: Path) -> ClassMap:
    names, values, colours = own.classes.names, own.classes.values, own.classes.colours
    if len(names) < 2:
        raise DataError(f"{path}: field 'classes.names' is missing: a name for each value of the class maps")
    for field, listed in (("values", values), ("colours", colours)):
        if listed and len(listed) != len(names):
            raise DataError(f"{path}: field 'classes.{field}' has {len(listed)} entries for {len(names)} names")
        if twice := next((entry for at, entry in enumerate(listed) if entry in listed[:at]), None):
            raise DataError(f"{path}: field 'classes.{field}' has {twice!r} twice: each class has its own")
    ignored = own.data.ignored if "ignored" in own.data.model_fields_set else ()
    if colours:
        if ignored:
            raise DataError(
                f"{path}: field 'data.ignored' is {list(ignored)}, which changes nothing of coloured class maps: a "
                "colour without a name counts nowhere; leave it out"
            )
        indices = {index: index for index in range(len(names))}
        return ClassMap(indices, others=IGNORED, colours={colour: index for index, colour in enumerate(colours)})
    numbers = values or tuple(range(len(names)))
    if both := [f"{value} ({names[numbers.index(value)]})" for value in ignored if value in numbers]:
        raise DataError(f"{path}: {', '.join(both)} is a class and also in 'data.ignored': take it from one of them")
    nowhere = [value for value in own.data.ignored if value not in numbers]
    return ClassMap({value: index for index, value in enumerate(numbers)}, nowhere, None)


def parts_of(
    own: OwnBenchmark,
    folder: Path,
    *,
    skip_missing: bool = False,
    corrections: Sequence[Correction] | None = None,
) -> Parts:
    """All samples that a benchmark's file names, in their splits.

    ``corrections`` stand in place of those that the file names.
    """
    entries, note = entries_of(own, folder)
    if corrections is None and own.data.corrections:
        corrections = read_corrections(own, folder)
    if corrections is not None:
        entries, remark = corrected(entries, corrections, folder, named_classes(own, folder))
        note = "; ".join(filter(None, [note, remark]))
    entries, missing = _with_files(own, folder, entries, skip_missing=skip_missing)
    names = class_names_of(own, folder, entries)
    lists, drawn = _split(own, entries, _numbered(own, folder, entries, names))
    refuse_slices(own, lists["test"])
    if own.samples in _NAMED and own.samples not in _UNTRAINED:
        trained = {sample.target for sample in lists["train"]}
        if unseen := sorted({sample.target for sample in lists["test"]} - trained):
            raise DataError(f"classes in test that training lacks: {', '.join(names[index] for index in unseen[:8])}")
    doubts = (*odd_labels(own, entries), *deeper(own, folder))
    note = "; ".join(filter(None, [note, missing, left_out(own, folder), *doubts, drawn, _in_two(own, lists)]))
    return Parts(lists["train"], lists["test"], lists["validation"], shown_names(own, folder, names), note)


def _with_files(
    own: OwnBenchmark, folder: Path, entries: list[Entry], *, skip_missing: bool
) -> tuple[list[Entry], str]:
    """Those whose files are there, looked at before an hour of work; and what to say of others, if these may lack."""
    if own.data.kind == "folders" and _are_files(own, folder):
        return entries, ""
    wanted = {path: entry.where for entry in reversed(entries) for path in entry.paths}
    missing = {path: wanted[path] for path in reversed(not_there(wanted))}
    if not missing:
        return entries, ""
    if skip_missing:
        first = ", ".join(Path(path).name for path in list(missing)[:3])
        left = [entry for entry in entries if not missing.keys() & set(entry.paths)]
        return left, f"{number_of(len(missing), 'file is', 'files are')} not there, and left out: {first}"
    _refuse_no_files(missing)
    first = "; ".join(f"{path} ({where})" for path, where in list(missing.items())[:5]) + " …" * (len(missing) > 5)
    hint = "; paths with \\ are Windows's: write / instead" if os.sep == "/" and "\\" in first else ""
    if not hint and os.path.islink(next(iter(missing))):  # noqa: PTH114 - also of a name that no file can have
        hint = "; the first is a link that leads nowhere"
    if not hint and (near := nearly_there(next(iter(missing)))):
        hint = f"; there is {near}: names have to agree in case and ending"
        if in_other_code_points(near, Path(next(iter(missing))).name):
            hint = f"; there is {near!a}, which looks the same in other code points: write names as the files have them"
    raise DataError(f"{len(missing)} of {len(wanted)} files are not there: {first}{hint}")


def _refuse_no_files(missing: Mapping[str, str]) -> None:
    """Refuse what is there and is not a file: a folder, or a pipe, which is waited for without end."""
    for path, where in missing.items():
        if os.path.exists(path):  # noqa: PTH110 - also of a name that no file can have
            kind = "a folder" if os.path.isdir(path) else "a pipe, socket or device"  # noqa: PTH112
            raise DataError(f"{path} ({where}) is {kind}, expected a file: move it away, or name another")


def _are_files(own: OwnBenchmark, folder: Path) -> bool:
    """Whether all that lies in folders of classes is a file: no folder, no broken link."""
    roots = [root_of(own, folder, split) / inside for split, inside in own.splits.named.items() or [("", "")]]
    return all(is_all_files(entry.path) for root in roots for entry in inner_folders(root))


def not_there(paths: Iterable[str]) -> list[str]:
    """Which paths are not files; of many in one folder, that folder is listed once in place of a question for each."""
    by_folder: dict[str, list[str]] = {}
    for path in paths:
        by_folder.setdefault(os.path.dirname(path), []).append(path)  # noqa: PTH120 - of a million
    present: set[str] = set()
    for folder, inside in by_folder.items():
        if len(inside) > _LISTED_FROM:
            with contextlib.suppress(OSError, ValueError):
                start = folder if folder.endswith(os.sep) or not folder else f"{folder}{os.sep}"
                present.update(start + entry.name for entry in scanned(folder or ".") if entry.is_file())
    return [path for path in paths if path not in present and not os.path.isfile(path)]  # noqa: PTH113


def class_names_of(own: OwnBenchmark, folder: Path, entries: Sequence[Entry]) -> tuple[str, ...]:
    """Names in the order of their indices: given, or sorted, by number where all are numbers."""
    if own.samples not in _NAMED:
        return own.classes.names
    if own.samples == "multi-label":
        labels = in_class_order({name for entry in entries for name in _names_in(own, entry)})
    else:
        labels = in_class_order({str(entry.target) for entry in entries})
    refuse_alike(labels)
    listed = named_classes(own, folder)
    if not listed:
        hidden_labels(labels, entries)
    unknown = sorted(set(labels) - set(listed)) if listed else []
    if unknown:
        raise DataError(f"classes that the list of names lacks: {', '.join(unknown[:8])}")
    names = listed or tuple(labels)
    if len(names) < (1 if own.samples == "multi-label" else 2):
        raise DataError(f"one class only ({', '.join(names)}): there is nothing to tell apart")
    return names


def _names_in(own: OwnBenchmark, entry: Entry) -> list[str]:
    """The labels of a multi-label entry."""
    return [name.strip() for name in str(entry.target).split(own.data.separator) if name.strip()]


def _numbered(own: OwnBenchmark, folder: Path, entries: Sequence[Entry], names: Sequence[str]) -> list[Sample]:
    number = {name: index for index, name in enumerate(names)}
    targets: list[Any] = [entry.target for entry in entries]
    if own.samples == "multi-label":
        labels = [set(_names_in(own, entry)) for entry in entries]
        targets = [tuple(int(name in mine) for name in names) for mine in labels]
    elif own.samples in _NAMED:
        targets = [number[str(target)] for target in targets]
    if not (own.slices.columns or own.slices.folders):
        columns = dict(zip(Entry._fields, zip(*entries, strict=True), strict=False))
        parts = [columns.get(field, ()) for field in ("source", "text", "group")]
        rows = zip(parts[0], targets, parts[1], parts[2], repeat(()), strict=False)
        return list(map(partial(tuple.__new__, Sample), rows))  # as Sample(…), of a million in a third of the time
    refuse_missing_twice(own, entries)
    pairs = zip(entries, targets, strict=True)
    roots = {split: root_of(own, folder, split) for split in {entry.split for entry in entries}}
    return [
        Sample(entry.source, target, entry.text, entry.group, sliced_by(own, roots[entry.split], entry))
        for entry, target in pairs
    ]


def _split(
    own: OwnBenchmark, entries: Sequence[Entry], samples: Sequence[Sample]
) -> tuple[dict[str, list[Sample]], str]:
    """Three lists, of which what nobody gave is drawn, by group or by class; and what a reader should hear of it."""
    lists: dict[str, list[Sample]] = {"train": [], "validation": [], "test": [], "": []}
    if {entry.split for entry in entries} == {""}:
        lists[""] = list(samples)
    else:
        for entry, sample in zip(entries, samples, strict=True):
            lists[entry.split].append(sample)
    if own.samples in UNFITTED:
        return {"train": [], "validation": [], "test": lists["test"] or lists[""] or lists["train"]}, ""
    lists["train"] += lists[""]
    if not lists["train"] and lists["test"] and own.benchmark.task in _WITHOUT_TRAINING:
        return lists, ""
    alone = own.data.kind == "folders"  # a file is one sample, of no group
    if not alone and any(entry.group for entry in entries):  # what is given: what is drawn keeps groups whole
        for first, second in (("train", "test"), ("train", "validation"), ("validation", "test")):
            groups, others = ({sample.group for sample in lists[name]} for name in (first, second))
            if shared := sorted(groups & others):
                are = number_of(len(shared), "group is", "groups are")
                raise DataError(f"{are} in {first} and in {second}: {', '.join(shared[:5])}")
    shares = {"test": own.splits.test_share, "validation": own.splits.validation_share}
    missing = {name: share for name, share in shares.items() if not lists[name]}
    if missing and not alone and not any(sample.group for sample in lists["train"]):
        lists["train"] = _of_one_file(lists["train"])
    grouped = not alone and any(sample.group for sample in lists["train"])
    if missing and (grouped or _has_few(own, lists["train"], len(missing) + 1)):
        drawn, remark = _together(own, lists["train"], missing, grouped=grouped)
        return {**lists, **drawn}, remark
    for name, share in missing.items():
        lists["train"], lists[name] = _drawn(own, lists["train"], share)
    _refuse_emptied(lists, missing)
    return lists, ""


def _refuse_emptied(lists: Mapping[str, Sequence[Sample]], drawn: Mapping[str, float]) -> None:
    """Refuse shares that leave a split without samples."""
    counts = {name: len(lists[name]) for name in ("train", *drawn)}
    if not sum(counts.values()) or all(counts.values()):
        return
    shares = " and ".join(f"{name}_share {share:g}" for name, share in drawn.items())
    have = ", ".join(f"{count} for {name}" for name, count in counts.items())
    raise DataError(
        f"[splits] {shares} of {sum(counts.values()):,} samples leave {have}: give other shares, more samples, or "
        "splits of your own"
    )


def _of_one_file(samples: Sequence[Sample]) -> list[Sample]:
    """Samples in groups by their files, where several are of one: questions of an image, rows that a table repeats."""
    files = [str(_file_of(sample)) for sample in samples]
    if len(set(files)) == len(files):
        return list(samples)
    return [sample._replace(group=file) for sample, file in zip(samples, files, strict=True)]


def _file_of(sample: Sample) -> object:
    """What a sample shows, of which a part may be cut, or frames read."""
    if type(sample.source) is str:
        return sample.source
    sources: Any = sample.source if type(sample.source) is tuple else (sample.source,)
    return tuple(source.source if isinstance(source, Cut | Clip | Turned) else source for source in sources)


def _in_two(own: OwnBenchmark, lists: Mapping[str, Sequence[Sample]]) -> str:
    """Files that are trained on and tested on, as whoever made the splits gave them; empty for none."""
    if own.data.kind == "folders" and not own.splits.named:
        return ""
    trained = {_file_of(sample): sample for name in ("train", "validation") for sample in lists[name]}
    shared = list(dict.fromkeys(file for sample in lists["test"] if (file := _file_of(sample)) in trained))
    if not shared:
        return ""
    source: Any = trained[shared[0]].source
    example = described(source[0] if type(source) is tuple else source)
    files = "1 file is" if len(shared) == 1 else f"{len(shared):,} files are"
    return f"{files} tested on and trained or validated on, such as {example}"


def _has_few(own: OwnBenchmark, samples: Sequence[Sample], splits: int) -> bool:
    """Whether no class has a sample for each split: drawn one after another, the last split would have none."""
    if not samples or own.samples not in _NAMED or own.samples == "multi-label":
        return False
    return max(Counter([sample.target for sample in samples]).values()) < splits <= len(samples)


def _together(
    own: OwnBenchmark, samples: Sequence[Sample], missing: Mapping[str, float], *, grouped: bool
) -> tuple[dict[str, list[Sample]], str]:
    """Training and the missing splits, drawn at once, since classes may have few groups; and what differs."""
    shares, remaining = [], 1.0
    for share in missing.values():  # validation's is of what the test leaves
        shares.append(share * remaining)
        remaining -= shares[-1]
    targets: list[Any] = [sample.target for sample in samples]
    pairs = own.samples == "image-retrieval"  # a thing is its own class, and cannot be on both sides
    parts = group_split(
        [sample.group for sample in samples] if grouped else range(len(samples)),
        [remaining, *shares],
        targets if own.samples in _NAMED and not pairs else None,
        seed=own.splits.seed,
        trained=own.samples not in _UNTRAINED,
        unit="groups" if grouped else "samples",
    )
    drawn = {name: [samples[row] for row in part] for name, part in zip(("train", *missing), parts, strict=True)}
    remarks = []
    for name, share in zip(missing, shares, strict=True):
        have = len(drawn[name]) / len(samples)
        if abs(have - share) > max(0.05, share / 2):
            remarks.append(f"{name} has {have:.0%} of the samples, expected {share:.0%}: groups are few or large")
        if own.samples in _NAMED and not pairs and own.samples != "multi-label":
            count = len(set(targets))
            lacking = count - len({sample.target for sample in drawn[name]})
            remarks += [f"{lacking} of {count} classes are not in {name}: too few groups"] if lacking else []
    return drawn, "; ".join(remarks)


def _drawn(own: OwnBenchmark, samples: Sequence[Sample], share: float) -> tuple[list[Sample], list[Sample]]:
    """Samples that stay, and samples that are taken from them."""
    targets: list[Any] = [sample.target for sample in samples]
    if own.samples == "multi-label" and samples:
        stay, held = held_out_by_label(targets, share, seed=own.splits.seed)
    else:
        is_class = set(map(type, targets)) == {int}
        classes = targets if is_class else [target if isinstance(target, int) else 0 for target in targets]
        stay, held = held_out(classes, share, seed=own.splits.seed)
    return [samples[row] for row in stay], [samples[row] for row in held]


def left_out(own: OwnBenchmark, folder: Path) -> str:
    """Files that are no images by their endings, with their number; empty for none."""
    if own.data.kind not in ("folders", "voc", "yolo", "maps"):
        return ""
    endings: Counter[str] = Counter()
    read = VIDEOS if own.samples.startswith("video") else PICTURES
    places = {
        root_of(own, folder, split) / ("" if part.endswith(".txt") else part)
        for split, part in own.splits.named.items()
    } or {root_of(own, folder)}
    for root in places:
        for name in _names(root, 2 if own.data.kind == "folders" else 1, read):
            ending = os.path.splitext(name)[1].lower()  # noqa: PTH122 - text paths
            if not name.startswith((".", "Thumbs.db")) and ending not in (*read, *_BESIDE):
                endings[ending or "no ending"] += 1
    listed = ", ".join(f"{ending} {count:,}" for ending, count in endings.most_common(8))
    extras = {_EXTRAS[ending]: ending for ending in sorted(endings) if ending in _EXTRAS}
    hints = "".join(f"; pip install 'gate-data[{extra}]' reads {ending}" for extra, ending in extras.items())
    return f"{number_of(sum(endings.values()), 'file')} left out by their ending: {listed}{hints}" if endings else ""


def _names(folder: Path, depth: int, read: tuple[str, ...]) -> Iterator[str]:
    """Names of files that may not be read; of a million that are, no more than the ending is looked at."""
    try:
        inner = scanned(folder)
    except OSError:
        return
    if endings_in(folder).issubset(read):
        return
    for entry in [entry for entry in inner if not entry.name.endswith(read)]:
        if entry.is_file():
            yield entry.name
        elif depth > 1 and may_be_class(entry.name):
            yield from _names(Path(entry.path), depth - 1, read)
