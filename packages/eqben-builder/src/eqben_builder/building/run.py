"""Run a builder into a folder: in order, in any number of processes, continued after any interruption."""

from __future__ import annotations

import errno
import json
import os
import platform
import shutil
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eqben_builder.__about__ import __version__
from eqben_builder.building.builder import Builder, Dropped
from eqben_builder.building.folder import (
    FIELDS,
    JOURNAL,
    MANIFEST,
    PAIRS,
    SCHEMA,
    Entry,
    Ledger,
    checked_record,
    file_digest,
    final_hash,
    places,
    read_manifest,
)
from eqben_builder.building.pool import BuildStatus, Clock, Finished, Pool
from eqben_builder.duplicates import PairHashes
from eqben_builder.writing import LOCK, FolderBusyError, sole_writer, write_atomically

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from eqben_builder.progress import Progress

#: So many jobs in a row that add nothing to an aspect mean that there is nothing more to add.
_PATIENCE = 200
#: A file takes whole blocks of the disk; a pair's rows in `pairs.jsonl` and the journal take about so many bytes.
_BLOCK, _ROW = 4096, 3000
_DUPLICATE, _SAME = "near-duplicate of another pair", "both pictures are the same"


class DiskFullError(OSError):
    """The disk is full, or would be; what is finished is kept, and the same build continues.

    Example:
        >>> import errno
        >>> DiskFullError(errno.ENOSPC, "3 MB are missing").errno == errno.ENOSPC
        True
    """

    def __str__(self) -> str:
        return str(self.strerror)


def build(
    builder: Builder,
    folder: str | os.PathLike[str],
    *,
    pairs: int | None = None,
    workers: int = 1,
    progress: Progress | None = None,
    observe: Callable[[BuildStatus], None] | None = None,
) -> dict[str, Any]:
    """Build a folder of pairs, or continue one.

    Args:
        builder: What makes the pairs.
        folder: Made where it is missing. One that holds a build with the same parameters is continued; a whole one is
            left as it is.
        pairs: Pairs of each aspect, at least 1; None for all that a finite builder gives.
        workers: Processes; they do not change a byte.
        progress: Called after each job with "pairs", or "jobs" of a finite builder.
        observe: Called after each job with the `BuildStatus`, which holds the estimates of time and size.

    Returns:
        The manifest: schema, subset, parameters, versions, licences, SHA-256 of every file, counts for each aspect,
        dropped pairs for each reason, and one hash over everything.

    Raises:
        ValueError: No number of pairs for an endless builder; a folder of another build, with the field that differs;
            parameters that make too few different pairs possible.
        FolderBusyError: Another process builds into this folder; with its number.
        DiskFullError: How much is free and how much is missing.

    Example:
        >>> import tempfile
        >>> from eqben_builder.micro.builder import MicroBuilder
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     manifest = build(MicroBuilder(aspects=["count", "relation"], size=32), folder, pairs=2)
        >>> manifest["counts"], manifest["complete"], len(manifest["files"])
        ({'count': 2, 'relation': 2}, True, 9)

    Source:
        Section 5 and appendix B of the EqBen paper give the subsets; how they are built at scale is not described.
    """
    if pairs is None and builder.count is None:
        raise ValueError(f"{type(builder).__name__} never ends: give the number of pairs")
    if pairs is not None and pairs < 1:
        raise ValueError(f"pairs = {pairs!r}, expected at least 1")
    target = Path(folder)
    head = _head(builder, pairs)
    if (existing := _whole_build(target, head)) is not None:
        _clear(target)
        return existing
    target.mkdir(parents=True, exist_ok=True)
    with sole_writer(target / LOCK, target):
        # Again, now that nobody else writes: another process may just have finished it.
        if (existing := _whole_build(target, head)) is not None:
            return existing
        if not (target / MANIFEST).exists():
            write_atomically(target / MANIFEST, _json(head | {"complete": False}))
        state = _State(builder, target, pairs, progress, observe)
        try:
            state.run(workers)
            return state.finish(head)
        finally:
            state.ledger.close()


class _State:
    """One process's part of a build: what is kept, and what that means for the next job."""

    def __init__(
        self,
        builder: Builder,
        folder: Path,
        pairs: int | None,
        progress: Progress | None,
        observe: Callable[[BuildStatus], None] | None,
    ) -> None:
        self.builder, self.pairs, self.progress, self.observe = builder, pairs, progress, observe
        self.ledger = Ledger(folder)
        bits = builder.duplicate_bits
        self.hashes = None if bits is None else PairHashes(bits)
        self.kept: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()
        self.bytes = 0
        self.space = 0
        self.barren: Counter[str] = Counter()
        for entry in self.ledger.entries:
            self._count(entry)
            if self.hashes is not None:
                for first, second in entry.hashes:
                    self.hashes.add(first, second)

    def _count(self, entry: Entry) -> None:
        self.kept.update(entry.kept)
        self.dropped.update(entry.dropped)
        sizes = [size for _, size in entry.files.values()]
        self.bytes += sum(sizes)
        self.space += sum(-(-size // _BLOCK) * _BLOCK for size in sizes) + _ROW * sum(entry.kept.values())
        if self.builder.count is None:
            aspect = self._aspect(entry.job)
            self.barren[aspect] = 0 if entry.kept else self.barren[aspect] + 1

    def _aspect(self, job: int) -> str:
        return self.builder.aspects[job % len(self.builder.aspects)]

    def _full(self, aspect: str) -> bool:
        return self.pairs is not None and self.kept[aspect] >= self.pairs

    def _whole(self) -> bool:
        return all(map(self._full, self.builder.aspects))

    def _jobs(self) -> Iterator[int]:
        """Jobs that are not done, leaving out those of aspects that have enough."""
        job = self.ledger.entries[-1].job + 1 if self.ledger.entries else 0
        count = self.builder.count
        while not self._whole() and (count is None or job < count):
            if count is not None or not self._full(self._aspect(job)):
                yield job
            job += 1

    def _position(self) -> tuple[int, int]:
        if self.builder.count is not None:
            return (self.ledger.entries[-1].job + 1 if self.ledger.entries else 0), self.builder.count
        assert self.pairs is not None
        return sum(self.kept.values()), self.pairs * len(self.builder.aspects)

    def run(self, workers: int) -> None:
        """Do the jobs that are left."""
        clock, space_begun, estimated = Clock(), self.space, False
        with Pool(self.builder, workers) as pool:
            for number, finished in enumerate(pool.results(self._jobs())):
                if self.builder.count is None and self._full(self._aspect(finished.job)):
                    continue
                self._commit(finished, estimated)
                if number == 0:
                    space_begun = self.space
                now = clock.estimate(self._status(clock))
                if now.seconds_left is not None and not estimated:
                    estimated = True
                    self._check_disk(round(clock.left(now) * (self.space - space_begun)))
                if self.observe is not None:
                    self.observe(now)
                if self.progress is not None:
                    self.progress("pairs" if self.builder.count is None else "jobs", now.done, now.total)
                if self._whole():
                    break

    def _status(self, clock: Clock) -> BuildStatus:
        done, total = self._position()
        seconds = time.perf_counter() - clock.start
        return BuildStatus(done, total, sum(self.kept.values()), self.dropped.total(), self.bytes, seconds)

    def _check_disk(self, needed: int) -> None:
        free = shutil.disk_usage(self.ledger.folder).free
        if needed > free:
            raise DiskFullError(
                errno.ENOSPC,
                f"the rest of the build needs about {_megabytes(needed)} and {_megabytes(free)} are free: about "
                f"{_megabytes(needed - free)} are missing. What is finished is kept, and the same build continues",
            )

    def _commit(self, finished: Finished, estimated: bool) -> None:
        records: list[dict[str, Any]] = []
        files: dict[str, bytes] = {}
        hashes: list[tuple[int, int]] = []
        dropped: Counter[str] = Counter()
        encoded = iter(zip(finished.pictures, finished.hashes, strict=True))
        counts = Counter(self.kept)
        for number, result in enumerate(finished.pairs):
            if isinstance(result, Dropped):
                dropped[result.reason] += 1
                continue
            pictures, (first, second) = next(encoded)
            if self.pairs is not None and counts[result.aspect] >= self.pairs:
                continue
            if pictures[0] == pictures[1]:
                dropped[_SAME] += 1
                continue
            if self.hashes is not None:
                if self.hashes.alike(first, second) is not None:
                    dropped[_DUPLICATE] += 1
                    continue
                # At once, so that the next pair of this job is compared with it.
                self.hashes.add(first, second)
                hashes.append((first, second))
            name = f"{finished.job:06d}" + (f"-{number:03d}" if len(finished.pairs) > 1 else "")
            paths = places(name)
            certificate = dict(result.certificate)
            if len(pictures) == 3:
                certificate["mask"] = paths[2]
            values = (f"{self.builder.subset}-{name}", self.builder.subset, result.aspect, *paths[:2], *result.captions)
            licence = result.licence or self.builder.licence
            record = dict(zip(FIELDS, (*values, dict(result.source), certificate, licence), strict=True))
            checked_record(record, f"{type(self.builder).__name__}, job {finished.job}")
            records.append(record)
            files.update(zip(paths, pictures, strict=False))
            counts[result.aspect] += 1
        try:
            entry = self.ledger.commit(finished.job, records, files, hashes, dict(dropped))
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise self._disk_full(estimated) from error
        self._count(entry)
        if self.builder.count is None and self.barren[self._aspect(finished.job)] >= _PATIENCE:
            aspect = self._aspect(finished.job)
            reasons = ", ".join(f"{reason}: {number}" for reason, number in self.dropped.most_common())
            raise ValueError(
                f"these parameters make too few pairs of aspect {aspect!r} possible: {self.kept[aspect]} of "
                f"{self.pairs} found, then {_PATIENCE} scenes in a row gave none ({reasons})"
            )

    def _disk_full(self, estimated: bool) -> DiskFullError:
        done, total = self._position()
        bytes_per_pair = self.space / done if done else 0.0
        missing = max(0, round(bytes_per_pair * (total - done)) - shutil.disk_usage(self.ledger.folder).free)
        if not estimated and not done:
            when = "before the first pair was written"
        else:
            pairs, size = sum(self.kept.values()), _megabytes(self.bytes)
            when = f"after {pairs} pairs ({size}); about {_megabytes(missing)} are missing"
        return DiskFullError(
            errno.ENOSPC, f"the disk is full {when}. What is finished is kept, and the same build continues"
        )

    def finish(self, head: dict[str, Any]) -> dict[str, Any]:
        """Write the manifest of the whole build."""
        if not self.kept:
            reasons = ", ".join(f"{reason}: {number}" for reason, number in self.dropped.most_common()) or "no jobs"
            raise ValueError(f"the build gives no pair at all ({reasons})")
        files = {path: sha for entry in self.ledger.entries for path, (sha, _) in entry.files.items()}
        files[PAIRS] = file_digest(self.ledger.folder / PAIRS)
        manifest = head | {
            "complete": True,
            "pairs": sum(self.kept.values()),
            "counts": {aspect: self.kept[aspect] for aspect in self.builder.aspects},
            "dropped": dict(sorted(self.dropped.items())),
            "bytes": self.bytes,
            "hash": final_hash(files),
            "files": dict(sorted(files.items())),
        }
        self.ledger.finish(manifest)
        return manifest


def _head(builder: Builder, pairs: int | None) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "subset": builder.subset,
        "licences": [builder.licence],
        "pairs_of_each_aspect": pairs,
        "duplicate_bits": builder.duplicate_bits,
        "parameters": json.loads(json.dumps(builder.parameters())),
        "versions": {"eqben-builder": __version__, "python": platform.python_version(), **builder.versions()},
    }


def _whole_build(folder: Path, head: dict[str, Any]) -> dict[str, Any] | None:
    """The manifest of the build that was asked for, if it is whole; an error where the folder holds anything else."""
    manifest = read_manifest(folder)
    if manifest is not None:
        _same_build(folder, manifest, head)
        return manifest if manifest["complete"] else None
    # A build that was killed at its very first file leaves these two and nothing else.
    ignored = {LOCK, f"{MANIFEST}.partial"}
    if folder.exists() and any(path.name not in ignored for path in folder.iterdir()):
        raise ValueError(f"{folder} is not empty and holds no {MANIFEST}: give a new folder")
    return None


def _clear(folder: Path) -> None:
    """Remove what a build that was killed after its last pair left in the whole folder."""
    leftovers = [folder / name for name in (JOURNAL, f"{MANIFEST}.partial", LOCK) if (folder / name).exists()]
    if leftovers:
        with suppress(FolderBusyError), sole_writer(folder / LOCK, folder):
            for path in leftovers:
                path.unlink(missing_ok=True)


def _same_build(folder: Path, manifest: dict[str, Any], head: dict[str, Any]) -> None:
    for field in ("subset", "pairs_of_each_aspect", "duplicate_bits"):
        if manifest.get(field) != head[field]:
            raise ValueError(
                f"{folder} holds another build: its {field} is {manifest.get(field)!r}, asked for is {head[field]!r}"
            )
    for group in ("parameters", "versions"):
        theirs, ours = manifest.get(group) or {}, head[group]
        for name in sorted({*theirs, *ours}):
            if theirs.get(name) != ours.get(name):
                raise ValueError(
                    f"{folder} holds another build: its {group}.{name} is {theirs.get(name)!r}, "
                    f"now it is {ours.get(name)!r}; give a new folder"
                )


def _json(value: dict[str, Any]) -> bytes:
    return f"{json.dumps(value, indent=1)}\n".encode()


def _megabytes(size: float) -> str:
    return f"{size / 1e6:,.1f} MB"
