"""Pictures of questions and entities as data that a page carries with it."""

from __future__ import annotations

import io
from base64 import b64encode
from pathlib import Path

from oven_retrieval.pictures import read_rgb

ENDINGS = ("", ".jpg", ".jpeg", ".JPEG", ".JPG", ".png", ".PNG", ".webp", ".gif")
_SIDE = 256
_MOST_BYTES = 100_000
_MAGIC = ((b"\xff\xd8\xff", "jpeg"), (b"\x89PNG\r\n\x1a\n", "png"), (b"GIF8", "gif"))


def find_picture(folder: Path, name: str) -> Path | None:
    """The file of a picture in a folder or one of its subfolders: by its name, or its name and an ending, else None.

    A name that leads out of the folder (`../x`, `/x`) finds nothing.
    """
    inside = folder.resolve()
    for directory in (inside, *sorted(path for path in inside.iterdir() if path.is_dir())):
        for ending in ENDINGS:
            try:
                file = (directory / f"{name}{ending}").resolve()
                if file.is_relative_to(inside) and file.is_file():
                    return file
            except (OSError, ValueError):  # names that no file system takes
                return None
    return None


def picture_data(file: Path) -> str | None:
    """A small version of a picture as a `data:` address; None where it cannot be read.

    Numerics: with Pillow, at most 256 pixels a side, as JPEG. Without it (`pip install 'oven-retrieval[page]'`), the
    file itself where it is a JPEG, PNG or GIF of at most 100 kB.
    """
    try:
        import PIL  # noqa: F401 - asked for before the picture is
    except ImportError:
        data = file.read_bytes() if file.stat().st_size <= _MOST_BYTES else b""
        kind = next((kind for magic, kind in _MAGIC if data.startswith(magic)), None)
        return None if kind is None else _address(kind, data)
    try:
        small = read_rgb(file)
        small.thumbnail((_SIDE, _SIDE))
        written = io.BytesIO()
        small.save(written, "JPEG", quality=82)
    except (OSError, ValueError):
        return None
    return _address("jpeg", written.getvalue())


def _address(kind: str, data: bytes) -> str:
    return f"data:image/{kind};base64,{b64encode(data).decode('ascii')}"
