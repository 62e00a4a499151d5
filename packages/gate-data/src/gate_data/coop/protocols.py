"""CoOp's four protocols: what a head is trained on, and which images and classes it is tested on."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gate_data.coop.cards import COOP, DOMAINS
from gate_data.coop.draws import DrawnShots, draw_shots
from gate_data.data import Data, Split, as_targets
from gate_data.errors import DataError, UsageError, unknown
from gate_data.original_files import Sample, readable
from gate_data.pictures import Pictures
from gate_data.readers.splits import spread
from gate_data.request import DataRequest

if TYPE_CHECKING:
    from gate_data.coop.lists import DividedImages

Protocol = Literal["few-shot", "base-to-new", "cross", "domain"]
PROTOCOLS: tuple[Protocol, ...] = ("few-shot", "base-to-new", "cross", "domain")
SOURCE = "coop-imagenet"
"""The set that heads are trained on for the protocols ``cross`` and ``domain``."""
_NOTHING = DrawnShots((), ())


@dataclass(frozen=True)
class FewShotData(Data[Any]):
    """A few images of each class, and a whole test split, whose classes may be others.

    Args:
        trained_classes: the names of the classes that training and validation targets count.
        columns: for each of ``classes``, its place among the trained ones, or -1 if it is not trained.
        drawn: the rows that were drawn, and the classes with fewer images than shots.
        lists: SHA-256 over all that could be drawn: paths and labels, in their order.

    ``classes`` are those that the test targets count, and among which a test image is classified.

    Example:
        >>> import tempfile
        >>> from gate_data.coop import write_made_up
        >>> root = write_made_up(tempfile.mkdtemp(), classes=3, images=2, sets=["coop-dtd"])
        >>> halves = load_few_shot("coop-dtd", root, shots=1, protocol="base-to-new", request=DataRequest(size=16))
        >>> halves.trained_classes, halves.columns
        (('red', 'green'), (0, 1, -1))
    """

    trained_classes: tuple[str, ...] = ()
    columns: tuple[int, ...] = ()
    drawn: DrawnShots = _NOTHING
    lists: str = ""

    def digest(self) -> str:
        """Return SHA-256 over the test images and the lists that shots are drawn from: the same for every seed.

        What the drawn images hold is in `drawn_digest`.
        """
        digest = hashlib.sha256(f"{self.lists} {self.trained_classes} {self.columns}".encode())
        self.test.note_in(digest)
        return digest.hexdigest()

    def drawn_digest(self) -> str:
        """Return SHA-256 over the drawn training and validation images and their classes."""
        digest = hashlib.sha256()
        self.train.note_in(digest)
        self.validation.note_in(digest)
        return digest.hexdigest()

    def limited(self, limit: int | None) -> FewShotData:
        """Return the same with at most so many test images, of every class as far as they go; draws stay whole."""
        if limit is None or limit >= len(self.test):
            return self
        rows = spread(self.test.targets.tolist(), limit)
        return replace(self, test=self.test.take(as_targets(rows)))

    @property
    def base(self) -> int:
        """The number of tested classes that are trained; for ``base-to-new``, the classes before the new ones."""
        return sum(column >= 0 for column in self.columns)


def load_few_shot(
    name: str,
    root: str | PathLike[str],
    *,
    shots: int,
    seed: int = 1,
    protocol: Protocol = "few-shot",
    request: DataRequest,
) -> FewShotData:
    """Load what a head may see by one of CoOp's protocols, and what it is tested on.

    Shots are drawn from all classes first (`draw_shots`), and base classes are taken afterwards, as published. Of
    ``base-to-new``, the first half of the classes by label (rounded up) are trained, and all are in the test split.
    ``cross`` and ``domain`` train on ImageNet and test on the set. A limit leaves the draws as they are and
    takes test images of every class.

    Args:
        name: the id of the tested set, a key of `COOP`.
        root: the folder below which the sets' files are.
        shots: images of each class; 0 draws none, for scores by texts alone.
        seed: of the draw; the published ones are 1, 2 and 3.
        protocol: one of `PROTOCOLS`.
        request: size of images, limit, and whether unreadable images are left out.

    Raises:
        UsageError: no such set or protocol, or a set that the protocol does not have.
        DataError: files are missing or not in their form.

    Example:
        >>> data = load_few_shot("coop-dtd", "/data", shots=16, seed=1, request=DataRequest())  # doctest: +SKIP
        >>> len(data.train), len(data.validation), len(data.test)  # doctest: +SKIP
        (752, 188, 1692)

    Source:
        Zhou et al., Learning to Prompt, IJCV 2022 (few-shot, domain); Conditional Prompt Learning, CVPR 2022
        (base-to-new, cross).
    """
    if protocol not in PROTOCOLS:
        raise unknown("protocol", protocol, PROTOCOLS)
    if name not in COOP:
        raise unknown("data set", name, COOP)
    check_protocol(name, protocol)
    source = SOURCE if protocol in ("cross", "domain") else name
    tested = _read(name, Path(root))
    trained = tested if source == name else _read(source, Path(root))
    drawn = _NOTHING
    if shots:
        labels = [[sample.target for sample in part] for part in (trained.train, trained.validation or ())]
        drawn = draw_shots(labels[0], labels[1], shots, seed)
        absent = set(range(len(trained.classes))) - {sample.target for sample in trained.train}
        drawn = drawn._replace(short=tuple(sorted({*drawn.short, *absent})))
    train, validation = (
        [samples[row] for row in rows]
        for samples, rows in ((trained.train, drawn.train), (trained.validation or (), drawn.validation))
    )
    names, columns = trained.classes, _columns(tested, trained, protocol)
    if protocol == "base-to-new":
        half = sum(column >= 0 for column in columns)
        names = names[:half]
        train, validation = ([sample for sample in part if sample.target < half] for part in (train, validation))
    notes = list(dict.fromkeys(filter(None, (tested.note, trained.note if shots else ""))))
    test = tested.test
    if request.limit is not None and request.limit < len(test):
        test = [test[row] for row in spread([sample.target for sample in test], request.limit)]
        notes.append(f"limit {request.limit:,} takes test images alone")
    splits = []
    for part, samples in (("train", train), ("validation", validation), ("test", test)):
        split, remark = _split(samples, part, request)
        splits.append(split)
        notes.append(remark)
    if shots and drawn.short:
        known = ", ".join(repr(trained.classes[label]) for label in drawn.short[:3])
        more = " …" if len(drawn.short) > 3 else ""
        notes.append(f"{len(drawn.short)} classes have fewer than {shots} training images, all taken: {known}{more}")
    note = "; ".join(filter(None, notes))
    lists = _listed(trained, str(root)) if shots else ""
    return FewShotData(splits[0], splits[1], splits[2], tested.classes, note, names, columns, drawn, lists)


def check_protocol(name: str, protocol: str) -> None:
    """Refuse a set that a protocol does not have.

    Raises:
        UsageError: the message says which protocol has it.
    """
    if (name in DOMAINS) != (protocol == "domain") and name != SOURCE:
        fits = "domain" if name in DOMAINS else "few-shot, base-to-new or cross"
        raise UsageError(f"{name} is not a set of the protocol {protocol!r}: --protocol {fits}")


def _read(name: str, root: Path) -> DividedImages:
    from gate_data.coop.originals import ORIGINALS

    originals = ORIGINALS[name]
    content: Any = originals.content
    parts: DividedImages = content(originals.find(root))
    return parts


def _listed(parts: DividedImages, root: str) -> str:
    """Return SHA-256 over the paths below the data root and the labels of training and validation lists."""
    digest = hashlib.sha256()
    for samples in (parts.train, parts.validation or ()):
        for sample in samples:
            digest.update(
                f"{str(sample.source).removeprefix(root)}\t{sample.target}\n".encode("utf-8", "surrogateescape")
            )
        digest.update(b"\n")
    return digest.hexdigest()


def _columns(tested: DividedImages, trained: DividedImages, protocol: Protocol) -> tuple[int, ...]:
    count = len(tested.classes)
    if protocol == "base-to-new":
        half = (count + 1) // 2
        return tuple(label if label < half else -1 for label in range(count))
    if tested is trained or tested.ids == trained.ids != ():
        return tuple(range(count))
    place = {name: column for column, name in enumerate(trained.ids)}
    if protocol == "domain":
        strange = [name for name in tested.ids if name not in place]
        if strange:
            raise DataError(f"{len(strange)} tested classes are not among ImageNet's folders, such as {strange[0]}")
        return tuple(place[name] for name in tested.ids)
    return (-1,) * count


def _split(samples: Sequence[Sample], name: str, request: DataRequest) -> tuple[Split[Any], str]:
    sources: list[Any] = [sample.source for sample in samples]
    pictures, remark = Pictures.of(sources, request.size), ""
    if request.skip_unreadable and samples:
        samples, remark = readable(samples, pictures, name)
        sources = [sample.source for sample in samples]
        pictures = Pictures.of(sources, request.size)
    return Split(pictures, as_targets([sample.target for sample in samples])), remark
