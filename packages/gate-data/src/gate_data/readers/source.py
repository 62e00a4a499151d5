"""Where an image, a map or a clip lies: a file, a member of an archive, a row of an array, or a part of these."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from gate_data.errors import DataError
from wary_files import archives
from wary_files.limits import reading, refuse_special, within


class Member(NamedTuple):
    """A file inside a zip or an uncompressed tar archive, read in place.

    Example:
        >>> Member("train.zip", "cat/1.jpg").name
        'cat/1.jpg'
    """

    archive: str
    name: str


class Stored(NamedTuple):
    """One row of an array in an HDF5 file; ``axes`` brings its axes into the order height, width, channels.

    Example:
        >>> Stored("images.h5", "image", row=3, axes=(1, 2, 0)).row
        3
    """

    file: str
    key: str
    row: int
    axes: tuple[int, ...] = ()


class Cut(NamedTuple):
    """The part of an image inside a box, in pixels: left, top, right, bottom.

    Example:
        >>> Cut("photo.jpg", (10, 20, 50, 60)).box[:2]
        (10, 20)
    """

    source: str | Member
    box: tuple[float, float, float, float]


class Turned(NamedTuple):
    """A class map that was drawn on an image as it is stored, and is turned with it, by EXIF's number.

    Example:
        >>> Turned("masks/1.png", 6).orientation
        6
    """

    source: str | Member
    orientation: int


class Clip(NamedTuple):
    """A video file, of which so many frames are read, each from the middle of an equal part of its length.

    Example:
        >>> Clip("clips/run.avi").frames
        8
    """

    source: str | Member
    frames: int = 8


File = str | Member
"""What holds bytes. Paths are text, for a million of them has to fit into memory."""

Source = str | Member | Stored | Cut | Clip | Turned
"""Whatever a sample can be read from; nothing is opened before it is needed."""


def file_of(source: Source) -> str:
    """The path of the file, or of the archive, that a source lies in."""
    if isinstance(source, Cut | Clip | Turned):
        source = source.source
    if isinstance(source, str):
        return source
    return source.archive if isinstance(source, Member) else source.file


def described(source: Source) -> str:
    """A source in the words of an error message.

    Example:
        >>> described(Member("birds.zip", "a.jpg"))
        'birds.zip: a.jpg'
    """
    match source:
        case Cut() | Clip() | Turned():
            return described(source.source)
        case Member():
            return f"{source.archive}: {source.name}"
        case Stored():
            return f"{source.file}: {source.key}, row {source.row}"
        case _:
            return source


def named_from(sources: Source | tuple[Source, ...], start: str) -> str:
    """Return the name of what a sample shows, below a folder: with the member or the box of a part, several by ``;``.

    Example:
        >>> named_from(Cut("/data/a.jpg", (0, 1, 2, 3)), "/data"), named_from("/data/b.jpg", "/data/c")
        ('a.jpg 0,1,2,3', '../b.jpg')
    """
    if type(sources) is tuple:  # a source alone may be a named tuple
        return "; ".join(named_from(source, start) for source in sources)  # type: ignore[arg-type]
    source: Source = sources  # type: ignore[assignment]
    file = file_of(source)
    name = os.path.relpath(os.path.abspath(file), start)  # noqa: PTH100 - links stay
    box = f" {','.join(f'{side:g}' for side in source.box)}" if isinstance(source, Cut) else ""
    return f"{name}{described(source).removeprefix(file)}{box}"


def read_bytes(file: File) -> bytes:
    """All bytes of a file or member."""
    if isinstance(file, Member):
        return archives.read(file.archive, file.name)
    refuse_special(Path(file))
    with reading(file):
        return Path(file).read_bytes()


def read_text(path: Path) -> str:
    """The text of a list or a description, which lies in memory as a whole."""
    refuse_special(path)
    with reading(str(path), "UTF-8 text"):
        within(path.stat().st_size, "bytes", str(path))
        return path.read_text(encoding="utf-8-sig")


def name_bytes(text: str) -> bytes:
    r"""Encode names of files as they are on the disk: the same for any locale, and for names that are not UTF-8.

    Example:
        >>> name_bytes("\udcff.png")
        b'\xff.png'
    """
    return text.encode("utf-8", "surrogateescape")


def readable(name: str) -> str:
    r"""Decode a file's name as UTF-8, whatever the locale; other bytes are shown as escapes.

    Example:
        >>> readable("r\udcffd")
        'r\\xffd'
    """
    return name_bytes(name).decode("utf-8", "backslashreplace")


def stamp(source: Source) -> str:
    """Folder, name and size: what stands for a source's content where reading it would take too long."""
    path = Path(file_of(source))
    try:
        size = path.stat().st_size
    except OSError as error:
        raise DataError(f"{path} is not there") from error
    inner = "" if isinstance(source, str) else f" {source[1:]}"
    return f"{path.parent.name}/{path.name} {size}{inner}"
