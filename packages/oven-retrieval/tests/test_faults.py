"""Writers that are killed at every call of the system, and two at once: nothing is lost, and the next one tidies up."""

from __future__ import annotations

import importlib.util
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from oven_retrieval import Entity, FolderError, KnowledgeBase, add_entities, build_kb, remove_entities
from oven_retrieval.folder import Folder
from oven_retrieval.refusal import Calibration
from oven_retrieval.vectors import build_vectors
from oven_retrieval.workspace import (
    add_to_workspace,
    build_workspace,
    open_workspace,
    remove_from_workspace,
    update_workspace,
)
from wary_files.durable import is_held, one_writer

from ._faults import Machine, lose_unsynced, run_killed

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")


@pytest.fixture
def memory(tmp_path):
    """A folder in memory where there is one: thousands of syncs take a minute on a disk."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


def edited_kb(folder):
    """A knowledge base with a removed and an added entity."""
    kb = build_kb([Entity("1", "a"), Entity("2", "b")], folder / "kb")
    return add_entities(remove_entities(kb, ["1"]), [Entity("3", "c")])


OPERATIONS = {
    "add": lambda kb: add_entities(kb, [Entity("4", "d")]),
    "overwrite": lambda kb: build_kb([Entity("7", "x")], kb.path, overwrite=True),
}
AFTER = {"add": ["2", "3", "4"], "overwrite": ["7"]}


@pytest.mark.parametrize(
    ("name", "exchanges"),
    [
        pytest.param("add", True, id="add-exchange"),
        pytest.param("overwrite", False, id="overwrite-two renames", marks=pytest.mark.long),
        pytest.param("add", False, id="add-two renames", marks=pytest.mark.again),
        pytest.param("overwrite", True, id="overwrite-exchange", marks=pytest.mark.again),
    ],
)
def test_killed_at_every_call_and_power_lost_the_old_or_the_new_state_is_whole(memory, monkeypatch, name, exchanges):
    def work(path):
        OPERATIONS[name](KnowledgeBase(path))

    edited_kb(memory / "start")
    die_at, states = 1, set()
    while True:
        folder = memory / f"at-{die_at}"
        shutil.copytree(memory / "start", folder)
        inodes = {file.stat().st_ino for file in folder.rglob("*")}
        killed, synced = run_killed(partial(work, folder / "kb"), monkeypatch, die_at, exchanges)
        if not killed:
            break
        lose_unsynced(folder, inodes, synced)
        ids = [entity.id for entity in KnowledgeBase(folder / "kb", verify=True)]
        assert ids in (["2", "3"], AFTER[name]), die_at
        states.add(tuple(ids))
        # The next writer works, and leaves nothing of the one that died.
        more = add_entities(KnowledgeBase(folder / "kb"), [Entity("9", "z")])
        assert [entity.id for entity in more] == [*ids, "9"]
        assert [entry.name for entry in folder.iterdir()] == ["kb"]
        assert {entry.suffix for entry in (folder / "kb").iterdir()} == {".bin", ".json"}
        shutil.rmtree(folder)
        die_at += 1
    assert die_at > 5
    assert len(states) == 2


@pytest.mark.parametrize("exchanges", [True, False])
def test_the_old_folder_goes_only_when_the_new_one_lasts(tmp_path, monkeypatch, exchanges):
    edited_kb(tmp_path)
    machine = Machine(monkeypatch, None, exchanges)
    build_kb([Entity("7", "x")], tmp_path / "kb", overwrite=True)
    calls = [name for name, _ in machine.calls]
    swap = calls.index("exchange") if exchanges else calls.index("rename")
    columns = {f"{file.stem}.bin" for file in (tmp_path / "kb").glob("*.bin")} | {"manifest.json"}
    synced = {Path(path).name for name, path in machine.calls[:swap] if name == "fsync"}
    assert columns <= synced
    assert ".kb.partial" in synced  # the names in it too
    last_move = max(i for i, name in enumerate(calls) if name in ("exchange", "rename"))
    first_loss = next(i for i, name in enumerate(calls) if i > last_move and name in ("unlink", "rmdir"))
    between = machine.calls[last_move + 1 : first_loss]
    assert ("fsync", str(tmp_path)) in between


def test_readers_never_meet_a_gap(tmp_path):
    kb = build_kb([Entity(str(i), f"name {i}") for i in range(50)], tmp_path / "kb")
    failures, stop = [], threading.Event()

    def read():
        while not stop.is_set():
            try:
                base = KnowledgeBase(tmp_path / "kb", verify=True)
                names = [entity.name for entity in base]
                if len(names) not in (50, 51):
                    failures.append(len(names))
            except Exception as error:  # noqa: BLE001  # whatever a reader meets is a failure
                failures.append(repr(error))

    reader = threading.Thread(target=read)
    reader.start()
    opened = KnowledgeBase(tmp_path / "kb")
    for turn in range(20):
        kb = remove_entities(add_entities(kb, [Entity(f"n{turn}", "new")]), [f"n{turn}"])
    stop.set()
    reader.join()
    assert failures == []
    assert opened[49].name == "name 49"  # what was opened stays as it was
    assert opened.popularity.sum() == 0


def test_a_reader_that_began_between_two_renames_reads_the_new_folder(tmp_path, monkeypatch):
    build_kb([Entity("1", "new")], tmp_path / "new")
    build_kb([Entity("0", "old")], tmp_path / ".kb.old")
    read = Folder._read

    def read_while_the_old_one_goes(folder, *options):
        if (tmp_path / "new").exists():
            (tmp_path / "new").rename(tmp_path / "kb")
            (tmp_path / ".kb.old" / "name.utf8.bin").unlink()
        read(folder, *options)

    monkeypatch.setattr(Folder, "_read", read_while_the_old_one_goes)
    assert [entity.name for entity in KnowledgeBase(tmp_path / "kb")] == ["new"]


def project(folder):
    (folder / "kb.csv").write_text("id,name\nQ1,Wood\nQ2,Duck\n", encoding="utf-8")
    (folder / "more.csv").write_text("id,name\nQ3,Goose\n", encoding="utf-8")
    return build_workspace(folder / "kb.csv", folder / "p", tokenizer="whitespace")


def test_damaged_indexes_are_rebuilt_from_whole_entities(tmp_path):
    project(tmp_path)
    folder = tmp_path / "p"
    for damage in (
        lambda: shutil.rmtree(folder / "names"),
        lambda: (folder / "names" / "manifest.json").write_text("{"),
        lambda: (folder / "names" / "manifest.json").unlink(),
        lambda: (folder / "names" / "ngram_post.bin").write_bytes(b""),
    ):
        damage()
        with pytest.raises(FolderError):
            open_workspace(folder, typos=True)
        update_workspace(folder, rebuild=True)
        linker = open_workspace(folder, typos=True)
        assert linker.kb.ids[linker.link(["duck"]).rows[0, 0]] == "Q2"
    assert linker.tokenizer == "words"  # the folder that said otherwise was lost
    (folder / "kb" / "name.utf8.bin").write_bytes(b"XXXXXXXX")
    with pytest.raises(FolderError, match=r"name.utf8.bin: its bytes have changed"):
        update_workspace(folder, rebuild=True)


def test_a_second_writer_is_told_who_is_there_for_the_whole_operation(tmp_path, monkeypatch):
    project(tmp_path)
    entered, leave = threading.Event(), threading.Event()

    def slow(folder, **options):
        entered.set()
        leave.wait(60)
        return update_workspace(folder, **options)

    monkeypatch.setattr("oven_retrieval.workspace.update_workspace", slow)
    writer = threading.Thread(target=add_to_workspace, args=(tmp_path / "more.csv", tmp_path / "p"))
    writer.start()
    assert entered.wait(60)
    assert is_held(tmp_path / "p" / "project")
    with pytest.raises(FolderError, match="another thread of this process is writing there"):
        remove_from_workspace(["Q1"], tmp_path / "p")
    # A reader waits for the indexes to follow instead of failing.
    answers = []
    reader = threading.Thread(target=lambda: answers.append(open_workspace(tmp_path / "p").link(["goose"]).rows[0, 0]))
    reader.start()
    time.sleep(0.2)
    assert not answers
    leave.set()
    writer.join()
    reader.join()
    assert answers == [2]
    assert not is_held(tmp_path / "p" / "project")


def test_a_lock_that_a_dead_process_left_is_no_lock(tmp_path):
    lock = tmp_path / ".kb.lock"
    lock.write_text(f"process 999999999 of {os.uname().nodename} (oven add, since then)")
    assert not is_held(tmp_path / "kb")
    with one_writer(tmp_path / "kb"):
        assert is_held(tmp_path / "kb")
    assert not lock.exists()


def test_a_full_disk_names_the_file(tmp_path):
    code = (
        "import resource, signal, sys\n"
        "from oven_retrieval import Entity, build_kb\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "build_kb((Entity(str(i), 'n' * 200) for i in range(20_000)), sys.argv[1])\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "kb")], capture_output=True, check=False)
    assert done.returncode == 1
    last = done.stderr.decode().strip().splitlines()[-1]
    assert last.startswith("OSError: [Errno 27] File too large:")
    assert ".kb.partial/" in last
    assert not (tmp_path / "kb").exists()
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda saved: saved["meta"].pop("count"), "meta has no 'count'; there are"),
        (lambda saved: saved["meta"].update(count="2"), "counts '2' entities, there are 2 ids"),
        (lambda saved: saved["meta"].update(count=3), "counts 3 entities, there are 2 ids"),
        (lambda saved: saved.update(meta=[1]), "not a manifest"),
        (lambda saved: saved.update(columns=[1]), "not a manifest"),
        (
            lambda saved: saved["columns"].update({"z" * 5000: saved["columns"].pop("category")}),
            "found no file",
        ),
        (
            lambda saved: saved["columns"]["category"].update(shape=[]),
            r"'category' is int\d+ \[\], expected numbers",
        ),
    ],
)
def test_a_manifest_that_lacks_something_is_named(tmp_path, change, message):
    project(tmp_path)
    file = tmp_path / "p" / "kb" / "manifest.json"
    manifest = json.loads(file.read_text())
    change(manifest)
    file.write_text(json.dumps(manifest))
    with pytest.raises(FolderError, match=message):
        KnowledgeBase(tmp_path / "p" / "kb")


def test_links_in_a_strangers_folder_are_not_written_through(tmp_path):
    mine = tmp_path / "mine"
    mine.write_text("mine")
    base = tmp_path / "kb"
    kb = build_kb([Entity("Q1", "duck")], base)
    (tmp_path / ".kb.lock").symlink_to(mine)
    with pytest.raises(OSError, match=r"\.kb\.lock"):
        add_entities(kb, [Entity("Q2", "goose")])
    (tmp_path / ".kb.lock").unlink()
    add_entities(kb, [Entity("Q2", "goose")])
    rows = tmp_path / "vectors.rows"
    rows.mkdir()
    for name in ("vectors.raw", "state.new"):
        (rows / name).symlink_to(mine)
    build_vectors(lambda a, b: np.eye(4)[a:b], 4, tmp_path / "vectors", kb="k", encoder="one-hot")
    assert mine.read_text() == "mine"


@pytest.mark.parametrize("content", ["[" * 100_000, "9" * 5000, None])
def test_json_that_python_cannot_read_is_one_line(tmp_path, content):
    def put(name):
        (tmp_path / name).unlink(missing_ok=True)
        if content is None:
            os.mkfifo(tmp_path / name)
        else:
            (tmp_path / name).write_text(content)
        return tmp_path

    readers = {
        "manifest.json": KnowledgeBase,
        "calibration.json": lambda folder: Calibration.read(folder / "calibration.json"),
    }
    if importlib.util.find_spec("torch"):
        from oven_retrieval.models.trained import read_config

        readers["model.json"] = read_config
    for name, read in readers.items():
        with pytest.raises(ValueError, match=name.replace(".", r"\.")):
            read(put(name))
