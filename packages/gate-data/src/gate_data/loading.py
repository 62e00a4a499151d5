"""From a name and a root to three splits that torch's loaders take."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch.utils.data import Dataset

from gate_data.cards import SHEETS
from gate_data.errors import DataError, UsageError, unknown
from gate_data.imports import named
from gate_data.items import as_pictures, as_tv_tensors, transformed
from gate_data.naming import resolve
from gate_data.originals_by_name import ORIGINALS, PACKAGED
from gate_data.readers.scanning import scanned_once
from gate_data.request import DataRequest, Size, size_of
from wary_files.errors import whole_numbers

if TYPE_CHECKING:
    from gate_data.data import Data, Split
    from gate_data.original_files import Originals

Source = Literal["local", "hub"]
_SPLITS = {"train": 0, "validation": 1, "val": 1, "test": 2}


class SplitDataset(Dataset[tuple[Any, ...]]):
    """One split as a map-style data set of torch.

    An item is ``(image, target)``; where the data set asks or compares texts, ``(image, texts, target)``. The image is
    ``uint8`` ``[3, h, w]`` (of clips and pairs with an axis of frames before); with a transform, or ``raw=True``, it is
    a PIL image as it lies in its file, as torchvision's data sets have it. The target is a class index, a value, 0/1 of
    each label, a class map ``[s, s]``, or boxes with labels ``[o, 5]``.

    Args:
        split: images, targets and texts.
        transform: from a PIL image to what the items hold: a model's own preprocessing (open_clip, timm, torchvision).
            Of clips and pairs it takes each frame; tensors are stacked.
        target_transform: from a target to what the items hold.
        transforms: from an image and its target to both, as torchvision's v2 transforms are; targets are then
            ``tv_tensors``.
        raw: whether images are PIL images of their own size, or ``uint8`` squares; by default the former where there is
            a transform.
        tv_tensors: whether boxes come as ``{"boxes": BoundingBoxes, "labels": [o]}`` in pixels of the image, class maps
            as ``Mask`` of its size, and squares as ``Image`` (needs torchvision). Crowds are left out; labels count
            from 0.
        classes: the names of the classes.

    Example:
        >>> splits = load("digits")  # in memory, in their own size
        >>> image, target = splits.train[0]
        >>> tuple(image.shape), int(target) in range(10), len(splits.train) > len(splits.test)
        ((3, 64, 64), True, True)
        >>> load("digits", raw=True).train[0][0].size
        (64, 64)
    """

    def __init__(
        self,
        split: Split[Any],
        transform: Callable[[Any], Any] | None = None,
        *,
        target_transform: Callable[[Any], Any] | None = None,
        transforms: Callable[..., Any] | None = None,
        raw: bool | None = None,
        tv_tensors: bool = False,
        classes: tuple[str, ...] = (),
    ) -> None:
        if transforms is not None and (transform is not None or target_transform is not None):
            raise UsageError("transforms takes both the image and its target: give it alone, or transform")
        self.split, self.classes = split, classes
        self.transform, self.target_transform, self.transforms = transform, target_transform, transforms
        self.raw = transform is not None or transforms is not None if raw is None else raw
        self.tv_tensors = tv_tensors or transforms is not None

    @property
    def targets(self) -> Any:
        """All targets: a list of numbers where each sample has one, as torchvision has it; else as the split has them.

        Example:
            >>> sorted(set(load("digits").test.targets))
            [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
        """
        targets = self.split.targets
        return targets.tolist() if isinstance(targets, torch.Tensor) and targets.ndim == 1 else targets

    @property
    def class_to_idx(self) -> dict[str, int]:
        """Each class's index.

        Example:
            >>> load("digits").train.class_to_idx["7"]
            7
        """
        return {name: index for index, name in enumerate(self.classes)}

    def __len__(self) -> int:
        return len(self.split)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        """One item.

        Raises:
            IndexError: there are fewer.
            TypeError: not a whole number, such as a slice.
            DataError: its file cannot be read any more; the message names it.
        """
        try:
            number = operator.index(index)
        except TypeError as error:
            message = f"item: expected a whole number, got {index!r:.60}; torch.utils.data.Subset holds several"
            raise TypeError(message) from error
        if not -len(self) <= number < len(self):
            raise IndexError(f"item {number} of a split with {len(self)}")
        position = number % len(self)
        image = as_pictures(self.split.images, position) if self.raw else self.split.images[position]
        target = self._target(position)
        if self.tv_tensors:
            image, target = as_tv_tensors(image, target, self.split, position)
        if self.transform is not None:
            image = transformed(image, self.transform)
        if self.target_transform is not None:
            target = self.target_transform(target)
        if self.transforms is not None:
            image, target = self.transforms(image, target)
        if not self.split.texts:
            return image, target
        per_sample = len(self.split.texts) // len(self)
        return image, self.split.texts[per_sample * position : per_sample * (position + 1)], target

    def _target(self, position: int) -> Any:
        targets = self.split.targets
        if isinstance(targets, torch.Tensor):
            return targets[position]
        return targets.collate(torch.tensor([position]))[0]


@dataclass(frozen=True)
class Splits:
    """Three splits, and what holds of all of them; ``splits["train"]`` is ``splits.train``.

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

    @property
    def class_to_idx(self) -> dict[str, int]:
        """Each class's index."""
        return self.train.class_to_idx

    def keys(self) -> tuple[str, ...]:
        """The names of the splits, so that ``dict(splits)`` holds all three."""
        return ("train", "validation", "test")

    def __getitem__(self, name: str) -> SplitDataset:
        """One split by its name; ``"val"`` is the validation split.

        Raises:
            KeyError: there is no such split.
        """
        if name not in _SPLITS:
            raise KeyError(f"{name!r} is not a split: expected {', '.join(self.keys())}")
        return (self.train, self.validation, self.test)[_SPLITS[name]]

    def __iter__(self) -> Iterator[SplitDataset]:
        return iter((self.train, self.validation, self.test))


@whole_numbers("limit")
def load(
    data_set: str | PathLike[str],
    root: str | PathLike[str] | None = None,
    *,
    source: Source = "local",
    size: Size = 224,
    limit: int | None = None,
    skip_unreadable: bool = False,
    transform: Callable[[Any], Any] | None = None,
    target_transform: Callable[[Any], Any] | None = None,
    transforms: Callable[..., Any] | None = None,
    raw: bool | None = None,
    tv_tensors: bool = False,
) -> Splits:
    """A data set, or a folder of your own, as three splits; no image is opened for it.

    Args:
        data_set: an id of `data_sets`, in any case and with or without its collection (``"gate/cifar100"``); or a
            folder of your own, or its TOML file: class folders, tables, COCO's JSON, see `gate_data.guess`.
        root: the folder below which a data set's own files lie, or copies of the hub's repositories; not needed for a
            folder of your own, nor for what comes with a library.
        source: ``"local"``, the data set's own files, or ``"hub"``, its copy on the Hugging Face hub (extra ``hub``).
        size: side in pixels of the square images that are read from files, or their height and width; what comes with a
            library keeps its own. PIL images (``raw``) have the size of their files.
        limit: at most so many samples in each split, drawn by class.
        skip_unreadable: look at every image, and leave out those that cannot be read.
        transform: from a PIL image to what the items hold: open_clip's, timm's and torchvision's as they come.
        target_transform: from a target to what the items hold.
        transforms: from both to both, as torchvision's v2 transforms are.
        raw: whether images are PIL images of their own size; by default where there is a transform.
        tv_tensors: whether boxes and maps are torchvision's, see `SplitDataset`.

    Returns:
        The splits; images are read when they are asked for.

    Raises:
        UsageError: no such data set; the message shows the nearest.
        DataError: a folder or file is missing, damaged or not in its format; the message names it.

    Example:
        >>> splits = load("ade20k", "/data")  # doctest: +SKIP
        >>> image, classes = splits.train[0]  # doctest: +SKIP
        >>> load("birds/").classes  # doctest: +SKIP
        ('owl', 'wren')
    """
    from gate_data.original_files import without_collector

    folder = None if root is None else Path(root).expanduser()
    name = resolve(str(data_set))
    if source not in ("local", "hub"):
        raise unknown("source", source, ("local", "hub"))
    if limit is not None and limit < 1:
        raise UsageError(f"limit must be at least 1, not {limit}")
    request = DataRequest(folder, limit, size_of(size), skip_unreadable, SHEETS.get(name or ""))
    if name is None:
        with scanned_once(), without_collector():
            data = _own(Path(data_set).expanduser(), request)
    elif name in PACKAGED:
        data = named(PACKAGED[name])(request)
    elif source == "hub":
        from gate_data.hub import load as load_copy

        data = load_copy(name, request)
    else:
        originals: Originals[Any] = named(ORIGINALS[name])
        if folder is None:
            raise DataError(f"{name!r} is read from its own files: give the folder that holds {originals.expected}")
        data = originals.load(originals.find(folder), request)
    how = {"target_transform": target_transform, "transforms": transforms, "raw": raw, "tv_tensors": tv_tensors}
    train, validation, test = (
        SplitDataset(part, transform, classes=data.classes, **how)  # type: ignore[arg-type]  # of several types
        for part in (data.train, data.validation, data.test)
    )
    return Splits(train, validation, test, data.classes, data.note)


def _own(path: Path, request: DataRequest) -> Data[Any]:
    from pydantic import ValidationError

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
