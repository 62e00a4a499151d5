"""Adding and removing entities: equal to a build from scratch, in every step and to the bit; kills and full disks."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from oven_retrieval import (
    Entity,
    FolderError,
    KnowledgeBase,
    add_entities,
    build_kb,
    build_linker,
    build_name_index,
    open_name_index,
    remove_entities,
    update_name_index,
)

WORDS = ["wood", "Duck", "gate", "golden", "GATE", "tea", "rose", "東京", "duck"]


def make_entities(rng, count, first=0):
    def name():
        """Few words of few, `gate` in most names (a negative idf), and words that no other name has."""
        own = [f"own{rng.integers(10**9)}"] * int(rng.integers(2))
        return " ".join([*rng.choice(WORDS, size=rng.integers(1, 5)).tolist(), *own, *["gate"] * int(rng.integers(3))])

    return [
        Entity(
            f"Q{first + i}",
            name(),
            tuple(name() for _ in range(rng.integers(0, 3))),
            category=str(rng.choice(["a", "b", ""])),
            image=[None, "i.png"][rng.integers(2)],
            popularity=float(rng.integers(3)),
        )
        for i in range(count)
    ]


def linked(linker, queries, k=7):
    """Answers as ids, so that rows may differ."""
    links = linker.link(queries, k)
    plain = linker.link(queries, k, exact_first=False)
    ids = [[linker.kb.ids[row] if row >= 0 else None for row in rows] for rows in links.rows]
    bm25 = [[linker.kb.ids[row] if row >= 0 else None for row in rows] for rows in plain.rows]
    return ids, links.kinds.tolist(), bm25, plain.scores


def assert_same(a, b):
    assert a[:3] == b[:3]
    np.testing.assert_array_equal(a[3], b[3])  # to the bit


QUERIES = [*WORDS, "wood duck", "golden gate rose", "GOLDEN gate", "gate gate tea", "nothing", "", "tea rose wood Duck"]


@pytest.mark.parametrize("seed", range(6))
def test_edits_equal_a_build_from_scratch(tmp_path, seed):
    rng = np.random.default_rng(seed)
    entities = {entity.id: entity for entity in make_entities(rng, 30)}
    kb = build_kb(entities.values(), tmp_path / "kb")
    build_name_index(kb, tmp_path / "names", k1=0.9)
    for step in range(6):
        if step % 2 == 0:
            ids = rng.choice(list(entities), size=rng.integers(1, 9), replace=False).tolist()
            kb = remove_entities(kb, ids)
            removed = [entities.pop(name) for name in ids]
        else:
            new = [*make_entities(rng, int(rng.integers(1, 12)), 1000 * step), removed[0]]  # one that was there before
            kb = add_entities(kb, new)
            entities |= {entity.id: entity for entity in new}
        if step in (1, 3):
            continue  # the index follows over several edits at once
        updated = update_name_index(tmp_path / "names", kb)
        scratch = build_kb(entities.values(), tmp_path / f"scratch{step}")
        built = build_name_index(scratch, tmp_path / f"names{step}", k1=0.9)
        assert_same(linked(updated, QUERIES), linked(built, QUERIES))
        assert_same(linked(build_linker(kb, k1=0.9), QUERIES), linked(built, QUERIES))
        assert list(kb) == list(scratch) == list(entities.values())
        ids = [*entities, "gone"]
        rows = kb.rows(ids)
        assert [kb.ids[row] if row >= 0 else "gone" for row in rows] == ids
    files = sorted((tmp_path / "names5").glob("*.bin"))
    assert len(files) >= 5
    for file in files:
        assert (tmp_path / "names" / file.name).read_bytes() == file.read_bytes(), file.name


def test_what_is_refused_changes_nothing(tmp_path):
    kb = build_kb([Entity("1", "a"), Entity("2", "b")], tmp_path / "kb")
    with pytest.raises(ValueError, match=r"entities:2: id: '2' is in .*kb already; expected new ids \(1 are not\)"):
        add_entities(kb, [Entity("3", "c"), Entity("2", "b")])
    with pytest.raises(ValueError, match=r"entities:2: id: already used on line 1"):
        add_entities(kb, [Entity("3", "c"), Entity("3", "d")])
    with pytest.raises(ValueError, match=r"ids: 1 of 2 are not in .*: \['9'\]"):
        remove_entities(kb, ["1", "9"])
    with pytest.raises(TypeError, match="got one text '12'"):
        remove_entities(kb, "12")
    assert add_entities(kb, []).hash == remove_entities(kb, []).hash == kb.hash
    assert sorted(p.name for p in (tmp_path / "kb").iterdir() if p.is_dir()) == []
    fewer = remove_entities(kb, ["1", "1"])
    assert [entity.id for entity in fewer] == ["2"]
    assert [entity.id for entity in kb] == ["1", "2"]
    nothing = remove_entities(fewer, ["2"])
    assert len(nothing) == 0
    assert build_linker(nothing).link(["b"]).rows.tolist() == [[-1]]


def test_a_knowledge_base_with_edits_of_an_earlier_version_is_refused(tmp_path):
    build_kb([Entity("1", "a")], tmp_path / "kb")
    (tmp_path / "kb" / "edits.json").write_text("{}")
    with pytest.raises(FolderError, match=r"by oven-retrieval 0\.1, .* run its `oven compact` first"):
        KnowledgeBase(tmp_path / "kb")


def test_a_stale_index_is_refused_and_says_what_helps(tmp_path):
    kb = build_kb([Entity("1", "a"), Entity("2", "b")], tmp_path / "kb")
    build_name_index(kb, tmp_path / "names")
    changed = remove_entities(kb, ["1"])
    assert changed.hash != kb.hash
    with pytest.raises(FolderError, match="bring it up to date"):
        open_name_index(tmp_path / "names", changed)
    phases = []
    updated = update_name_index(tmp_path / "names", changed, progress=lambda phase, *_: phases.append(phase))
    assert updated.link(["b"]).rows.tolist() == [[0]]
    assert "postings" in phases


def test_one_writer_at_a_time(tmp_path):
    pytest.importorskip("fcntl")
    kb = build_kb([Entity("1", "a")], tmp_path / "kb")
    code = (
        "import sys, time\n"
        "from wary_files.durable import one_writer\n"
        "with one_writer(sys.argv[1]):\n    print('held', flush=True)\n    time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(kb.path)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(FolderError, match=rf"kb: process {holder.pid} of .* is writing there; expected one writer"):
            add_entities(kb, [Entity("2", "b")])
        holder.kill()
    assert len(add_entities(kb, [Entity("2", "b")])) == 2
    assert [entry.name for entry in tmp_path.iterdir()] == ["kb"]


def test_a_disk_that_fills_at_the_last_moment_leaves_the_old_state(tmp_path, monkeypatch):
    kb = build_kb([Entity("1", "a")], tmp_path / "kb")
    before = sorted(p.name for p in (tmp_path / "kb").iterdir())

    def full(*_args, **_options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for edit in (lambda: add_entities(kb, [Entity("2", "b")]), lambda: remove_entities(kb, ["1"])):
        with pytest.raises(OSError, match="No space left"):
            edit()
        assert KnowledgeBase(tmp_path / "kb", verify=True).hash == kb.hash
    assert sorted(p.name for p in (tmp_path / "kb").iterdir()) == before


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_killed_edit_leaves_the_old_state_and_the_next_one_works(tmp_path):
    kb = build_kb([Entity("1", "a")], tmp_path / "kb")
    script = (
        "import os, signal, sys\n"
        "from oven_retrieval import Entity, KnowledgeBase, add_entities, folder_writer\n"
        "folder_writer.replace_folder = lambda *rest: os.kill(os.getpid(), signal.SIGKILL)\n"
        "add_entities(KnowledgeBase(sys.argv[1]), [Entity('2', 'b')])\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path / "kb")], env=os.environ, check=False)
    assert done.returncode == -signal.SIGKILL
    assert (tmp_path / ".kb.partial").is_dir()
    assert KnowledgeBase(tmp_path / "kb").hash == kb.hash
    assert [entity.name for entity in add_entities(kb, [Entity("2", "c")])] == ["a", "c"]


def test_a_folder_that_was_being_replaced_is_not_lost(tmp_path):
    build_kb([Entity("1", "a")], tmp_path / "kb")
    (tmp_path / "kb").rename(tmp_path / ".kb.old")  # a kill between the two renames
    assert KnowledgeBase(tmp_path / "kb")[0].name == "a"
    with pytest.raises(FileExistsError):
        build_kb([Entity("1", "b")], tmp_path / "kb")
    assert KnowledgeBase(Path(tmp_path / "kb"))[0].name == "a"
