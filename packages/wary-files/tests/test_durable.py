"""A file is the old one or the new one, whole, and nothing else is left."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from wary_files import durable
from wary_files.durable import (
    FolderError,
    one_writer,
    opened_whole,
    replace_file,
    replacing,
    write_new,
    write_whole,
)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("alone", [False, True])
def test_a_block_that_fails_leaves_the_old_file_alone(alone: bool, tmp_path: Path) -> None:
    card = tmp_path / "card.json"
    card.write_text("old")

    def broken_off() -> None:
        with replacing(card, alone=alone) as new:
            new.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        broken_off()
    assert card.read_text() == "old"
    assert names(tmp_path) == ["card.json"]


def test_files_of_the_users_that_are_called_alike_stay(tmp_path: Path) -> None:
    mine = [tmp_path / f"page.html.{ending}" for ending in ("new", "old", "partial")]
    for file in mine:
        file.write_text("mine")
    replace_file(tmp_path / "page.html", "ours")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match=r"expected a file, it is a folder: .*folder"):
        replace_file(tmp_path / "folder", "ours")
    assert [file.read_text() for file in mine] == ["mine"] * 3
    assert names(tmp_path) == ["folder", "page.html", *(file.name for file in mine)]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_names_the_file_that_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable, "own_file", lambda path: Path("/dev/full"))
    with pytest.raises(OSError, match=r"No space left on device: .*page\.html\.new"):
        replace_file(tmp_path / "page.html", "ours")
    code = (
        "import resource, signal, sys\n"
        "from wary_files.durable import one_writer\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
        "with one_writer(sys.argv[1]): pass\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "kb")], capture_output=True, text=True, check=False
    )
    assert re.search(r"OSError: \[Errno 27\] File too large: '.*\.kb\.lock'$", done.stderr.strip()), done.stderr
    assert names(tmp_path) == []


def test_the_content_is_synced_before_the_name_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, int]] = []
    fsync, replace = os.fsync, os.replace

    def synced(handle: int) -> None:
        calls.append(("fsync", os.fstat(handle).st_size))
        fsync(handle)

    def replaced(first: Path, second: Path) -> None:
        calls.append(("replace", first.stat().st_size))
        replace(first, second)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    write_whole(tmp_path / "card.json", b"12345")
    assert calls == [("fsync", 5), ("replace", 5)]


def test_a_disk_that_is_full_leaves_the_old_file_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "card.json").write_text("old")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(tmp_path / "card.json", b"new")
    assert (tmp_path / "card.json").read_text() == "old"
    assert names(tmp_path) == ["card.json"]


@pytest.mark.skipif(os.name == "nt", reason="links need a right there")
def test_links_are_replaced_or_followed(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("mine")
    link.symlink_to(target)
    write_whole(link, b"followed", follow=True)
    assert (link.is_symlink(), target.read_text()) == (True, "followed")
    write_whole(link, b"new")
    assert (link.is_symlink(), link.read_text(), target.read_text()) == (False, "new", "followed")


@pytest.mark.skipif(os.name == "nt", reason="links need a right there")
def test_what_lies_under_the_fixed_name_is_removed_not_written_through(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "card.json.partial").symlink_to(victim)
    write_whole(tmp_path / "card.json", b"new", alone=True)
    assert victim.read_text() == "mine"
    assert names(tmp_path) == ["card.json", "victim"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes that have a name")
def test_a_pipe_that_the_user_named_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    given: list[bytes] = []
    reader = threading.Thread(target=lambda: given.append(pipe.read_bytes()), daemon=True)
    reader.start()
    write_whole(pipe, b"to a pipe", follow=True)
    reader.join(20)
    assert given == [b"to a pipe"]
    assert pipe.is_fifo()


def test_many_writers_at_once_leave_one_whole_file(tmp_path: Path) -> None:
    contents = [bytes([letter]) * 200_000 for letter in b"abcdef"]
    threads = [threading.Thread(target=write_whole, args=[tmp_path / "page", content]) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (tmp_path / "page").read_bytes() in contents
    assert names(tmp_path) == ["page"]


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_a_place_that_cannot_be_written_is_named(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock file that could not be made was named, which nobody had asked for."""

    def refused(*_: object, **__: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(FolderError) as raised, one_writer(tmp_path / "kb"):
        pass
    assert str(raised.value) == f"{tmp_path} cannot be written: {os.strerror(number)}"
    monkeypatch.undo()
    with one_writer(tmp_path / "kb"):
        pass


def test_a_table_that_is_broken_off_leaves_the_old_one(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("old\n")
    link = tmp_path / "link.csv"
    link.symlink_to(table)

    def broken_off(path: Path) -> None:
        with opened_whole(path) as file:
            file.write("half")
            raise RuntimeError

    for path in (table, link):
        with pytest.raises(RuntimeError):
            broken_off(path)
        assert table.read_text() == "old\n"
        assert names(tmp_path) == ["link.csv", "table.csv"]
    with opened_whole(link) as file:
        file.write("é\n")
    assert link.is_symlink()
    assert table.read_bytes() == "é\n".encode()


def test_a_table_goes_into_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
    reader.start()
    with opened_whole(pipe) as file:
        file.write("row\n")
    reader.join(10)
    assert got == ["row\n"]
    assert pipe.is_fifo()


def test_a_file_stays_as_private_as_it_was(tmp_path: Path) -> None:
    """What took its place could be read by everybody."""
    private, other = tmp_path / "private.json", tmp_path / "other.json"
    for mode in (0o600, 0o640, 0o664):
        private.write_text("old")
        private.chmod(mode)
        write_whole(private, b"new")
        assert private.stat().st_mode & 0o777 == mode
    other.write_text("mine")
    other.chmod(0o600)
    link = tmp_path / "link.json"
    link.symlink_to(other)
    write_whole(link, b"new")
    assert other.read_text() == "mine"
    assert not link.is_symlink()


def test_a_new_file_is_there_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    card = tmp_path / "card.json"

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            write_new(card, b"new")
    assert names(tmp_path) == []
    write_new(card, b"new")
    for path in (card, tmp_path / "link.json"):
        if path != card:
            path.symlink_to(tmp_path / "nowhere")
        with pytest.raises(FileExistsError):
            write_new(path, b"other")
    assert card.read_text() == "new"
    card.unlink()
    monkeypatch.setattr(os, "link", lambda *_, **__: (_ for _ in ()).throw(OSError(95, "Operation not supported")))
    write_new(card, b"without second names")
    with pytest.raises(FileExistsError):
        write_new(card, b"other")
    assert card.read_text() == "without second names"
    assert names(tmp_path) == ["card.json", "link.json"]


@pytest.mark.parametrize("name", ["a" * 250 + ".csv", "é" * 120 + ".csv"])
def test_long_names_are_written_as_others(tmp_path: Path, name: str) -> None:
    """The name beside it was longer than a system allows."""
    write_whole(tmp_path / name, b"new")
    write_whole(tmp_path / name, b"newer")
    write_new(tmp_path / f"x{name[1:]}", b"new")
    assert names(tmp_path) == sorted([name, f"x{name[1:]}"])


def test_what_a_killed_writer_left_goes_with_the_next_and_what_others_write_stays(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    code = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from wary_files.durable import opened_whole\n"
        "with opened_whole(Path(sys.argv[1])) as file:\n"
        "    file.write('half')\n"
        "    file.flush()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(table)], check=False)
    (left,) = names(tmp_path)
    assert left.startswith(".table.csv.")
    (tmp_path / ".table.csv.0a1b2c3d").write_text("a user's")
    (tmp_path / f"{left[:-8]}00000000").symlink_to(tmp_path / "elsewhere")
    with opened_whole(table) as file:
        file.write("whole")
        inner = set(names(tmp_path))
        with opened_whole(table) as other:
            other.write("also")
            assert inner < set(names(tmp_path))
    assert left not in names(tmp_path)
    assert names(tmp_path) == [".table.csv.0a1b2c3d", f"{left[:-8]}00000000", "table.csv"]
    assert table.read_text() == "whole"


def test_a_full_disk_is_told_with_the_tables_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as raised, opened_whole(tmp_path / "table.csv") as file:
        file.write("row")
    assert raised.value.filename == str(tmp_path / "table.csv")
    assert names(tmp_path) == []
