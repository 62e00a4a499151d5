"""Run a builder into a folder: in order, in any number of processes, continued after any interruption."""

from __future__ import annotations

import errno
import json
import os
import platform
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
from eqben_builder.building.pool import Finished, Pool
from eqben_builder.duplicates import PairHashes
from eqben_builder.writing import LOCK, FolderBusyError, sole_writer, write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eqben_builder.progress import Progress

#: So many jobs in a row that add nothing to an aspect mean that there is nothing more to add.
_PATIENCE = 200
_DUPLICATE, _SAME = "near-duplicate of another pair", "both images are the same"


class DiskFullError(OSError):
    """The disk is full; what is finished is kept, and the same build continues.

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
) -> dict[str, Any]:
    """Build a folder of pairs, or continue one.

    Args:
        builder: What makes the pairs.
        folder: Made where it is missing. One that holds a build with the same parameters is continued; a whole one is
            left as it is.
        pairs: Pairs of each aspect, at least 1; None for all that a finite builder gives.
        workers: Processes; they do not change a byte.
        progress: Called after each job with "pairs", or "jobs" of a finite builder.

    Returns:
        The manifest: schema, subset, parameters, versions, licences, SHA-256 of every file, counts for each aspect,
        dropped pairs for each reason, and one hash over everything.

    Raises:
        ValueError: No number of pairs for an endless builder; a folder of another build, with the field that differs;
            parameters that make too few different pairs possible.
        FolderBusyError: Another process builds into this folder; with its number.
        DiskFullError: The disk is full; with what was finished.

    Example:
        >>> import tempfile
        >>> from eqben_builder.micro.builder import MicroBuilder
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     manifest = build(MicroBuilder(aspects=["count", "relation"], size=32), folder, pairs=2)
        >>> manifest["counts"], manifest["complete"], len(manifest["files"])
        ({'count': 2, 'relation': 2}, True, 9)
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
        state = _State(builder, target, pairs, progress)
        try:
            state.run(workers)
            return state.finish(head)
        finally:
            state.ledger.close()


class _State:
    """One process's part of a build: what is kept, and what that means for the next job."""

    def __init__(self, builder: Builder, folder: Path, pairs: int | None, progress: Progress | None) -> None:
        self.builder, self.pairs, self.progress = builder, pairs, progress
        self.ledger = Ledger(folder)
        bits = builder.duplicate_bits
        self.hashes = None if bits is None else PairHashes(bits)
        self.kept: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()
        self.bytes = 0
        self.barren: Counter[str] = Counter()
        for entry in self.ledger.entries:
            self._count(entry)
            if self.hashes is not None:
                for first, second in entry.hashes:
                    self.hashes.add(first, second)

    def _count(self, entry: Entry) -> None:
        self.kept.update(entry.kept)
        self.dropped.update(entry.dropped)
        self.bytes += sum(size for _, size in entry.files.values())
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
        with Pool(self.builder, workers) as pool:
            for finished in pool.results(self._jobs()):
                if self.builder.count is None and self._full(self._aspect(finished.job)):
                    continue
                self._commit(finished)
                if self.progress is not None:
                    self.progress("pairs" if self.builder.count is None else "jobs", *self._position())
                if self._whole():
                    break

    def _commit(self, finished: Finished) -> None:
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
            finished_pairs = f"{sum(self.kept.values())} pairs ({self.bytes / 1e6:,.1f} MB)"
            raise DiskFullError(
                errno.ENOSPC,
                f"the disk of {self.ledger.folder} is full after {finished_pairs}. What is finished is kept, and the "
                "same build continues",
            ) from error
        self._count(entry)
        if self.builder.count is None and self.barren[self._aspect(finished.job)] >= _PATIENCE:
            aspect = self._aspect(finished.job)
            reasons = ", ".join(f"{reason}: {number}" for reason, number in self.dropped.most_common())
            raise ValueError(
                f"these parameters make too few pairs of aspect {aspect!r} possible: {self.kept[aspect]} of "
                f"{self.pairs} found, then {_PATIENCE} scenes in a row gave none ({reasons})"
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
    # What is whole says itself by which versions it was made: it is the build that was asked for.
    for group in ("parameters",) if manifest.get("complete") else ("parameters", "versions"):
        theirs, ours = manifest.get(group) or {}, head[group]
        for name in sorted({*theirs, *ours}):
            if theirs.get(name) != ours.get(name):
                raise ValueError(
                    f"{folder} holds another build: its {group}.{name} is {theirs.get(name)!r}, "
                    f"now it is {ours.get(name)!r}; give a new folder"
                )


def _json(value: dict[str, Any]) -> bytes:
    return f"{json.dumps(value, indent=1)}\n".encode()
