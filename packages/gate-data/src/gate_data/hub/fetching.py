"""From the hub to files of one's own: rows are streamed once, and kept as zip archives of the images as they came.

A killed reading continues after the last whole archive. What is kept names the repository's revision, of which all
archives of a data set are. One process at a time writes; the others wait for it and read what it wrote.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from gate_data.cards import Hub
from gate_data.errors import DataError, StorageError
from gate_data.hub.reaching import why_silent
from gate_data.hub.saved import refuse_missing_tables, split_folder
from gate_data.hub.tables import Table
from gate_data.readers import Member, Row
from gate_data.readers.caches import checked, own_cache, own_file
from gate_data.readers.folders import is_saved
from wary_files.archives import read
from wary_files.durable import write_whole
from wary_files.locks import BusyError, held

_LOG = logging.getLogger(__name__)
_ROWS, _BYTES = 10_000, 2**30
"""Of one archive, at most: what is read again after a kill."""
_DRAWN_FROM = 1_000
"""Rows from which one is drawn at a time where only a part of a large set is read."""
_LIST = "rows.jsonl"


class Copy(NamedTuple):
    """The splits, and the revision of the hub's repository; empty where a folder's copy of it was read."""

    tables: dict[str, Table]
    revision: str


class _Stream(NamedTuple):
    rows: Iterator[Mapping[str, Any]]
    pictures: tuple[str, ...]
    names: dict[str, tuple[str, ...]]
    base: str
    total: int | None  # rows of the whole split, where the repository says it and all are read
    folder: Path | None  # of a copy on this machine: images that rows name lie there


def fetched(hub: Hub, root: Path | None, take: int | None) -> Copy:
    """All splits of a data set, from the cache where they are there; from a copy below a root, or from the hub.

    Where not all rows are taken, they are the first of each split in a drawn order, twice as many to train on where the
    repository has none to validate.
    """
    try:
        folder = own_cache("hub", hub.id.replace("/", "--"), _key(hub, root, take))
    except RuntimeError as error:
        raise StorageError(f"{hub.id} is kept nowhere: {error}; set GATE_RUNNER_CACHE to a folder") from error
    roles = {"train": hub.train, "validation": hub.validation, "test": hub.test}
    splits = {role: split for role, split in roles.items() if split}
    begun = folder / "begun.json"
    try:
        for role in splits:
            checked(folder / role, folder)
        if not all(_is_whole(folder / role) for role in splits):
            with _only_writer(folder):
                if root is not None and is_saved(root / hub.id):
                    refuse_missing_tables(root / hub.id, splits.values())
                if not own_file(begun):
                    _write(begun, {"revision": "" if root is not None else _revision(hub)})
                for role, split in splits.items():
                    count = take if take is None or hub.validation or role == "test" else 2 * take
                    _complete(hub, root, _revision_of(begun), split, count, folder / role)
        return Copy({role: _table(hub, split, folder / role) for role, split in splits.items()}, _revision_of(begun))
    except OSError as error:
        raise StorageError.about(folder, error) from error


def _revision_of(begun: Path) -> str:
    return str(json.loads(begun.read_text())["revision"])


@contextmanager
def _only_writer(folder: Path) -> Iterator[None]:
    with ExitStack() as stack:
        try:
            stack.enter_context(held(folder / "writer.lock"))
        except BusyError as error:
            _LOG.warning("%s fetches %s: this one waits for it", error.owner, folder)
            stack.enter_context(held(folder / "writer.lock", wait=-1))
        yield


def _about(folder: Path) -> dict[str, Any]:
    """What is kept of a split beside its rows; empty before all of them are there."""
    about = folder / "about.json"
    return dict(json.loads(about.read_text())) if own_file(about) else {}


def _is_whole(folder: Path) -> bool:
    """Whether all rows are there, written by the only writer: only then their number is kept."""
    return "rows" in _about(folder)


def _complete(hub: Hub, root: Path | None, revision: str, split: str, take: int | None, folder: Path) -> None:
    """Fetch the rows that are missing."""
    if _is_whole(folder):
        return
    left_over = [*folder.glob("*.part")]
    if _about(folder):
        _LOG.warning("%s is of a version before 0.2, which could keep rows twice: it is fetched again", folder)
        left_over += [*_archives(folder), folder / "about.json"]
    for file in left_over:
        file.unlink()
    stream = _opened(hub, root, revision, split, take, _rows_in(folder))
    _keep(hub, split, stream, folder)
    rows = _rows_in(folder)
    if stream.total is not None and stream.total != rows:
        raise DataError(
            f"{hub.id}: {rows:,} rows of the split {split!r} were read, but the repository says that it has "
            f"{stream.total:,}; they lie in {folder}: remove that folder to fetch them again"
        )
    _write(folder / "about.json", {"names": stream.names, "pictures": stream.pictures, "rows": rows})


def _table(hub: Hub, split: str, folder: Path) -> Table:
    about = _about(folder)
    rows: list[Row] = []
    for archive in _archives(folder):
        for line in read(archive, _LIST).decode().removesuffix("\n").split("\n"):
            values = json.loads(line)
            for column in about["pictures"]:
                if values[column] is not None:
                    values[column] = Member(str(archive), values[column])
            rows.append(Row(Path(hub.id) / split, len(rows) + 1, values, "row"))
    if len(rows) != about["rows"]:
        raise DataError(
            f"{folder} holds {len(rows):,} rows of {hub.id}, expected {about['rows']:,}: remove that folder to fetch "
            "them again"
        )
    if not rows:
        raise DataError(f"{hub.id}: the split {split!r} has no rows")
    return Table(rows, {column: tuple(names) for column, names in about["names"].items()})


@contextmanager
def _reading(what: str) -> Iterator[None]:
    """Whatever the library, the network or a file raises, as one line."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise DataError(f"{what} cannot be read through datasets: {reason}") from error


def _opened(hub: Hub, root: Path | None, revision: str, split: str, take: int | None, skip: int) -> _Stream:
    """The rows after those that are kept already; code of a repository is never run."""
    import datasets

    name = str(root / hub.id) if root is not None else hub.id
    files = {split: hub.files.format(split=split)} if hub.files else None
    with _reading(f"{hub.id}: the split {split!r}"):
        total = None
        if root is not None and is_saved(root / hub.id):
            chosen = datasets.load_from_disk(str(split_folder(root / hub.id, split)))
            for table in (chosen.data, chosen._indices):
                if table is not None:  # Arrow believes offsets, and would read beside the file, or end the process
                    table.validate(full=True)
            stream, total = chosen.to_iterable_dataset(), len(chosen)
        else:
            stream = datasets.load_dataset(
                name, hub.config or None, data_files=files, revision=revision or None, split=split, streaming=True
            )
            if not hub.files and split in (counts := stream.info.splits or {}):
                total = counts[split].num_examples
        features = dict(stream.features if stream.features is not None else stream._resolve_features().features)
        image = next((name for name in hub.image.split("|") if name in features), hub.image)
        if image != hub.image:
            stream = stream.rename_column(image, hub.image)
            features[hub.image] = features.pop(image)
        if missing := [column for column in hub.columns if column not in features]:
            raise DataError(
                f"{hub.id}: the split {split!r} has no column {missing[0]!r}; it has {', '.join(features)[:200]}"
            )
        stream = stream.select_columns(list(hub.columns))
        pictures = tuple(column for column in hub.columns if isinstance(features[column], datasets.Image))
        for column in pictures:
            stream = stream.cast_column(column, datasets.Image(decode=False))
        if take is not None:
            stream, total = stream.shuffle(seed=0, buffer_size=_DRAWN_FROM).take(take), None
        base = ""
        if hub.beside:
            base = name if root is not None else f"hf://datasets/{hub.id}@{revision}"
            pictures = (hub.image,)
        kinds = {column: getattr(features[column], "feature", features[column]) for column in hub.columns}
        names = {column: tuple(kind.names) for column, kind in kinds.items() if isinstance(kind, datasets.ClassLabel)}
        folder = None if root is None else root / hub.id
        return _Stream(_read_rows(hub, split, iter(stream.skip(skip))), pictures, names, base, total, folder)


def _read_rows(hub: Hub, split: str, rows: Iterator[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    while True:
        with _reading(f"{hub.id}: the split {split!r}"):
            row = next(rows, None)
        if row is None:
            return
        yield row


def _revision(hub: Hub) -> str:
    """The commit that the hub's branch stands at, so that all splits and every later reading are of one state."""
    from huggingface_hub import HfApi

    try:
        if reason := why_silent():
            raise ConnectionError(reason)
        return str(HfApi().dataset_info(hub.id, revision=hub.revision or None, timeout=20).sha)
    except Exception as error:
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise DataError(
            f"{hub.id} cannot be read from the Hugging Face hub: {reason}; with a data root FOLDER, a copy of it in "
            f"FOLDER/{hub.id} is read instead"
        ) from error


def _keep(hub: Hub, split: str, stream: _Stream, folder: Path) -> None:
    """Archives of rows, each written whole before it gets its name: ``FIRST-LAST.zip``."""
    rows = list(islice(stream.rows, 1))
    while rows:
        first, beside, size = _rows_in(folder), folder / f"{os.getpid()}.part", 0
        listed: list[str] = []
        try:
            with zipfile.ZipFile(beside, "w") as archive:
                while rows and len(listed) < _ROWS and size < _BYTES:
                    values = dict(rows.pop())
                    for column in stream.pictures:
                        where = f"{hub.id}/{split}, row {first + len(listed) + 1}"
                        held = _bytes(where, stream, column, values[column])
                        values[column] = None if held is None else f"{len(listed)}.{column}"
                        if held is not None:
                            archive.writestr(values[column], held)
                            size += len(held)
                    listed.append(json.dumps(values, default=str))
                    rows = list(islice(stream.rows, 1))
                archive.writestr(_LIST, "\n".join(listed))
            beside.replace(folder / f"{first:09d}-{first + len(listed):09d}.zip")
        finally:
            beside.unlink(missing_ok=True)


def _bytes(where: str, stream: _Stream, column: str, value: Any) -> bytes | None:
    """An image's file as it was uploaded: in the row, or beside the list where the copy is a folder of images."""
    import fsspec  # type: ignore[import-untyped]  # it has no stubs

    if value is None:
        return None
    if not stream.base and value.get("bytes") is not None:
        return bytes(value["bytes"])
    if stream.base:
        inner = PurePosixPath(str(value))
        if inner.is_absolute() or ".." in inner.parts:
            raise DataError(f"{where}: {str(inner)[:80]!r} of column {column!r} is no path inside the repository")
        with (
            _reading(f"{where}: the image {inner} of column {column!r}"),
            fsspec.open(f"{stream.base}/{inner}", "rb") as file,
        ):
            return bytes(file.read())
    path = Path(str(value.get("path") or ""))
    if stream.folder is None or not path.resolve().is_relative_to(stream.folder.resolve()):
        raise DataError(f"{where}: the image {path} of column {column!r} lies outside of the copy")
    with _reading(f"{where}: the image {path} of column {column!r}"):
        return path.read_bytes()


def _archives(folder: Path) -> list[Path]:
    """The archives of a split; a link to another file is none."""
    return sorted(file for file in folder.glob("*-*.zip") if own_file(file))


def _rows_in(folder: Path) -> int:
    archives = _archives(folder)
    return int(archives[-1].stem.partition("-")[2]) if archives else 0


def _write(path: Path, values: Mapping[str, Any]) -> None:
    write_whole(path, json.dumps(values).encode(), alone=True)


def _key(hub: Hub, root: Path | None, take: int | None) -> str:
    """What was asked for; of a folder's copy also its files' names, sizes, times and inodes."""
    identity: list[Any] = [hub.config, hub.files, hub.revision, hub.columns, hub.train, hub.validation, hub.test, take]
    if root is not None:
        folder = root / hub.id
        identity.append(str(folder.resolve()))
        for file in sorted(folder.rglob("*")):
            if file.is_file() and not {".cache", ".git"} & set(file.relative_to(folder).parts):
                state = file.stat()
                about = (state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino)
                identity.append((str(file.relative_to(folder)), *about))
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:16]
