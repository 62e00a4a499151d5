"""Archives that end early, or hold links and holes: refused or read whole, and not as if less had been packed."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
import time
from pathlib import Path

import pytest

from gate_data.errors import DataError
from wary_files.archives import members, read


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


def archive_of(path: Path, entries: list[tuple[str, bytes | str, bytes]]) -> Path:
    """Write a tar archive of files (bytes) and links (the target, as text), of tar's types."""
    with tarfile.open(path, "w") as archive:
        for name, content, kind in entries:
            info = tarfile.TarInfo(name)
            info.type = kind
            if isinstance(content, str):
                info.linkname = content
                archive.addfile(info)
            else:
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return path


def test_links_to_members_of_an_archive_are_those_members(tmp_path: Path) -> None:
    file, hard, symbolic = tarfile.REGTYPE, tarfile.LNKTYPE, tarfile.SYMTYPE
    entries = [("./a/1.txt", b"one", file), ("./a/2.txt", "./a/1.txt", hard), ("./b/3.txt", "../a/2.txt", symbolic)]
    entries += [("./b/4.txt", "3.txt", symbolic), ("./b/out.txt", "/etc/hostname", symbolic), ("c", "d", symbolic)]
    path = archive_of(tmp_path / "a.tar", [*entries, ("d", "c", symbolic)])
    names = ["a/1.txt", "a/2.txt", "b/3.txt", "b/4.txt"]
    assert [*members(path)] == names
    assert {read(path, name) for name in names} == {b"one"}
    inner = archive_of(tmp_path / "outer.tar", [("in.tar", path.read_bytes(), file)])
    assert [*members(inner)] == [f"in/{name}" for name in names]
    broken = archive_of(tmp_path / "broken.tar", [("2.txt", "1.txt", hard)])
    with pytest.raises(DataError, match=r"broken\.tar: 2\.txt is a link to 1\.txt, which is not in it"):
        members(broken)


def test_a_long_chain_of_links_takes_no_time(tmp_path: Path) -> None:
    links: list[tuple[str, bytes | str, bytes]] = [(f"{at}", f"{at + 1}", tarfile.SYMTYPE) for at in range(5000)]
    path = archive_of(tmp_path / "a.tar", [*links, ("5000", b"end", tarfile.REGTYPE)])
    began = time.process_time()
    assert len(members(path)) == 41  # as many links as Linux follows
    assert time.process_time() - began < 3


@pytest.mark.parametrize("form", ["gnu", "pax"])
def test_a_member_without_its_holes_is_refused(tmp_path: Path, form: str) -> None:
    if shutil.which("tar") is None:
        pytest.skip("needs tar")
    (tmp_path / "in").mkdir()
    with (tmp_path / "in" / "holes.bin").open("wb") as file:
        file.truncate(2**20)
        file.write(b"first")
        file.seek(2**19)
        file.write(b"second")
    (tmp_path / "in" / "plain.bin").write_bytes(b"plain" * 1000)
    packing = ["tar", f"--format={form}", "-S", "-cf", str(tmp_path / "a.tar"), "-C", str(tmp_path / "in")]
    subprocess.run([*packing, "holes.bin", "plain.bin"], check=True)
    if (tmp_path / "a.tar").stat().st_size > 2**19:
        pytest.skip("this file system has no holes")
    assert [*members(tmp_path / "a.tar")] == ["holes.bin", "plain.bin"]
    assert read(tmp_path / "a.tar", "plain.bin") == b"plain" * 1000
    with pytest.raises(DataError, match=r"holes\.bin is packed without its holes; pack the archive again"):
        read(tmp_path / "a.tar", "holes.bin")
