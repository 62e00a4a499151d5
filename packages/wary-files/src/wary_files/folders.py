"""Files and folders of a user's, written whole or not at all; what the system says against it is one line."""

from __future__ import annotations

import glob
import itertools
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from wary_files.durable import replace_folder, write_whole
from wary_files.errors import StorageError, UsageError
from wary_files.locks import held

_LONGEST_WRITE = 600.0
"""Seconds that another process may take to write a folder that this one writes next."""

OUTPUTS = ("output", "page", "json", "save", "figure", "html")
"""What commands call the options that they write to."""

PATHS = (*OUTPUTS, "table", "results", "runs", "data")
"""Options that are written to, or beside: an empty value would be the folder where the command is called."""

Content = bytes | Callable[[Path], bytes | None]
"""A file's bytes; or what gives them, or writes them to the path itself, once the files before it are there."""


def write_folder(folder: Path, files: Mapping[str, Content]) -> None:
    """Write a folder of files beside it and exchange the two at once: a reader sees the old or the new one.

    Of several writers each writes all of it, one after another. A link, which the user has named, is followed.

    Raises:
        StorageError: the folder cannot be written; the old one is as it was.
        BusyError: another process has been writing the folder for ten minutes.

    Example:
        >>> import tempfile
        >>> head = Path(tempfile.mkdtemp()) / "head"
        >>> count = lambda path: b"%d" % path.with_name("weights").stat().st_size
        >>> write_folder(head, {"weights": b"12", "card.json": count})
        >>> (head / "card.json").read_text()
        '2'
    """
    folder = folder.resolve() if folder.is_symlink() else folder
    beside = folder.parent / f".{folder.name}.{os.getpid()}.new"
    with held(folder.parent / f".{folder.name}.writing", wait=_LONGEST_WRITE):
        try:
            for unfinished in folder.parent.glob(f".{glob.escape(folder.name)}.*.new"):  # of writers that were killed
                discard(unfinished)
            beside.mkdir()
            for name, content in files.items():
                given = content if isinstance(content, bytes) else content(beside / name)
                if given is not None:
                    write(beside / name, given)
            replace_folder(beside, folder)
        except OSError as error:
            raise StorageError.about(folder, error) from error
        finally:
            discard(beside)


def refuse_over_inputs(options: Mapping[str, Any]) -> None:
    """Refuse a command's output that is a file which the command reads, or writes twice: one would be lost.

    Args:
        options: what was given, by name; `OUTPUTS` are written, and what else names a file is read.

    Raises:
        UsageError: an output is an input, or another output; shows both names.

    Example:
        >>> refuse_over_inputs({"labels": "/no/such.csv", "output": "/no/such.csv"})  # no file is lost
    """
    read = [
        (name, Path(value))
        for name, values in options.items()
        if name not in OUTPUTS
        for value in (values if isinstance(values, list | tuple) else [values])
        if isinstance(value, str | Path) and _is_file(value)
    ]
    written: dict[Path, str] = {}
    for name in OUTPUTS:
        output = options.get(name)
        if not isinstance(output, str | Path) or output == "-":
            continue
        other = written.setdefault(Path(output).absolute(), name)
        if other != name:
            raise UsageError(f"--{other} and --{name} are both {output}: one would be lost; name another file")
        for other, path in read if _is_file(output) else []:
            if path.samefile(output):
                raise UsageError(f"--{name} {output} is read here, as {other}: it would be lost; name another file")


def refuse_empty_paths(arguments: Sequence[str] | None = None) -> None:
    """Refuse an option of `PATHS`, or an argument without an option, that is empty, as an unset variable leaves it.

    Args:
        arguments: of the command line; `sys.argv` without the program by default.

    Raises:
        UsageError: an empty value; shows its option, if it has one.

    Example:
        >>> refuse_empty_paths(["run", "--output", ""])
        Traceback (most recent call last):
        wary_files.errors.UsageError: --output is empty; expected a path
    """
    listed = sys.argv[1:] if arguments is None else list(arguments)
    for name in PATHS:
        option = f"--{name}"
        if f"{option}=" in listed or any(pair == (option, "") for pair in itertools.pairwise(listed)):
            raise UsageError(f"{option} is empty; expected a path")
    if any(value == "" and not before.startswith("-") for before, value in itertools.pairwise(["", *listed])):
        raise UsageError("an argument is empty; expected a name or a path")


def require_ending(option: str, path: Path, *endings: str) -> None:
    """Refuse a file to be written that is not called what it will be: it may be a file of another kind.

    A device or a pipe, such as /dev/stdout, is none.

    Raises:
        UsageError: the name has none of the endings; shows it.

    Example:
        >>> require_ending("--page", Path("pairs.html"), ".html", ".htm")
    """
    if path.suffix.casefold() not in endings and not (path.exists() and not path.is_file() and not path.is_dir()):
        raise UsageError(f"{option} {path}: expected a name that ends in {' or '.join(endings)}")


def require_place(option: str, path: Path) -> None:
    """Refuse a file to be written that is a folder, or whose folder is not there, before anything is computed for it.

    Raises:
        UsageError: so it is; shows the path.

    Example:
        >>> require_place("--json", Path("result.json"))
    """
    if path.is_dir():
        raise UsageError(f"{option} {path} is a folder; expected a file in it")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"{option} {path}: there is no folder {path.parent}; make it first")


def _is_file(value: str | Path) -> bool:
    """Whether an option's value names a file; most are no path at all."""
    try:
        return Path(value).is_file()
    except (OSError, ValueError):
        return False


def write(path: Path, content: bytes, *, follow: bool = False) -> None:
    """Write a file whole, see `wary_files.durable.write_whole`; what the system says against it is a `StorageError`."""
    try:
        write_whole(path, content, follow=follow)
    except OSError as error:
        raise StorageError.about(path, error) from error


def discard(path: Path) -> None:
    """Remove a file, or a folder in its place, where one is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
