"""Compiled loops: where they are kept, and that a search goes on where nothing can be kept."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

numba = pytest.importorskip("numba")

from numba.core import caching  # noqa: E402 - where it is installed

from oven_retrieval.names.jit import jit  # noqa: E402 - likewise


def double(value):
    return 2 * value


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    """Packages that are read-only, and no home; a temporary folder of the test's own."""

    def refuse(self):
        if numba.config.CACHE_DIR:
            return Path(self.get_cache_path()).mkdir(parents=True, exist_ok=True)
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    for name in ("InTreeCacheLocator", "InTreeCacheLocatorFsAgnostic", "UserWideCacheLocator"):
        if hasattr(caching, name):
            monkeypatch.setattr(getattr(caching, name), "ensure_cache_path", refuse)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(RuntimeError, match="no locator available"):
        numba.njit(cache=True)(double)
    return tmp_path / f"oven-retrieval-numba-{os.getuid()}"


def test_without_a_folder_to_write_the_code_is_kept_in_a_private_one(nowhere):
    assert jit(double)(4) == 8
    assert stat.S_IMODE(nowhere.stat().st_mode) == 0o700
    assert list(nowhere.rglob("*.nbc"))
    assert numba.config.CACHE_DIR == ""
    again = jit(double)
    assert again(5) == 10
    assert sum(again.stats.cache_hits.values()) == 1


@pytest.mark.parametrize("planted", ["writable by all", "a link", "a file"])
def test_a_folder_that_others_may_write_is_left_alone(nowhere, tmp_path, planted):
    if planted == "writable by all":
        nowhere.mkdir()
        nowhere.chmod(0o777)
    elif planted == "a link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        nowhere.symlink_to(tmp_path / "elsewhere")
    else:
        nowhere.write_text("")
    assert jit(double)(4) == 8
    assert not list(tmp_path.rglob("*.nb*"))


@pytest.mark.parametrize("planted", ["", "numba", "numba/*"])
def test_a_users_folder_that_others_may_write_is_left_alone(tmp_path, monkeypatch, planted):
    """numba unpickles what lies there, and XDG_CACHE_HOME may be shared by users."""

    def refuse(self):
        raise OSError(30, "Read-only file system")

    shared = tmp_path / "shared"
    monkeypatch.setenv("XDG_CACHE_HOME", str(shared))
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name in ("InTreeCacheLocator", "InTreeCacheLocatorFsAgnostic"):
        if hasattr(caching, name):
            monkeypatch.setattr(getattr(caching, name), "ensure_cache_path", refuse)
    loop = numba.njit(cache=True)(double)  # makes numba's folders
    kept_in = Path(loop._cache.cache_path)
    assert shared in kept_in.parents
    for folder in (kept_in.parent, kept_in):
        folder.chmod(0o755)
    for folder in shared.glob(planted) if planted else ():
        folder.chmod(0o777)
    assert jit(double)(4) == 8
    assert bool(list(shared.rglob("*.nbc"))) == (not planted)
    assert bool(list((tmp_path / f"oven-retrieval-numba-{os.getuid()}").rglob("*.nbc"))) == bool(planted)


def test_a_full_disk_is_a_warning(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    loop = jit(double)

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(loop._cache._cache_file, "save", full)
    with pytest.warns(UserWarning, match="compiled code is not kept: .*No space left"):
        assert loop(4) == 8
    assert loop(2.5) == 5.0  # of another type: compiled again, without a second warning


def test_a_file_of_the_working_folder_names_no_folder_of_compiled_code(tmp_path):
    """numba unpickles what lies in its folder of compiled code."""
    (tmp_path / ".numba_config.yaml").write_text("cache_dir: ./planted\ndisable_jit: 1\n")
    script = (
        "import numba, oven_retrieval.names.trigrams, oven_retrieval.names.compiled\n"
        "from oven_retrieval.names.jit import jit\n"
        "def double(value): return 2 * value\n"
        "assert jit(double)(2) == 4\n"
        "assert numba.njit(double)(2) == 4\n"  # a compilation reads the settings again
        "assert not numba.config.CACHE_DIR and not numba.config.DISABLE_JIT, numba.config.CACHE_DIR"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    subprocess.run([sys.executable, "-P", "-c", script], cwd=tmp_path, check=True, timeout=300, env=environment)
    assert [path.name for path in tmp_path.iterdir()] == [".numba_config.yaml"]
