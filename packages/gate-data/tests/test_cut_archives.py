"""Archives that end early: refused wherever the cut is, and not read as if less had been packed."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from gate_data.errors import DataError
from wary_files.archives import members


def packed(count: int) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for number in range(count):
            info = tarfile.TarInfo(f"{number}.txt")
            info.size = 700
            archive.addfile(info, io.BytesIO(bytes([65 + number]) * 700))
    return file.getvalue()


MEMBER = 512 + 1024
"""Bytes of a header and of two blocks."""


@pytest.mark.parametrize("cut", [MEMBER, 2 * MEMBER, 2 * MEMBER + 100, 2 * MEMBER + 512, 3 * MEMBER - 100, 4 * MEMBER])
def test_a_tar_archive_that_is_cut_anywhere_is_refused(tmp_path: Path, cut: int) -> None:
    (tmp_path / "a.tar").write_bytes(packed(4)[:cut])
    with pytest.raises(DataError, match=r"a\.tar is not a whole tar file"):
        members(tmp_path / "a.tar")


@pytest.mark.parametrize("marks", [1, 2, 20])
def test_a_tar_archive_with_its_mark_is_whole(tmp_path: Path, marks: int) -> None:
    (tmp_path / "a.tar").write_bytes(packed(4)[: 4 * MEMBER] + bytes(512 * marks))
    assert [*members(tmp_path / "a.tar")] == ["0.txt", "1.txt", "2.txt", "3.txt"]


def test_a_tar_archive_within_another_ends_with_its_mark(tmp_path: Path) -> None:
    for cut, whole in ((4 * MEMBER, False), (None, True)):
        inner = packed(4)[:cut]
        with tarfile.open(tmp_path / "a.tar", "w") as archive:
            info = tarfile.TarInfo("in.tar")
            info.size = len(inner)
            archive.addfile(info, io.BytesIO(inner))
        if whole:
            assert len(members(tmp_path / "a.tar")) == 4
        else:
            with pytest.raises(DataError, match=r"in\.tar ends without tar's mark"):
                members(tmp_path / "a.tar")
