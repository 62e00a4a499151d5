"""Features of a part: in memory, on disk under a cap, or made again, and what becomes of a full disk."""

from __future__ import annotations

import errno
import io
import os
import pickle
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from gate_data.pictures import Pictures
from gate_data.remembered import Listing, remember_in
from vision_adapters.training import Scale
from vision_features.encoders import load_encoder
from vision_features.encoders.encoder import Encoder
from vision_features.features import FeatureCache, IndexedRows, digests_of, encode_pictures, segments
from vision_features.features.segments import make_room
from vision_features.features.unfinished import alone
from wary_files.errors import DataError, UsageError

Cold = Callable[[], Path]


def test_a_full_disk_is_said_and_done_without_where_memory_has_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 0})())
    features = FeatureCache(tmp_path / "encoder").rows("test", "text", TEXTS, 4, encode)
    assert torch.equal(features[:], encode(torch.arange(10)))
    assert "features of test are kept in memory alone: no room for" in caplog.text
    rows = FeatureCache(tmp_path / "encoder", in_memory=0).rows("test", "text", TEXTS, 4, encode)
    assert "features of test are encoded again whenever they are needed: no room for" in caplog.text
    assert torch.equal(rows[torch.tensor([7, 2])], encode(torch.tensor([7, 2])))
    assert not list((tmp_path / "encoder").rglob("*.npy"))


def test_other_code_behind_the_same_weights_has_rows_of_its_own(cold_cache: Cold) -> None:
    encoder = load_encoder("micro-clip")
    features = FeatureCache.of(encoder, encoder.fingerprint())
    encoder.outputs = {**encoder.outputs, "image": [-value for value in encoder.outputs["image"]]}
    other = FeatureCache.of(encoder, encoder.fingerprint())
    assert features.folder != other.folder
    encoder.std = (0.5, 0.5, 0.5)
    assert FeatureCache.of(encoder, encoder.fingerprint()).folder not in (features.folder, other.folder)


@pytest.mark.parametrize("card", [None, "{", '{"outputs": 3}'])
def test_rows_whose_encoder_cannot_be_told_are_not_taken(cold_cache: Cold, card: str | None) -> None:
    encoder = load_encoder("micro-clip/random", device="cpu")
    first = FeatureCache.of(encoder, "weights")
    assert first.folder is not None
    first.rows("a", "pictures", digests_of(torch.zeros(1, 3)), 4, lambda rows: torch.ones(len(rows), 2))
    about = first.folder / "encoder.json"
    if card is None:
        about.unlink()
    else:
        about.write_text(card)
    second = FeatureCache.of(encoder, "weights")
    assert second.folder == first.folder.with_name(f"{first.folder.name}-1")
    rows = second.rows("a", "pictures", digests_of(torch.zeros(1, 3)), 4, lambda rows: torch.zeros(len(rows), 2))
    assert not rows[:].any()


def test_digests_of_segments_are_read_once_in_a_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache_of_one = FeatureCache(tmp_path / "encoder")
    for number in range(20):
        cache_of_one.rows("a", "pictures", digests_of(torch.full((3, 2), float(number))), 4, encode)
    files: list[str] = []
    read = segments._plainly_read
    monkeypatch.setattr(segments, "_plainly_read", lambda file: files.append(file) or read(file))
    monkeypatch.setattr(segments, "_READ", {})
    for _ in range(3):
        rows = cache_of_one.rows("a", "pictures", digests_of(torch.full((3, 2), 7.0)), 4, encode)
        assert len(rows) == 3
    assert len(set(files)) == 20
    assert len(files) == 22  # the segment that was used has a new time
    assert segments._plainly_read(files[0]) is not None  # as NumPy writes it, with no header to be parsed
    np.save(files[0], np.zeros(3))
    with pytest.raises(ValueError, match="expected digests"):
        segments._digests_of(files[0])


def encode(rows: torch.Tensor) -> torch.Tensor:
    return rows[:, None] * torch.ones(3)


TEXTS = digests_of([f"text {number}" for number in range(10)])


def test_rows_of_several_segments_come_in_the_order_asked_for(tmp_path: Path) -> None:
    odd = FeatureCache(tmp_path / "encoder").rows("odd", "text", TEXTS[1::2], 2, lambda rows: encode(2 * rows + 1))
    assert torch.equal(odd[:], encode(torch.arange(1, 10, 2)))
    order = torch.tensor([9, 0, 3, 3, 4])
    for in_memory in (10_000, 0):
        features = FeatureCache(tmp_path / "encoder", in_memory=in_memory)
        rows = features.rows("some", "text", TEXTS[order.numpy()], 2, lambda numbers: encode(order[numbers]))
        assert torch.equal(rows[:], encode(order))
        assert torch.equal(rows[torch.tensor([4, 2])], encode(order[[4, 2]]))
        assert torch.equal(rows[1:4], encode(order[1:4]))
        assert features.placed == {"some": "memory" if in_memory else "disk"}
    assert features.encoded["text"] == 0


@pytest.mark.parametrize("order", [[0, 1, 2], [0, 1, 2, 3, 4], [1, 0, 2, 3, 4]])
def test_rows_of_one_file_are_those_asked_for_and_counted(order: list[int], tmp_path: Path) -> None:
    first = FeatureCache(tmp_path / "encoder")
    first.rows("all", "text", TEXTS[:5], 2, encode)
    assert (first.encoded["text"], first.reused["text"]) == (5, 0)
    for in_memory in (10_000, 0):
        features = FeatureCache(tmp_path / "encoder", in_memory=in_memory)
        rows = features.rows("part", "text", TEXTS[order], 2, encode)
        assert torch.equal(rows[:], encode(torch.tensor(order)))
        assert (features.encoded["text"], features.reused["text"]) == (0, len(order))
    features.rows("more", "text", TEXTS[:8], 2, encode)
    assert (features.encoded["text"], features.reused["text"]) == (3, len(order) + 5)


def test_memory_is_given_until_none_is_left(tmp_path: Path) -> None:
    features = FeatureCache(tmp_path / "encoder", in_memory=100)
    for name, texts in (("a", TEXTS[:5]), ("b", TEXTS[5:])):  # 60 bytes each
        features.rows(name, "text", texts, 2, encode)
    assert features.placed == {"a": "memory", "b": "disk"}


def test_what_was_not_used_longest_makes_room(tmp_path: Path) -> None:
    features = FeatureCache(tmp_path / "encoder", cap=870)  # 536 and 284 bytes with headers and digests, and 60 more
    features.rows("a", "a", TEXTS, 5, encode)
    features.rows("b", "b", TEXTS[:1], 5, encode)
    for second, kind in enumerate("ab"):
        (file,) = (tmp_path / "encoder" / kind).glob("*.digests.npy")
        os.utime(file, (second, second))
    features.rows("c", "c", TEXTS[:5], 5, encode)
    assert not list((tmp_path / "encoder" / "a").glob("*.npy"))
    assert list((tmp_path / "encoder" / "b").glob("*.npy"))


def test_rows_that_make_room_while_they_are_taken_are_still_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    FeatureCache(tmp_path / "encoder").rows("t", "text", TEXTS, 5, encode)
    touched = os.utime

    def another_process_makes_room(path: str) -> None:
        Path(path).unlink()
        touched(path)

    monkeypatch.setattr("vision_features.features.segments.os.utime", another_process_makes_room)
    rows = FeatureCache(tmp_path / "encoder").rows("t", "text", TEXTS, 5, encode)
    assert torch.equal(rows[:], encode(torch.arange(len(TEXTS))))


WRITERS = """
import os, signal, sys, time
from pathlib import Path
import torch
from vision_features.features import FeatureCache, digests_of

def encode(rows):
    with open(sys.argv[2], "a") as log:
        log.write(f"{len(rows)}\\n")
    time.sleep(0.05)
    return rows[:, None] * torch.ones(3)

def write():
    rows = FeatureCache(Path(sys.argv[1])).rows("t", "text", digests_of([f"text {n}" for n in range(40)]), 4, encode)
    return torch.equal(rows[:], torch.arange(40)[:, None] * torch.ones(3))

def start():
    pid = os.fork()
    if pid:
        return pid
    ended = 1
    try:
        ended = 0 if write() else 2
    finally:
        os._exit(ended)

def ended(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def encoded():
    return len(log.read_text().splitlines()) if log.exists() else 0

log, end = Path(sys.argv[2]), time.monotonic() + 60
killed = start()
while encoded() < 4 and time.monotonic() < end:
    time.sleep(0.01)
os.kill(killed, signal.SIGKILL)
print(ended(killed), encoded())
print(*[ended(pid) for pid in [start() for _ in range(3)]], encoded())
"""


def test_writers_at_once_encode_each_row_once_and_a_killed_one_is_continued(tmp_path: Path) -> None:
    """In a process that imports torch once and then forks one for each writer."""
    command = [sys.executable, "-W", "ignore", "-c", WRITERS, str(tmp_path / "encoder"), str(tmp_path / "log")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (killed, begun), (*ends, encoded) = (map(int, line.split()) for line in done.stdout.splitlines())
    assert (killed, begun < 10) == (-9, True)
    assert ends == [0, 0, 0], done.stderr
    assert encoded <= 11  # ten batches, and the one that was under way at the kill


@pytest.mark.parametrize("masked", [False, True])
def test_the_scale_in_parts_is_that_of_the_whole(monkeypatch: pytest.MonkeyPatch, masked: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    rows = 1e3 + 5 * torch.randn(50, 4, 3, generator=generator)
    mask = torch.rand(50, 4, generator=generator) < 0.6 if masked else None
    flat = (rows[mask] if masked else rows.reshape(-1, 3)).double()
    monkeypatch.setattr("vision_adapters.training.scale._CHUNK", 12 * 7)
    parts = Scale.of(IndexedRows(rows, torch.arange(50)), mask)
    torch.testing.assert_close(parts.mean.double(), flat.mean(0), rtol=1e-7, atol=0)
    torch.testing.assert_close(parts.std.double(), flat.std(0, correction=0), rtol=1e-6, atol=0)
    torch.testing.assert_close(Scale.of(rows, mask).mean.double(), flat.mean(0), rtol=1e-6, atol=0)


@pytest.mark.parametrize("text", ["memory", "disk"])
def test_features_change_their_type_only_without_loss(tmp_path: Path, text: str) -> None:
    """An encoder's later batch in float64 was written into float32 rows as raw bytes."""
    features = FeatureCache(tmp_path / "f" if text == "disk" else None, in_memory=0)
    types = {0: torch.float32, 2: torch.float16, 4: torch.float64}
    half = features.rows("a", "a", TEXTS[:4], 2, lambda rows: torch.ones(len(rows), 3, dtype=types[int(rows[0])]))
    assert torch.equal(half[:], torch.ones(4, 3))
    with pytest.raises(DataError, match=r"features b: the encoder gave torch.float64 after torch.float32"):
        features.rows("b", "b", TEXTS[:6], 2, lambda rows: torch.ones(len(rows), 3, dtype=types[int(rows[0])]))


def pictures(folder: Path, count: int) -> Pictures:
    """Files of last year, each of one grey, the last one a copy of the first."""
    folder.mkdir()
    files = [folder / f"{number}.png" for number in range(count)]
    for number, file in enumerate(files):
        Image.new("RGB", (24, 16), (number % (count - 1),) * 3).save(file)
        os.utime(file, (1e9, 1e9))
    return Pictures.of(files, side=8)


class Greys:
    """An encoder of an image's mean value, which notes how many it saw."""

    def __init__(self, stop: int | None = None) -> None:
        self.images_seen, self.stop = 0, stop
        self.encoder = Encoder("greys", 8, self.image, mean=(0, 0, 0), std=(1, 1, 1))

    def image(self, images: torch.Tensor) -> torch.Tensor:
        if self.stop is not None and self.images_seen >= self.stop:
            raise KeyboardInterrupt
        self.images_seen += len(images)
        return images.mean(dim=(2, 3)) * 255


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The files whose bytes are read, and a place that remembers what they hold."""
    names: list[str] = []

    def noting(file: Any) -> bytes:
        names.append(str(file))
        return Path(file).read_bytes()

    monkeypatch.setattr("gate_data.pictures.read_bytes", noting)
    monkeypatch.setattr("gate_data.remembered.time.time", lambda: time.monotonic() + 4e9)  # no file is new
    yield names
    remember_in(None)


def test_a_file_is_read_once_and_not_at_all_the_next_time(tmp_path: Path, opened: list[str]) -> None:
    remember_in(tmp_path / "contents")
    shown, greys = pictures(tmp_path / "pictures", 10), Greys()
    features = FeatureCache(tmp_path / "encoder")
    rows = encode_pictures(features, greys.encoder, shown, "pooled", "test", 4)
    wanted = torch.tensor([*range(9), 0])[:, None].expand(10, 3).float()
    torch.testing.assert_close(rows[:], wanted, rtol=0, atol=1e-4)
    assert (sorted(opened), greys.images_seen) == (sorted(str(file) for (file,) in shown.files), 9)
    assert shown.contents == replace(shown).contents
    assert len(opened) == 10
    again = encode_pictures(FeatureCache(tmp_path / "encoder"), greys.encoder, replace(shown), "pooled", "test", 4)
    assert torch.equal(again[:], rows[:])
    assert (len(opened), greys.images_seen) == (10, 9)


@pytest.mark.parametrize("spoil", ["cut", "other bytes", "gone"])
def test_what_was_remembered_and_is_spoilt_is_read_anew(tmp_path: Path, opened: list[str], spoil: str) -> None:
    remember_in(tmp_path / "contents")
    shown = pictures(tmp_path / "pictures", 5)
    before = shown.contents
    (path,) = (tmp_path / "contents").iterdir()
    content = path.read_bytes()
    if spoil == "gone":
        path.unlink()
    else:
        path.write_bytes(content[:-7] if spoil == "cut" else content[:3] + b"x" + content[4:])
    assert replace(shown).contents == before
    assert len(opened) == 10
    Image.new("RGB", (24, 16), (99,) * 3).save(shown.files[2][0])
    now = replace(shown).contents
    assert [index for index in range(5) if now[index] != before[index]] == [2]


def test_an_interrupted_first_reading_keeps_what_was_encoded(tmp_path: Path, opened: list[str]) -> None:
    shown, folder = pictures(tmp_path / "pictures", 41), tmp_path / "encoder"
    stopped = Greys(stop=24)
    with pytest.raises(KeyboardInterrupt):
        encode_pictures(FeatureCache(folder), stopped.encoder, shown, "pooled", "test", 4)
    rest = Greys()
    rows = encode_pictures(FeatureCache(folder), rest.encoder, replace(shown), "pooled", "test", 4)
    assert (stopped.images_seen, rest.images_seen) == (24, 16)
    expected = torch.tensor([*range(40), 0])[:, None].expand(41, 3).float()
    torch.testing.assert_close(rows[:], expected, rtol=0, atol=1e-4)
    assert not list(folder.rglob("*.part"))


def test_a_segment_whose_file_was_cut_is_made_anew(tmp_path: Path, opened: list[str]) -> None:
    shown, greys = pictures(tmp_path / "pictures", 6), Greys()
    whole = encode_pictures(FeatureCache(tmp_path / "encoder"), greys.encoder, shown, "pooled", "test", 4)[:]
    (rows,) = [file for file in tmp_path.rglob("*.npy") if "digests" not in file.name]
    rows.write_bytes(rows.read_bytes()[:-5])
    again = encode_pictures(FeatureCache(tmp_path / "encoder"), greys.encoder, shown, "pooled", "test", 4)[:]
    assert torch.equal(again, whole)
    assert greys.images_seen == 10


def test_files_that_are_too_new_to_be_remembered_are_hashed_again_and_encoded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gate_data.pictures.listing_mark", lambda samples: Listing(b"names, sizes and times", False))
    shown, greys = pictures(tmp_path / "pictures", 10), Greys()

    def encoded() -> torch.Tensor:
        return encode_pictures(FeatureCache(tmp_path / "e"), greys.encoder, replace(shown), "pooled", "test", 4)[:]

    first = encoded()
    assert torch.equal(encoded(), first)
    assert greys.images_seen == 9
    Image.new("RGB", (24, 16), (99,) * 3).save(shown.files[2][0])  # within the grain of the clock
    assert encoded()[:, 0].round().tolist() == [0, 1, 99, *range(3, 9), 0]
    assert greys.images_seen == 10


def test_a_picture_that_cannot_be_read_ahead_is_one_line_with_its_name(tmp_path: Path) -> None:
    shown = pictures(tmp_path / "pictures", 30)
    Path(str(shown.files[17][0])).write_bytes(b"no image")
    with pytest.raises(DataError, match=r"17\.png cannot be read as an image"):
        encode_pictures(FeatureCache(tmp_path / "encoder"), Greys().encoder, shown, "pooled", "test", 4)


def segment(cache_at: Path) -> tuple[Path, Path, Path]:
    """The rows of a segment, their digests, and what a writer noted."""
    FeatureCache(cache_at / "encoder").rows("t", "text", TEXTS, 5, encode)
    (digests,) = cache_at.rglob("*.digests.npy")
    rows = digests.with_name(digests.name.replace(".digests.npy", ".npy"))
    return rows, digests, rows.with_suffix(".part")


def saved(array: np.ndarray[Any, Any], **options: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


def claiming(descr: str, shape: tuple[int, ...]) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})
    return file.getvalue()


ODD_DIGESTS = {
    "one": saved(np.array(b"x")),
    "a table": saved(np.zeros((2, 5), "S16")),
    "texts": saved(np.array(["é"] * 10)),
    "pairs": saved(np.zeros(10, [("a", "S8"), ("b", "S8")])),
    "146 TiB": claiming("|S16", (10**13,)),
    "fewer than none": claiming("|S16", (-5,)),
    "nothing": b"",
    "a torn header": claiming("|S16", (10,)).replace(b"}", b"{"),
    "a pickle": pickle.dumps([b"x"] * 10),
    "objects": saved(np.array([b"x"] * 10, object), allow_pickle=True),
    "an archive": b"PK\3\4" + bytes(40),
}


ODD_ROWS = {
    "a number": saved(np.float32(3)),
    "nothing": b"",
    "a torn header": claiming("<f4", (10, 3)).replace(b"}", b"{"),
    "fewer than none": claiming("<f4", (-10, 3)),
    "terabytes": claiming("<f4", (10, 10**12)),
    "an archive": b"PK\3\4" + bytes(40),
    "a pickle": pickle.dumps([1.0] * 10),
}


@pytest.mark.parametrize(
    ("file", "content"),
    [
        *(pytest.param(1, content, id=f"digests: {odd}") for odd, content in ODD_DIGESTS.items()),
        *(pytest.param(0, content, id=f"rows: {odd}") for odd, content in ODD_ROWS.items()),
    ],
)
def test_a_segment_with_an_odd_file_is_made_anew(tmp_path: Path, file: int, content: bytes) -> None:
    segment(tmp_path)[file].write_bytes(content)
    rows = FeatureCache(tmp_path / "encoder").rows("t", "text", TEXTS, 5, encode)
    assert torch.equal(rows[:], encode(torch.arange(10)))


def test_whole_rows_of_no_numbers_are_made_anew(tmp_path: Path) -> None:
    """Their checksum is right and they cannot be read, which once went round without end."""
    path, _, _ = segment(tmp_path)
    odd = np.zeros((10, 3), np.complex64)
    path.write_bytes(saved(odd))
    path.with_name(f"{path.name}.done").write_text(f"{path.stem} 10 (3,) complex64\n10 {zlib.crc32(odd.tobytes())}\n")
    rows = FeatureCache(tmp_path / "encoder").rows("t", "text", TEXTS, 5, encode)
    assert torch.equal(rows[:], encode(torch.arange(10)))


@pytest.mark.parametrize("name", ["rows", "digests", "done", "part"])
@pytest.mark.parametrize("how", ["link", "pipe"])
def test_nothing_is_written_or_waited_for_through_a_segments_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, how: str
) -> None:
    monkeypatch.setattr("vision_features.features.segments._SOUND", {})  # as in a new process
    path, digests, part = segment(tmp_path)
    target = tmp_path / "letter.txt"
    target.write_text("to keep " * 30)
    odd = {"rows": path, "digests": digests, "done": path.with_name(f"{path.name}.done"), "part": part}[name]
    odd.unlink(missing_ok=True)
    if how == "link":
        odd.symlink_to(target)
    else:
        os.mkfifo(odd)
    if name == "part":  # which is looked at where rows are unfinished, and written where they are damaged
        if how == "link":
            path.write_bytes(path.read_bytes()[:-5])
        else:
            digests.unlink()
    rows = FeatureCache(tmp_path / "encoder").rows("t", "text", TEXTS, 5, encode)
    assert torch.equal(rows[:], encode(torch.arange(10)))
    assert target.read_text() == "to keep " * 30


def interrupted(folder: Path, texts: slice, size: int, batches: int, **options: Any) -> FeatureCache:
    """A writer that is stopped after some batches, as Ctrl-C does it."""
    digests, calls = TEXTS[texts], 0

    def stopping(numbers: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        if calls > batches:
            raise KeyboardInterrupt
        return encode(torch.arange(10)[texts][numbers])

    features = FeatureCache(folder, **options)
    with pytest.raises(KeyboardInterrupt):
        features.rows("t", "text", digests, size, stopping)
    return features


def occupied(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def test_interrupted_writers_with_other_batches_go_on_and_leave_nothing(tmp_path: Path) -> None:
    """Each began a file of its own in full size, which was neither counted nor removed."""
    for size in (4, 3, 2):
        interrupted(tmp_path / "encoder", slice(10), size, 1)
    once = FeatureCache(tmp_path / "once")
    once.rows("t", "text", TEXTS, 5, encode)
    assert len(list(tmp_path.glob("encoder/text/*.npy"))) == 1
    features = FeatureCache(tmp_path / "encoder", in_memory=0)
    rows = features.rows("t", "text", TEXTS, 5, encode)
    assert torch.equal(rows[:], encode(torch.arange(10)))
    assert features.encoded["text"] == 10 - 4 - 3 - 2
    assert occupied(tmp_path / "encoder") - occupied(tmp_path / "once") < 100  # lines of the list of batches


def test_rows_of_a_writer_that_nobody_continues_are_taken_over(tmp_path: Path) -> None:
    interrupted(tmp_path / "encoder", slice(0, 8), 2, 2)
    features = FeatureCache(tmp_path / "encoder", in_memory=0)
    rows = features.rows("t", "text", TEXTS[:6], 3, encode)  # others are asked for: another segment
    assert torch.equal(rows[:], encode(torch.arange(6)))
    assert features.encoded["text"] == 2
    assert {file.suffixes[-1] for file in tmp_path.rglob("*.*")} == {".npy", ".done"}


def test_unfinished_segments_count_under_the_cap_and_make_room(tmp_path: Path) -> None:
    interrupted(tmp_path / "left", slice(10), 2, 1)
    before = occupied(tmp_path)
    with store_alone(tmp_path / "left" / "text"):
        assert not make_room(tmp_path, before - 1)  # somebody writes it now
        assert occupied(tmp_path) == before
    features = FeatureCache(tmp_path / "encoder", cap=before)
    features.rows("t", "text", TEXTS, 5, encode)
    assert features.placed == {"t": "memory"}
    assert not list((tmp_path / "left").rglob("*.*"))
    assert occupied(tmp_path / "encoder") > 0


def store_alone(folder: Path) -> Any:
    (file,) = folder.glob("*.npy")
    return alone(folder, file.stem)


def test_requests_that_cannot_be_are_refused_before_anything_is_encoded() -> None:
    """An unknown kind gave features of places, a batch size of 0 that of 1, and arrays an AttributeError."""
    encoder, images = load_encoder("micro-clip/random"), torch.zeros(2, 3, 64, 64, dtype=torch.uint8)
    for given, kind, size, words in (
        (images, "pooledd", 2, "unknown kind of features 'pooledd', expected pooled, backbone, "),
        (images, "tokens:0", 2, "unknown kind of features 'tokens:0'"),
        (images, "pooled", 0, "batch_size must be at least 1, not 0"),
        (images.numpy(), "pooled", 2, r"images are a numpy\.ndarray, expected a torch\.Tensor"),
    ):
        with pytest.raises(UsageError, match=words):
            encode_pictures(FeatureCache(), encoder, given, kind, "test", size)  # type: ignore[arg-type]
