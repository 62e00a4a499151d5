"""What is odd about a user's own data though they can be run."""

from __future__ import annotations

import difflib
import hashlib
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from gate_data.errors import DataError
from gate_data.original_files import Parts, Sample
from gate_data.own.annotated import root_of
from gate_data.own.spec import OwnBenchmark
from gate_data.readers.clips import VIDEOS
from gate_data.readers.folders import PICTURES
from gate_data.readers.source import described, read_bytes

_SHOWN = 5
_ALIKE = 0.8
"""Of two labels, from which on one may be a slip of the other."""
_RARE = 0.05
"""A slip's share of the samples that the right label has."""
_MANY_NAMES = 2_000
"""Classes up to which names are compared."""
_BESIDE = (
    ".txt",
    ".csv",
    ".tsv",
    ".json",
    ".jsonl",
    ".xml",
    ".md",
    ".toml",
    ".yaml",
    ".yml",
    ".parquet",
    ".db",
    ".ini",
)
"""Endings of what lies beside pictures and is not missed."""
_EXTRAS = {".heic": "heic", ".heif": "heic", ".dcm": "medical", ".dicom": "medical"}
"""Endings that are read with an extra."""


def doubts(own: OwnBenchmark, parts: Parts) -> list[str]:
    """What a user should look at before anything is computed, a sentence each."""
    samples = [*parts.train, *(parts.validation or ()), *parts.test]
    if own.samples not in ("image-classification", "zero-shot", "video-classification"):
        return _rare_tags(parts) if own.samples == "multi-label" else []
    counts = Counter(sample.target for sample in samples)
    single = [parts.classes[label] for label, count in counts.items() if count == 1]
    sentences = []
    if single:
        sentences.append(f"{len(single)} {_word(single, 'class has', 'classes have')} one picture: {_some(single)}")
    sentences += [f"labels {rare!r} ({few}) and {name!r} ({many}) are nearly equal: is one a slip?"
              for rare, few, name, many in _slips(parts.classes, counts)]  # fmt: skip
    sentences += _two_labels(samples, parts.classes)
    return sentences


def left_out(own: OwnBenchmark, folder: Path) -> str:
    """Files that are no pictures by their endings, with their number; empty for none."""
    if own.data.kind not in ("folders", "voc", "yolo", "maps"):
        return ""
    endings: Counter[str] = Counter()
    read = VIDEOS if own.samples.startswith("video") else PICTURES
    places = {
        root_of(own, folder, split) / ("" if part.endswith(".txt") else part)
        for split, part in own.splits.named.items()
    } or {root_of(own, folder)}
    for root in places:
        for name in _names(root, 2 if own.data.kind == "folders" else 1):
            ending = os.path.splitext(name)[1].lower()  # noqa: PTH122 - text paths
            if not name.startswith((".", "Thumbs.db")) and ending not in (*read, *_BESIDE):
                endings[ending or "no ending"] += 1
    if not endings:
        return ""
    listed = ", ".join(f"{ending} {count:,}" for ending, count in endings.most_common(8))
    extras = {_EXTRAS[ending]: ending for ending in sorted(endings) if ending in _EXTRAS}
    hints = "".join(f"; pip install 'gate-data[{extra}]' reads {ending}" for extra, ending in extras.items())
    return f"{sum(endings.values()):,} files left out by their ending: {listed}{hints}"


def positives(samples: Sequence[Sample], count: int) -> list[int]:
    """Samples of each class, or with each label."""
    counts = [0] * count
    for sample in samples:
        for index in [sample.target] if isinstance(sample.target, int) else _marked(sample.target):
            counts[index] += 1
    return counts


def _marked(marks: Iterable[int]) -> Iterator[int]:
    return (index for index, mark in enumerate(marks) if mark)


def _rare_tags(parts: Parts) -> list[str]:
    lists = {"train": parts.train, "test": parts.test}
    sentences = []
    for name, samples in lists.items():
        bare = [parts.classes[at] for at, count in enumerate(positives(samples, len(parts.classes))) if not count]
        if bare:
            sentences.append(
                f"{len(bare)} {_word(bare, 'label has', 'labels have')} no positive in {name}: {_some(bare)}"
            )
    return sentences


def _slips(classes: Sequence[str], counts: Counter[Any]) -> Iterator[tuple[str, int, str, int]]:
    """A rare label and a frequent one that it resembles."""
    if len(classes) > _MANY_NAMES:
        return
    named = {name: counts[index] for index, name in enumerate(classes) if not name.isdecimal()}
    for rare, few in named.items():
        frequent = [name for name, many in named.items() if name != rare and few <= max(1, _RARE * many) and many > few]
        for name in difflib.get_close_matches(rare, frequent, n=1, cutoff=_ALIKE):
            yield rare, few, name, named[name]


def _two_labels(samples: Sequence[Sample], classes: Sequence[str]) -> list[str]:
    """Pictures that have two labels: the same file, or files with the same bytes."""
    labels: dict[Any, set[int]] = defaultdict(set)
    for sample in samples:
        labels[sample.source].add(sample.target)
    same = [source for source, targets in labels.items() if len(targets) > 1]
    sentences = []
    if same:
        files = _word(same, "file has", "files have")
        sentences.append(f"{len(same)} {files} two labels, such as {_label(same[0], labels, classes)}")
    by_size: dict[int, list[str]] = defaultdict(list)
    for source in labels:
        if isinstance(source, str):
            try:
                by_size[os.stat(source).st_size].append(source)  # noqa: PTH116 - text paths
            except OSError:
                continue
    twins: dict[bytes, list[str]] = defaultdict(list)
    for paths in by_size.values():
        if any(labels[path] != labels[paths[0]] for path in paths):
            for path in paths:
                try:
                    twins[hashlib.blake2b(read_bytes(path), digest_size=16).digest()].append(path)
                except DataError:
                    continue
    torn = [paths for paths in twins.values() if any(labels[path] != labels[paths[0]] for path in paths)]
    if torn:
        first, second = torn[0][0], next(path for path in torn[0] if labels[path] != labels[torn[0][0]])
        sentences.append(
            f"{len(torn)} {_word(torn, 'picture lies', 'pictures lie')} there with two labels, such as "
            f"{_label(first, labels, classes)} and {_label(second, labels, classes)}"
        )
    return sentences


def _label(source: Any, labels: dict[Any, set[int]], classes: Sequence[str]) -> str:
    named = described(source[0]) if type(source) is tuple else described(source)
    return f"{named} ({', '.join(classes[label] for label in sorted(labels[source]))})"


def _names(folder: Path, depth: int) -> Iterator[str]:
    try:
        inner = list(os.scandir(folder))
    except OSError:
        return
    for entry in inner:
        if entry.is_file():
            yield entry.name
        elif depth > 1 and not entry.name.startswith((".", "__MACOSX")):
            yield from _names(Path(entry.path), depth - 1)


def _word(counted: Sequence[Any], singular: str, several: str) -> str:
    return singular if len(counted) == 1 else several


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (" …" if len(names) > _SHOWN else "")
