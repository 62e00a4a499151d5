"""What is known of a data set: its size, its terms, and how the paper's numbers for it came about."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Hub:
    """Where a data set lies on the Hugging Face hub.

    Args:
        id: of the repository.
        image: column of pictures.
        target: column of classes (or of maps); empty where samples have none.
        text: column of questions or captions.
        train: name of the split to train on.
        test: name of the split to score.
        config: name of the configuration, or empty.

    Example:
        >>> Hub("uoft-cs/cifar100", image="img", target="fine_label").train
        'train'
    """

    id: str
    image: str = "image"
    target: str = "label"
    text: str = ""
    train: str = "train"
    test: str = "test"
    config: str = ""


@dataclass(frozen=True)
class Sheet:
    """A data set of GATE.

    Args:
        id: the benchmark's.
        title: what a reader should see.
        task: the id of a task type.
        metrics: the first is the headline.
        local: ``module:name`` of its `Originals`.
        micro: ``module:name`` of its stand-in.
        classes: how many, or 0.
        sizes: samples to train on (with those that validate), and to score, where the split is the default one.
        licence: of the data.
        citation: of the data.
        site: where to get it.
        gigabytes: on disk, about; 0 where that is not known.
        gate: what GATE's released code did.
        ours: what we do, and why.
        comparable: whether the paper's rows can stand beside ours.
        reason: why they cannot, or what still differs.
        hub: where the hub has a copy, and its columns.

    Example:
        >>> from gate_runner.benchmarks.sheets import SHEETS
        >>> SHEETS["cifar100"].classes, SHEETS["cifar100"].sizes
        (100, (50000, 10000))
    """

    id: str
    title: str
    task: str
    metrics: tuple[str, ...]
    local: str
    micro: str
    classes: int
    sizes: tuple[int, int]
    licence: str
    citation: str
    site: str
    gate: str
    ours: str
    reason: str
    comparable: bool = False
    gigabytes: float = 0.0
    hub: Hub | None = None
