"""From a name and a root to three splits that torch's loaders take."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from pydantic import ValidationError
from torch.utils.data import Dataset

from gate_data.cards import SHEETS
from gate_data.errors import DataError, UsageError, unknown
from gate_data.imports import named
from gate_data.originals_by_name import ORIGINALS, PACKAGED
from gate_data.request import DataRequest, Size, size_of

if TYPE_CHECKING:
    from torch import Tensor

    from gate_data.data import Data, Split
    from gate_data.original_files import Originals

Source = Literal["local", "hub"]


class SplitDataset(Dataset[tuple[Any, ...]]):
    """One split as a map-style data set of torch.

    An item is ``(image, target)``; where the data set asks or compares texts, ``(image, texts, target)``. The image is
    ``uint8`` ``[3, h, w]`` (of clips and pairs with an axis of frames before), or what ``transform`` makes of it. The
    target is a class index, a value, 0/1 of each label, a class map ``[s, s]``, or boxes with labels ``[o, 5]``.

    Args:
        split: images, targets and texts.
        transform: from an image to what the items hold, say a model's own preprocessing.

    Example:
        >>> splits = load("digits")  # in memory, in their own size
        >>> image, target = splits.train[0]
        >>> tuple(image.shape), int(target) in range(10), len(splits.train) > len(splits.test)
        ((3, 64, 64), True, True)
    """

    def __init__(self, split: Split[Any], transform: Callable[[Tensor], Any] | None = None) -> None:
        self.split, self.transform = split, transform

    def __len__(self) -> int:
        return len(self.split)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        """One item.

        Raises:
            IndexError: there are fewer.
            DataError: its file cannot be read any more; the message names it.
        """
        if not -len(self) <= index < len(self):
            raise IndexError(f"item {index} of a split with {len(self)}")
        position = index % len(self)
        image = self.split.images[position]
        shown = image if self.transform is None else self.transform(image)
        target = self.split.targets[position] if isinstance(self.split.targets, torch.Tensor) else None
        if target is None:
            target = self.split.targets.collate(torch.tensor([position]))[0]
        if not self.split.texts:
            return shown, target
        per_sample = len(self.split.texts) // len(self)
        return shown, self.split.texts[per_sample * position : per_sample * (position + 1)], target


@dataclass(frozen=True)
class Splits:
    """Three splits, and what holds of all of them.

    Args:
        train: what is fitted on.
        validation: what chooses; drawn from the training part where the data set has none, as its card says.
        test: what is scored, once.
        classes: names of classes or answers, in the order of their indices; empty for regression.
        note: anything a reader of a score must know, such as what differs from the published sizes.

    Example:
        >>> [len(split) for split in load("digits", limit=50)]
        [50, 50, 50]
    """

    train: SplitDataset
    validation: SplitDataset
    test: SplitDataset
    classes: tuple[str, ...]
    note: str

    @cached_property
    def digest(self) -> str:
        """SHA-256 over every image, target and text, see `gate_data.Data.digest`: all files are read the first time.

        Example:
            >>> len(load("digits", limit=50).digest)
            64
        """
        from gate_data.data import Data

        train, validation, test = (part.split for part in self)
        return Data(train, validation, test, self.classes, self.note).digest()

    def __iter__(self) -> Iterator[SplitDataset]:
        return iter((self.train, self.validation, self.test))


def data_sets() -> tuple[str, ...]:
    """The ids that `load` knows.

    Example:
        >>> {"ade20k", "cifar-10", "digits", "odinw-aquarium"} <= set(data_sets())
        True
    """
    return (*ORIGINALS, *PACKAGED)


def load(
    data_set: str | PathLike[str],
    root: str | PathLike[str] | None = None,
    *,
    source: Source = "local",
    size: Size = 224,
    limit: int | None = None,
    skip_unreadable: bool = False,
    transform: Callable[[Tensor], Any] | None = None,
) -> Splits:
    """A data set, or a folder of your own, as three splits.

    Args:
        data_set: an id of `data_sets`; or a folder of your own, or its TOML file: class folders, tables, COCO's JSON,
            see `gate_data.guess`.
        root: the folder below which a data set's own files lie, or copies of the hub's repositories; not needed for a
            folder of your own, nor for what comes with a library.
        source: ``"local"``, the data set's own files, or ``"hub"``, its copy on the Hugging Face hub (extra ``hub``).
        size: side in pixels of the square images that are read from files, or their height and width; what comes with a
            library keeps its own.
        limit: at most so many samples in each split, drawn by class.
        skip_unreadable: look at every picture, and leave out those that cannot be read.
        transform: see `SplitDataset`.

    Returns:
        The splits; pictures are read when they are asked for.

    Raises:
        UsageError: no such data set; the message shows the nearest.
        DataError: a file is missing, damaged or not in its format; the message names it.

    Example:
        >>> splits = load("ade20k", "/data")  # doctest: +SKIP
        >>> image, classes = splits.train[0]  # doctest: +SKIP
        >>> load("birds/").classes  # doctest: +SKIP
        ('owl', 'wren')
    """
    name, folder = str(data_set), None if root is None else Path(root)
    if source not in ("local", "hub"):
        raise unknown("source", source, ("local", "hub"))
    if limit is not None and limit < 1:
        raise UsageError(f"limit must be at least 1, not {limit}")
    request = DataRequest(folder, limit, size_of(size), skip_unreadable, SHEETS.get(name))
    if name in PACKAGED:
        data: Data[Any] = named(PACKAGED[name])(request)
    elif name in ORIGINALS and source == "hub":
        from gate_data.hub import load as load_copy

        data = load_copy(name, request)
    elif name in ORIGINALS:
        originals: Originals[Any] = named(ORIGINALS[name])
        if folder is None:
            raise DataError(f"{name!r} is read from its own files: give the folder that holds {originals.expected}")
        data = originals.load(originals.find(folder), request)
    elif Path(data_set).exists():
        data = _own(Path(data_set), request)
    else:
        raise unknown("data set", name, data_sets())
    train, validation, test = (SplitDataset(part, transform) for part in (data.train, data.validation, data.test))
    return Splits(train, validation, test, data.classes, data.note)


def _own(path: Path, request: DataRequest) -> Data[Any]:
    from gate_data.own import OwnBenchmark, guess, read_benchmark
    from gate_data.own.originals import originals_from

    file = path / "benchmark.toml" if path.is_dir() else path
    if file.is_file():
        own = read_benchmark(file)
    else:
        try:
            own = OwnBenchmark.model_validate(guess(path).values)
        except ValidationError as error:
            raise DataError(f"{path}: {error.errors(include_url=False)[0]['msg']}; write a benchmark.toml") from error
    return originals_from(own, file).load(file.parent, request)
