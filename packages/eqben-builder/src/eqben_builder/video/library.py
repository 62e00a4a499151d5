"""Finding the videos that annotations speak of, and pictures of a size that can be kept."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from eqben_builder.building.evidence import pixel_change, token_edits
from eqben_builder.untrusted import load_json

if TYPE_CHECKING:
    from jaxtyping import UInt8

ENDINGS = (".mp4", ".mkv", ".webm", ".avi", ".mov", ".m4v", ".flv", ".3gp")
_YOUTUBE = 11


class Library:
    """The videos under a folder, by name.

    A video is found by its file's name without or with its ending, or by the eleven characters of a YouTube name with
    which the file's name begins (Kinetics adds the seconds: `ID_000010_000020.mp4`). Of several files, the first in the
    order of their paths counts.
    """

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise FileNotFoundError(f"there is no folder of videos {folder}")
        self.folder = folder
        self._paths: dict[str, Path] = {}
        for path in sorted(folder.rglob("*")):
            if path.suffix.lower() in ENDINGS:
                for name in (path.name, path.stem, path.stem[:_YOUTUBE]):
                    self._paths.setdefault(name, path)

    def find(self, name: str) -> Path | None:
        """The video's file or its folder of frames, or None."""
        return self._paths.get(name)


def read_annotations(path: Path) -> tuple[Any, str]:
    """A JSON file and its SHA-256."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no annotation file {path}")
    return load_json(path), hashlib.sha256(path.read_bytes()).hexdigest()


def seconds(value: object, where: str, field: str) -> float:
    """A number of seconds of at least 0; otherwise a `ValueError` with the place and the field."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value < float("inf"):
        raise ValueError(f"{where}: field {field!r} should be seconds of at least 0, found {value!r}")
    return float(value)


def shrunk(image: UInt8[np.ndarray, "h w 3"], size: int | None) -> UInt8[np.ndarray, "h w 3"]:
    """A picture whose shorter side has at most `size` pixels, by Lanczos; None leaves it as it is."""
    height, width = image.shape[:2]
    if size is None or min(height, width) <= size:
        return image
    scale = size / min(height, width)
    place = (round(width * scale), round(height * scale))
    return np.array(Image.fromarray(image).resize(place, Image.Resampling.LANCZOS))


def evidence(
    captions: tuple[str, str], images: tuple[UInt8[np.ndarray, "h w 3"], UInt8[np.ndarray, "h w 3"]]
) -> dict[str, Any]:
    """What can be said of any pair of frames: the words and the pixels that differ."""
    return {"token_edits": token_edits(*captions), "pixels": pixel_change(*images)}
