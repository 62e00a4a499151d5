"""Clips of a data set: video files, or folders of frames, by their paths without an ending."""

from __future__ import annotations

import os
import re
from pathlib import Path

from gate_data.errors import DataError
from gate_data.readers.clips import VIDEOS, middles
from gate_data.readers.folders import PICTURES, files_in
from gate_data.readers.source import Clip, Source

_NUMBERED = re.compile(r"img_\d{5}")


class Videos:
    """What lies under a folder of clips."""

    def __init__(self, root: Path, frames: int = 8) -> None:
        self.root, self.frames = root, frames
        self._seen: dict[str, dict[str, str]] = {}

    def get(self, name: str) -> tuple[Source, ...] | None:
        """A clip's sources, or None where neither its file nor its folder of frames is there."""
        folder, _, last = name.rpartition("/")
        stem = os.path.splitext(last)[0] if last.lower().endswith(VIDEOS) else last  # noqa: PTH122 - text paths
        entry = self._listed(folder).get(stem)
        if entry is None:
            return None
        path = self.root / folder / entry
        if entry.lower().endswith(VIDEOS):
            return (Clip(str(path), self.frames),)
        frames = files_in(path, PICTURES)
        for number, frame in enumerate(frames, start=1):
            name = Path(str(frame)).stem
            if _NUMBERED.fullmatch(name) and int(name[4:]) != number:
                raise DataError(f"{path} has no img_{number:05}, expected a frame of every number up to {name}")
        return tuple(middles(frames, self.frames))

    def _listed(self, folder: str) -> dict[str, str]:
        if folder not in self._seen:
            files: dict[str, str] = {}
            try:
                for entry in os.scandir(self.root / folder):
                    stem, ending = os.path.splitext(entry.name)  # noqa: PTH122 - text paths
                    video = ending.lower() in VIDEOS
                    if video or entry.is_dir():
                        files[stem if video else entry.name] = entry.name
            except OSError:
                pass  # what is not there is None for whoever asks
            self._seen[folder] = files
        return self._seen[folder]
