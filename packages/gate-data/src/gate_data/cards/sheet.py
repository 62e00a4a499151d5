"""What is known of a data set: its size, its terms, and how the paper's numbers for it came about."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Hub:
    """Where a data set lies on the Hugging Face hub.

    Args:
        id: of the repository.
        image: column of pictures; several with ``|`` between them where it is not certain which of them it is.
        target: column of classes, or of class maps.
        others: further columns that its rows are read for.
        train: name of the split to train on; empty where nothing is trained, or one split holds all.
        validation: name of the split that chooses among heads; empty where it is drawn from the first.
        test: name of the split to score.
        config: name of the configuration, or empty.
        files: pattern of the files of ``{split}``, where the repository does not say which they are.
        revision: branch, or empty for the main one.
        rows: ``module:name`` of a function from `gate_data.hub.tables.Tables`, this record and the number
            of classes to lists of samples; empty where a row is a picture and its class.
        streamed: with a limit, only so many rows are read.
        beside: the column of pictures holds paths in the repository, where they lie as files of their own.
        names: of the classes, in the order of the copy's numbers, where neither the column has names nor the numbers
            are in the expected order.

    Example:
        >>> Hub("uoft-cs/cifar100", image="img", target="fine_label").train
        'train'
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
        """Every column that is read.

        Example:
            >>> Hub("owner/name", others=("caption",)).columns
            ('image', 'label', 'caption')
        """
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
        gigabytes: on disk, about; 0 where that is not known.
        gate: what GATE's released code did.
        ours: what we do, and why.
        comparable: whether the paper's rows can stand beside ours.
        reason: why they cannot, or what still differs.
        hub: where the hub has a copy, and its columns.
        no_hub: why there is none that can be read.

    Example:
        >>> from gate_data.cards import SHEETS
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

        Example:
            >>> from gate_data.cards import SHEETS
            >>> SHEETS["cifar100"].differs(50_000, 9_000, 100)
            '50,000 / 9,000 samples to train on and to score, published are 50,000 / 10,000'
            >>> SHEETS["ham10k"].differs(8_000, 2_015), SHEETS["ham10k"].differs(8_000, 2_000)
            ('', '10,000 samples, published are 10,015')
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
