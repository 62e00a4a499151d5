"""How a benchmark reads a data set's own files, and the way that all lists of samples take to three splits.

One file of more than 400 lines: every kind of list takes the same way, and each step hands its note to the next.
"""

from __future__ import annotations

import gc
import hashlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar

import numpy as np
from jaxtyping import Float, Int, UInt8

from gate_data.__about__ import __version__
from gate_data.cards import SHEETS
from gate_data.data import Data, Split
from gate_data.errors import DataError
from gate_data.maps import Maps
from gate_data.pictures import Pictures, unreadable
from gate_data.readers.arrays import stored_array
from gate_data.readers.clips import undecodable
from gate_data.readers.decode import Fit
from gate_data.readers.folders import place
from gate_data.readers.maps import ClassMap, ranked
from gate_data.readers.source import Clip, Source, Stored, described
from gate_data.readers.splits import dealt, held_out, shuffled, spread
from gate_data.remembered import listing_mark
from gate_data.request import DataRequest, Size
from wary_files.text import number_of

if TYPE_CHECKING:
    from torch import Tensor

Place = TypeVar("Place")
Kept = TypeVar("Kept")

_LOG = logging.getLogger(__name__)
MAP_SIDE = 256
"""Of class maps, in pixels, whatever the encoder: GATE's."""


@dataclass(frozen=True)
class Form:
    """What samples are turned into."""

    target: Literal["class", "labels", "heads", "value", "map", "depth"] = "class"
    """``labels``: 0/1 of each; ``heads``: an index for each head; ``map``: of classes; ``depth``: a map of metres."""
    share: float = 0.1  # of the training samples (or groups) that validate, where nobody else says which
    grouped: bool = False  # `Sample.group` stays on one side
    fit: Fit = "crop"  # how images become square
    few_shot: bool = False  # splits have classes of their own; each then counts its classes from 0
    maps: ClassMap | None = None  # how annotations are read
    probed: bool = False  # videos that cannot be decoded are looked for, counted and left out
    trained: bool = True  # training and validation samples are needed at all
    map_side: int = MAP_SIDE  # of class maps and depths, in pixels

    @property
    def read_map(self) -> Callable[[Any, int], np.ndarray] | None:
        """From a sample's target and a side to a map, where targets are maps."""
        return read_depth if self.target == "depth" else self.maps.read if self.maps is not None else None


@dataclass(frozen=True)
class Originals(Generic[Place]):
    """A data set's own files."""

    expected: str  # what has to lie under the data root, in words
    find: Callable[[Path], Place]  # from a data root to where the files are; raises DataError where they are not
    check: Callable[[Place], object]  # looks at all that can be seen without reading an image; raises DataError
    load: Callable[[Place, DataRequest], Data[Any]]
    parts: Callable[[Place], Parts] | None = None
    """Lists of samples, for whoever counts or compares them; None, or what gives None, where there are none."""
    form: Form = field(default_factory=Form)  # what samples become, wherever lists of them come from
    content: Callable[[Place], Parts | Arrays] | None = None  # what is read, before it is cut into splits

    def listing(self, location: Place, request: DataRequest) -> bytes | None:
        """What stands for the digest of the loaded data while no file changes: all that is listed, with files' times.

        None where there are no lists, images are to be tried, or a file changed just now.
        """
        parts = None if self.parts is None or request.skip_unreadable or request.drop_near else self.parts(location)
        if parts is None:
            return None
        how = (__version__, request.limit, request.size, self.form, parts.classes)
        digest = hashlib.blake2b(f"data/2 {how} {parts.note}".encode("utf-8", "surrogateescape"), digest_size=16)
        digest.update(parts.more)
        is_file, settled = self.form.target in ("map", "depth"), True
        for samples in (parts.train, parts.validation or (), parts.test):
            digest.update(f"{len(samples)}\n".encode())
            for sample in samples:
                digest.update(repr(sample).encode("utf-8", "surrogateescape"))
            sources: Any = (s.source if type(s.source) is tuple else (s.source,) for s in samples)
            maps = ((sample.target,) for sample in samples if is_file)
            for mark in (listing_mark(sources), listing_mark(maps)):
                digest.update(mark.digest)
                settled = settled and mark.settled
        return digest.digest() if settled else None


class Sample(NamedTuple):
    """One sample, of which nothing is read yet."""

    source: Source | tuple[Source, ...]  # the image, or a clip's frames in order
    target: Any = 0  # a class index, 0/1 of each label, an index for each head, a value, or the source of a class map
    text: str | tuple[str, ...] = ""  # a question or caption, or all captions
    group: str = ""  # what must not be torn apart: a patient, a lesion, a film, a scene
    slices: tuple[tuple[str, str], ...] = ()  # names and values of what scores are wanted by: a camera, a site


@dataclass(frozen=True)
class Parts:
    """A data set as lists of samples."""

    train: Sequence[Sample]
    test: Sequence[Sample]
    validation: Sequence[Sample] | None = None  # None draws it from what trains
    classes: tuple[str, ...] = ()  # names in the order of their indices
    note: str = ""  # what a reader of the score must know
    missing: str = ""  # where there are not as many samples as were published, in words
    more: bytes = b""  # a digest of what is known of the samples besides, such as their boxes

    def splits(self, share: float, grouped: bool) -> dict[str, Sequence[Sample]]:
        """Three lists; validation is drawn by class, or by group, where the data set has none of its own."""
        train, validation = self.train, self.validation
        if validation is None and train:
            if grouped:
                rows = dealt([sample.group for sample in train], [1 - share], _strata(train))
            else:
                rows = list(held_out(_strata(train) or [0] * len(train), share))
            train, validation = ([self.train[row] for row in part] for part in rows)
        return {"train": train, "validation": validation or (), "test": self.test}


def from_lists(
    expected: str,
    find: Callable[[Path], Place],
    read: Callable[[Place], Parts | Arrays],
    images: Callable[[Sequence[Sample]], Tensor] | None = None,
    **form: Any,
) -> Originals[Place]:
    """Originals that are lists of samples, or arrays: all that a data set has to say is how these are read.

    ``images`` are those of samples that are held in memory, where they do not stay in their files.
    """
    checked_form = Form(**form)

    def content(location: Place) -> Parts | Arrays:
        with without_collector():
            return read(location)

    def check(location: Place) -> None:
        lists = content(location)
        if isinstance(lists, Parts):
            splits_of(lists, checked_form, _folder_of(location))

    def load(location: Place, request: DataRequest) -> Data:
        lists, where = content(location), _folder_of(location)
        if isinstance(lists, Parts):
            return to_data(lists, checked_form, request, where, images)
        return to_data(lists.rows, checked_form, request, where, lists.images)

    def parts(location: Place) -> Any:  # None of arrays
        lists = content(location)
        return lists if isinstance(lists, Parts) else None

    return Originals(expected, find, check, load, parts, checked_form, content)


def _folder_of(location: Any) -> str:
    """The first of the folders that a data set lies in, as errors name it."""
    return str(location[0] if isinstance(location, tuple) else location)


@contextmanager
def without_collector() -> Iterator[None]:
    """No search for cycles inside the block, which makes a million objects: it would go through all of them again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def original(
    expected: str, find: Sequence[str] | Callable[[Path], Any], *inside: str | Sequence[str], **form: Any
) -> Callable[[Callable[[Any], Parts | Arrays]], Originals[Any]]:
    """Makes originals of the function below it, which reads lists of samples from where `place` finds the files.

    ``expected`` is what has to lie under the data root, in words, ``form`` has the fields of `Form`.

    Example:
        >>> from gate_data.readers import files_of_classes
        >>> @original("coins-v2/ with a folder per class", ("coins-v2",), "round")
        ... def coins(folder):
        ...     return Parts(as_samples(files_of_classes(folder)), [])
        >>> coins.find(Path("elsewhere"))
        Traceback (most recent call last):
        wary_files.errors.DataError: elsewhere does not hold its files (coins-v2/ with a folder per class)
    """
    return lambda read: from_lists(expected, place(expected, find, *inside), read, **form)


def of_card(name: str, find: Callable[[Path], Any] | None = None, **form: Any) -> Callable[..., Originals[Any]]:
    """The same of one of GATE's data sets, whose card says where its files lie and what their samples become."""
    card = SHEETS[name]
    return original(card.files, find or card.folders, *card.holds, **{**card.form, **form})


@dataclass(frozen=True, eq=False)
class Side:
    """Images that are rows of an array in their file, and their classes."""

    images: UInt8[np.ndarray, "n 3 h w"]
    labels: Int[np.ndarray, " n"]

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class Arrays:
    """A data set whose own files hold arrays, not images."""

    train: Side
    test: Side
    classes: tuple[str, ...] = ()
    note: str = ""
    validation: Side | None = None

    @property
    def rows(self) -> Parts:
        """Samples that name their rows."""
        train, test, validation = (
            [Sample(Stored(name, "", row), label) for row, label in enumerate(side.labels.tolist())] if side else None
            for name, side in (("train", self.train), ("test", self.test), ("validation", self.validation))
        )
        return Parts(train or (), test or (), validation, self.classes, self.note)

    def images(self, samples: Sequence[Any]) -> UInt8[Tensor, "n 3 h w"]:
        """The images of some of the rows, which are of one split."""
        import torch

        side = getattr(self, samples[0].source.file) if samples else self.train
        return torch.from_numpy(np.ascontiguousarray(side.images[[sample.source.row for sample in samples]]))


def to_data(
    parts: Parts,
    form: Form,
    request: DataRequest,
    where: str,
    images: Callable[[Sequence[Sample]], Tensor] | None = None,
) -> Data:
    """Lists of samples as three splits, within the request's limit; ``images`` as in `from_lists`."""
    lists = splits_of(parts, form, where)
    notes = [request.compared(parts.note, *counted(parts), len(parts.classes))]
    leaves_out = request.limit is not None or request.drop_near or request.skip_unreadable or form.probed
    trains_classes = leaves_out and form.target == "class" and form.trained and not form.few_shot
    given = {sample.target for sample in lists["train"]} if trains_classes else set()
    if request.drop_near and images is None:
        from gate_data.near_splits import without_near

        lists, remark = without_near(lists)
        notes.append(remark)
        for name, samples in lists.items():
            if not samples and form.trained:
                raise DataError(f"{where}: the {name} split has no samples but {remark.partition(':')[0][12:]}")
    splits: list[Split[Any]] = []
    targets = {}
    for name, samples in lists.items():
        chosen = within_limit(samples, form, request.limit)
        clips = [sample.source[0] for sample in chosen if isinstance(sample.source[0], Clip)] if form.probed else []
        if broken := undecodable(clips):
            listed = ", ".join(described(clips[row]) for row in broken[:3])
            notes.append(f"{number_of(len(broken), 'video')} of {name} cannot be decoded: {listed}")
            gone = {clips[row] for row in broken}
            chosen = [sample for sample in chosen if sample.source[0] not in gone]
        if request.skip_unreadable and images is None:
            chosen, remark = readable(chosen, _pictures(chosen, form, request.size), name)
            notes.append(remark)
        shown = _pictures(chosen, form, request.size) if images is None else images(chosen)
        texts = [sample.text for sample in chosen]
        texts = texts if any(texts) else []
        flat = tuple(caption for text in texts for caption in ((text,) if isinstance(text, str) else text))
        splits.append(Split(shown, _targets(chosen, form), flat if any(flat) else None, columns=_columns(chosen)))
        targets[name] = {sample.target for sample in chosen} if trains_classes else set()
    if trains_classes:
        notes.append(_untrained(targets, given, request.limit, parts.classes))
    # Names of files may be bytes that are not UTF-8: a result's file could not be read again with them.
    note = "; ".join(filter(None, notes)).encode("utf-8", "backslashreplace").decode()
    return Data(splits[0], splits[1], splits[2], parts.classes, note)


def _untrained(targets: Mapping[str, set[Any]], given: set[Any], limit: int | None, classes: Sequence[str]) -> str:
    """Say which classes of the test lost all their training samples by what is left out; empty if none has."""
    lost = sorted((targets["test"] if limit is not None else targets["test"] & given) - targets["train"])
    if not lost:
        return ""
    start = "what is left out leaves classes without training samples"
    if limit is not None:
        start = f"limit {limit:,} leaves {len(targets['train']):,} classes in training"
    shown = f", such as {classes[lost[0]]!r}" if isinstance(lost[0], int) and lost[0] < len(classes) else ""
    return f"{start}; {len(lost):,} of {len(targets['test']):,} in test are never trained{shown}"


GROUP = "[splits] group"
"""The name of the groups that splits keep whole, among a split's columns."""


def _columns(samples: Sequence[Sample]) -> dict[str, tuple[str, ...]]:
    """Groups and slices by name, where samples have them."""
    columns = {GROUP: tuple(sample.group for sample in samples)} if samples and samples[0].group else {}
    for at, (name, _) in enumerate(samples[0].slices if samples else ()):
        columns[name] = tuple(sample.slices[at][1] for sample in samples)
    return columns


def counted(parts: Parts) -> tuple[int, int]:
    """Samples to train on, with those that validate, and to score."""
    return len(parts.train) + len(parts.validation or ()), len(parts.test)


def splits_of(parts: Parts, form: Form, where: str) -> dict[str, Sequence[Sample]]:
    """Three lists, none of them empty that is needed."""
    lists = parts.splits(form.share, form.grouped)
    for name, samples in lists.items():
        if not samples and (form.trained or name == "test"):
            raise DataError(f"{where}: the {name} split has no samples")
    if form.few_shot:
        for first, second in (("train", "validation"), ("train", "test"), ("validation", "test")):
            shared = {sample.target for sample in lists[first]} & {sample.target for sample in lists[second]}
            if shared:
                raise DataError(f"{where}: class {parts.classes[min(shared)]!r} is in {first} and in {second}")
    return lists


def within_limit(samples: Sequence[Sample], form: Form, limit: int | None) -> Sequence[Sample]:
    """Return at most so many samples, spread over classes; whole episodes' classes of few-shot data."""
    if limit is None or limit >= len(samples):
        return samples
    if form.few_shot:
        return few_classes(samples, limit)
    return [samples[row] for row in spread(_strata(samples) or [0] * len(samples), limit)]


def _strata(samples: Sequence[Sample]) -> list[int] | None:
    """What is spread evenly: classes, or sets of labels; None where targets are neither."""
    if not samples or type(samples[0].target) not in (int, tuple):  # a map's place may be a named tuple
        return None
    if isinstance(samples[0].target, int):
        return [sample.target for sample in samples]
    first = [sample.target[:8] for sample in samples]
    rank = ranked(set(first))
    return [rank[labels] for labels in first]


def readable(samples: Sequence[Kept], pictures: Pictures, name: str) -> tuple[list[Kept], str]:
    """The samples whose images can be decoded; the others are listed as a warning."""
    lost = unreadable(pictures)
    if not lost:
        return list(samples), ""
    files = [described(pictures.files[row][0]) for row in lost]
    if len(lost) == len(samples):
        raise DataError(f"none of the {len(lost)} images of the {name} split can be read, the first is {files[0]}")
    _LOG.warning("cannot be read, and left out of %s: %s", name, ", ".join(files))
    gone = set(lost)
    shown = ", ".join(Path(file).name for file in files[:3]) + (" …" if len(lost) > 3 else "")
    readable_samples = [sample for row, sample in enumerate(samples) if row not in gone]
    return readable_samples, f"{len(lost)} of {name} cannot be read: {shown}"


def _pictures(samples: Sequence[Sample], form: Form, size: Size) -> Pictures:
    sources = [sample.source for sample in samples]
    if set(map(type, sources)) == {str}:
        return Pictures(tuple(zip(sources, strict=True)), size, form.fit)  # type: ignore[arg-type]  # tuples of one
    clips = [type(source) is tuple for source in sources]  # a source alone may be a named tuple
    files: Any = tuple(sample.source if clip else (sample.source,) for sample, clip in zip(samples, clips, strict=True))
    return Pictures(files, size, form.fit, bool(clips) and clips[0])


def _targets(samples: Sequence[Sample], form: Form) -> Tensor | Maps:
    import torch

    values = [sample.target for sample in samples]
    if form.target in ("map", "depth"):
        assert form.read_map is not None
        pictures: Any = tuple(sample.source for sample in samples) if form.target == "map" else ()
        return Maps(tuple(values), form.map_side, form.read_map, pictures)
    if form.few_shot:
        rank = ranked(set(values))
        values = [rank[label] for label in values]
    return torch.tensor(values, dtype=torch.float32 if form.target in ("labels", "value") else torch.long)


def read_depth(source: Stored, side: int) -> Float[np.ndarray, "s s"]:
    """A map of metres, scaled by the nearest pixel; what was not measured is 0."""
    import torch
    from torch.nn import functional as F

    metres = torch.from_numpy(stored_array(source).astype(np.float32))
    if not bool(torch.isfinite(metres).all()) or float(metres.min()) < 0:
        raise DataError(f"{described(source)} holds depths that are negative, infinite or no numbers")
    return F.interpolate(metres[None, None], (side, side), mode="nearest-exact")[0, 0].numpy()


def few_classes(samples: Sequence[Sample], limit: int | None) -> Sequence[Sample]:
    """A few drawn classes with 20 samples each, and at least five classes; all samples without a limit."""
    if limit is None or limit >= len(samples):
        return samples
    classes = shuffled(sorted({sample.target for sample in samples}))[: max(5, limit // 20)]
    remaining = dict.fromkeys(classes, max(1, limit // len(classes)))
    chosen = []
    for sample in samples:
        if remaining.get(sample.target, 0):
            remaining[sample.target] -= 1
            chosen.append(sample)
    return chosen


def as_samples(files: Mapping[str, Sequence[Source]], classes: Sequence[str] | None = None) -> list[Sample]:
    """Samples of folders of classes; a class's index is its place among the classes, or its own place."""
    number = {name: index for index, name in enumerate(classes if classes is not None else files)}
    for name in files:
        if name not in number:
            raise DataError(f"class {name!r} has test images but none to train on")
    return [Sample(source, number[name]) for name, sources in files.items() for source in sources]


def with_note(parts: Parts, note: str) -> Parts:
    """The same with more to say."""
    return replace(parts, note=f"{parts.note}; {note}" if parts.note else note)
