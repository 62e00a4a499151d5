"""What a digest covers, when files are opened for it, and that what is remembered is never of another content."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import gate_data
from gate_data.pictures import Pictures, content_digest
from gate_data.readers import Stored
from gate_data.remembered import remember_in


def _count(folder: Path, cache: Path, now: float, answers: Any) -> None:
    """Answer how many images are opened at once, in training, and for the digest; and the digest."""
    opened: list[object] = []
    os.environ["GATE_RUNNER_CACHE"] = str(cache)
    gate_data.remembered._folder = gate_data.remembered._BY_DEFAULT  # whatever a test before has chosen
    gate_data.remembered.time.time = lambda: now  # type: ignore[attr-defined]
    sys.addaudithook(
        lambda event, values: opened.append(values[0]) if event == "open" and str(values[0]).endswith(".png") else None
    )
    splits = gate_data.load(folder, size=16)
    first = len(opened)
    assert len(splits.train[0]) == 2
    second = len(opened)
    digest = splits.digest
    answers.put([str(first), str(second - first), str(len(opened) - second), digest])


def counted(folder: Path, cache: Path, later: float = 60.0) -> list[str]:
    """What another process opens, which remembers nothing but by files: at once, in training, for the digest."""
    importlib.import_module("torch")  # in this process, once: each child would do so
    context: Any = multiprocessing.get_context("fork" if hasattr(os, "fork") else "spawn")
    answers = context.Queue()
    child = context.Process(target=_count, args=(folder, cache, time.time() + later, answers))
    child.start()
    try:
        answer: list[str] = answers.get(timeout=60)
        return answer
    finally:
        child.kill()
        child.join()


def photographs(folder: Path, each: int = 12) -> Path:
    for label in range(3):
        (folder / f"c{label}").mkdir(parents=True)
        for number in range(each):
            colour = (80 * label, 20 * number, 9)
            Image.new("RGB", (20, 16), colour).save(folder / f"c{label}" / f"{number}.png")
    return folder


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_load_opens_no_picture_and_a_digest_each_of_them_once(tmp_path: Path) -> None:
    folder, cache = photographs(tmp_path / "p"), tmp_path / "cache"
    *opened, digest = counted(folder, cache)
    assert opened == ["0", "1", "36"]
    assert counted(folder, cache) == ["0", "1", "0", digest]  # remembered by their sizes, times and inodes
    assert counted(folder, tmp_path / "another") == ["0", "1", "36", digest]
    changed = folder / "c1" / "3.png"
    about = changed.stat()
    raw = bytearray(changed.read_bytes())
    raw[-20] ^= 1
    changed.write_bytes(raw)
    os.utime(changed, ns=(about.st_atime_ns, about.st_mtime_ns))  # as `cp -p`, `rsync -t` and `tar -x` leave it
    *opened, now = counted(folder, cache)
    assert opened[:2] == ["0", "1"]
    assert int(opened[2]) > 0
    assert now != digest


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_new_files_and_a_home_that_cannot_be_written_are_hashed_each_time(tmp_path: Path) -> None:
    folder = photographs(tmp_path / "p")
    *opened, digest = counted(folder, tmp_path / "cache", later=0.0)  # they may change again within their time
    assert opened == ["0", "1", "36"]
    assert counted(folder, tmp_path / "cache", later=0.0)[2] == "36"
    (tmp_path / "file").touch()
    assert counted(folder, tmp_path / "file" / "cache") == ["0", "1", "36", digest]


def test_every_byte_of_a_large_file_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only three pieces of a large file were looked at: rows between them could be anything."""
    monkeypatch.setattr("gate_data.pictures._WHOLE", 10_000)
    monkeypatch.setattr("gate_data.pictures._PIECE", 4_096)
    path = tmp_path / "large"
    content = np.random.default_rng(0).integers(0, 256, 60_000, np.uint8)
    content.tofile(path)
    digests = {content_digest(str(path))}
    places = [0, 4_095, 4_096, 20_000, 29_999, 45_001, 59_999]
    for place in places:
        other = content.copy()
        other[place] ^= 1
        other.tofile(path)
        os.utime(path, ns=(10**18, 10**18))
        digests.add(content_digest(str(path)))
    assert len(digests) == 1 + len(places)


def test_rows_of_an_hdf5_file_count(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    remember_in(tmp_path / "contents")
    try:
        path = tmp_path / "a.h5"
        pictures = np.random.default_rng(0).integers(0, 256, (1_500, 150, 150, 3), np.uint8)  # 101 MB
        with h5py.File(path, "w") as file:
            file["x"] = pictures

        def digest() -> Any:
            shown = Pictures.of([Stored(str(path), "x", row) for row in range(0, 1_500, 100)], 150)
            return shown.contents

        before = digest()
        with h5py.File(path, "r+") as file:
            file["x"][300:500] = np.zeros((200, 150, 150, 3), np.uint8)
        assert all(now != earlier for now, earlier in zip(digest(), before, strict=True))
    finally:
        remember_in(None)


def test_maps_are_remembered_and_a_change_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gate_data.maps import Maps

    monkeypatch.setattr("gate_data.remembered.time.time", lambda: time.monotonic() + 4e9)
    remember_in(tmp_path / "contents")
    try:
        files = []
        for number in range(5):
            file = tmp_path / f"{number}.png"
            Image.new("L", (4, 4), number).save(file)
            files.append(str(file))
        first = Maps(tuple(files), 4, lambda *_: np.zeros((4, 4), np.int16)).contents
        monkeypatch.setattr("gate_data.pictures.content_digest", lambda file: pytest.fail(f"{file} is opened"))
        assert Maps(tuple(files), 4, lambda *_: np.zeros((4, 4), np.int16)).contents == first
        monkeypatch.setattr("gate_data.pictures.content_digest", content_digest)
        Image.new("L", (4, 4), 99).save(files[2])
        now = Maps(tuple(files), 4, lambda *_: np.zeros((4, 4), np.int16)).contents
        assert [index for index in range(5) if now[index] != first[index]] == [2]
    finally:
        remember_in(None)


def test_data_in_memory_have_a_digest_each() -> None:
    assert gate_data.load("digits", limit=20).digest != gate_data.load("digits", limit=21).digest


def test_files_that_are_missing_are_found_by_few_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gate_data.own.originals import not_there

    folder = photographs(tmp_path / "p")
    paths = sorted(str(path) for path in folder.rglob("*.png"))
    gone = [f"{folder}/c0/gone.png", f"{folder}/none/a.png", str(folder / "c1")]
    (folder / "c2" / "dangling.png").symlink_to(tmp_path / "nowhere")
    gone.append(f"{folder}/c2/dangling.png")
    questions: list[str] = []
    real = os.path.isfile
    monkeypatch.setattr("os.path.isfile", lambda path: questions.append(path) or real(path))
    assert not_there([*paths, *gone]) == gone
    assert questions == gone
    monkeypatch.chdir(folder / "c0")
    assert not_there([f"{number}.png" for number in range(13)]) == ["12.png"]
