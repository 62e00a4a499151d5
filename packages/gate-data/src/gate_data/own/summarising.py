"""What a user wants to see of his own data before a run: how many samples of what, and what is odd about them."""

from __future__ import annotations

import difflib
import hashlib
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from gate_data.original_files import Parts, Sample
from gate_data.own.annotated import objects_of
from gate_data.own.originals import originals_from
from gate_data.own.spec import OwnBenchmark
from gate_data.readers import described
from wary_files.text import number_of

_CLASSES_SHOWN = 20
_SHOWN = 5
_ALIKE = 0.8
"""Of two labels, from which on one may be a slip of the other."""
_RARE = 0.05
"""A slip's share of the samples that the right label has."""
_MANY_NAMES = 2_000
"""Classes up to which names are compared."""


def summary(own: OwnBenchmark, folder: Path) -> list[str]:
    """Splits, rows and classes with counts, as a user wants to see them before a run; a line each.

    Example:
        >>> summary(own, Path("birds"))[0]  # doctest: +SKIP
        'train 60, validation 8, test 17'
    """
    originals = originals_from(own, folder / "benchmark.toml")
    originals.check(folder)
    assert originals.parts is not None
    parts = originals.parts(folder)
    lists = parts.splits(own.splits.validation_share, grouped=bool(own.splits.group))
    sentences = [", ".join(f"{name} {len(samples):,}" for name, samples in lists.items() if samples)]
    if own.samples == "detection":
        sentences.append(_counted(objects_of(own, folder), parts.classes, "objects of"))
    else:
        sentences.append(_of_targets(lists, parts.classes))
    return [*filter(None, [*sentences, parts.note]), *_doubts(own, parts)]


def _of_targets(lists: dict[str, Sequence[Sample]], classes: tuple[str, ...]) -> str:
    samples = [sample for split in lists.values() for sample in split]
    kind = type(samples[0].target)
    if classes and kind in (int, tuple):
        counts = _positives(samples, len(classes)), _positives(lists["test"], len(classes))
        return _counted(counts, classes, "")
    if kind is float and any(sample.target for sample in samples):
        values = [float(sample.target) for sample in samples]
        mean = sum(values) / len(values)
        return f"values from {min(values):g} to {max(values):g}, {mean:.4g} on average"
    return f"{number_of(len(classes), 'class', 'classes')}: {', '.join(classes[:_CLASSES_SHOWN])}" if classes else ""


def _counted(counts: Sequence[Sequence[int]], classes: Sequence[str], unit: str) -> str:
    totals, tested = counts
    order = sorted(range(len(classes)), key=lambda index: -totals[index])
    shown = order if len(order) <= _CLASSES_SHOWN else [*order[: _CLASSES_SHOWN - 5], *order[-5:]]
    listed = [f"{classes[index]} {totals[index]:,} ({tested[index]:,})" for index in shown]
    if len(order) > _CLASSES_SHOWN:
        listed.insert(-5, f"… {len(order) - _CLASSES_SHOWN} more …")
    return f"{unit} {number_of(len(classes), 'class', 'classes')} (all, of them test): {', '.join(listed)}".strip()


def _doubts(own: OwnBenchmark, parts: Parts) -> list[str]:
    """What a user should look at before anything is computed, a sentence each."""
    if own.samples == "multi-label":
        lists = {"train": parts.train, "test": parts.test}
        lacking = {name: _positives(samples, len(parts.classes)) for name, samples in lists.items()}
        bare = {name: [parts.classes[at] for at, count in enumerate(lacking[name]) if not count] for name in lists}
        return [
            f"{len(labels)} {_word(labels, 'label has', 'labels have')} no positive in {name}: {_some(labels)}"
            for name, labels in bare.items()
            if labels
        ]
    if own.samples not in ("image-classification", "zero-shot", "video-classification"):
        return []
    samples = [*parts.train, *(parts.validation or ()), *parts.test]
    counts = Counter(sample.target for sample in samples)
    single = [parts.classes[label] for label, count in counts.items() if count == 1]
    singles = f"{len(single)} {_word(single, 'class has', 'classes have')} one image: {_some(single)}"
    return [*([singles] if single else []), *_slips(parts.classes, counts), *_two_labels(samples, parts.classes)]


def _positives(samples: Sequence[Sample], count: int) -> list[int]:
    """Samples of each class, or with each label."""
    counts = [0] * count
    for sample in samples:
        marked = (index for index, mark in enumerate(sample.target) if mark) if type(sample.target) is tuple else ()
        for index in [sample.target] if isinstance(sample.target, int) else marked:
            counts[index] += 1
    return counts


def _slips(classes: Sequence[str], counts: Counter[Any]) -> Iterator[str]:
    """A rare label and a frequent one that it resembles."""
    if len(classes) > _MANY_NAMES:
        return
    named = {name: counts[index] for index, name in enumerate(classes) if not name.isdecimal()}
    for rare, few in named.items():
        frequent = [name for name, many in named.items() if name != rare and few <= max(1, _RARE * many) and many > few]
        for name in difflib.get_close_matches(rare, frequent, n=1, cutoff=_ALIKE):
            yield f"labels {rare!r} ({few}) and {name!r} ({named[name]}) are nearly equal: is one a slip?"


def _two_labels(samples: Sequence[Sample], classes: Sequence[str]) -> Iterator[str]:
    """Files that are listed with two labels, and files of the same bytes with a label each."""
    labels: dict[Any, set[int]] = defaultdict(set)
    for sample in samples:
        labels[sample.source].add(sample.target)

    def shown(source: Any) -> str:
        named = described(source[0]) if type(source) is tuple else described(source)
        return f"{named} ({', '.join(classes[label] for label in sorted(labels[source]))})"

    doubled = [source for source, targets in labels.items() if len(targets) > 1]
    if doubled:
        yield f"{len(doubled)} {_word(doubled, 'file has', 'files have')} two labels, such as {shown(doubled[0])}"
    by_size = _grouped(filter(os.path.isfile, (file for file in labels if isinstance(file, str))), os.path.getsize)
    torn = []
    for alike in by_size:  # the bytes are read where sizes are equal and labels are not
        if any(labels[file] != labels[alike[0]] for file in alike):
            torn += [twins for twins in _grouped(alike, _digest) if any(labels[at] != labels[twins[0]] for at in twins)]
    if torn:
        first, second = torn[0][0], next(file for file in torn[0] if labels[file] != labels[torn[0][0]])
        lie = _word(torn, "image lies", "images lie")
        yield f"{len(torn)} {lie} there with two labels, such as {shown(first)} and {shown(second)}"


def _grouped(files: Iterable[str], key: Callable[[str], Any]) -> list[list[str]]:
    groups: dict[Any, list[str]] = defaultdict(list)
    for file in files:
        groups[key(file)].append(file)
    return list(groups.values())


def _digest(file: str) -> str:
    try:
        with Path(file).open("rb") as opened:
            return hashlib.file_digest(opened, "blake2b").hexdigest()
    except OSError:
        return file  # it is like no other


def _word(counted: Sequence[Any], singular: str, several: str) -> str:
    return singular if len(counted) == 1 else several


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (" …" if len(names) > _SHOWN else "")
