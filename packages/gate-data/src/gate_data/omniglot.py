"""Omniglot from its original zip files, read in place: few-shot over characters of alphabets never seen in training."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from gate_data.data import Data, Split, as_targets
from gate_data.errors import DataError
from gate_data.original_files import Originals, Sample, few_classes
from gate_data.readers import Member, archives
from gate_data.readers.decode import decode
from gate_data.request import DataRequest

_SMALL = ("images_background_small1.zip", "images_background_small2.zip")
_FULL = ("images_background.zip", "images_evaluation.zip")
_EXPECTED = f"omniglot/{_FULL[0]} and {_FULL[1]}, or omniglot/{_SMALL[0]} and {_SMALL[1]}"
_VALIDATION = (
    "Alphabet_of_the_Magi",
    "Blackfoot_(Canadian_Aboriginal_Syllabics)",
    "Inuktitut_(Canadian_Aboriginal_Syllabics)",
    "Ojibwe_(Canadian_Aboriginal_Syllabics)",
    "Tagalog",
)
"""Meta-Dataset's."""

Alphabets = Mapping[str, Mapping[str, Sequence[Member]]]
"""Alphabet to character to its drawings in the zip file."""


def find(root: Path) -> tuple[Path, Path]:
    """One of the two pairs of zip files, under ``root`` or ``root/omniglot``."""
    for folder in (root / "omniglot", root):
        for names in (_FULL, _SMALL):
            if all((folder / name).is_file() for name in names):
                return folder / names[0], folder / names[1]
    raise DataError(f"{root} does not hold its files ({_EXPECTED})")


def check(pair: tuple[Path, Path]) -> None:
    """Read every member of the zip files once."""
    for path in pair:
        archives.check(path)


def load(pair: tuple[Path, Path], request: DataRequest) -> Data:
    """Characters as classes, 20 drawings of 105 px each, white on black.

    With the full files, the test classes are those of ``images_evaluation.zip``, and five alphabets validate:
    Meta-Dataset's. With the two small files, which share two alphabets, the test's are those that only the second has,
    and the first of the others validates. No alphabet is in two splits.
    """
    first, second = _listing(pair[0]), _listing(pair[1])
    test = {name: second[name] for name in second if name not in first}
    held = [name for name in first if name in _VALIDATION] if pair[0].name == _FULL[0] else sorted(first)[:1]
    validation = {name: first[name] for name in held}
    train = {name: first[name] for name in sorted(first) if name not in validation}
    if not (train and validation and test):
        raise DataError(f"{pair[0]} and {pair[1]} hold too few alphabets: {len(first)} and {len(second)}")
    splits = [_read(part, request.limit) for part in (train, validation, test)]
    names = tuple(
        f"{alphabet}/{sign}" for part in (train, validation, test) for alphabet in part for sign in part[alphabet]
    )
    splits_of = (train, validation, test)
    drawings = [sum(len(own) for signs in part.values() for own in signs.values()) for part in splits_of]
    note = request.compared("", drawings[0] + drawings[1], drawings[2], len(names))
    return Data(splits[0], splits[1], splits[2], names, note)


def _listing(path: Path) -> Alphabets:
    drawings: dict[str, dict[str, list[Member]]] = defaultdict(lambda: defaultdict(list))
    for member in sorted(archives.members(path)):
        parts = member.split("/")
        if member.endswith(".png") and len(parts) == 4:
            drawings[parts[1]][parts[2]].append(Member(str(path), member))
    if not drawings:
        raise DataError(f"{path} holds no drawings; expected members like SET/ALPHABET/character01/0001_01.png")
    return drawings


def _read(alphabets: Alphabets, limit: int | None) -> Split:
    signs = [members for signs in alphabets.values() for members in signs.values()]
    chosen = few_classes([Sample(member, label) for label, own in enumerate(signs) for member in own], limit)
    rank = {label: index for index, label in enumerate(sorted({sample.target for sample in chosen}))}
    grey = 255 - np.stack([np.asarray(decode(sample.source).convert("L")) for sample in chosen])  # type: ignore[arg-type]  # a member, not frames
    images = torch.from_numpy(grey)[:, None].expand(-1, 3, -1, -1)
    return Split(images, as_targets([rank[sample.target] for sample in chosen]))


ORIGINALS = Originals(_EXPECTED, find, check, load)
