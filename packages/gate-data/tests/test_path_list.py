"""A million paths in one piece: the same paths, and no worker copies them."""

from __future__ import annotations

import multiprocessing
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate_data.path_list import PathList, Stills, packed
from gate_data.pictures import Pictures
from gate_data.readers import Cut, Member, Stored


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=20), st.data())
def test_packed_paths_are_the_same_paths(paths: list[str], data: st.DataObject) -> None:
    for files in (tuple(paths), tuple((path,) for path in paths)):
        held = packed(files)
        assert isinstance(held, PathList | Stills)
        assert tuple(held) == files == tuple(held[at] for at in range(len(files)))
        assert held == files
        assert held[-1] == files[-1]
        index = data.draw(st.lists(st.integers(0, len(paths) - 1), max_size=30))
        assert tuple(held.take(index)) == tuple(files[at] for at in index)
        assert tuple(held[1:4]) == files[1:4]
        assert pickle.loads(pickle.dumps(held)) == held
        with pytest.raises(IndexError):
            held[len(files)]


def test_names_that_are_not_utf_8_and_other_sources_stay(tmp_path: Path) -> None:
    odd = b"caf\xe9.png".decode("utf-8", "surrogateescape")
    assert packed((odd,))[0] == odd
    for source in (Member("a.zip", "b"), Stored("a.h5", "x", 1), Cut("a.png", (0, 0, 1, 1))):
        files = ((source,), ("a.png",))
        assert Pictures(files, 8).files is files  # type: ignore[arg-type]
    two = (("a.png", "b.png"),)
    assert Pictures(two, 8, video=True).files is two
    assert isinstance(Pictures.of(["a.png"], 8).take([0]).files, Stills)


def _dirty_after(images: Any, answers: Any) -> None:
    def dirty() -> int:
        lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("Private_Dirty"))

    before = dirty()
    total = sum(len(images.files[at][0]) for at in range(0, len(images), 3))
    answers.put((total, dirty() - before))


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="Linux counts a process's own pages")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_no_worker_copies_the_paths() -> None:
    """As tuples of text, 130,000 took 21 MB, and each forked worker wrote to all of it by counting references."""
    count = 130_000
    names = [f"/data/imagenet/train/n{at % 1000:08d}/n{at % 1000:08d}_{at}.JPEG" for at in range(count)]
    images = Pictures.of(names, 8)
    files = images.files
    assert isinstance(files, Stills)
    assert len(files.blob) + files.ends.nbytes < 12e6  # so that 1.3 million take less than 120 MB
    del names
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    worker = context.Process(target=_dirty_after, args=(images, answers))
    worker.start()
    total, written = answers.get(timeout=60)
    worker.join()
    assert total > 2_000_000
    assert written < 2_000  # kB, of what the loop itself makes
    assert np.all(np.diff(files.ends) > 0)
