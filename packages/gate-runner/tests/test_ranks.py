"""One encoder trained by two processes: the same result as by one, one writer, and a name for the dead."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from gate_runner.benchmarks import BENCHMARKS
from gate_runner.errors import UsageError
from gate_runner.executors import run
from gate_runner.runs import RunRequest, ranks
from gate_runner.runs.observers import Observer
from gate_runner.runs.request import make_request
from gate_runner.runs.results import Result
from gate_runner.settings import Settings

FIELDS = {"steps": 6, "batch_size": 7, "validate_every": 3, "lr": 1e-3}
DIES = """
import os
from vision_adapters.training.step import Stepper
take = Stepper.take
Stepper.take = lambda self, step, *rest: os.kill(os.getpid(), 9) if step == 5 else take(self, step, *rest)
from gate_runner.runs.ranks import main
main()
"""
SMALL = """
import torch
import torch
from torch import nn


class Small(nn.Module):
    image_size = 16

    def __init__(self):
        super().__init__()
        self.stem, self.mix, self.end = nn.Conv2d(3, 8, 4, stride=4), nn.Linear(8, 8), nn.LayerNorm(8)

    def forward(self, images):
        places = self.stem(images).flatten(2).transpose(1, 2)
        return self.end(places + self.mix(places).relu()).mean(1)


def make():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Small()
"""
BREAKS = """
from gate_runner.runs import ranks
def broken(order, out): raise OSError("no such disk")
ranks._follow = broken
ranks.main()
"""


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An encoder that trains in a moment and imports torch alone, which each process does anew."""
    name = f"small_{abs(hash(str(tmp_path)))}"
    (tmp_path / f"{name}.py").write_text(SMALL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return f"{name}:make"


def trained(encoder: str, output: Path, **options: Any) -> Result:
    settings = Settings(limit=40, device="cpu", tune="full", recipe_fields=FIELDS).changed(**options)
    (result,) = run(RunRequest([BENCHMARKS["digits"]], encoder, output, settings), Observer())
    return result


def test_two_processes_train_as_one_does_and_one_of_them_writes(small: str, tmp_path: Path) -> None:
    single = trained(small, tmp_path / "one")
    two = trained(small, tmp_path / "two", num_processes=2)
    assert two.status == "ok", two.reason
    for row, own in zip(two.training["gradients"], single.training["gradients"], strict=True):
        assert row == pytest.approx(own, rel=2e-3, abs=1e-5)
    assert two.training["validation"] == single.training["validation"]
    assert two.scores == single.scores
    files = {path.relative_to(tmp_path / "two") for path in (tmp_path / "two").rglob("*") if path.is_file()}
    assert files == {path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*") if path.is_file()}
    identity = [json.loads((tmp_path / name / "manifest.json").read_text())["identity"] for name in ("one", "two")]
    assert identity[0] == identity[1]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (DIES, "process 1 of 2 of this training died: signal 9 (Killed)"),
        ("raise SystemExit(7)", "process 1 of 2 of this training died: exit status 7"),
        (
            BREAKS,
            "process 1 of 2 of this training died: OSError: no such disk",
        ),
    ],
    ids=["killed", "exits", "fails"],
)
def test_a_process_that_dies_is_named_and_the_training_goes_on_later(
    command: str, message: str, small: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranks, "COMMAND", [sys.executable, "-c", command])
    result = trained(small, tmp_path / "run", num_processes=2)
    assert (result.status, result.reason) == ("failed", f"RuntimeError: {message}")
    if command == DIES:
        assert len(list((tmp_path / "run" / "unfinished").glob("*"))) > 0
        monkeypatch.undo()
        again = trained(small, tmp_path / "run")  # the checkpoint of step 3 is anybody's
        assert again.status == "ok"


def test_what_one_process_alone_can_train_is_refused(tmp_path: Path) -> None:
    two = Settings(tune="full", num_processes=2)
    with pytest.raises(UsageError, match="num_processes=2: an encoder that is an object trains in one process"):
        make_request("digits", nn.Identity(), output=tmp_path, settings=two, name="mine")
    with pytest.raises(UsageError, match="detectors train in one process"):
        make_request("micro/odinw", "hf-detector:here", output=tmp_path, settings=two)
    with pytest.raises(UsageError, match="setting num_processes is for an encoder that is trained"):
        Settings(num_processes=2)
    with pytest.raises(UsageError, match="setting num_processes must be at least 1, not 0"):
        Settings(num_processes=0)


OTHER_NAME = """
import fcntl, os, socket, struct, sys
control = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
fcntl.ioctl(control, 0x8914, struct.pack("16sh", b"lo", 0x49))  # the loopback is up
address = struct.pack("16sH2s4s8s", b"lo:1", socket.AF_INET, b"", socket.inet_aton("192.0.2.2"), b"")
fcntl.ioctl(control, 0x8916, address)
open("hosts", "w").write("192.0.2.2 server7\\n")
if os.system("mount --bind hosts /etc/hosts"):
    raise SystemExit(3)
socket.sethostname("server7") if hasattr(socket, "sethostname") else sys.exit(3)
print("other name", flush=True)
from pathlib import Path
import torch
from gate_runner.runs.ranks import _joined
_joined(Path("store"), 0, 1, torch.device("cpu"))
files = [f"/proc/self/fd/{file}" for file in os.listdir("/proc/self/fd")]
own = {os.readlink(file) for file in files if os.path.islink(file)}
rows = [line.split() for line in open("/proc/net/tcp").readlines()[1:]]
listening = [row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in own]
print(*[socket.inet_ntoa(bytes.fromhex(one[:8])[::-1]) for one in listening])
"""


@pytest.mark.skipif(not shutil.which("unshare"), reason="needs a network of its own")
def test_processes_listen_on_the_loopback_whatever_the_hosts_name_is(tmp_path: Path) -> None:
    command = ["unshare", "-Urmn", "--uts", sys.executable, "-c", OTHER_NAME]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    if "other name" not in done.stdout:
        pytest.skip(f"no network of its own here: {done.stderr[-200:]}")
    assert done.stdout.splitlines() == ["other name", "127.0.0.1"], done.stderr


@pytest.mark.parametrize(("device", "chosen"), [("cuda:3", [3]), ("cuda", [0]), ("cpu", [])])
def test_each_process_computes_on_its_own_gpu(
    device: str, chosen: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch.distributed as dist

    set_to: list[int] = []
    order: list[str] = []
    monkeypatch.setattr(torch.cuda, "set_device", lambda number: (set_to.append(number), order.append("device")))
    monkeypatch.setattr(dist, "init_process_group", lambda backend, **_: order.append(backend))
    monkeypatch.setattr(dist.group, "_WORLD", object(), raising=False)
    monkeypatch.setattr(type(dist.group), "WORLD", object(), raising=False)
    ranks._joined(tmp_path / "store", 1, 2, torch.device(device))
    assert set_to == chosen
    assert order[-1] == ("cpu:gloo,cuda:nccl" if chosen else "gloo")
    assert order[:-1] == ["device"] * len(chosen)  # before the group is made
