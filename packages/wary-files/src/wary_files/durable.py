"""Folders and files that take another's place at once, and survive a loss of power; one writer for each."""

from __future__ import annotations

import ctypes
import errno
import functools
import inspect
import os
import platform
import re
import secrets
import shutil
import stat
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, ParamSpec, TextIO, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_EXCHANGE = 2
_HERE = -100
_OF_WRITES = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS}
_NOT_OFFERED = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EXDEV}


def replaced(path: Path) -> Path:
    """Where a folder lies while another takes its place, on systems that cannot exchange two names."""
    return path.with_name(f".{path.name}.old")  # NAME.old may be a user's


def unfinished(path: Path) -> Path:
    """Where the one writer of a folder writes until it is whole: what lies there is a killed writer's, no user's."""
    return path.with_name(f".{path.name}.partial")


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Let an error of the system over a write that names no file, as of a full disk, name this one.

    Example:
        >>> with naming(Path("table.csv")):
        ...     raise OSError(28, "No space left on device")
        Traceback (most recent call last):
        ...
        OSError: [Errno 28] No space left on device: 'table.csv'
    """
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno in _OF_WRITES:  # a write has no name
            raise OSError(error.errno, os.strerror(error.errno), str(path)) from error
        raise


def sync_folder(path: Path) -> None:
    """Make the names in a folder last; nothing where the system cannot open folders."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except PermissionError:  # Windows
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


_MACHINE = f"{zlib.crc32(platform.node().encode()):08x}"
_in_hand: set[str] = set()
"""Names that this process is writing under now."""


def _beside(path: Path) -> Path:
    """A drawn name next to a file, which says which process of which machine writes there."""
    return path.with_name(f".{path.name[:50]}.{_MACHINE}-{os.getpid()}-{secrets.token_hex(4)}")


def clear_killed(path: Path) -> None:
    """Remove what killed processes of this machine were writing in place of a file.

    Example:
        >>> clear_killed(Path("no-such-folder") / "table.csv")
    """
    form = re.compile(re.escape(f".{path.name[:50]}.{_MACHINE}-") + r"([0-9]+)-[0-9a-f]{8}")
    with suppress(OSError), os.scandir(path.parent) as entries:
        for entry in entries:
            written = form.fullmatch(entry.name)
            if written and entry.is_file(follow_symlinks=False) and not _is_written(entry.name, int(written[1])):
                Path(entry.path).unlink(missing_ok=True)


def _is_written(name: str, process: int) -> bool:
    """Whether the process that drew a name is still there; our own number may have been a killed one's."""
    if process == os.getpid():
        return name in _in_hand
    if os.name != "posix":
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


@contextmanager
def replacing(path: Path, *, alone: bool = False, named: bool = False) -> Iterator[Path]:
    """Give a path beside a file, and let what the block writes there take the file's place when it ends.

    A reader sees the old file or the new one, whole, also after a loss of power. The path's name is drawn, so that no
    link in a stranger's folder lies there. Where the block fails, the file stays as it was and the path is gone.

    With ``alone``, for a caller that holds the folder's lock, the name is ``NAME.partial``: what a killed writer left
    there, or a link, is removed first. With ``named``, for a path that the user has named, what killed processes were
    writing in its place is removed first.

    Raises:
        OSError: the disk is full, closed or broken.

    Example:
        >>> import tempfile
        >>> card = Path(tempfile.mkdtemp()) / "card.json"
        >>> with replacing(card) as new:
        ...     _ = new.write_text("{}")
        ...     card.exists()
        False
        >>> card.read_text(), len(list(card.parent.iterdir()))
        ('{}', 1)
    """
    new = path.with_name(f"{path.name}.partial") if alone else _beside(path)
    if alone:
        new.unlink(missing_ok=True)
    if named:
        clear_killed(path)
    _in_hand.add(new.name)
    try:
        yield new
        with new.open("rb+") as file:
            os.fsync(file.fileno())
        with suppress(OSError):
            if not path.is_symlink():
                new.chmod(stat.S_IMODE(path.stat().st_mode))  # what only its owner may read stays so
        os.replace(new, path)  # noqa: PTH105  # tests stop the process at each call of `os`
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    finally:
        _in_hand.discard(new.name)


def write_whole(path: Path, content: bytes, *, follow: bool = False, alone: bool = False) -> None:
    """Let bytes take the place of a file's, as `replacing` does; folders above it are made.

    A link is replaced. With ``follow``, for a path that the user has named, its target is, and pipes are written to.

    Raises:
        OSError: the disk is full, closed or broken.

    Example:
        >>> import tempfile
        >>> page = Path(tempfile.mkdtemp()) / "pages" / "index.html"
        >>> write_whole(page, b"<p>")
        >>> page.read_bytes()
        b'<p>'
    """
    if follow and path.exists() and not path.is_file():
        path.write_bytes(content)
        return
    path = path.resolve() if follow and path.is_symlink() else path
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path, alone=alone, named=follow) as new, new.open("xb") as file:
        file.write(content)


def write_new(path: Path, content: bytes) -> None:
    """Write a file where there is none, whole or not at all: half of one would be in the way of the next attempt.

    Raises:
        FileExistsError: a file is there, and stays as it is.
        OSError: the disk is full, closed or broken.

    Example:
        >>> import tempfile
        >>> card = Path(tempfile.mkdtemp()) / "card.json"
        >>> write_new(card, b"{}")
        >>> card.read_bytes()
        b'{}'
    """
    new = _beside(path)
    try:
        with new.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            path.hardlink_to(new)
        except FileExistsError:
            raise
        except OSError as error:  # a file system without second names
            if path.exists() or path.is_symlink():
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from error
            new.rename(path)
    finally:
        new.unlink(missing_ok=True)


@contextmanager
def opened_whole(path: Path) -> Iterator[TextIO]:
    r"""Give a text stream, for a path that the user has named, whose lines take the file's place when the block ends.

    Where the block fails, or the process dies, the file stays as it was: half of a table would look like all of one.
    A link's target is replaced, and a pipe or a device is written to as it is.

    Raises:
        OSError: the disk is full, closed or broken; it has the file's name.

    Example:
        >>> import tempfile
        >>> table = Path(tempfile.mkdtemp()) / "table.csv"
        >>> with opened_whole(table) as file:
        ...     _ = file.write("class\n")
        >>> table.read_text()
        'class\n'
    """
    path = path.resolve() if path.is_symlink() else path
    if path.exists() and not path.is_file():
        with path.open("w", encoding="utf-8", newline="") as file:
            yield file
        return
    with naming(path), replacing(path, named=True) as new, new.open("x", encoding="utf-8", newline="") as file:
        yield file


def own_file(path: Path) -> Path:
    """The path, which leads nowhere else: a link in a stranger's folder is removed, not written through."""
    if path.is_symlink():
        path.unlink()
    return path


def write_file(path: Path, text: str) -> None:
    """Write a text that lasts: the bytes, not yet the name. Half a letter, which UTF-8 has not, becomes ``?``."""
    with naming(path), own_file(path).open("w", encoding="utf-8", errors="replace") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def replace_file(path: Path, text: str) -> None:
    """Let a text take the place of a file's, so that readers see the old or the new one, whole, whatever happens."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "expected a file, it is a folder", str(path))
    new = path.with_name(f".{path.name}.new")  # NAME.new may be a user's
    try:
        write_file(new, text)
        os.replace(new, path)  # noqa: PTH105  # tests stop the process at each call of `os`
    except OSError:
        new.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def replace_folder(new: Path, path: Path) -> None:
    """Let a finished folder take the place of another (or of none), which is removed once the change lasts.

    Numerics:
        One call of the system exchanges the two names (Linux's `renameat2`). Where that is not offered there are two
        renames; between them `Folder` reads the old one under the name that `replaced` gives it, and
        `restore` puts it back.
    """
    sync_folder(new)
    if not path.exists():
        os.rename(new, path)  # noqa: PTH104
        sync_folder(path.parent)
        return
    if exchange(new, path):
        old = new
    else:
        old = replaced(path)
        shutil.rmtree(old, ignore_errors=True)
        os.rename(path, old)  # noqa: PTH104
        os.rename(new, path)  # noqa: PTH104
    sync_folder(path.parent)
    shutil.rmtree(old)


def restore(path: Path) -> None:
    """Undo a replacement that died between its two renames, and clear what one left that died after them."""
    old = replaced(path)
    if not old.is_dir():
        return
    if path.exists():
        shutil.rmtree(old)
    else:
        os.rename(old, path)  # noqa: PTH104


@cache
def _renameat2() -> Any:
    """The C library's function; None where there is none."""
    if sys.platform != "linux":
        return None
    return getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)


def exchange(first: Path, second: Path) -> bool:
    """Exchange two names at once; False where the system or the file system does not offer it."""
    rename = _renameat2()
    if rename is None:
        return False
    if rename(_HERE, os.fsencode(first), _HERE, os.fsencode(second), _EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NOT_OFFERED:
        return False
    raise OSError(number, os.strerror(number), str(second))


class FolderError(ValueError):
    """A folder that is not what its manifest says, not of the kind that was asked for, or being written by another.

    Example:
        >>> import tempfile
        >>> from threading import Thread
        >>> def write(folder):
        ...     try:
        ...         with one_writer(folder):
        ...             pass
        ...     except FolderError as error:
        ...         print(str(error).rpartition(": ")[2])
        >>> folder = tempfile.mkdtemp()
        >>> with one_writer(folder):
        ...     second = Thread(target=write, args=[folder])
        ...     second.start()
        ...     second.join()
        another thread of this process is writing there; expected one at a time
    """


_READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)
_held: dict[str, tuple[int, int]] = {}
"""Lock file -> the thread of this process that holds it, and how many times."""
_guard = threading.Lock()


@contextmanager
def one_writer(folder: str | Path) -> Iterator[None]:
    """Hold the lock of a folder, which lies beside it as `.<name>.lock`; the system frees it however the process ends.

    The same thread may hold it several times, so that an operation and its parts each ask for it.
    """
    path = Path(folder).absolute()
    file = path.with_name(f".{path.name}.lock")
    key, me = str(file), threading.get_ident()
    with _guard:
        thread, times = _held.get(key, (me, 0))
        if times and thread != me:
            raise FolderError(f"{path}: another thread of this process is writing there; expected one at a time")
        _held[key] = (me, times + 1)
    handle: TextIO | None = None
    try:
        if not times:
            handle = _lock(file, path)
        yield
    finally:
        with _guard:
            if times:
                _held[key] = (me, times)
            else:
                del _held[key]
        if handle is not None:
            file.unlink(missing_ok=True)  # while it is held: who opened it before asks for the new one, see `_lock`
            handle.close()


def locks(argument: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """A function that holds the lock of the folder which this argument names, from its first step to its last."""

    def wrap(function: Callable[P, T]) -> Callable[P, T]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def locked(*args: P.args, **kwargs: P.kwargs) -> T:
            with one_writer(signature.bind(*args, **kwargs).arguments[argument]):
                return function(*args, **kwargs)

        return locked

    return wrap


def is_held(folder: str | Path) -> bool:
    """Whether somebody is writing a folder, as far as its lock file says; a reader never takes the lock itself."""
    path = Path(folder).absolute()
    try:
        words = path.with_name(f".{path.name}.lock").read_text(encoding="utf-8").split()
    except OSError:
        return False
    if len(words) < 4 or words[3] != platform.node():
        return True
    try:
        os.kill(int(words[1]), 0)
    except ProcessLookupError:
        return False
    except (ValueError, OSError):
        return True
    return True


def _lock(file: Path, folder: Path) -> TextIO | None:
    try:
        import fcntl
    except ImportError:
        return None
    while True:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            opened = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)  # no link: is written
        except OSError as error:
            if error.errno not in _READ_ONLY:
                raise
            raise FolderError(f"{file.parent} cannot be written: {error.strerror}") from None
        handle = os.fdopen(opened, "r+", encoding="utf-8")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(handle.fileno()), os.stat(file)):  # noqa: PTH116  # the one that lies there
                break
        except BlockingIOError:
            holder = handle.read().strip() or "another process"
            handle.close()
            raise FolderError(f"{folder}: {holder} is writing there; expected one writer at a time") from None
        except FileNotFoundError:  # its last holder has just taken it away
            pass
        except OSError:  # a file system without locks
            handle.close()
            return None
        handle.close()
    command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:3]])[:60]
    since = time.strftime("%Y-%m-%d %H:%M:%S")
    try:
        with naming(file):
            handle.truncate(0)
            handle.write(f"process {os.getpid()} of {platform.node()} ({command}, since {since})")
            handle.flush()
    except OSError:
        file.unlink(missing_ok=True)
        with suppress(OSError):  # what it could not write
            handle.close()
        raise
    return handle
