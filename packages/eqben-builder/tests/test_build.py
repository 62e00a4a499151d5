from __future__ import annotations

import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from eqben_builder.building import DiskFullError, Dropped, Made, build, read_manifest, read_records, verify
from eqben_builder.building import folder as folder_module
from eqben_builder.building import run as run_module
from eqben_builder.building.pool import WorkerKilledError
from eqben_builder.micro.builder import MicroBuilder


def tree(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def micro(**options):
    return MicroBuilder(**{"size": 32, "seed": 3} | options)


class Listed:
    """A finite builder: job k gives what `jobs[k]` says, as "m" (made), "d" (dropped), in one list or alone."""

    subset, licence, aspects, duplicate_bits = "own", "CC-BY-4.0", ("thing",), None

    def __init__(self, jobs):
        self.jobs = jobs
        self.count = len(jobs)

    def parameters(self):
        return {"jobs": list(self.jobs)}

    def versions(self):
        return {}

    def make(self, index):
        pairs = []
        for k, letter in enumerate(self.jobs[index]):
            value = (7 * index + k) % 250
            images = np.full((2, 8, 8, 3), value, np.uint8)
            images[1] += 3
            mask = np.zeros((8, 8), bool)
            mask[2, 3] = True
            pairs.append(
                Made((images[0], images[1]), (f"a {index} {k}", f"b {index} {k}"), "thing", {"video": index}, {}, mask)
                if letter == "m"
                else Dropped("too dull")
            )
        return pairs[0] if len(pairs) == 1 else pairs


class Repeating(Listed):
    """Each job gives the same scene several times over."""

    duplicate_bits = 4

    def make(self, index):
        rng = np.random.default_rng(index)
        images = rng.integers(0, 256, (2, 32, 32, 3), dtype=np.uint8)
        return [
            Made((images[0], images[1]), (f"a {index} {k}", f"b {index} {k}"), "thing", {"job": index})
            for k, _ in enumerate(self.jobs[index])
        ]


def test_pairs_of_one_job_are_compared_with_each_other(tmp_path):
    manifest = build(Repeating(["mmm", "mm"]), tmp_path / "b")
    assert (manifest["pairs"], manifest["dropped"]) == (2, {"near-duplicate of another pair": 3})
    assert not verify(tmp_path / "b").failures


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "build"
    return folder, build(micro(), folder, pairs=12)


def test_a_build_holds_what_it_says(whole):
    folder, manifest = whole
    records = list(read_records(folder))
    assert len(records) == manifest["pairs"] == 36
    assert manifest["counts"] == {"attribute": 12, "count": 12, "relation": 12}
    assert len({record.id for record in records}) == 36
    content = tree(folder)
    assert set(content) == {*manifest["files"], "manifest.json"}
    for path, sha in manifest["files"].items():
        assert folder_module.digest(content[path]) == sha
    for record in records:
        pair = micro().make(int(record.id.split("-")[1]))
        for picture, image in zip(record.pictures(), pair.images, strict=True):
            assert np.array_equal(picture.load(), image)
        assert record.captions == pair.captions
        assert record.aspect == pair.aspect


def test_two_workers_and_a_second_run_give_the_same_bytes(whole, tmp_path):
    folder, manifest = whole
    assert build(micro(), tmp_path / "two", pairs=12, workers=2) == manifest
    assert tree(tmp_path / "two") == tree(folder)
    assert build(micro(), folder, pairs=12) == manifest


def test_another_seed_gives_another_hash(whole, tmp_path):
    assert build(micro(seed=4), tmp_path / "b", pairs=12)["hash"] != whole[1]["hash"]


_CHILD = """
import sys
from eqben_builder.building import build
from eqben_builder.micro.builder import MicroBuilder
if __name__ == "__main__":
    build(MicroBuilder(size=32, seed=3), sys.argv[1], pairs=12, workers=int(sys.argv[2]))
"""


def children(pid):
    """Child processes, where the system says so in /proc."""
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in path.read_text().split()] if path.exists() else []


def running(pid):
    path = Path(f"/proc/{pid}/stat")
    return path.exists() and path.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.skipif(os.name != "posix", reason="kill -9 is a POSIX signal")
def test_a_build_that_is_killed_at_any_point_ends_with_the_same_bytes(whole, tmp_path):
    script, target, chosen = tmp_path / "child.py", tmp_path / "killed", random.Random(0)
    script.write_text(_CHILD)
    interrupted = 0
    for attempt in range(3):
        process = subprocess.Popen([sys.executable, str(script), str(target), str(1 + attempt % 2)])
        goal, deadline = chosen.randrange(3, 12) * (attempt + 1), time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            journal = target / "journal.jsonl"
            if journal.exists() and journal.read_bytes().count(b"\n") >= goal:
                break
            time.sleep(0.001)
        workers = children(process.pid)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            interrupted += 1
        process.wait()
        while any(map(running, workers)) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not any(map(running, workers)), "workers outlive their parent"
    assert interrupted
    assert build(micro(), target, pairs=12) == whole[1]
    assert tree(target) == tree(whole[0])


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="child processes are looked up in /proc")
def test_a_worker_that_is_killed_ends_the_build_in_one_line(tmp_path, monkeypatch):
    cli = pytest.importorskip("eqben_builder.cli")  # needs typer
    target = tmp_path / "killed"

    def kill():
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            journal = target / "journal.jsonl"
            if journal.exists() and journal.read_bytes().count(b"\n") >= 3:
                break
            time.sleep(0.001)
        for child in children(os.getpid()):
            if b"--multiprocessing-fork" in Path(f"/proc/{child}/cmdline").read_bytes():
                os.kill(child, signal.SIGKILL)
                return

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(WorkerKilledError, match=r"fewer workers.*the same build continues"):
        build(MicroBuilder(), target, pairs=400, workers=2)
    killer.join()
    done = len((target / "journal.jsonl").read_bytes().splitlines())
    assert done >= 3

    def stop(*arguments, **options):
        raise WorkerKilledError("a worker process was killed")

    monkeypatch.setattr(cli, "make_app", stop)
    with pytest.raises(SystemExit, match=r"^2$"):
        cli.main(["build"])


def cut_short(folder, copy, jobs):
    """A copy of a build as a killed process leaves it after some jobs, with half a line and a stray image."""
    shutil.copytree(folder, copy)
    again = copy.with_name("again")
    lines = []

    class StopError(Exception):
        pass

    def stop(phase, done, total):
        lines[:] = (again / "journal.jsonl").read_bytes().splitlines(keepends=True)
        if len(lines) == jobs:
            raise StopError

    with pytest.raises(StopError):
        build(micro(), again, pairs=12, progress=stop)
    manifest = json.loads((copy / "manifest.json").read_text())
    head = {key: value for key, value in manifest.items() if key in json.loads((again / "manifest.json").read_text())}
    (copy / "manifest.json").write_text(json.dumps(head | {"complete": False}))
    (copy / "journal.jsonl").write_bytes(b"".join(lines) + b'{"job": 4')
    with (copy / "pairs.jsonl").open("ab") as file:
        file.write(b'{"id": "half')
    (copy / "images" / "000" / "999999_0.png").write_bytes(b"stray")


@pytest.mark.parametrize("damage", ["none", "picture", "missing", "pairs"])
def test_what_a_killed_process_left_half_written_is_made_again(whole, tmp_path, damage):
    folder, manifest = whole
    copy = tmp_path / "copy"
    cut_short(folder, copy, 9)
    if damage == "picture":
        (copy / "images" / "000" / "000004_1.png").write_bytes(b"broken")
    if damage == "missing":
        (copy / "images" / "000" / "000000_0.png").unlink()
    if damage == "pairs":
        (copy / "pairs.jsonl").write_bytes((copy / "pairs.jsonl").read_bytes()[:300])
    finished = []
    assert build(micro(), copy, pairs=12, progress=lambda phase, done, total: finished.append(done)) == manifest
    assert tree(copy) == tree(folder)
    assert finished[0] == {"none": 10, "picture": 5, "missing": 1, "pairs": 1}[damage]


@pytest.mark.parametrize("where", ["picture", "row", "journal"])
def test_a_full_disk_leaves_what_was_finished(whole, tmp_path, monkeypatch, where):
    folder, manifest = whole
    target, calls = tmp_path / "full", []
    full = OSError(errno.ENOSPC, "No space left on device")
    append, write = folder_module._append, Path.write_bytes

    def failing_append(file, content):
        calls.append(file.name)
        wanted = "journal.jsonl" if where == "journal" else "pairs.jsonl"
        if where != "picture" and Path(file.name).name == wanted and len(calls) > 16:
            append(file, content[: len(content) // 2])
            raise full
        append(file, content)

    def failing_write(path, content):
        calls.append(path)
        if where == "picture" and len(calls) > 24:
            write(path, content[:5])
            raise full
        return write(path, content)

    with monkeypatch.context() as patched:
        patched.setattr(folder_module, "_append", failing_append)
        patched.setattr(Path, "write_bytes", failing_write)
        with pytest.raises(
            DiskFullError, match=r"the disk of .*full is full after \d+ pairs \(0\.\d MB\).*same build conti"
        ):
            build(micro(), target, pairs=12)
    records = list(read_records(target))
    assert 2 <= len(records) < 20
    assert not list(target.rglob("*.partial"))
    assert all(picture.path.is_file() for record in records for picture in record.pictures())
    assert len(list((target / "images").rglob("*.png"))) == 2 * len(records)
    assert build(micro(), target, pairs=12) == manifest
    assert tree(target) == tree(folder)


def test_a_finite_builder_gives_several_pairs_a_job_and_counts_its_drops(tmp_path):
    manifest = build(Listed(["m", "d", "mdm", "dd", "mm"]), tmp_path / "a")
    assert manifest["pairs"] == 5
    assert manifest["dropped"] == {"too dull": 4}
    assert [record.id for record in read_records(tmp_path / "a")] == [
        "own-000000", "own-000002-000", "own-000002-002", "own-000004-000", "own-000004-001",
    ]  # fmt: skip
    for record in read_records(tmp_path / "a"):
        mask = np.asarray(Image.open(record.mask.path))
        assert mask.sum() == 1
        assert mask[2, 3]
    assert build(Listed(["m", "d", "mdm", "dd", "mm"]), tmp_path / "b", pairs=2)["pairs"] == 2
    verification = verify(tmp_path / "a")
    assert (verification.pairs, verification.certified, verification.failures) == (5, 0, ())


def test_a_pair_of_one_picture_is_none(tmp_path):
    class Frozen(Listed):
        def make(self, index):
            first, second = super().make(index)
            return [first, replace(second, images=(second.images[0], second.images[0]))]

    manifest = build(Frozen(["mm", "mm"]), tmp_path / "a")
    assert manifest["dropped"] == {"both images are the same": 2}
    assert [record.id for record in read_records(tmp_path / "a")] == ["own-000000-000", "own-000001-000"]


def test_near_duplicates_between_pairs_are_dropped(tmp_path):
    builder = Listed(["m"] * 6)
    builder.duplicate_bits = 2
    manifest = build(builder, tmp_path / "a")
    assert (manifest["pairs"], manifest["dropped"]) == (1, {"near-duplicate of another pair": 5})


def test_a_build_without_any_pair_is_an_error_that_says_why(tmp_path):
    with pytest.raises(ValueError, match=r"gives no pair at all \(too dull: 3\)"):
        build(Listed(["d", "dd"]), tmp_path / "a")


class Narrow(MicroBuilder):
    """Three different scenes, over and over."""

    def make(self, index):
        return super().make(index % 3)


def test_parameters_that_make_too_few_scenes_possible_end_with_their_number(tmp_path, monkeypatch):
    monkeypatch.setattr(run_module, "_PATIENCE", 20)
    with pytest.raises(ValueError, match=r"aspect 'count' possible: 3 of 5 found, then 20 .*near-duplicate.*: 20"):
        build(Narrow(size=16, aspects=["count"], duplicate_bits=0), tmp_path / "a", pairs=5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": 9}, r"its parameters\.seed is 3, now it is 9"),
        ({"aspects": ["count"]}, r"its parameters\.aspects"),
        ({"duplicate_bits": 5}, "its duplicate_bits is 2, asked for is 5"),
    ],
)
def test_a_folder_of_another_build_is_left_alone(whole, options, message):
    before = tree(whole[0])
    with pytest.raises(ValueError, match=message):
        build(micro(**options), whole[0], pairs=12)
    assert tree(whole[0]) == before


def test_a_full_folder_an_endless_build_and_numbers_out_of_range_are_refused(tmp_path, whole):
    (tmp_path / "note.txt").write_text("mine")
    with pytest.raises(ValueError, match="is not empty and holds no manifest"):
        build(micro(), tmp_path, pairs=1)
    with pytest.raises(ValueError, match="never ends"):
        build(micro(), tmp_path / "a")
    with pytest.raises(ValueError, match="pairs = 0"):
        build(micro(), tmp_path / "a", pairs=0)
    with pytest.raises(ValueError, match="workers = 0"):
        build(micro(), tmp_path / "a", pairs=1, workers=0)
    with pytest.raises(ValueError, match="aspect 'mood' is not one of"):
        micro(aspects=["mood"])
    with pytest.raises(FileNotFoundError, match=r"holds no pairs\.jsonl"):
        next(read_records(tmp_path / "nowhere"))
    (tmp_path / "manifest.json").write_text('{"schema": "other/2"}')
    with pytest.raises(ValueError, match="field 'schema' is 'other/2'"):
        read_manifest(tmp_path)


def test_a_last_line_without_a_newline_is_a_pair_unless_a_build_is_writing_it(whole, tmp_path):
    lines = (whole[0] / "pairs.jsonl").read_text().splitlines()
    file, journal = tmp_path / "pairs.jsonl", tmp_path / "journal.jsonl"
    file.write_text("\n".join(lines))
    assert len(list(read_records(tmp_path))) == len(lines)
    file.write_text("\n".join(lines)[:-9])
    with pytest.raises(ValueError, match=rf"pairs\.jsonl, line {len(lines)}: "):
        list(read_records(tmp_path))
    journal.touch()
    assert len(list(read_records(tmp_path))) == len(lines) - 1


class Failing(MicroBuilder):
    """Fails at job 7."""

    def make(self, index):
        if index == 7:
            raise RuntimeError("the engine broke")
        return super().make(index)


def test_an_engine_that_fails_leaves_what_was_finished(whole, tmp_path):
    with pytest.raises(RuntimeError, match="the engine broke"):
        build(Failing(size=32, seed=3), tmp_path / "a", pairs=12)
    assert len(list(read_records(tmp_path / "a"))) == 7
    assert build(micro(), tmp_path / "a", pairs=12)["hash"] == whole[1]["hash"]
