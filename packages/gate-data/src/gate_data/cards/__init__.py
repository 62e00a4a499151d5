"""The data sets of GATE and of ELEVATER, as metadata: what is true of each, and how the paper's numbers came about.

The cards are two TOML files beside this one. They are read without torch and without NumPy.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Literal

__all__ = ["ICINW", "SHEETS", "Hub", "IcinwSheet", "Sheet", "is_known"]

_DRAWN = "no split is published with the data: without ELEVATER's index files another one is drawn"
_ORDER = "with other files than ELEVATER's index, the same seed draws another few-shot subset"


@dataclass(frozen=True)
class Hub:
    """Where a data set lies on the Hugging Face hub.

    Args:
        id: of the repository.
        image: column of images; several with ``|`` between them where it is not certain which of them it is.
        target: column of classes, or of class maps.
        others: further columns that its rows are read for.
        train: name of the split to train on; empty where nothing is trained, or one split holds all.
        validation: name of the split that chooses among heads; empty where it is drawn from the first.
        test: name of the split to score.
        config: name of the configuration, or empty.
        files: pattern of the files of ``{split}``, where the repository does not say which they are.
        revision: branch, or empty for the main one.
        rows: ``module:name`` of a function from `gate_data.hub.tables.Tables`, this record and the number
            of classes to lists of samples; empty where a row is an image and its class.
        streamed: with a limit, only so many rows are read.
        beside: the column of images holds paths in the repository, where they lie as files of their own.
        names: of the classes, in the order of the copy's numbers, where neither the column has names nor the numbers
            are in the expected order.

    Example:
        >>> Hub("uoft-cs/cifar100", image="img", target="fine_label").columns
        ('img', 'fine_label')
    """

    id: str
    image: str = "image"
    target: str = "label"
    others: tuple[str, ...] = ()
    train: str = "train"
    validation: str = ""
    test: str = "test"
    config: str = ""
    files: str = ""
    revision: str = ""
    rows: str = ""
    streamed: bool = False
    beside: bool = False
    names: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that is read."""
        return tuple(column for column in (self.image, self.target, *self.others) if column)


@dataclass(frozen=True)
class Sheet:
    """A data set of GATE.

    Args:
        id: the benchmark's.
        title: what a reader should see.
        task: the id of a task type.
        metrics: the first is the headline.
        local: ``module:name`` of its `Originals`.
        classes: how many, or 0.
        sizes: samples to train on (with those that validate), and to score, where the split is the default one; 0 for
            a number that nobody published.
        drawn: that the samples are divided by our own drawing, so that only the sum of the sizes is published.
        licence: of the data.
        citation: of the data.
        site: where to get it.
        files: what has to lie under the data root, in words.
        folders: what the folder of its own files may be called under the data root.
        holds: what must lie in it, one of these; of several names in one, all.
        form: fields of ``gate_data.original_files.Form``, as its own files are read.
        gigabytes: on disk, about; 0 where that is not known.
        gate: what GATE's released code did.
        ours: what we do, and why.
        comparable: whether the paper's rows can stand beside ours.
        reason: why they cannot, or what still differs.
        hub: where the hub has a copy, and its columns.
        no_hub: why there is none that can be read.

    Example:
        >>> SHEETS["cifar100"].classes, SHEETS["cifar100"].sizes
        (100, (50000, 10000))
    """

    id: str
    title: str
    task: str
    metrics: tuple[str, ...]
    local: str
    classes: int
    sizes: tuple[int, int]
    licence: str
    citation: str
    site: str
    gate: str
    ours: str
    reason: str
    files: str
    folders: tuple[str, ...] = ()
    holds: tuple[str | list[str], ...] = ()
    form: Mapping[str, Any] = field(default_factory=dict)
    comparable: bool = False
    gigabytes: float = 0.0
    hub: Hub | None = None
    no_hub: str = "no copy in a form that is known"
    drawn: bool = False

    def differs(self, train: int, test: int, classes: int = 0) -> str:
        """What differs from what was published, in words; empty where nothing does, or nobody published a number.

        Args:
            train: samples to train on, with those that validate.
            test: samples to score.
            classes: how many there are; 0 where they are not counted.
        """
        remarks = []
        sizes = [(ours, published) for ours, published in zip((train, test), self.sizes, strict=True) if published]
        if self.drawn and train + test != sum(self.sizes):
            remarks.append(f"{train + test:,} samples, published are {sum(self.sizes):,}")
        elif not self.drawn and any(ours != published for ours, published in sizes):
            published_sizes = " / ".join(f"{size:,}" if size else "?" for size in self.sizes)
            remarks.append(f"{train:,} / {test:,} samples to train on and to score, published are {published_sizes}")
        if classes and self.classes and classes != self.classes:
            remarks.append(f"{classes:,} classes, published are {self.classes:,}")
        return "; ".join(remarks)


@dataclass(frozen=True)
class IcinwSheet:
    """A data set as ELEVATER scores it; what is not named here is as in `Sheet`.

    Args:
        id: ELEVATER's name, which is the benchmark's.
        sizes: images to train on (ELEVATER's train split alone), and to score.
        metric: ELEVATER's, a name of ``paired_scores.metrics``.
        folder: of ELEVATER's own copy, which holds its index files.
        module: of ``gate_data.originals.icinw``, which reads the data set's own files.
        hub: the copy on the Hugging Face hub that is read: its splits, columns and classes. One that lists a
            validation split is drawn anew from all of its splits, for none of them is ELEVATER's.
        index: names of its train and test index files in that folder.
        unsure: what is not certain of that copy.
        note: what differs from ELEVATER where its index files are not at hand.
        fit: how images become square.

    Example:
        >>> ICINW["dtd"].sizes, ICINW["dtd"].several
        ((1880, 1880), False)
    """

    id: str
    title: str
    classes: int
    sizes: tuple[int, int]
    metric: str
    folder: str
    module: str
    licence: str
    citation: str
    site: str
    hub: Hub
    files: str
    folders: tuple[str, ...] = ()
    holds: tuple[str | list[str], ...] = ()
    index: tuple[str, str] = ("train.txt", "test.txt")
    note: str = ""
    fit: Literal["crop", "whole"] = "crop"
    gigabytes: float = 0.0
    unsure: str = ""

    @property
    def several(self) -> bool:
        """Whether an image can have several classes."""
        return self.metric == "map_11point_elevater"


def is_known(name: str) -> bool:
    """Whether a data set has that id.

    Example:
        >>> is_known("cifar100"), is_known("my-cifar100")
        (True, False)
    """
    return name in SHEETS or name in ICINW


def _read(name: str) -> dict[str, dict[str, Any]]:
    return tomllib.loads((files(__name__) / name).read_text(encoding="utf-8"))


def _frozen(card: Mapping[str, Any]) -> dict[str, Any]:
    """Lists as tuples, and the table ``hub`` as its record."""
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in card.items()}
    return values | ({"hub": Hub(**_frozen(card["hub"]))} if "hub" in card else {})


def _of_group(group: str, content: Mapping[str, Any]) -> list[Sheet]:
    """The cards of a table of tables, whose own fields are their defaults."""
    cards = {name: card for name, card in content.items() if isinstance(card, dict)}
    defaults = {name: value for name, value in content.items() if name not in cards}
    start = f"gate_data.originals.{group}:"
    return [
        Sheet(id=name, local=start + name.replace("-", "_"), **_frozen({**defaults, **card}))
        for name, card in cards.items()
    ]


def _of_elevater(name: str, card: dict[str, Any]) -> IcinwSheet:
    remarks = (card.pop("note", ""), _DRAWN if card.pop("drawn", False) else _ORDER)
    return IcinwSheet(id=name, note="; ".join(filter(None, remarks)), **_frozen(card))


SHEETS: dict[str, Sheet] = {
    sheet.id: sheet for group, content in _read("gate.toml").items() for sheet in _of_group(group, content)
}
"""GATE's data sets by their benchmarks' ids, in the paper's order of groups."""
ICINW: dict[str, IcinwSheet] = {name: _of_elevater(name, card) for name, card in _read("elevater.toml").items()}
"""ELEVATER's by their benchmarks' ids, in its order."""
