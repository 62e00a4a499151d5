from __future__ import annotations

import struct

import numpy as np
import pytest

from eqben_builder.video.decode import VideoError, frames_at, frames_numbered

av = pytest.importorskip("av")

SIZE, RATE, FRAMES = (160, 48), 25, 180


def write_video(path, codec="mpeg4", interval=12, frames=FRAMES, b_frames=0, rate=RATE):
    """A video that shows its frame's number as eight black or white fields."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=rate)
        stream.width, stream.height, stream.pix_fmt, stream.gop_size = *SIZE, "yuv420p", interval
        stream.max_b_frames = b_frames
        for k in range(frames):
            image = np.zeros((SIZE[1], SIZE[0], 3), np.uint8)
            for bit in range(8):
                image[:, bit * 20 : (bit + 1) * 20] = 255 * (k >> bit & 1)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode())
    return path


def number(image):
    return sum(int(image[8:40, bit * 20 + 5 : bit * 20 + 15].mean() > 128) << bit for bit in range(8))


@pytest.fixture(scope="module")
def videos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("videos")
    kinds = {
        "plain.mp4": ("mpeg4", 12, 0),
        "long.mp4": ("mpeg4", 250, 0),
        "b.mp4": ("libx264", 30, 3),
        "b.mkv": ("libx264", 30, 2),
    }
    return {name: write_video(folder / name, *kind[:2], b_frames=kind[2]) for name, kind in kinds.items()}


@pytest.mark.parametrize("name", ["plain.mp4", "long.mp4", "b.mp4", "b.mkv"])
@pytest.mark.parametrize("count", [1, 2, 7, 40])
def test_frames_at_times_are_those_on_screen(videos, name, count):
    rng = np.random.default_rng(count)
    numbers = rng.integers(0, FRAMES, count)
    # Within a frame's time, not at its edges: containers round times to a millisecond.
    times = ((numbers + rng.uniform(0.1, 0.9, count)) / RATE).tolist()
    frames = frames_at(videos[name], times)
    assert [number(frame.image) for frame in frames] == numbers.tolist()
    assert frames[0].image.shape == (SIZE[1], SIZE[0], 3)
    for frame, k in zip(frames, numbers, strict=True):
        assert frame.time == pytest.approx(k / RATE, abs=2e-3)
    again = frames_numbered(videos[name], numbers.tolist())
    assert [number(frame.image) for frame in again] == numbers.tolist()
    assert all(np.array_equal(a.image, b.image) for a, b in zip(frames, again, strict=True))


def test_the_first_instant_the_last_frame_and_nothing(videos):
    (first,) = frames_at(videos["plain.mp4"], [0.0])
    assert (first.time, number(first.image)) == (0.0, 0)
    same = frames_at(videos["plain.mp4"], [1.0, 1.0])
    assert [number(frame.image) for frame in same] == [25, 25], "a time that is a frame's own begins with that frame"
    (last,) = frames_at(videos["b.mp4"], [FRAMES / RATE - 0.01])
    assert number(last.image) == FRAMES - 1
    assert frames_at(videos["plain.mp4"], []) == frames_numbered(videos["plain.mp4"], []) == []


def test_what_is_not_in_the_video_is_an_error(videos, tmp_path):
    path = videos["plain.mp4"]
    with pytest.raises(VideoError, match=r"plain\.mp4 ends after 7\.2.* it has no 9 s"):
        frames_at(path, [1.0, 9.0])
    with pytest.raises(VideoError, match="there is no frame 180, it has 180"):
        frames_numbered(path, [0, 180])
    with pytest.raises(ValueError, match=r"time -1\.0"):
        frames_at(path, [-1.0])
    with pytest.raises(ValueError, match="time nan"):
        frames_at(path, [float("nan")])
    with pytest.raises(ValueError, match="frame -1 is below 0"):
        frames_numbered(path, [-1])
    with pytest.raises(FileNotFoundError, match="there is no video"):
        frames_at(tmp_path / "absent.mp4", [0.0])
    (tmp_path / "text.mp4").write_text("no video")
    with pytest.raises(VideoError, match=r"text\.mp4 is no video"):
        frames_at(tmp_path / "text.mp4", [0.0])


@pytest.mark.parametrize("place", ["http:/127.0.0.1:9", "concat:a"])
def test_a_folder_that_is_called_like_an_address_is_a_folder(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    (tmp_path / place).mkdir(parents=True)
    write_video(tmp_path / place / "clip.mp4")
    assert number(frames_at(f"{place}/clip.mp4", [0.0])[0].image) == 0


def test_a_text_that_is_called_a_video_opens_no_other_file(tmp_path):
    write_video(tmp_path / "private.mp4")
    (tmp_path / "list.mp4").write_text("ffconcat version 1.0\nfile private.mp4\n")
    with pytest.raises(VideoError, match=r"list\.mp4 is no video"):
        frames_at(tmp_path / "list.mp4", [0.0])


def test_a_video_that_breaks_off_is_named(videos, tmp_path):
    content = videos["b.mkv"].read_bytes()
    broken = tmp_path / "broken.mkv"
    broken.write_bytes(content[: len(content) // 2])
    assert number(frames_at(broken, [0.5])[0].image) == 12
    with pytest.raises(VideoError, match=r"broken\.mkv (ends after|breaks off)"):
        frames_at(broken, [0.5, 7.0])
    with pytest.raises(VideoError, match="there is no frame 170"):
        frames_numbered(broken, [170])
    headless = tmp_path / "headless.mp4"
    headless.write_bytes(videos["plain.mp4"].read_bytes()[:3000])
    with pytest.raises(VideoError, match="is no video that can be read"):
        frames_at(headless, [0.5])


def test_a_sound_has_no_frames(tmp_path):
    path = tmp_path / "sound.wav"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("pcm_s16le", rate=8000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 800), np.int16), format="s16", layout="mono")
        frame.sample_rate = 8000
        container.mux(stream.encode(frame))
    with pytest.raises(VideoError, match="holds no video stream"):
        frames_at(path, [0.0])


def test_a_turned_video_is_turned_back(videos, tmp_path):
    """The matrix of a telephone held upright: what was recorded is shown a quarter turn clockwise."""
    content = bytearray(videos["plain.mp4"].read_bytes())
    matrix = content.index(b"tkhd") + 4 + 40
    content[matrix : matrix + 36] = struct.pack(">9i", 0, 0x10000, 0, -0x10000, 0, 0, 0, 0, 0x40000000)
    path = tmp_path / "turned.mp4"
    path.write_bytes(content)
    ((upright,), (turned,)) = (frames_at(video, [1.0]) for video in (videos["plain.mp4"], path))
    assert turned.image.shape == (SIZE[0], SIZE[1], 3)
    assert np.array_equal(turned.image, np.rot90(upright.image, -1))
