"""A cache folder that others own or can write, and links in it: nothing in it is believed, nothing is written there."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from gate_data import remembered
from gate_data.cards import Hub
from gate_data.errors import StorageError
from gate_data.hub.fetching import _key, fetched
from gate_data.readers import caches
from gate_data.readers.folders import cache_home
from gate_data.remembered import known_digest, remember_digest

pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="folders have no owner here")
MARK, DIGEST = b"m" * 16, "ab" * 32


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that `GATE_RUNNER_CACHE` names in each of these tests."""
    monkeypatch.setattr(remembered, "_folder", remembered._BY_DEFAULT)
    monkeypatch.setattr(remembered, "_SAID", set(), raising=False)
    monkeypatch.setenv("GATE_RUNNER_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("GATE_RUNNER_SHARED_CACHE", raising=False)
    return tmp_path / "cache" / "gate-runner"


def of_another_user(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home.mkdir(parents=True)
    monkeypatch.setattr(os, "geteuid", lambda: home.stat().st_uid + 1)


def writable_by_the_group(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home.mkdir(parents=True)
    home.chmod(0o775)


def writable_inside(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("contents", "hub"):
        (home / name).mkdir(parents=True)
        (home / name).chmod(0o777)


def links_inside(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home.mkdir(parents=True)
    for name in ("contents", "hub"):
        (home.parent / name).mkdir()
        (home / name).symlink_to(home.parent / name)


def below_an_open_folder(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home.mkdir(parents=True, mode=0o700)
    home.parent.chmod(0o777)  # without the sticky bit: everybody may rename what lies in it


PLACES = (of_another_user, writable_by_the_group, writable_inside, links_inside, below_an_open_folder)


@pytest.mark.parametrize("place", PLACES)
def test_digests_are_neither_read_nor_written_where_others_write(
    place: Callable[[Path, pytest.MonkeyPatch], None],
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    place(home, monkeypatch)
    contents = home / "contents"
    contents.mkdir(exist_ok=True)
    packed = bytes.fromhex(DIGEST)
    planted = packed + hashlib.blake2b(packed, digest_size=16).digest()
    (contents / MARK.hex()).write_bytes(planted)
    assert known_digest(MARK) is None
    remember_digest(MARK, "cd" * 32)
    assert (contents / MARK.hex()).read_bytes() == planted
    assert [*contents.iterdir()] == [contents / MARK.hex()]
    assert len(caplog.records) == 1
    assert str(home.parent) in caplog.text
    assert "GATE_RUNNER_SHARED_CACHE" in caplog.text


@pytest.mark.parametrize("place", PLACES)
def test_rows_of_the_hub_are_refused_where_others_write(
    place: Callable[[Path, pytest.MonkeyPatch], None], home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place(home, monkeypatch)
    (tmp_path / "root" / "me" / "set").mkdir(parents=True)
    with pytest.raises(StorageError, match=r"the cache is not used: .*GATE_RUNNER_SHARED_CACHE"):
        fetched(Hub("me/set"), tmp_path / "root", None)


def test_what_this_user_keeps_is_read_again(home: Path) -> None:
    before = os.umask(0o002)
    try:
        remember_digest(MARK, DIGEST)
        assert known_digest(MARK) == DIGEST
    finally:
        os.umask(before)
    assert (home / "contents").stat().st_mode & 0o777 == home.stat().st_mode & 0o777 == 0o700


def test_a_link_of_this_user_to_another_disk_is_its_cache(home: Path, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir(mode=0o700)
    home.parent.mkdir()
    home.symlink_to(tmp_path / "disk")
    remember_digest(MARK, DIGEST)
    assert known_digest(MARK) == DIGEST
    assert (tmp_path / "disk" / "contents" / MARK.hex()).is_file()


@pytest.mark.parametrize("place", [of_another_user, writable_by_the_group, writable_inside, below_an_open_folder])
def test_a_cache_that_is_said_to_be_shared_is_used(
    place: Callable[[Path, pytest.MonkeyPatch], None], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place(home, monkeypatch)
    monkeypatch.setenv("GATE_RUNNER_SHARED_CACHE", str(home.parent))
    monkeypatch.setenv("GATE_RUNNER_CACHE", "elsewhere")
    remember_digest(MARK, DIGEST)
    assert known_digest(MARK) == DIGEST
    assert cache_home() == home


def test_no_link_is_followed_in_a_shared_cache_either(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    links_inside(home, monkeypatch)
    monkeypatch.setenv("GATE_RUNNER_SHARED_CACHE", str(home.parent))
    remember_digest(MARK, DIGEST)
    assert known_digest(MARK) is None
    assert not [*(home.parent / "contents").iterdir()]


def test_a_planted_link_is_no_digest(home: Path, tmp_path: Path) -> None:
    remember_digest(MARK, DIGEST)
    file = home / "contents" / MARK.hex()
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    assert known_digest(MARK) is None


def test_planted_links_are_no_rows_of_the_hub(home: Path, tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    hub, root = Hub("me/set"), tmp_path / "root"
    (root / "me" / "set").mkdir(parents=True)
    split = caches.own_cache("hub", "me--set", _key(hub, root, None), "train")
    with zipfile.ZipFile(tmp_path / "planted.zip", "w") as archive:
        archive.writestr("rows.jsonl", json.dumps({"image": None, "label": 0}))
    (tmp_path / "about.json").write_text(json.dumps({"names": {}, "pictures": [], "rows": 1}))
    (split / "000000000-000000001.zip").symlink_to(tmp_path / "planted.zip")
    (split / "about.json").symlink_to(tmp_path / "about.json")
    with pytest.raises(Exception, match="cannot be read"):  # through `datasets`, from the empty folder
        fetched(hub, root, None)
    assert json.loads((tmp_path / "about.json").read_text())["rows"] == 1
