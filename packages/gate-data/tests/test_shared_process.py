"""What a library owes the process that it runs in: Pillow's guard, forked workers, and files that are replaced."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import threading
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import gate_data
from gate_data.errors import DataError
from gate_data.pictures import content_digest
from gate_data.readers import Stored, arrays
from gate_data.readers.arrays import stored_array
from gate_data.readers.decode import FORMATS, decode
from gate_data.readers.source import file_of
from wary_files import archives
from wary_files.archives import read


@pytest.mark.parametrize("ending", ["png", "jpg", "tif", "gif", "webp", "bmp", "ppm"])
def test_pillows_guard_stays_for_everybody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    """It was switched off for the whole process by the first image that was decoded."""
    path = tmp_path / f"a.{ending}"
    Image.new("RGB", (40, 30), (10, 200, 30)).save(path)
    before = Image.MAX_IMAGE_PIXELS
    assert before is not None
    seen: set[Any] = set()
    stop = threading.Event()

    def watch() -> None:
        while not stop.is_set():
            seen.add(Image.MAX_IMAGE_PIXELS)

    watcher = threading.Thread(target=watch)
    watcher.start()
    with ThreadPoolExecutor(4) as pool:
        assert {image.size for image in pool.map(decode, [str(path)] * 60)} == {(40, 30)}
    stop.set()
    watcher.join()
    assert seen == {before}
    monkeypatch.setenv("WARY_FILES_MAX_PIXELS", "1000")
    if ending == "jpg":
        assert decode(str(path)).size == (20, 15)  # at a fraction of its sides
    else:
        with pytest.raises(DataError, match=r"1,200 pixels, more than 1,000|has more than 1,000 pixels|than 1,000"):
            decode(str(path)) if ending != "tif" else _without_tiles(monkeypatch, path)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(Image.DecompressionBombError):
        Image.open(path)


def _without_tiles(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    monkeypatch.setitem(__import__("sys").modules, "tifffile", None)
    try:
        decode(str(path))
    except ValueError as error:
        raise DataError(str(error)) from error


def test_our_limit_may_lie_above_pillows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 500)  # 1,200 are more than twice of it: Pillow raises
    pixels = np.random.default_rng(0).integers(0, 256, (30, 40, 3), np.uint8)
    for ending in ("png", "bmp", "ppm"):
        Image.fromarray(pixels).save(tmp_path / f"a.{ending}")
        assert np.array_equal(np.asarray(decode(str(tmp_path / f"a.{ending}"))), pixels)
    tifffile = pytest.importorskip("tifffile")
    tifffile.imwrite(tmp_path / "a.tif", pixels, photometric="rgb")
    assert np.array_equal(np.asarray(decode(str(tmp_path / "a.tif"))), pixels)
    assert Image.MAX_IMAGE_PIXELS == 500
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10**6)
    Image.fromarray(pixels).save(tmp_path / "a.webp")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 500)
    with pytest.raises(DataError, match=r"a\.webp is larger than Pillow opens .* or as JPEG or TIFF"):
        decode(str(tmp_path / "a.webp"))


def test_a_file_that_is_no_picture_is_closed_and_told(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"no image at all, but long enough")
    (tmp_path / "b.png").write_bytes(b"")
    for name in ("a.png", "b.png"):
        with pytest.raises(DataError, match=f"it is none of {FORMATS[0]}"):
            decode(str(tmp_path / name))


def _in_child(read_it: Any, answers: Any) -> None:
    answers.put(read_it())


def forked(read_it: Any) -> Any:
    """What a forked process answers; fails where it hangs."""
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=_in_child, args=(read_it, answers))
    child.start()
    try:
        return answers.get(timeout=60)
    finally:
        child.kill()
        child.join()


@contextmanager
def held(lock: Any) -> Iterator[None]:
    """Within it, a thread holds a lock, as one does that reads."""
    holding, enough = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            holding.set()
            enough.wait(100)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert holding.wait(10)
        yield
    finally:
        enough.set()
        thread.join()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_workers_forked_while_a_thread_reads_do_not_hang(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "a.h5"
    values = np.random.default_rng(0).integers(0, 256, (40, 8, 8, 3), np.uint8)
    with h5py.File(path, "w") as file:
        file["x"] = values
    source = Stored(str(path), "x", 7)
    assert np.array_equal(stored_array(source), values[7])
    with held(arrays._LOCK):
        assert np.array_equal(forked(lambda: stored_array(source)), values[7])
    stop = threading.Event()

    def busy() -> None:
        row = 0
        while not stop.is_set():
            row = (row + 1) % 40
            assert np.array_equal(stored_array(Stored(str(path), "x", row)), values[row])

    thread = threading.Thread(target=busy)
    thread.start()
    try:
        for row in range(8):
            assert np.array_equal(forked(lambda row=row: stored_array(Stored(str(path), "x", row))), values[row])
    finally:
        stop.set()
        thread.join()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_nor_do_those_that_read_archives_or_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a", "content")
    with held(archives._LOCK):
        assert forked(lambda: read(tmp_path / "a.zip", "a")) == b"content"
    monkeypatch.setattr("gate_data.pictures._WHOLE", 3)
    with held(gate_data.pictures._HASHING):
        assert len(forked(lambda: content_digest(str(tmp_path / "a.zip")))) == 32


def replaced(path: Path, other: Path) -> None:
    """Another content under the same name, of equal size and time, as `cp -p`, `rsync -t` and `tar -x` leave it."""
    about = path.stat()
    assert about.st_size == other.stat().st_size
    path.write_bytes(other.read_bytes())
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))


def test_arrays_and_archives_that_are_replaced_are_read_again(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    for name, value in (("a", 3), ("b", 9)):
        with h5py.File(tmp_path / f"{name}.h5", "w", track_order=False) as file:
            file.create_dataset("x", data=np.full((4, 2, 2, 3), value, np.uint8), track_times=False)
        with zipfile.ZipFile(tmp_path / f"{name}.zip", "w") as archive:
            archive.writestr(zipfile.ZipInfo("member"), name * 20)
    path = str(tmp_path / "a.h5")
    assert stored_array(Stored(path, "x", 1)).max() == 3
    assert read(tmp_path / "a.zip", "member") == b"a" * 20
    for ending in ("h5", "zip"):
        replaced(tmp_path / f"a.{ending}", tmp_path / f"b.{ending}")
    assert stored_array(Stored(path, "x", 1)).max() == 9
    assert read(tmp_path / "a.zip", "member") == b"b" * 20


def test_what_datasets_saved_is_not_read_from_an_old_copy(tmp_path: Path) -> None:
    """The copy in the cache was known by names, sizes and times, which many tools keep."""
    datasets = pytest.importorskip("datasets")

    def save(folder: Path, swap: int) -> None:
        images = [Image.fromarray(np.full((8, 8, 3), 5 * number, np.uint8)) for number in range(40)]
        labels = [(number + swap) % 2 for number in range(40)]
        features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["a", "b"])})
        datasets.Dataset.from_dict({"image": images, "label": labels}, features=features).save_to_disk(str(folder))

    save(tmp_path / "d", 0)
    save(tmp_path / "other", 1)
    before = [int(item[1]) for item in gate_data.load(tmp_path / "d", size=8).train]
    for file in sorted((tmp_path / "d").rglob("*.arrow")):
        other = tmp_path / "other" / file.relative_to(tmp_path / "d")
        if file.stat().st_size != other.stat().st_size:
            pytest.skip("the two files are not of one size")
        replaced(file, other)
    splits = gate_data.load(tmp_path / "d", size=8)
    now = {int(image[0, 0, 0]) // 5: int(label) for image, label in splits.train}
    assert before
    assert all(label == (number + 1) % 2 for number, label in now.items())


def test_pcams_labels_are_read_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    h5py = pytest.importorskip("h5py")
    for name in ("train", "test"):
        for key, values in (("x", np.zeros((50, 6, 6, 3), np.uint8)), ("y", np.arange(50).reshape(50, 1, 1, 1) % 2)):
            with h5py.File(tmp_path / f"camelyonpatch_level_2_split_{name}_{key}.h5", "w") as file:
                file[key] = values.astype(np.uint8)
    monkeypatch.setattr("gate_data.readers.arrays.stored_array", lambda source: pytest.fail(f"{file_of(source)}"))
    splits = gate_data.load("patch-camelyon", tmp_path, size=6)
    assert sum(int(part.split.targets.sum()) for part in splits) == 50
    shutil.copy(
        tmp_path / "camelyonpatch_level_2_split_train_x.h5", tmp_path / "camelyonpatch_level_2_split_train_y.h5"
    )
    with pytest.raises(DataError, match="no array 'y'"):
        gate_data.load("patch-camelyon", tmp_path, size=6)
