"""torchcodec, where it is installed and finds FFmpeg's libraries, shows the frames that PyAV shows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gate_data.errors import DataError
from gate_data.readers import clips
from gate_data.readers.clips import read_clip, torchcodec
from gate_data.readers.source import Clip

av = pytest.importorskip("av")
needed = pytest.mark.skipif(torchcodec() is None, reason="torchcodec is not installed, or finds no FFmpeg")


def frames(clip: Clip) -> np.ndarray:
    return np.stack([np.asarray(frame).astype(int) for frame in read_clip(clip)])


def numbered(path: Path, count: int = 40) -> Path:
    """A video whose frames have the grey value of their number, times six."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=10)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for number in range(count):
            picture = np.full((48, 64, 3), 6 * number, dtype=np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture)))
        container.mux(stream.encode())
    return path


@needed
def test_the_frames_are_those_in_the_middles_of_the_parts(tmp_path: Path) -> None:
    found = frames(Clip(str(numbered(tmp_path / "a.mp4")))).mean(axis=(1, 2, 3)) / 6
    assert np.abs(found - [2, 7, 12, 17, 22, 27, 32, 37]).max() < 0.9


@needed
@pytest.mark.parametrize(
    ("name", "most"), [("demo.mp4", 0.0), ("part_0.mp4", 0.0), ("test.mp4", 0.0), ("test.avi", 6.0)]
)
def test_real_videos_look_alike(name: str, most: float, shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clip = Clip(str(shared_data / "samples" / "video" / name))
    ours = frames(clip)
    monkeypatch.setattr(clips, "torchcodec", lambda: None)
    theirs = frames(clip)
    assert ours.shape == theirs.shape
    # of the AVI's eight frames four are a neighbour: the two libraries give its frames' times differently
    assert np.abs(ours - theirs).mean(axis=(1, 2, 3)).max() <= most


@needed
def test_a_damaged_video_is_one_line(tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mp4")
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(DataError, match=r"a\.mp4 cannot be decoded: ") as caught:
        read_clip(Clip(str(path)))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("there", [False, True])
def test_the_one_that_is_there_is_used(there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = numbered(tmp_path / "a.mp4", 8)
    asked: list[str] = []

    class Refusing:
        def __init__(self, source: str, **options: object) -> None:
            asked.append(source)
            raise RuntimeError("no such codec\nat frame 0")

    chosen: Callable[[], type | None] = lambda: Refusing if there else None  # noqa: E731
    monkeypatch.setattr(clips, "torchcodec", chosen)
    if there:
        with pytest.raises(DataError, match=r"a\.mp4 cannot be decoded: no such codec$"):
            read_clip(Clip(str(path)))
        assert asked == [str(path)]
    else:
        assert len(read_clip(Clip(str(path), 4))) == 4
