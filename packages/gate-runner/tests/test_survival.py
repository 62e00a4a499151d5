"""What a run survives: crashes, hangs, too little memory, damaged files, other processes, a full disk, kills."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gate_runner.benchmarks import Benchmark, resolve
from gate_runner.errors import EncoderError, StorageError, UsageError
from gate_runner.executors import run, worker_process
from gate_runner.executors.executor import HereExecutor
from gate_runner.executors.worker_process import WorkerProcess
from gate_runner.runs import Result, RunRequest
from gate_runner.runs.folder import RunFolder
from gate_runner.runs.observers import Observer
from gate_runner.runs.stored import read_run
from gate_runner.runs.unit import EvalUnit
from gate_runner.settings import Settings
from wary_files.locks import BusyError, held

NAME = "micro/cifar100"
GATE_RUNNER = [sys.executable, "-P", "-c", "from gate_runner.cli import main; main()"]

MOODS = '''
"""An encoder that misbehaves while a file called as its mood lies in the current directory."""

import os
import time
from pathlib import Path

import torch
from torch import nn


class Moody(nn.Module):
    image_size = 16

    def forward(self, images):
        if len(images) > 2:  # not while it is checked
            if Path("dies").exists():
                os._exit(7)
            if Path("crashes").exists():
                import ctypes
                ctypes.string_at(0)
            if Path("crashes once").exists():
                Path("crashes once").unlink()
                os.abort()
            if Path("hangs").exists():
                time.sleep(600)
            if Path("is killed").exists() and len(images) > 4:
                os.kill(os.getpid(), 9)
            if Path("runs out").exists() and len(images) > 4:
                raise MemoryError
        return nn.functional.adaptive_avg_pool2d(images, 4).flatten(1)


def make():
    return Moody()


def other():
    return nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(12, 4 + os.getpid() % 2))
'''


STEPPED = {"lr": 1e-2, "steps": 600, "batch_size": 128, "validate_every": 50}
"""A linear head that is trained in steps, which can be interrupted, where it would be solved."""
RATE = {"lr": 1e-2}
"""Said by the settings: of whatever is trained in steps."""


def quick(names: list[str], **numbers: int) -> list[Benchmark]:
    short = {"steps": 40, "validate_every": 10, "episodes": 20, **numbers}
    return [
        replace(
            benchmark, training={key: short.get(key, value) for key, value in (benchmark.training or STEPPED).items()}
        )
        for benchmark in resolve(names)
    ]


@pytest.fixture
def moody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"moods_{abs(hash(str(tmp_path)))}"
    (tmp_path / f"{name}.py").write_text(MOODS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return f"{name}:make"


@pytest.fixture
def request_here(moody: str, tmp_path: Path) -> RunRequest:
    return RunRequest(
        quick(["cifar100"]), moody, tmp_path / "run", Settings(limit=64, batch_size=16, recipe_fields=RATE)
    )


@pytest.fixture
def solved_here(moody: str, tmp_path: Path) -> RunRequest:
    """The head is solved: a first training step imports torch's compiler, which takes a worker 1.5 s."""
    return RunRequest(resolve(["cifar100"]), moody, tmp_path / "run", Settings(limit=64, batch_size=16))


def comparable(result: Result) -> dict[str, Any]:
    """A result without what differs between two runs."""
    content: dict[str, Any] = json.loads(result.to_json())
    for varying in ("seconds", "energy", "memory", "digest"):
        content.pop(varying)
    return content


def test_workers_give_what_this_process_gives(solved_here: RunRequest, tmp_path: Path) -> None:
    here = run(solved_here)
    request = replace(solved_here, output=tmp_path / "apart").changed(isolate="worker", seeds=(0, 1, 2), workers=2)
    apart = run(request)
    assert comparable(apart[0]) == comparable(here[0])
    assert [result.seed for result in apart] == [0, 1, 2]
    assert {result.status for result in apart} == {"ok"}


def test_a_crash_is_a_row_and_the_others_go_on(solved_here: RunRequest) -> None:
    Path("dies").touch()

    class Changes(Observer):
        """The encoder behaves worse after the first part."""

        def finished(self, result: Result) -> None:
            if result.seed == 0:
                Path("dies").rename("crashes")

    died, crashed = run(solved_here.changed(isolate="worker", seeds=(0, 1)), observers=[Changes()])
    assert (died.status, died.reason) == ("failed", "its process died: exit status 7")
    assert (crashed.status, crashed.reason) == ("failed", "its process died: signal 11 (Segmentation fault)")
    Path("crashes").unlink()
    assert run(solved_here)[0].status == "ok"  # the same command tries it again


def test_a_hang_ends_at_its_limit_and_a_retry_can_help(solved_here: RunRequest) -> None:
    Path("hangs").touch()
    (failed,) = run(solved_here.changed(isolate="worker", time_limit=1.5))
    assert failed.reason == "stopped at its time limit of 2 s; it goes on from there next time"
    Path("hangs").unlink()
    Path("crashes once").touch()
    starts = []

    class Counting(Observer):
        def started(self, name: str, seed: int) -> None:
            starts.append(name)

    (passed,) = run(solved_here.changed(isolate="benchmark", retries=1), observers=[Counting()])
    assert passed.status == "ok"
    assert starts == [NAME, NAME]


def test_too_little_memory_halves_the_batch_and_gives_the_same(
    request_here: RunRequest, tmp_path: Path, cold_cache: Callable[[], Path]
) -> None:
    whole = run(request_here)[0]
    cold_cache()
    Path("runs out").touch()
    (halved,) = run(replace(request_here, output=tmp_path / "halved"))
    assert halved.training["encoder_batch"] == 4
    assert halved.scores == whole.scores
    assert not list((tmp_path / "halved" / "unfinished").iterdir())


def test_halving_starts_from_what_goes_through_a_cpu_at_once(
    moody: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a batch of 256 the CPU is given 16 at a time: a half, a quarter and an eighth were the same once more."""
    monkeypatch.setattr("torch.get_num_threads", lambda: 1)
    Path("runs out").touch()
    loads, load = [], EvalUnit.load

    def noting(self: EvalUnit, size: Any) -> Any:
        loads.append(self.settings.batch_size)
        return load(self, size)

    monkeypatch.setattr(EvalUnit, "load", noting)
    settings = Settings(limit=64, batch_size=256, recipe_fields=RATE, device="cpu", isolate="none")
    (result,) = run(RunRequest(quick(["cifar100"]), moody, tmp_path / "run", settings))
    assert (result.status, result.training["encoder_batch"], loads) == ("ok", 4, [256, 8, 4])


def test_a_worker_that_the_system_kills_for_memory_gets_smaller_batches(
    solved_here: RunRequest, monkeypatch: pytest.MonkeyPatch, cold_cache: Callable[[], Path]
) -> None:
    Path("is killed").touch()
    kills, cache = iter(range(100)), cold_cache()
    monkeypatch.setattr(worker_process, "killed_for_memory", lambda: next(kills))  # it rises between any two looks

    class Somebody(Observer):
        """From the second part on the system's count stays as it is, and images have to be encoded again."""

        def finished(self, result: Result) -> None:
            monkeypatch.setattr(worker_process, "killed_for_memory", lambda: 3)
            shutil.rmtree(cache)

    halved, failed = run(solved_here.changed(isolate="worker", batch_size=8, seeds=(0, 1)), observers=[Somebody()])
    assert (halved.status, halved.training["encoder_batch"]) == ("ok", 4)
    assert failed.reason == "its process died: signal 9 (Killed)"


def test_a_training_that_runs_out_goes_on_in_micro_batches(
    request_here: RunRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    from vision_adapters.heads import LinearHead

    whole = run(request_here)[0]
    forward, steps = LinearHead.forward, []

    def greedy(self: LinearHead, features: torch.Tensor) -> torch.Tensor:
        if torch.is_grad_enabled() and len(features) > 16:
            steps.append(len(features))
            if len(steps) > 25:  # in the middle, after two validations
                raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")
        return forward(self, features)

    monkeypatch.setattr(LinearHead, "forward", greedy)
    (cut,) = run(replace(request_here, output=tmp_path / "cut"))
    assert cut.training["micro_batches"] == 4
    assert cut.training["validation"] == whole.training["validation"]
    assert cut.scores == whole.scores


def test_parts_of_a_batch_give_the_gradient_of_the_whole() -> None:
    import torch

    from vision_adapters.heads import SegmentationHead, seeded
    from vision_adapters.losses import acdc_loss
    from vision_adapters.training.head import in_micro_batches

    generator = torch.Generator().manual_seed(0)
    tokens = torch.randn(5, 4, 6, generator=generator)
    targets = torch.randint(0, 3, (5, 8, 8), generator=generator)
    gradients = []
    for parts in (1, 2, 5):
        head = seeded(lambda: SegmentationHead(6, 3, grid=(2, 2), size=(8, 8), width=8, depth=1, heads=2), 0)
        names = list(head.state_dict())
        in_micro_batches(head, parts)
        assert list(head.state_dict()) == names
        torch.autograd.backward(acdc_loss(head(tokens), targets))
        gradients.append(torch.cat([p.grad.flatten() for p in head.parameters() if p.grad is not None]))
    for other in gradients[1:]:
        torch.testing.assert_close(other, gradients[0], rtol=1e-5, atol=1e-7)


def test_an_edited_result_is_named_and_computed_again_on_request(request_here: RunRequest) -> None:
    good = run(request_here)[0]
    path = RunFolder(request_here.output).result_file(NAME, 0)
    whole = path.read_text()
    content = json.loads(whole)
    content["scores"][0]["value"] = 0.999
    for text, message in (
        (json.dumps(content), "was changed after it was written"),
        (whole[:70], "is not a result file"),
        (json.dumps({**content, "extra": 1}), r"unknown fields \['extra'\]"),
    ):
        path.write_text(text)
        with pytest.raises(UsageError, match=f"{path.name}.*{message}"):
            run(request_here)
        assert path.read_text() == text
        (again,) = run(request_here.changed(recompute=True))
        assert comparable(again) == comparable(good)


def test_samples_of_another_run_are_noticed(request_here: RunRequest) -> None:
    run(request_here)
    path = RunFolder(request_here.output).samples_file(NAME, 0)
    np.savez_compressed(path, outcomes=np.zeros(64))
    with pytest.raises(UsageError, match="does not belong to its result"):
        run(request_here)
    path.unlink()
    with pytest.raises(UsageError, match="does not hold per-sample outcomes"):
        run(request_here)
    assert run(request_here.changed(recompute=True))[0].status == "ok"


def test_a_damaged_checkpoint_starts_the_training_anew(request_here: RunRequest) -> None:
    good = run(request_here)[0]
    folder = RunFolder(request_here.output)
    folder.result_file(NAME, 0).unlink()
    folder.unfinished_file(NAME, 0).write_bytes(b"half a checkp")
    left = folder.unfinished_file(NAME, 0).with_name("micro-cifar100.seed0.pt.999.partial")
    left.write_bytes(b"x")
    (folder.path / "results" / ".micro-cifar100.seed0.json.abc").write_text("{")
    assert comparable(run(request_here)[0]) == comparable(good)
    assert not left.exists()
    assert [path.name for path in (folder.path / "results").iterdir()] == ["micro-cifar100.seed0.json"]


def test_what_was_encoded_is_not_encoded_again(
    request_here: RunRequest, monkeypatch: pytest.MonkeyPatch, cold_cache: Callable[[], Path]
) -> None:
    from vision_features.encoders.encoder import Encoder

    whole = run(replace(request_here, output=request_here.output.with_name("whole")))[0]
    cache = cold_cache()

    class Stops(Observer):
        def progress(self, name: str, seed: int, phase: str, done: int, total: int) -> None:
            if phase == "train" and done == 15:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(request_here, observers=[Stops()])
    order = sorted(cache.rglob("*.digests.npy"), key=lambda path: path.stat().st_mtime_ns)  # as they were used last
    train, _, test = (path.with_name(path.name.replace(".digests", "")) for path in order)
    damaged = bytearray(train.read_bytes())
    damaged[-1] ^= 1  # one bit of the last batch is wrong: computed again
    train.write_bytes(damaged)
    log = test.with_name(f"{test.name}.done")
    log.write_text("of other images\n" + "\n".join(log.read_text().splitlines()[1:]))
    monkeypatch.setattr("vision_features.features.segments._SOUND", {})  # as in a new process
    sizes = []
    module_of = Encoder.to

    def counting(self: Encoder, device: str) -> None:
        module_of(self, device)
        plain = self.image

        def image(images: Any) -> Any:
            sizes.append(len(images))
            return plain(images)

        self.image = image

    monkeypatch.setattr(Encoder, "to", counting)
    (continued,) = run(request_here)
    # The check before the run, the last of training, all of the test, and single ones for how long one takes.
    assert sizes == [2, *5 * [16], 1, 1, 1, 1]
    assert comparable(continued) == comparable(whole)
    assert not list((request_here.output / "unfinished").iterdir())


def test_a_full_disk_stops_the_run_and_keeps_what_is_finished(
    request_here: RunRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run(request_here)[0]
    fsync = os.fsync

    def full(handle: int) -> None:
        if "seed1" in str(Path(f"/proc/self/fd/{handle}").readlink()):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match=r"cannot write .*No space left on device; what is finished is kept"):
        run(request_here.changed(seeds=(0, 1, 2)))
    monkeypatch.undo()
    paths = [path for path in request_here.output.rglob("*") if path.is_file()]
    names = [path.name for path in paths if path.parent.suffix != ".features"]  # what was encoded waits for more room
    assert sorted(names) == ["manifest.json", "micro-cifar100.seed0.json", "micro-cifar100.seed0.npz"]
    assert run(request_here) == [first]


def test_a_folder_that_cannot_be_written_is_one_line(request_here: RunRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(StorageError, match=r"cannot write .*manifest.lock: Read-only file system"):
        run(request_here)
    assert not list(request_here.output.rglob("*.json"))


def test_what_is_all_there_is_read_from_a_read_only_folder(
    request_here: RunRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run(request_here)
    before = {path: path.stat().st_mtime_ns for path in request_here.output.rglob("*")}
    assert run(request_here) == first
    assert {path: path.stat().st_mtime_ns for path in request_here.output.rglob("*")} == before


def test_a_lock_is_held_by_one_and_free_after_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "locks" / "one.lock"
    code = textwrap.dedent(f"""
        import time
        from pathlib import Path
        from wary_files.locks import held
        with held(Path({str(path)!r})):
            print("held", flush=True)
            time.sleep(60)
    """)
    other = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    assert other.stdout.readline() == "held\n"
    with pytest.raises(BusyError, match=f"is held by process {other.pid} on"), held(path):
        pass
    other.kill()
    other.wait()
    other.stdout.close()
    assert path.exists()  # what it left means nothing
    with held(path, wait=5):
        assert json.loads(path.read_text())["pid"] == os.getpid()
    assert not path.exists()


def test_two_commands_in_one_folder_share_the_work_and_name_who_is_there(moody: str, tmp_path: Path) -> None:
    """Two `gate-runner run` find seed 0 taken, say by whom, share the others, and wait."""
    folder = tmp_path / "run"
    command = [*GATE_RUNNER, "run", "digits", "--seed", "0", "--seed", "1", "--seed", "2", "--limit", "60",
               "--encoder", moody, "--output", str(folder), "--isolate", "none"]  # fmt: skip
    logs = [tmp_path / "a.log", tmp_path / "b.log"]
    with RunFolder(folder).working("digits", 0):
        both = []
        for log in logs:
            with log.open("w") as file:
                both.append(subprocess.Popen(command, cwd=tmp_path, stdout=file, stderr=subprocess.STDOUT))
        end = time.monotonic() + 300
        text = f"digits seed 0 is being computed by process {os.getpid()} on"
        while not all(text in log.read_text() for log in logs):
            assert time.monotonic() < end, [log.read_text() for log in logs]
            assert all(result.poll() is None for result in both), [log.read_text() for log in logs]
            time.sleep(0.05)
    assert [result.wait(300) for result in both] == [0, 0], [log.read_text() for log in logs]
    results = read_run(folder).results
    assert [(result.seed, result.status) for result in results] == [(0, "ok"), (1, "ok"), (2, "ok")]
    assert not list(folder.rglob("*.lock"))


def test_two_runs_in_one_folder_share_the_work(request_here: RunRequest) -> None:
    """The second finds seed 0 taken, computes seed 1, and then waits for the first."""
    folder = RunFolder(request_here.output)
    request = request_here.changed(seeds=(0, 1))
    alone = run(replace(request, output=request_here.output.with_name("alone")))
    waits: list[tuple[str, int, str]] = []
    lock = folder.working(NAME, 0)
    lock.__enter__()

    class Watching(Observer):
        def postponed(self, name: str, seed: int, owner: str) -> None:
            waits.append((name, seed, owner))

        def finished(self, result: Result) -> None:
            if result.seed == 1:
                lock.__exit__(None, None, None)

    both = run(request, observers=[Watching()])
    assert [comparable(result) for result in both] == [comparable(result) for result in alone]
    assert waits[0][:2] == (NAME, 0)
    assert waits[0][2].startswith(f"process {os.getpid()} on ")


def test_weights_from_no_seed_are_noticed(moody: str, tmp_path: Path) -> None:
    spec = f"{moody.partition(':')[0]}:other"
    slot = WorkerProcess(spec, "cpu")
    slot.opening = HereExecutor(RunRequest([], spec, tmp_path / "run")).open()  # as if a worker had loaded it before
    with pytest.raises(UsageError, match="has other weights each time it is loaded"):
        slot.open()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"time_limit": 5.0}, "setting time_limit needs processes of their own"),
        ({"workers": 2}, "--workers needs processes"),
        ({"isolate": "yes"}, "unknown value of --isolate 'yes'; there are: benchmark, none, worker"),
        ({"retries": -1}, "setting retries must be at least 0, not -1"),
        ({"isolate": "worker", "executor": "lokal"}, "unknown executor 'lokal'; nearest: local"),
        ({"isolate": "worker", "executor_options": {"a": "b"}}, r"takes no options, not \['a'\]"),
    ],
)
def test_requests_that_make_no_sense(request_here: RunRequest, change: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        run(request_here.changed(**change))
    assert not request_here.output.exists()


def test_an_observer_that_fails_is_dropped(request_here: RunRequest) -> None:
    class Bad(Observer):
        def progress(self, name: str, seed: int, phase: str, done: int, total: int) -> None:
            raise RuntimeError("no network")

    with pytest.warns(RuntimeWarning, match="Bad failed and is told nothing more: RuntimeError: no network"):
        assert run(request_here, observers=[Bad()])[0].status == "ok"


COMMAND = """
from dataclasses import replace
from pathlib import Path
from gate_runner.benchmarks import resolve
from gate_runner.executors import run
from gate_runner.runs import RunRequest
from gate_runner.settings import Settings
import sys
(one,) = resolve(["cifar100"])
one = replace(one, training={"lr": 1e-2, "batch_size": 128, "steps": 400, "validate_every": 20})
run(RunRequest([one], sys.argv[1], Path(sys.argv[2]), Settings(limit=300, isolate=sys.argv[3])))
"""


def test_killed_twice_it_ends_as_undisturbed(moody: str, tmp_path: Path) -> None:
    """Killed with SIGKILL at a checkpoint that grows each time.

    First the process that watches, and with it its worker; then one that trains by itself.
    """
    command = [sys.executable, "-c", COMMAND, moody]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    request = RunRequest(
        quick(["cifar100"], steps=400, validate_every=20), moody, tmp_path / "whole", Settings(limit=300)
    )
    (whole,) = run(request)
    folder = RunFolder(tmp_path / "killed")
    checkpoint = folder.unfinished_file(NAME, 0)
    for isolate in ("worker", "none"):
        before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
        process = subprocess.Popen(
            [*command, str(folder.path), isolate], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        end = time.monotonic() + 60
        while time.monotonic() < end and process.poll() is None:
            if checkpoint.exists() and checkpoint.stat().st_mtime_ns != before:
                break
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.wait()
        end = time.monotonic() + 30
        while time.monotonic() < end and _held(folder):  # its worker notices, and goes too
            time.sleep(0.02)
        assert not _held(folder)
        assert checkpoint.exists()
    (continued,) = run(replace(request, output=folder.path))
    assert comparable(continued) == comparable(whole)


def _held(folder: RunFolder) -> bool:
    try:
        with folder.working(NAME, 0):
            return False
    except BusyError:
        return True


def test_a_worker_that_gives_no_sign_is_reported_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing was printed for as long as an encoder hung."""
    monkeypatch.setattr(worker_process, "_QUIET", 0.05)
    worker = worker_process.WorkerProcess("hung", "cpu")
    started = time.monotonic()
    for part, reports in (("digits 0", 1), ("digits 0", 1), ("digits 1", 2)):
        with pytest.raises(queue.Empty):
            worker._heard(f"{part} is still in encode", 0.3, once=part)
        assert caplog.text.count("is still in encode, and its process has given no sign for") == reports
    assert time.monotonic() - started > 0.8  # the time limit counts from the same moment
    worker.events.put({"event": "progress"})
    assert worker._heard("digits 2 is still in encode", None, once="digits 2") == {"event": "progress"}
    assert len(caplog.records) == 2


def test_an_encoder_that_hangs_while_it_is_loaded_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "hanging_encoder.py").write_text("import time\ndef make():\n    time.sleep(10**6)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(worker_process, "_QUIET", 0.2)
    worker = worker_process.WorkerProcess("hanging_encoder:make", "cpu")

    def opened() -> None:
        with contextlib.suppress(EncoderError):  # it is closed below
            worker.open()

    opening = threading.Thread(target=opened, daemon=True)
    opening.start()
    try:
        end = time.monotonic() + 60
        while not caplog.records and time.monotonic() < end:
            time.sleep(0.05)
    finally:
        worker.close()
    assert "encoder 'hanging_encoder:make' is still loading, and its process has given no sign" in caplog.text
