"""Members of zip and tar archives, read in place: nothing is unpacked, so no member can be written anywhere."""

from __future__ import annotations

import os
import posixpath
import tarfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, NamedTuple

from wary_files.errors import DataError
from wary_files.forking import FreshLock
from wary_files.limits import refuse_special, within

_LOCK = FreshLock()


_FOLLOWED = 40
"""Links that are followed one after another, as Linux does."""
_SPARSE = -2
"""In place of an offset: holes are left out of what the archive holds of a member (``tar -S``)."""


class Entry(NamedTuple):
    """A member's place: its size, and where its bytes begin (in a tar archive)."""

    size: int
    offset: int = -1


class _Link(NamedTuple):
    """A name that stands for another member: a hard link, whose bytes are there once, or a symbolic one."""

    target: str
    is_hard: bool


def is_archive(path: Path) -> bool:
    """Whether a file's name is that of an archive that can be read in place."""
    return path.suffix in (".zip", ".tar")


def members(archive: str | Path) -> Mapping[str, Entry]:
    """Names of the files in an archive, in the archive's order, with their sizes."""
    path = Path(archive)
    refuse_special(path)
    with _reading(path):
        stat = path.stat()
        with _LOCK:
            return _index(str(path), *_about(stat))


def read(archive: str | Path, name: str) -> bytes:
    """The bytes of one member."""
    path = Path(archive)
    entry = members(path).get(name)
    if entry is None:
        raise DataError(f"{path} has no member {name}")
    within(entry.size, "bytes", f"{path}: {name}")
    if entry.offset == _SPARSE:
        raise DataError(f"{path}: {name} is packed without its holes; pack the archive again without --sparse")
    with _reading(path, name):
        if path.suffix == ".zip":
            stat = path.stat()
            with _zip(str(path), os.getpid(), *_about(stat)).open(name) as member:
                return member.read(entry.size + 1)
        with path.open("rb") as file:
            file.seek(entry.offset)
            content = file.read(entry.size)
    if len(content) != entry.size:
        raise DataError(f"{path}: {name} is cut short at {len(content)} of {entry.size} bytes")
    return content


def read_packed(archive: Path, names: list[str]) -> dict[str, bytes]:
    """Some members of a compressed tar archive, which has to be read from its beginning."""
    members: dict[str, bytes] = {}
    with _reading(archive, ", ".join(names)), tarfile.open(archive) as file:
        for info in file:
            if info.name in names and info.isfile():
                within(info.size, "bytes", f"{archive}: {info.name}")
                member = file.extractfile(info)
                assert member is not None
                members[info.name] = member.read()
                if len(members) == len(names):
                    return members
    missing = next(name for name in names if name not in members)
    raise DataError(f"{archive}: {missing} is not in it")


def check(archive: Path) -> None:
    """Read every member once, against its checksum where the format has one."""
    for name in members(archive):
        read(archive, name)


@contextmanager
def _reading(path: Path, name: str = "") -> Iterator[None]:
    try:
        yield
    except DataError:
        raise
    except Exception as error:  # the libraries raise errors of every kind over broken archives
        if not path.is_file():
            raise DataError(f"{path} is not there") from error
        kind = "zip" if path.suffix == ".zip" else "tar"
        problem = f"{name} cannot be read" if name else f"is not a whole {kind} file"
        raise DataError(f"{path}{':' if name else ''} {problem}: {' '.join(str(error).split())}") from error


def _about(stat: os.stat_result) -> tuple[int, ...]:
    """What another file under the same name has otherwise; its time of change as well, for copies keep the other."""
    return stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino


@lru_cache(maxsize=64)
def _index(path: str, *about: int) -> dict[str, Entry]:
    del about  # part of the key: another file under the same name is read again
    if path.endswith(".zip"):
        with zipfile.ZipFile(path) as file:
            if any(not entry.filename for entry in file.infolist()):  # Python 3.13 lists it, others stumble over it
                raise zipfile.BadZipFile("a member has no name")
            listed = [(entry.filename, Entry(entry.file_size)) for entry in file.infolist() if not entry.is_dir()]
            return _once(path, listed)
    with Path(path).open("rb") as opened:
        return _once(path, _of_tar(opened, Path(path).name, 0, Path(path).stat().st_size))


def _once(path: str, listed: Iterable[tuple[str, Entry | _Link]]) -> dict[str, Entry]:
    """Members by name. Of two with one name, which one is meant would depend on the reader."""
    entries: dict[str, Entry] = {}
    links: dict[str, _Link] = {}
    for name, entry in listed:
        if name in entries or name in links:
            raise DataError(f"{path} holds two members called {name}: pack it again with one of them")
        if isinstance(entry, _Link):
            links[name] = entry
        else:
            entries[name] = entry
    for name, link in links.items():
        target = _last(link, links)
        if target in entries:
            entries[name] = entries[target]
        elif link.is_hard:
            raise DataError(f"{path}: {name} is a link to {link.target}, which is not in it: pack it again whole")
    return entries


def _last(link: _Link, links: Mapping[str, _Link]) -> str:
    """Return what a link leads to in the end; of a circle, and behind more links than systems follow, another link."""
    for _ in range(_FOLLOWED - 1):
        if link.target not in links:
            break
        link = links[link.target]
    return link.target


def _of_tar(opened: BinaryIO, name: str, start: int, end: int) -> Iterator[tuple[str, Entry | _Link]]:
    """Members of a tar archive, and of tar archives in it, which are not packed again: their bytes lie in the file."""
    opened.seek(start)
    with tarfile.open(fileobj=opened, mode="r:") as archive:
        for info in archive:
            inner, at, last = info.name.removeprefix("./"), info.offset_data, info.offset_data + info.size
            archive.members.clear()  # type: ignore[attr-defined]  # kept here, not there: of a million files a gigabyte
            if info.islnk() or info.issym():
                base = "" if info.islnk() else posixpath.dirname(inner)
                yield inner, _Link(posixpath.normpath(posixpath.join(base, info.linkname)), info.islnk())
                continue
            if not info.isfile():
                continue
            if info.issparse():
                yield inner, Entry(info.size, _SPARSE)
                continue
            if last > end:
                raise tarfile.ReadError(f"{inner} is cut short")
            if inner.endswith(".tar"):
                folder = inner.removesuffix(".tar")
                for member, entry in _of_tar(opened, inner, at, last):
                    inside = entry._replace(target=f"{folder}/{entry.target}") if isinstance(entry, _Link) else entry
                    yield f"{folder}/{member}", inside
                continue
            yield inner, Entry(info.size, at)
        opened.seek(archive.offset)
        if archive.offset < end and opened.read(512).strip(b"\0"):  # tarfile takes what is no header for the end
            raise tarfile.ReadError(f"{name} has no header at byte {archive.offset - start:,}")
        if archive.offset >= end:  # between two members, where nothing else tells that it was cut
            raise tarfile.ReadError(f"{name} ends without tar's mark of its end: fetch or pack it again")


@lru_cache(maxsize=16)
def _zip(path: str, process: int, *about: int) -> zipfile.ZipFile:
    del process, about  # a forked process must not share the file's position
    return zipfile.ZipFile(path)
