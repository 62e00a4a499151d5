"""What files were found to hold, kept by their names, sizes and times: what did not change is not opened again."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import secrets
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from gate_data.errors import DataError, StorageError
from gate_data.readers.caches import checked, own_cache, own_file
from gate_data.readers.source import Source, file_of

_LOG = logging.getLogger(__name__)
_WIDTH = 16
_SETTLING = 2.0
"""Seconds after a change in which a file may change again without another time: what is that new is not remembered."""

_SAID: set[str] = set()
"""Why nothing is remembered, once in a process."""
_BY_DEFAULT = Path("\0")
_folder: Path | None = _BY_DEFAULT


class Listing(NamedTuple):
    """A digest of the names, sizes and times of files, and whether these are old enough to stand for the contents."""

    digest: bytes
    settled: bool


def remember_in(folder: Path | None) -> None:
    """Keep digests of contents in a folder from now on, or (None) nowhere; at the start, in the user's cache folder."""
    global _folder
    _folder = folder


def _place() -> Path | None:
    """The folder that nobody else writes; None where there is none, which is said once but for a missing home."""
    try:
        if _folder is not _BY_DEFAULT:
            return None if _folder is None else checked(_folder, _folder)
        return own_cache("contents")
    except RuntimeError:  # there is no home
        return None
    except StorageError as error:
        if str(error) not in _SAID and not isinstance(error.__cause__, OSError):
            _LOG.warning("digests of files are not kept for the next run: %s", error)
        _SAID.add(str(error))
        return None


def listing_mark(samples: Iterable[Sequence[Source]]) -> Listing:
    """What stands for the contents of files as long as nobody reads them."""
    digest, newest = hashlib.blake2b(b"contents/2\n", digest_size=_WIDTH), 0
    working_folder = os.getcwd()  # noqa: PTH109 - text
    last, about = "", ""
    for sources in samples:
        for source in sources:
            file = source if isinstance(source, str) else file_of(source)
            if file != last:
                try:
                    status = os.stat(file)  # noqa: PTH116 - a million of them
                except OSError as error:
                    raise DataError(f"{file} cannot be read: {error.strerror or error}") from error
                newest = max(newest, status.st_mtime_ns, status.st_ctime_ns)
                last = file
                about = f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"
                about += "" if file.startswith("/") else f" {working_folder}"
            inner = "" if isinstance(source, str) else repr(source)
            digest.update(f"{file}\0{about}{inner}\n".encode("utf-8", "surrogateescape"))
        digest.update(b"\n")
    return Listing(digest.digest(), newest < (time.time() - _SETTLING) * 1e9)


def known_contents(mark: bytes | None, count: int) -> tuple[bytes, ...] | None:
    """The digests that were kept under a listing; None where there are none, or not whole ones."""
    folder = _place()
    if folder is None or mark is None:
        return None
    path = folder / mark.hex()
    try:
        if not own_file(path):
            return None
        held = path.read_bytes()
    except OSError:
        return None
    packed, check = held[:-_WIDTH], held[-_WIDTH:]
    if len(packed) != _WIDTH * count or hashlib.blake2b(packed, digest_size=_WIDTH).digest() != check:
        return None
    return tuple(packed[at : at + _WIDTH] for at in range(0, len(packed), _WIDTH))


def known_digest(mark: bytes | None) -> str | None:
    """The digest of a whole data set that was kept under a listing, see `known_contents`."""
    halves = known_contents(mark, 2)
    return None if halves is None else b"".join(halves).hex()


def remember_digest(mark: bytes | None, digest: str) -> None:
    """Keep the SHA-256 of a whole data set under a listing, see `remember_contents`."""
    packed = bytes.fromhex(digest)
    remember_contents(mark, [packed[:_WIDTH], packed[_WIDTH:]])


def remember_contents(mark: bytes | None, contents: Sequence[bytes]) -> None:
    """Keep digests under a listing; where nothing can be written, they are made again next time."""
    folder = _place()
    if folder is None or mark is None or not contents:
        return
    packed = b"".join(contents)
    partial = folder / f".{mark.hex()}.{secrets.token_hex(4)}"
    try:
        with partial.open("xb") as file:
            file.write(packed + hashlib.blake2b(packed, digest_size=_WIDTH).digest())
        partial.replace(folder / mark.hex())
    except OSError:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
