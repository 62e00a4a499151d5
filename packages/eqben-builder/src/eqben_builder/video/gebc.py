"""Eq-GEBC: the frames before one event boundary and after the next, with the captions of both states."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eqben_builder.building.builder import Dropped, Made
from eqben_builder.video.decode import VideoError, frames_at
from eqben_builder.video.library import VideoBuilder, check_size, evidence, read_annotations, seconds, shrunk

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from eqben_builder.formats import PairRow

#: Words that no single frame shows.
ACTION_WORDS = ("up", "upward", "upwards", "down", "downward", "downwards", "toward", "towards")
_ACTION = re.compile(rf"\b(?:{'|'.join(ACTION_WORDS)})\b", re.IGNORECASE)
_log = logging.getLogger(__name__)


class Boundary(NamedTuple):
    """A boundary's time, the times of its neighbours, and the states before and after it, as captions."""

    id: str
    time: float
    previous: float
    following: float
    before: str
    after: str

    def middle(self, after: bool) -> float:
        """The middle of the segment before or after it."""
        return (self.time + self.following) / 2 if after else (self.previous + self.time) / 2


class Chosen(NamedTuple):
    """Two boundaries between which the middle state is left out, or why there is no pair."""

    first: Boundary
    second: Boundary
    reason: str | None


def has_action_word(caption: str) -> bool:
    """Whether a caption holds a word of `ACTION_WORDS`."""
    return _ACTION.search(caption) is not None


def boundary_pairs(boundaries: list[Boundary]) -> list[Chosen]:
    """Choose pairs of boundaries of one video: neighbours, so that one boundary more lies between the frames.

    Source:
        EqBen appendix B.2: skip one boundary, drop captions with action words. It names five words "e.g."; their other
        spellings are added. How pairs of one video may overlap is not given.
    """
    chosen = []
    k = 0
    while k + 1 < len(boundaries):
        boundary, later = boundaries[k], boundaries[k + 1]
        reason = None
        if boundary.previous >= boundary.time or later.time >= later.following:
            reason = "a segment of no length"
        elif has_action_word(boundary.before) or has_action_word(later.after):
            reason = "an action word in a caption"
        elif boundary.before.lower() == later.after.lower():
            reason = "captions are the same"
        chosen.append(Chosen(boundary, later, reason))
        k += 2 if reason is None else 1
    return chosen


def read_gebc(path: Path) -> tuple[dict[str, list[Boundary]], str]:
    """Kinetics-GEB+'s boundaries by video, in order, and the file's SHA-256; of those at one time the first counts."""
    content, digest = read_annotations(path)
    if not isinstance(content, dict):
        raise ValueError(f"{path}: expected an object from videos to boundaries, found {type(content).__name__}")
    boundaries_of: dict[str, list[Boundary]] = {}
    for video, rows in content.items():
        if not isinstance(rows, list):
            raise ValueError(f"{path}, video {video!r}: expected a list, found {type(rows).__name__}")
        at: dict[float, Boundary] = {}
        for k, row in enumerate(rows):
            where = f"{path}, video {video!r}, boundary {k}"
            if not isinstance(row, dict):
                raise ValueError(f"{where}: expected an object, found {type(row).__name__}")
            time, previous, following = (
                seconds(row.get(name), where, name) for name in ("timestamp", "prev_timestamp", "next_timestamp")
            )
            texts = []
            for name in ("subject", "status_before", "status_after"):
                if not isinstance(row.get(name), str):
                    raise ValueError(f"{where}: field {name!r} should be a text, found {row.get(name)!r}")
                texts.append(" ".join(row[name].split()))
            subject, before, after = texts
            name = str(row.get("boundary_id", f"{video}_{k}"))
            states = (f"{subject} {before}".strip(), f"{subject} {after}".strip())
            at.setdefault(time, Boundary(name, time, previous, following, *states))
        boundaries_of[video] = [at[time] for time in sorted(at)]
    return boundaries_of, digest


class GebcBuilder(VideoBuilder[list[Chosen]]):
    """Eq-GEBC from Kinetics-GEB+; a job is a video.

    Args:
        annotations: One JSON file of boundaries; the paper uses those of training and validation.
        videos: Folder of Kinetics clips, named by their YouTube names.
        size: The shorter side of the images has at most so many pixels; None keeps the video's own.

    Raises:
        FileNotFoundError: The file or folder that is missing.
        ValueError: What `read_gebc` refuses; a size below 8; no video with two boundaries.

    Example:
        >>> import json, tempfile
        >>> states = [(2, 0, 4, "stands", "sits"), (4, 2, 6, "sits", "lies")]
        >>> names = ("timestamp", "prev_timestamp", "next_timestamp", "status_before", "status_after")
        >>> rows = [{"subject": "a man", **dict(zip(names, state, strict=True))} for state in states]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "boundaries.json")
        ...     _ = path.write_text(json.dumps({"abcdefghijk": rows}))
        ...     builder = GebcBuilder(annotations=path, videos=Path(folder))
        ...     builder.count, builder.make(0)  # the video itself is not there
        (1, [Dropped(reason='no such video', aspect='gebc')])

    Source:
        EqBen appendix B.2. Where the paper is silent: a state's frame is the middle of its segment; a caption is the
        subject followed by the state. The paper's manual screening is left to the review page.
    """

    subset = "gebc"
    licence = "LicenseRef-Kinetics-400"
    aspects = ("gebc",)

    def __init__(self, *, annotations: Path, videos: Path, size: int | None = 336) -> None:
        check_size(size)
        read, self._hash = read_gebc(Path(annotations))
        jobs = ((video, boundary_pairs(read[video])) for video in sorted(read))
        super().__init__(videos, size, jobs, f"{annotations}: none of {len(read)} videos has two boundaries")

    def parameters(self) -> dict[str, Any]:
        """The annotation file by its hash, the videos by names and sizes, the size, and the words."""
        return {
            "annotations": self._hash,
            "videos": self.videos_digest,
            "size": self.size,
            "action_words": list(ACTION_WORDS),
        }

    def make(self, index: int) -> list[Made | Dropped]:
        """The pairs of one video."""
        video, chosen = self.jobs[index]
        path = self.library.find(video)
        return [
            Dropped(choice.reason or "no such video", "gebc")
            if choice.reason or path is None
            else self._pair(video, path, choice)
            for choice in chosen
        ]

    def _pair(self, video: str, path: Path, chosen: Chosen) -> Made | Dropped:
        times = (chosen.first.middle(after=False), chosen.second.middle(after=True))
        try:
            first, second = (shrunk(frame.image, self.size) for frame in frames_at(path, times))
        except VideoError as error:
            _log.warning("%s", error)
            return Dropped("a frame cannot be decoded", "gebc")
        if np.array_equal(first, second):
            return Dropped("images are the same", "gebc")
        captions = (chosen.first.before, chosen.second.after)
        source = {
            "video": video, "times": list(times), "boundaries": [chosen.first.id, chosen.second.id],
            "segments": [
                [chosen.first.previous, chosen.first.time], [chosen.second.time, chosen.second.following]
            ],
        }  # fmt: skip
        return Made((first, second), captions, "gebc", source, evidence(captions, (first, second)))


def certificate_of(
    record: PairRow, image0: NDArray[np.uint8], image1: NDArray[np.uint8], mask: NDArray[np.bool_] | None
) -> dict[str, Any]:
    """The certificate made again from a record and its images."""
    for text in record.captions:
        if has_action_word(text):
            raise ValueError(f"caption {text!r} holds an action word")
    check_times(record)
    return evidence(record.captions, (image0, image1))


def check_times(record: PairRow) -> None:
    """Raise a `ValueError` unless each frame lies within its segment."""
    for side, (time, (begin, end)) in enumerate(zip(record.source["times"], record.source["segments"], strict=True)):
        if not begin <= time <= end:
            raise ValueError(f"frame {side} at {time} s lies outside of its segment, {begin} to {end} s")
