"""Pickles give plain values or an error, whatever they ask for."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from wary_files import pickles


class Evil:
    def __reduce__(self) -> object:
        return (os.system, ("touch harm",))


@pytest.mark.parametrize("protocol", range(6))
def test_plain_values_are_read_and_nothing_runs(protocol: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    value = {"data": np.arange(6, dtype=np.float32).reshape(2, 3), b"labels": [1, 2], "size": (480, 270), "score": 0.5}
    loaded = pickles.load(pickle.dumps(value, protocol), "a.pkl")
    assert np.array_equal(loaded["data"], value["data"])
    assert (loaded["size"], loaded["score"]) == ((480, 270), 0.5)
    with pytest.raises(ValueError, match=r"evil\.pkl is no pickle of arrays: it asks for (posix|nt)\.system"):
        pickles.load(pickle.dumps([Evil()], protocol), "evil.pkl")
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize(
    "content",
    [
        b"cnumpy\ndtype\n.",  # a maker as the value
        b"(lcnumpy\ndtype\na.",  # or in it
        b"cnumpy\ndtype\n(Vf4\nI0\nI1\ntR.",  # a dtype in the making
        b"(lp0\n)\x85a.",  # a tuple in a tuple
    ],
)
def test_what_makes_values_is_no_value(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"a\.pkl is no pickle of arrays"):
        pickles.load(content, "a.pkl")


def test_a_list_in_itself_and_lists_without_end_are_walked_once() -> None:
    value: list[object] = []
    value.append(value)
    for _ in range(60):
        value = [value, value]
    assert len(pickles.load(pickle.dumps(value), "a.pkl")) == 2


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12, dtype=np.float32).reshape(3, 4),
        np.asfortranarray(np.arange(12, dtype=np.int64).reshape(3, 4)),
        np.arange(6).reshape(2, 3) % 2 == 0,
        np.arange(3, dtype=">f8"),
        np.zeros((0, 4)),
    ],
)
def test_arrays_that_joblib_wrote(array: np.ndarray, tmp_path: Path) -> None:
    joblib = pytest.importorskip("joblib")
    joblib.dump({"scores": array, "names": ["a", "b"], "again": array}, tmp_path / "a.jbl")
    with (tmp_path / "a.jbl").open("rb") as file:
        loaded = pickles.load(file, "a.jbl")
    assert loaded["names"] == ["a", "b"]
    for key in ("scores", "again"):
        assert loaded[key].dtype == array.dtype
        np.testing.assert_array_equal(loaded[key], array)


def test_of_joblib_nothing_else_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    joblib = pytest.importorskip("joblib")
    monkeypatch.chdir(tmp_path)
    joblib.dump([np.arange(3.0), Evil()], "evil.jbl")
    with pytest.raises(ValueError, match=r"evil\.jbl is no pickle of arrays: it asks for (posix|nt)\.system"):
        pickles.load(Path("evil.jbl").read_bytes(), "evil.jbl")
    assert not (tmp_path / "harm").exists()
    joblib.dump(np.array(["a", None], dtype=object), "objects.jbl")
    with pytest.raises(ValueError, match=r"it holds an array of 'O8', expected numbers"):
        pickles.load(Path("objects.jbl").read_bytes(), "objects.jbl")
    for method in ("zlib", "gzip", "bz2", "xz"):
        joblib.dump(np.arange(3.0), "small.jbl", compress=(method, 3))
        with pytest.raises(ValueError, match=r"small\.jbl is no pickle of arrays: it is compressed; joblib\.dump"):
            pickles.load(Path("small.jbl").read_bytes(), "small.jbl")


def test_an_array_larger_than_its_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    word = (
        b"cjoblib.numpy_pickle\nNumpyArrayWrapper\n)\x81}(Vsubclass\ncnumpy\nndarray\nVorder\nVC\n"
        b"Vdtype\ncnumpy\ndtype\n(Vf8\nI0\nI1\ntRVshape\n%bub"
    )
    small = pickles.load(word % b"I1\nI2\n\x86" + np.array([0.5, 2.0]).tobytes() + b".", "small.jbl")
    np.testing.assert_array_equal(small, [[0.5, 2.0]])
    with pytest.raises(ValueError, match=r"shape \(100000000, 1000000\) in a file that holds fewer numbers"):
        pickles.load(word % b"I100000000\nI1000000\n\x86" + bytes(16) + b".", "large.jbl")
    with pytest.raises(ValueError, match="an array of a shape that is none"):
        pickles.load(word % b"I-1\nI2\n\x86" + bytes(16) + b".", "negative.jbl")
    with pytest.raises(ValueError, match="it makes an object that is no array"):
        pickles.load(b"cnumpy\ndtype\n)\x81.", "object.jbl")
    with pytest.raises(ValueError, match="a wrapper where data is expected"):
        pickles.load(b"cjoblib.numpy_pickle\nNumpyArrayWrapper\n)\x81.", "word.jbl")
