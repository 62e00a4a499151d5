"""What every format is read into: a pair with its images, decoded only when somebody looks."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from eqben_builder.pictures import decode, decode_array
from eqben_builder.untrusted import opened_zip
from wary_files.limits import within

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jaxtyping import UInt8
    from numpy.typing import NDArray

_SIGNATURES = {b"\x89PNG\r\n\x1a\n": ".png", b"\xff\xd8\xff": ".jpg"}


@dataclass(frozen=True)
class Picture:
    """An image on disk, in a zip file, or in memory.

    Args:
        path: The file, or the zip file that holds it; None for one in memory.
        member: Its name within the zip file.
        content: The encoded bytes of one in memory.
        box: Only this part of it: left, top, width and height in pixels; what of it lies outside is black.
        plain: Decoded as `Image.open(...).convert("RGB")` would, as in `eqben_builder.pictures.decode`.
        sha256: Of its bytes, where a manifest has it; other bytes are refused when they are read.
        origin: What messages call one in memory, such as the row of the table that held it.

    A file that ends in `.npy` holds blue, green and red in this order, uint8 [height, width, 3], as EqBen's YouCook2
    part does.

    Example:
        >>> picture = Picture(content=encode_png(np.zeros((4, 6, 3), np.uint8)), box=(1, 0, 2, 3))
        >>> picture.name, picture.load().shape, picture.encoded()[1]
        ('an image in memory', (3, 2, 3), '.png')
    """

    path: Path | None = None
    member: str | None = None
    content: bytes | None = field(default=None, repr=False)
    box: tuple[int, int, int, int] | None = None
    plain: bool = False
    sha256: str | None = None
    origin: str = field(default="", repr=False, compare=False)

    @property
    def name(self) -> str:
        """What messages call it."""
        if self.path is None:
            return self.origin or "an image in memory"
        return str(self.path) if self.member is None else f"{self.path}:{self.member}"

    def read(self) -> bytes:
        """The bytes as they are stored; a `ValueError` where they are not those of `sha256`."""
        stored = self._stored()
        if self.sha256 is not None and hashlib.sha256(stored).hexdigest() != self.sha256:
            raise ValueError(
                f"{self.name} is not the image of the manifest, whose SHA-256 is {self.sha256[:16]}…: "
                "eqben verify FOLDER names every such file"
            )
        return stored

    def _stored(self) -> bytes:
        if self.content is not None:
            return self.content
        if self.path is None:
            raise ValueError("an image has neither a path nor a content")
        if self.member is None:
            if self.path.exists() and not self.path.is_file():
                raise ValueError(f"{self.path} is no file that holds data")  # a pipe would be waited for without end
            return self.path.read_bytes()
        with opened_zip(self.path, self.name) as archive, archive.open(self.member) as file:
            within(archive.getinfo(self.member).file_size, "bytes", self.name)
            return file.read()

    def load(self) -> UInt8[np.ndarray, "h w 3"]:
        """Decode it."""
        stored = self.read()
        if self._is_array():
            return decode_array(stored, self.name)[:, :, ::-1].copy()
        picture = decode(stored, self.name, plain=self.plain)
        return picture if self.box is None else _cropped(picture, self.box, self.name)

    def encoded(self) -> tuple[bytes, str]:
        """PNG or JPEG bytes, as stored where they are one of the two, and the ending that belongs to them."""
        stored = self.read() if self.box is None else encode_png(self.load())
        for signature, ending in _SIGNATURES.items():
            if stored.startswith(signature):
                return stored, ending
        return encode_png(self.load()), ".png"

    def _is_array(self) -> bool:
        name = self.member or ("" if self.path is None else self.path.name)
        return name.lower().endswith(".npy")


@dataclass(frozen=True)
class PairRow:
    """A pair as any format gives it.

    Args:
        id: Unique in its source.
        subset: "ag", "kubric", "winoground", "valse", …
        aspect: What changes; "" where the source does not say.
        image0: The first image.
        image1: The second; None for VALSE's rows, which have one image, a caption and a foil.
        caption0: True of the first image.
        caption1: True of the second, or the foil.
        extra: What else the source holds, such as `source`, `certificate`, `licence`.
        mask: Where the change is meant to be, white inside; None where the source has none.

    Example:
        >>> white = Picture(content=encode_png(np.full((2, 2, 3), 255, np.uint8)))
        >>> row = PairRow("a", "valse", "", white, None, "a white square", "a black square")
        >>> len(row.pictures()), row.image0.load()[0, 0].tolist()
        (1, [255, 255, 255])
    """

    id: str
    subset: str
    aspect: str
    image0: Picture
    image1: Picture | None
    caption0: str
    caption1: str
    extra: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    mask: Picture | None = None

    @property
    def captions(self) -> tuple[str, str]:
        """The first image's, and the second's or the foil."""
        return self.caption0, self.caption1

    @property
    def source(self) -> Mapping[str, Any]:
        """What makes the pair again, such as video and times, or seed and scene graphs, where the source says it."""
        source: Mapping[str, Any] = self.extra.get("source") or {}
        return source

    @property
    def certificate(self) -> Mapping[str, Any]:
        """What was checked, with the figures, where the source says it."""
        certificate: Mapping[str, Any] = self.extra.get("certificate") or {}
        return certificate

    def pictures(self) -> list[Picture]:
        """One or two."""
        return [self.image0] if self.image1 is None else [self.image0, self.image1]


def _cropped(picture: NDArray[np.uint8], box: tuple[int, int, int, int], name: str) -> NDArray[np.uint8]:
    """The box of an image; black where it lies outside, as Pillow and torchvision crop."""
    left, top, width, height = box
    within(width * height, "pixels", f"{name}: the box {box}")
    part = np.zeros((height, width, 3), np.uint8)
    rows = slice(max(0, top), max(0, top + height))
    columns = slice(max(0, left), max(0, left + width))
    overlap = picture[rows, columns]
    down, right = rows.start - top, columns.start - left
    part[down : down + overlap.shape[0], right : right + overlap.shape[1]] = overlap
    return part


def encode_png(picture: UInt8[np.ndarray, "h w 3"]) -> bytes:
    """PNG bytes of a uint8 image [height, width, 3]; the same image gives the same bytes.

    Example:
        >>> encode_png(np.zeros((2, 3, 3), np.uint8))[1:4]
        b'PNG'
    """
    file = io.BytesIO()
    Image.fromarray(picture).save(file, format="PNG")
    return file.getvalue()


def videos_of(rows: Iterable[PairRow]) -> list[str]:
    """The video of each pair, so that pairs of one video are resampled together; a pair of none is on its own."""
    names = []
    for row in rows:
        source = row.extra.get("source")
        video = source.get("video") if isinstance(source, Mapping) else None
        names.append(f"{row.subset} video {video}" if video else f"{row.subset} pair {row.id}")
    return names


def picture_at(root: Path, name: object, where: str, field_name: str) -> Picture:
    """The image that a row of a file names, if it lies in the folder and is there."""
    relative = text(name, where, field_name).encode("utf-8", "replace").decode()  # half a letter is in no file's name
    inside = _resolved(str(root), str(Path.cwd()))
    path = os.path.realpath(os.path.join(inside, relative.replace("\0", "")))  # noqa: PTH118 - a third of the time of a Path's
    if path != inside and not path.startswith(inside.rstrip(os.sep) + os.sep):
        raise ValueError(f"{where}: field {field_name!r} leads out of {root}: {name!r}")
    if "\0" in relative or not os.path.isfile(path):  # noqa: PTH113 - a name that is too long is no file, too
        raise FileNotFoundError(f"{where}: field {field_name!r} names no image in {root}: {name!r}")
    return Picture(Path(path))


@lru_cache(maxsize=64)
def _resolved(root: str, base: str) -> str:
    return os.path.realpath(os.path.join(base, root))  # noqa: PTH118 - as above


def text(value: object, where: str, field_name: str) -> str:
    """The value, if it is a text that is not empty; otherwise a `ValueError` with `where` and the field."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{where}: field {field_name!r} should be a text, found {value!r}")
    return value
