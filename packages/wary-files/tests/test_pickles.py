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
