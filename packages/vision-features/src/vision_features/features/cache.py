"""The one store of what encoders give: addressed by the content that was encoded, under a cap, safe to share.

Everything that encodes asks here: seeds, shots, benchmarks on the same images, and ``adapt``. A row is known by the
encoder (its weights, its transform and what it gave on probes), the kind of feature and the digest of what was encoded.
What is encoded together is one segment: a file of rows beside a file of their digests. The digests are written last: a
segment without them is unfinished and is continued; where nobody wants the same any more, its rows are taken over. What
files hold may be known only when they were read for the encoder. The segments that were not used longest make room.

Rows that were encoded in other batches differ in their last digits, as sums in another order do.

One file of more than 400 lines: the order in which it writes is what two writers and a kill rely on.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import logging
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gate_data.readers.caches import checked, own_cache, refuse_others
from vision_adapters.rows import DiskFullError, Draw, Rows, RowWriter
from vision_features.encoders.spec import agree
from vision_features.features.inputs import WIDTH, Digests, Encode, Inputs, Numbered, digest_of
from vision_features.features.segments import SegmentStore, make_room
from vision_features.features.unfinished import alone, finish, note, noted, take_over
from wary_files.errors import DataError, StorageError
from wary_files.folders import write

if TYPE_CHECKING:
    from vision_features.encoders.encoder import Encoder

_LOG = logging.getLogger(__name__)

IN_MEMORY = 512_000_000
"""Bytes of features that one unit holds in memory; what is larger is read from its file when it is needed."""
_FORMAT = "features/1"
_NO_PICTURES = ("text", "tokens-", "maps")
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def cache_folder() -> Path:
    """Where features lie: below ``GATE_RUNNER_CACHE``, else ``XDG_CACHE_HOME``, else ``~/.cache``.

    Raises:
        StorageError: others can write there.
    """
    return own_cache("features")


class EncodedRows:
    """Features that are made whenever they are asked for: of ``count`` samples, ``size`` in a call."""

    costly = True

    def __init__(self, encode: Encode, count: int, size: int) -> None:
        self.encode, self.count, self.size = encode, count, size

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, rows: Any, /) -> Tensor:
        numbers = torch.arange(self.count)[rows] if isinstance(rows, slice) else rows.cpu()
        return torch.cat([self.encode(part).cpu() for part in torch.split(numbers, self.size)])


class IndexedRows:
    """Rows of another source, in another order or several times (one image that many questions are asked about)."""

    def __init__(self, rows: Rows, index: Tensor) -> None:
        self.rows, self.index = rows, index

    @property
    def costly(self) -> bool:
        """Whether the other source's rows are."""
        return getattr(self.rows, "costly", False)

    @property
    def stream(self) -> Callable[[Iterable[Draw]], Generator[Any]]:
        """Batches that the other source makes ahead or varies, where it does; `drawn` asks whether there is one."""
        inner = getattr(self.rows, "stream", None)
        if inner is None:
            raise AttributeError("the rows that are indexed are read as they are asked for")
        return partial(self._streamed, inner)

    def _streamed(self, inner: Callable[[Iterable[Draw]], Generator[Any]], draws: Iterable[Draw]) -> Generator[Any]:
        shapes: deque[tuple[int, ...]] = deque()

        def flat() -> Iterator[Draw]:
            for draw in draws:
                numbers = self.index[draw.rows]
                shapes.append(tuple(numbers.shape))
                yield draw._replace(rows=numbers.flatten())

        with closing(inner(flat())) as batches:
            for batch in batches:
                yield batch.reshape(*shapes.popleft(), *batch.shape[1:])

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, rows: Any, /) -> Any:
        return self.rows[self.index[rows.cpu() if isinstance(rows, Tensor) else rows]]


class ChangedRows:
    """Rows that a function changes one by one as they are asked for."""

    def __init__(self, rows: Rows, change: Callable[[Tensor], Tensor]) -> None:
        self.rows, self.change = rows, change

    @property
    def costly(self) -> bool:
        """Whether the rows that are changed are."""
        return getattr(self.rows, "costly", False)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, rows: Any, /) -> Tensor:
        return self.change(self.rows[rows].float())


def cut(rows: Rows, columns: Tensor | slice) -> Rows:
    """Some columns of rows."""
    if isinstance(rows, Tensor):
        return rows[..., columns].contiguous()
    return ChangedRows(rows, lambda part: part[..., columns])


@dataclass
class FeatureCache:
    """Features of one encoder, each encoded once."""

    folder: Path | None = None  # of the encoder, below `cache_folder` or a run folder; None holds everything in memory
    cap: int = 20_000_000_000  # bytes that all files below the folder's parent may take together
    in_memory: int = field(default_factory=lambda: IN_MEMORY)  # bytes that may be held in memory
    placed: dict[str, str] = field(default_factory=dict)  # each array's place: "memory", "disk" or "encoded again"
    encoded: Counter[str] = field(default_factory=Counter)  # rows of each kind that were encoded
    reused: Counter[str] = field(default_factory=Counter)  # rows of each kind that were there
    # Seconds of reading threads ("read", "decode"), of the encoder ("encoder"), and in which it waited ("wait").
    spent: dict[str, float] = field(default_factory=dict)
    # Images a second of each batch, from when it was asked for to when it was encoded.
    rates: list[float] = field(default_factory=list)

    @classmethod
    def of(
        cls, encoder: Encoder, fingerprint: str | None, *, root: Path | None = None, cap: int = 20_000_000_000
    ) -> FeatureCache:
        """The cache of an encoder, in memory where its weights cannot be seen: nobody could tell whose they are."""
        from vision_features.encoders.probe import probe

        if fingerprint is None:
            return cls()
        known_by: tuple[Any, ...] = (encoder.spec, fingerprint, encoder.image_size, encoder.mean, encoder.std)
        known_by += (
            encoder.code,
            encoder.device.type,
            *(() if encoder.precision == "float32" else (encoder.precision,)),
        )
        key = digest_of(f"{_FORMAT} {known_by}".encode()).hex()
        outputs = encoder.outputs or probe(encoder)
        for number in itertools.count():  # the same weights behind other code are another encoder
            try:
                root = root or cache_folder()
                folder = checked(root / (f"{key}-{number}" if number else key), root)
            except (RuntimeError, StorageError) as error:  # there is no home, or not of this user alone
                return cls._kept_nowhere(str(error))
            about = folder / "encoder.json"
            try:
                if about.is_symlink() or (about.exists() and not about.is_file()):
                    about.unlink()
                if agree(json.loads(about.read_text())["outputs"], outputs):
                    return cls(folder, cap)
            except (OSError, ValueError, KeyError, TypeError, RecursionError):
                if next(folder.glob("*/*.digests.npy"), None) is not None:
                    continue  # these rows may be of the same weights behind other code
                card = {"spec": encoder.spec, "fingerprint": fingerprint, "outputs": outputs}
                try:
                    write(about, (json.dumps(card) + "\n").encode())
                except (OSError, StorageError) as error:
                    return cls._kept_nowhere(str(error))
                return cls(folder, cap)
        raise AssertionError("unreachable")

    @classmethod
    def _kept_nowhere(cls, why: str) -> FeatureCache:
        _once(f"features are not kept for the next run: {why}", why)
        return cls()

    def rows(
        self,
        name: str,
        kind: str,
        digests: Digests,
        size: int,
        encode: Encode,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> Rows:
        """Features of all inputs, in their order; what is not there is encoded in batches."""
        return self.encoded_rows(name, kind, Numbered(digests, encode), size, progress)

    def encoded_rows(
        self, name: str, kind: str, inputs: Inputs, size: int, progress: Callable[[int, int], None]
    ) -> Rows:
        """Features of inputs that are read ahead of the encoder; see `rows`."""
        encoded = self.encoded[kind]
        request = _Request(name, kind, inputs, size, progress)
        if self.folder is None:
            return self._held(request)
        folder = self.folder / kind
        while True:
            digests = inputs.digests()
            missing: Sequence[int] = range(len(inputs))
            segment = digest_of(b"files ", inputs.mark).hex() if digests is None else ""
            with contextlib.ExitStack() as stack:
                try:
                    refuse_others(folder, self.folder)
                    if digests is not None:
                        store = SegmentStore.sound(folder, digests)
                        missing = _first(digests, store.missing(digests))
                        if not missing:
                            with contextlib.suppress(OSError, StorageError):  # of a cache that can only be read
                                take_over(folder, but="")  # of kills behind the last row
                            break
                        segment = digest_of(digests[missing].tobytes()).hex()
                    checked(folder, self.folder)
                    if take_over(folder, but=segment):
                        continue
                    stack.enter_context(alone(folder, segment, wait=True))  # who wants the same waits, and finds it
                    written = SegmentStore(folder)
                except (OSError, StorageError) as error:
                    return self._without_disk(request, _NoRoomError(f"{folder}: {_words_of(error)}"))
                if digests is not None and len(_first(digests, written.missing(digests))) < len(missing):
                    continue
                if digests is None and inputs.digests() is not None:
                    continue
                if digests is None and (folder / f"{segment}.digests.npy").exists():  # of files that may have changed
                    for _ in inputs.read(missing, lambda digest: False, 2 * size):  # hashed, and nothing decoded
                        pass
                    continue
                try:
                    self._write(request, written, folder / f"{segment}.npy", missing)
                except _NoRoomError as error:
                    return self._without_disk(request, error)
        self.reused[kind] += len(np.unique(digests)) - (self.encoded[kind] - encoded)
        rows = store.rows(digests)
        needed = len(rows) * rows.row_bytes
        if needed > self.in_memory:
            self.placed[name] = "disk"
            return rows.lean()
        self.in_memory -= needed
        self.placed[name] = "memory"
        held: Tensor = rows.lean()[:]
        return held

    def has_more(self, inputs: Inputs, kind: str, other: str) -> bool:
        """Whether fewer of some inputs would have to be encoded for a kind than for another one."""
        if self.folder is None or not any((self.folder / kind).glob("*.digests.npy")):
            return False
        try:
            for name in (kind, other):
                refuse_others(self.folder / name, self.folder)
        except StorageError:
            return False
        digests = inputs.digests()
        if digests is None:
            for _ in inputs.read(range(len(inputs)), lambda digest: False, 64):  # hashed, and nothing decoded
                pass
            digests = inputs.digests()
            assert digests is not None  # all were read
        missing = [len(_first(digests, SegmentStore(self.folder / name).missing(digests))) for name in (kind, other)]
        return missing[0] < missing[1]

    def _write(self, request: _Request, store: SegmentStore, path: Path, numbers: Sequence[int]) -> None:
        """Encode what no segment holds into a new one, from where a killed writer stopped."""
        log, count = path.with_suffix(".part"), len(numbers)
        with _room(path, log):
            writer = RowWriter.left(path, count, path.stem)
            digests = noted(log, writer.done) if writer is not None else []
            if writer is not None and not digests:
                writer = None
            if writer is None:
                for file in (path, log):
                    file.unlink(missing_ok=True)
            elif writer.count < count:  # killed after the last row: who reads looks for the rest again
                finish(path.parent, path.stem, np.array(digests, f"S{WIDTH}"))
                log.unlink(missing_ok=True)
                return
        stored = set(digests)

        def wanted(digest: bytes) -> bool:
            return digest not in stored and not store.holds(digest)

        for batch, rows in self._encoded(request, numbers, stored, wanted):
            if writer is None:
                needed = count * math.prod(rows.shape[1:]) * rows.element_size()
                if needed > self.cap or not make_room(path.parents[2], self.cap - needed):
                    raise _NoRoomError(f"{needed / 1e9:.1f} GB do not fit under the cap of {self.cap / 1e9:.1f} GB")
                with _room(path, log):
                    writer = RowWriter(path, count, rows.shape[1:], rows.dtype, path.stem)
            with _room(path, log):
                note(log, writer.done, batch)
                writer.append(_of_type(writer.dtype, rows, request.name))
            digests += batch
        with _room(path, log):
            if writer is not None:
                writer.cut()
                finish(path.parent, path.stem, np.array(digests, f"S{WIDTH}"))
            log.unlink(missing_ok=True)

    def _encoded(
        self, request: _Request, numbers: Sequence[int], stored: set[bytes], is_missing: Callable[[bytes], bool]
    ) -> Iterator[tuple[list[bytes], Tensor]]:
        """Batches of the inputs that are wanted, each once: their digests, and what the encoder gives of them."""
        batch: list[tuple[bytes, Any]] = []
        total = len(request.inputs)
        passed = total - len(numbers)
        begun = time.perf_counter()
        with contextlib.closing(request.inputs.read(numbers, is_missing, 2 * request.size)) as read:
            for digest, sample in read:
                passed += 1
                if sample is not None and digest not in stored:
                    stored.add(digest)
                    batch.append((digest, sample))
                if batch and (len(batch) == request.size or passed == total):
                    ready = time.perf_counter()
                    features = self._features(request, [sample for _, sample in batch])
                    done = time.perf_counter()
                    self._spend(wait=ready - begun, encoder=done - ready)
                    if not request.kind.startswith(_NO_PICTURES):
                        self.rates.append(len(batch) / max(1e-9, done - begun))
                    yield [key for key, _ in batch], features
                    begun, batch = time.perf_counter(), []
                    request.progress(passed, total)
        self._spend(**request.inputs.spent)

    def _spend(self, **seconds: float) -> None:
        for activity, more in seconds.items():
            self.spent[activity] = self.spent.get(activity, 0.0) + more

    def _features(self, request: _Request, samples: Sequence[Any]) -> Tensor:
        self.encoded[request.kind] += len(samples)
        return request.inputs.encode(samples).cpu()

    def _without_disk(self, request: _Request, why: _NoRoomError) -> Rows:
        """Rows in memory while they fit there, else made whenever they are asked for."""

        def encode(numbers: Tensor) -> Tensor:
            read = request.inputs.read(numbers.tolist(), lambda digest: True, len(numbers))
            return self._features(request, [sample for _, sample in read])

        first = encode(torch.zeros(1, dtype=torch.long))
        if len(request.inputs) * math.prod(first.shape[1:]) * first.element_size() <= self.in_memory:
            _once(f"features of {request.name} are kept in memory alone: {why}", f"memory {self.folder} {why}")
            return self._held(request)
        _once(
            f"features of {request.name} are encoded again whenever they are needed: {why}",
            f"again {self.folder} {request.name}",
        )
        self.placed[request.name] = "encoded again"
        return EncodedRows(encode, len(request.inputs), request.size)

    def _held(self, request: _Request) -> Rows:
        """All rows in memory, each different input encoded once."""
        count, stored, row_of = len(request.inputs), set[bytes](), dict[bytes, int]()
        rows = torch.empty(0)
        for batch, features in self._encoded(request, range(count), stored, lambda digest: digest not in stored):
            if not row_of:
                rows = torch.empty(count, *features.shape[1:], dtype=features.dtype)
            rows[len(row_of) : len(row_of) + len(batch)] = _of_type(rows.dtype, features, request.name)
            row_of.update({digest: len(row_of) + at for at, digest in enumerate(batch)})
        if self.folder is not None:
            self.in_memory -= rows.nbytes
        self.placed[request.name] = "memory"
        if len(row_of) == count:
            return rows
        digests = request.inputs.digests()
        assert digests is not None  # all were read
        return IndexedRows(rows[: len(row_of)].clone(), torch.tensor([row_of[digest] for digest in digests.tolist()]))


@dataclass(frozen=True)
class _Request:
    """One array of features: its name in messages, what it is of, in what batches, and who is told."""

    name: str
    kind: str
    inputs: Inputs
    size: int
    progress: Callable[[int, int], None]


class _NoRoomError(Exception):
    """Neither the cap nor the disk has room for a segment."""


_WARNED: set[str] = set()
"""What was said of places that cannot be written, once in a process."""


def _once(message: str, what: str) -> None:
    if what not in _WARNED:
        _WARNED.add(what)
        _LOG.warning("%s", message)


def _words_of(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)


@contextlib.contextmanager
def _room(*files: Path) -> Iterator[None]:
    """Turn what a disk refuses into `_NoRoomError`, and remove what was begun where it is full."""
    try:
        yield
    except (OSError, StorageError) as error:
        if isinstance(error, DiskFullError | StorageError) or error.errno in _FULL:
            for file in files:
                with contextlib.suppress(OSError):
                    file.unlink(missing_ok=True)
        raise _NoRoomError(_words_of(error)) from error


def _first(digests: Digests, missing: Digests) -> list[int]:
    """Of the missing numbers, the first of each digest."""
    _, places = np.unique(digests[missing], return_index=True)
    numbers: list[int] = missing[np.sort(places)].tolist()
    return numbers


def _of_type(dtype: torch.dtype, rows: Tensor, name: str) -> Tensor:
    """Rows in the type of the first batch, where that loses nothing."""
    if rows.dtype != dtype and torch.promote_types(rows.dtype, dtype) != dtype:
        raise DataError(f"features {name}: the encoder gave {rows.dtype} after {dtype}, which cannot hold it")
    return rows.to(dtype)
