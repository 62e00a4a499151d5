"""Clips: frames at the middles of equal parts of a video, found by seeking, or of a folder of frames."""

from __future__ import annotations

import io
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from PIL import Image

from gate_data.errors import DataError
from gate_data.imports import extra
from gate_data.readers.decode import note
from gate_data.readers.source import Clip, Member, described, read_bytes
from wary_files.videos import VIDEO_OPTIONS

VIDEOS = (".avi", ".mp4", ".mkv", ".webm", ".mov", ".mpg")
"""Endings of video files, in lower case."""
T = TypeVar("T")


def middles(frames: Sequence[T], count: int) -> list[T]:
    """The frame in the middle of each of several equal parts; a shorter list gives some of its frames again."""
    return [frames[int((2 * part + 1) * len(frames) / (2 * count))] for part in range(count)]


def read_clip(clip: Clip) -> list[Image.Image]:
    """A video's frames, as they are shown at the middles of its parts.

    PyAV seeks to the key frame before each place and decodes from there; a place that lies ahead of the last one and
    before the next key frame costs no second seek.
    """
    av = library()
    # FFmpeg takes a name that begins like a protocol, as a folder "http:" does, for an address.
    opened: Any = (
        io.BytesIO(read_bytes(clip.source)) if isinstance(clip.source, Member) else str(Path(clip.source).absolute())
    )
    try:
        with av.open(opened, options=dict(VIDEO_OPTIONS)) as container:
            return _frames(container, clip.frames, described(clip))
    except DataError as error:
        raise DataError(f"{described(clip)} {error}") from error
    except (av.FFmpegError, OSError, ValueError, StopIteration, IndexError) as error:
        raise DataError(f"{described(clip)} cannot be decoded: {error or type(error).__name__}") from error


def undecodable(clips: Sequence[Clip]) -> list[int]:
    """Which clips have no frame that can be decoded: each is opened and its first frame read."""
    if not clips:
        return []
    library()

    def broken(clip: Clip) -> bool:
        try:
            read_clip(clip._replace(frames=1))
        except DataError:
            return True
        return False

    with ThreadPoolExecutor() as pool:
        return [index for index, bad in enumerate(pool.map(broken, clips)) if bad]


_SHORT = 1.0
"""Seconds without a frame at the end of a video from which on it is taken for cut short."""
_EMPTY = "holds a video stream without a frame that can be decoded"


def library() -> Any:
    """PyAV."""
    return extra("video", "av", "videos need PyAV")


def _frames(container: Any, count: int, name: str) -> list[Image.Image]:
    if not container.streams.video:
        raise DataError("holds no video stream, but sound or text; expected frames")
    stream = container.streams.video[0]
    stream.thread_type = "AUTO"
    base = float(stream.time_base)
    length = float(stream.duration * base) if stream.duration else (container.duration or 0) / 1e6
    start = float(stream.start_time or 0) * base
    if not length > 0:
        shown = [frame.to_image() for frame in container.decode(stream)]
        if not shown:
            raise DataError(_EMPTY)
        return middles(shown, count)
    decoded = container.decode(stream)
    frame = next(decoded, None)
    if frame is None:
        raise DataError(_EMPTY)
    ahead = next(decoded, None)
    frames = []
    for part in range(count):
        moment = start + (part + 0.5) * length / count
        if moment - (frame.time or start) > 1.0:  # less than a second ahead, decoding on is as quick as a seek
            container.seek(int(moment / base), stream=stream, backward=True)
            decoded = container.decode(stream)
            sought = next(decoded, None)
            if sought is not None:
                frame, ahead = sought, next(decoded, None)
        while ahead is not None and ahead.time is not None and ahead.time <= moment:
            frame, ahead = ahead, next(decoded, None)
        if ahead is None and frame.time is not None and moment - frame.time > _SHORT:
            note(name, f"ends after {frame.time - start:.1f} of {length:.1f} s: its last frame stands for the rest")
        frames.append(frame.to_image())
    return frames
