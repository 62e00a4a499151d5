"""What builders from videos share: the videos that annotations speak of, frames of a size that can be kept."""

from __future__ import annotations

import hashlib
import logging
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import PIL
from PIL import Image

from eqben_builder.building.evidence import pixel_change, token_edits
from eqben_builder.video.decode import VideoError, VideoFrame
from wary_files.json_files import read_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from jaxtyping import UInt8

ENDINGS = (".mp4", ".mkv", ".webm", ".avi", ".mov", ".m4v", ".flv", ".3gp")
_YOUTUBE = 11
_log = logging.getLogger(__name__)


class Library:
    """The videos under a folder, by name.

    A video is found by its file's name without or with its ending, or by the eleven characters of a YouTube name with
    which the file's name begins (Kinetics adds the seconds: `ID_000010_000020.mp4`), in this order. Of several files,
    the first in the order of their paths counts.
    """

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise FileNotFoundError(f"there is no folder of videos {folder}")
        self.folder = folder
        self._paths: dict[str, Path] = {}
        paths = [path for path in sorted(folder.rglob("*")) if path.suffix.lower() in ENDINGS]
        forms: tuple[Callable[[Path], str], ...] = (
            lambda path: path.name, lambda path: path.stem, lambda path: path.stem[:_YOUTUBE]
        )  # fmt: skip
        for form in forms:  # a whole name goes before the beginning of another
            for path in paths:
                self._paths.setdefault(form(path), path)

    def find(self, name: str) -> Path | None:
        """The video's file, or None, which is logged."""
        path = self._paths.get(name)
        if path is None:
            _log.warning("there is no video %s in %s", name, self.folder)
        return path

    def about(self, names: Iterable[str]) -> str:
        """Digest which of these videos are there, with the names and sizes of their files or of folders of frames."""
        digest = hashlib.sha256()
        for name in sorted(set(names)):
            path = self.folder / name if (self.folder / name).is_dir() else self._paths.get(name)
            files = [] if path is None else sorted(path.iterdir()) if path.is_dir() else [path]
            rows = [f"{file.name} {file.stat().st_size}" for file in files]
            digest.update(repr((name, rows)).encode("utf-8", "surrogateescape"))
        return digest.hexdigest()


J = TypeVar("J")
W = TypeVar("W")


class VideoBuilder(Generic[J]):
    """A builder whose jobs are videos, each with what is to be made of it.

    The shorter side of its images has at most `size` pixels; None keeps the video's own.
    """

    duplicate_bits = None

    def __init__(self, videos: Path, size: int | None, jobs: Iterable[tuple[str, J]], otherwise: str) -> None:
        self.size, self.jobs = size, [(video, job) for video, job in jobs if job]
        if not self.jobs:
            raise ValueError(otherwise)
        self.count = len(self.jobs)
        self.library = Library(Path(videos))

    @property
    def videos_digest(self) -> str:
        """What tells videos that are there from others, see `Library.about`: a build goes on with the same alone."""
        return self.library.about(video for video, _ in self.jobs)

    def versions(self) -> dict[str, str]:
        """NumPy's, Pillow's, and PyAV's where it is installed."""
        installed = {"numpy": np.__version__, "pillow": PIL.__version__}
        with suppress(PackageNotFoundError):
            installed["av"] = version("av")
        return installed


def each_frame(
    decode: Callable[[list[W]], list[VideoFrame]], requests: Sequence[W]
) -> list[UInt8[np.ndarray, "h w 3"] | None]:
    """The frames at some times or numbers, decoded at once; one beyond the end must not cost the others."""
    try:
        return [frame.image for frame in decode(list(requests))]
    except VideoError as error:
        _log.warning("%s", error)
    frames: list[UInt8[np.ndarray, "h w 3"] | None] = []
    for request in requests:
        try:
            frames.append(decode([request])[0].image)
        except VideoError:
            frames.append(None)
    return frames


def check_size(size: int | None) -> None:
    """A `ValueError` for a size below 8; builders ask before they read anything."""
    if size is not None and size < 8:
        raise ValueError(f"size = {size!r}, expected at least 8 pixels")


def read_annotations(path: Path) -> tuple[Any, str]:
    """A JSON file and its SHA-256."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no annotation file {path}")
    return read_json(path), hashlib.sha256(path.read_bytes()).hexdigest()


def seconds(value: object, where: str, field: str) -> float:
    """A number of seconds of at least 0; otherwise a `ValueError` with the place and the field."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value < float("inf"):
        raise ValueError(f"{where}: field {field!r} should be seconds of at least 0, found {value!r}")
    return float(value)


def shrunk(image: UInt8[np.ndarray, "h w 3"], size: int | None) -> UInt8[np.ndarray, "h w 3"]:
    """An image whose shorter side has at most `size` pixels, by Lanczos; None leaves it as it is."""
    height, width = image.shape[:2]
    if size is None or min(height, width) <= size:
        return image
    scale = size / min(height, width)
    new_size = (round(width * scale), round(height * scale))
    return np.array(Image.fromarray(image).resize(new_size, Image.Resampling.LANCZOS))


def evidence(
    captions: tuple[str, str], images: tuple[UInt8[np.ndarray, "h w 3"], UInt8[np.ndarray, "h w 3"]]
) -> dict[str, Any]:
    """What can be said of any pair of frames: the words and the pixels that differ."""
    return {"token_edits": token_edits(*captions), "pixels": pixel_change(*images)}
