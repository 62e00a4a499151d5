"""Frames of a video at given times or numbers, decoding as little as the video's key frames allow."""

from __future__ import annotations

from bisect import bisect_right
from fractions import Fraction
from math import floor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wary_files.videos import VIDEO_OPTIONS

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    from jaxtyping import UInt8

#: A jump costs about as much as decoding this many frames: below that, reading on is quicker. A decoder that puts
#: frames into another order has to be filled again after a jump.
JUMP_FRAMES, JUMP_FRAMES_REORDERED = 8, 30


class VideoError(ValueError):
    """A video that cannot be opened, breaks off, or has no frame where one was asked for."""


class VideoFrame(NamedTuple):
    """One decoded frame: its time in seconds from the start of the video, and its image, uint8 [height, width, 3]."""

    time: float
    image: UInt8[np.ndarray, "h w 3"]


def frames_at(path: str | os.PathLike[str], times: Sequence[float]) -> list[VideoFrame]:
    """The frames that are on screen at some times, in seconds from the start: the last that begin at or before them.

    Numerics:
        Times are rational within: a time that equals a frame's own begins with that frame, to a microsecond. Where the
        next key frame lies ahead of the decoder and before the next time, it jumps there if that saves more frames than
        a jump costs, and reads on otherwise: so no more is decoded than in one pass, and few frames are sought.
    """
    requests = []
    for time in times:
        if not 0.0 <= time < float("inf"):
            raise ValueError(f"time {time!r} is no number of seconds of at least 0")
        requests.append(Fraction(time).limit_denominator(1_000_000))
    if not requests:
        return []
    with _Video(Path(path)) as video:
        return video.at([video.ticks(time) for time in requests], [f"{float(time):g} s" for time in requests])


def frames_numbered(path: str | os.PathLike[str], numbers: Sequence[int]) -> list[VideoFrame]:
    """The frames of some numbers, counted from 0 in the order in which they are shown.

    Numerics:
        Packets are counted without decoding them, so a video with a variable frame rate is counted rightly too. Frames
        that a container's edit list hides are counted, as `ffmpeg -ignore_editlist 1` does.
    """
    for number in numbers:
        if number < 0:
            raise ValueError(f"frame {number} is below 0")
    if not numbers:
        return []
    with _Video(Path(path), options={"ignore_editlist": "1"}) as video:
        shown = video.shown()
        if max(numbers) >= len(shown):
            raise VideoError(f"{path}: there is no frame {max(numbers)}, it has {len(shown)}")
        return video.at([shown[number] for number in numbers], [f"frame {number}" for number in numbers])


class _Video:
    """An open video with the times of its key frames; times are whole ticks of the stream's clock."""

    def __init__(self, path: Path, options: dict[str, str] | None = None) -> None:
        try:
            import av
        except ImportError as error:
            raise ImportError("videos need PyAV: pip install 'eqben-builder[video]'") from error
        if not path.is_file():
            raise FileNotFoundError(f"there is no video {path}")
        self.path, self._av = path, av
        # "ignore_editlist" is known to MP4 files only.
        options = options if path.suffix.lower() in (".mp4", ".mov", ".m4v") else None
        try:
            # FFmpeg takes a name that begins like a protocol, as a folder "http:" does, for an address.
            self.container = av.open(str(path.absolute()), options={**VIDEO_OPTIONS, **(options or {})})
        except (av.error.FFmpegError, OSError) as error:
            raise VideoError(f"{path} is no video that can be read: {error}") from error
        streams = self.container.streams.video
        if not streams:
            self.container.close()
            raise VideoError(f"{path} holds no video stream")
        self.stream = streams[0]
        self.base = self.stream.time_base or Fraction(1, 1000)
        self.start: int = self.stream.start_time or 0
        # Ticks of one frame.
        self.step = float(1 / ((self.stream.average_rate or Fraction(25)) * self.base))
        self._keys: list[int] | None = None

    def __enter__(self) -> _Video:
        return self

    def __exit__(self, *_: object) -> None:
        self.container.close()

    def ticks(self, time: Fraction) -> int:
        """The last tick at or before a time in seconds from the start."""
        return self.start + floor(time / self.base)

    def shown(self) -> list[int]:
        """Times of all frames in the order in which they are shown, and on the way those of the key frames."""
        times, keys = [], []
        for packet in self.container.demux(self.stream):
            if packet.pts is not None and packet.size:
                times.append(packet.pts)
                if packet.is_keyframe:
                    keys.append(times[-1])
        self._keys = sorted(keys)
        self.container.seek(0, stream=self.stream)
        return sorted(times)

    def keys(self) -> list[int]:
        """Times of the key frames, from the container's index where it has one."""
        if self._keys is None:
            # An index holds decoding times: no later than the time at which a key frame is shown.
            entries = list(self.stream.index_entries)
            if len(entries) > 1:
                self._keys = sorted(entry.timestamp for entry in entries if entry.is_keyframe)
            else:
                self.shown()
        assert self._keys is not None
        return self._keys

    def at(self, numbers: Sequence[int], names: Sequence[str]) -> list[VideoFrame]:
        """The frames on screen at some ticks."""
        order = sorted(range(len(numbers)), key=numbers.__getitem__)
        keys = self.keys()
        jump = self.step * (JUMP_FRAMES_REORDERED if self.stream.codec_context.has_b_frames else JUMP_FRAMES)
        pictures: dict[int, VideoFrame] = {}
        frames, now, ahead = self._frames(), None, None
        position: int = self.start
        for k in order:
            target = numbers[k]
            # The key frame to jump to begins no later than the frame that is wanted.
            index = bisect_right(keys, target) - 1
            key = keys[index] if index >= 0 else None
            if key is not None and key - position > jump:
                frames, ahead = self._jump(target, keys[:index])
                now, position = None, key
            while ahead is None or ahead.pts <= target:
                now = ahead or now
                try:
                    ahead = next(frames)
                except StopIteration:
                    ahead = None
                    break
                position = ahead.pts
            if ahead is None and now is not None and target >= self._end(now):
                shown = float((self._end(now) - self.start) * self.base)
                raise VideoError(f"{self.path} ends after {shown:.3f} s: it has no {names[k]}")
            shown_now = now if now is not None else ahead
            if shown_now is None:
                raise VideoError(f"{self.path} holds no frame that can be decoded at {names[k]}")
            pictures[k] = self._picture(shown_now)
        return [pictures[k] for k in range(len(numbers))]

    def _jump(self, target: int, earlier: Sequence[int]) -> tuple[Iterator[Any], Any]:
        """Go to a key frame at or before a time: what comes after it, and its frame.

        A container may seek by decoding time, and so land on a key frame that is shown later than the time.
        """
        for time in (target, *reversed(earlier)):
            self.container.seek(time, stream=self.stream, backward=True)
            frames = self._frames()
            first = next(frames, None)
            if first is not None and first.pts <= target:
                return frames, first
        self.container.seek(0, stream=self.stream)
        return self._frames(), None

    def _end(self, frame: Any) -> int:
        """When the last frame leaves the screen; half a frame is granted to rounded times."""
        return int(frame.pts + 1.5 * self.step)

    def _frames(self) -> Iterator[Any]:
        try:
            for frame in self.container.decode(self.stream):
                if frame.pts is not None:
                    yield frame
        except self._av.error.FFmpegError as error:
            raise VideoError(f"{self.path} breaks off: {error}") from error

    def _picture(self, frame: Any) -> VideoFrame:
        # What the camera's holder turned is turned back, as players and the ffmpeg command do.
        turns = round((getattr(frame, "rotation", 0) or 0) / 90)
        image = np.ascontiguousarray(np.rot90(frame.to_ndarray(format="rgb24"), turns), dtype=np.uint8)
        return VideoFrame(float((frame.pts - self.start) * self.base), image)
