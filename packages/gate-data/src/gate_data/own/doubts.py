"""What is odd about a user's own data though they can be run."""

from __future__ import annotations

import difflib
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from gate_data.original_files import Parts, Sample
from gate_data.own.annotated import root_of
from gate_data.own.spec import OwnBenchmark
from gate_data.readers.clips import VIDEOS
from gate_data.readers.folders import PICTURES
from gate_data.readers.source import described

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
_EXTRAS = {".heic": "heic", ".heif": "heic"}
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
    """Files that are listed with two labels."""
    labels: dict[Any, set[int]] = defaultdict(set)
    for sample in samples:
        labels[sample.source].add(sample.target)
    doubled = [source for source, targets in labels.items() if len(targets) > 1]
    if not doubled:
        return []
    first = doubled[0]
    shown = described(first[0]) if type(first) is tuple else described(first)
    named = ", ".join(classes[label] for label in sorted(labels[first]))
    return [f"{len(doubled)} {_word(doubled, 'file has', 'files have')} two labels, such as {shown} ({named})"]


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
