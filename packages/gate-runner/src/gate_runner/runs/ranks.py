"""Further processes that train one encoder together with this one, and the process that each of them is."""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gate_data.imports import named
from gate_runner.errors import UsageError
from gate_runner.machine.resources import killed_for_memory
from gate_runner.runs.unit import EvalUnit
from vision_features.encoders.memory import is_out_of_memory

if TYPE_CHECKING:
    import torch
    from torch.distributed import ProcessGroup

COMMAND = [sys.executable, "-P", "-c", "from gate_runner.runs.ranks import main; main()"]
"""``-P``: a file beside the user that is called like a library must not be imported in its place."""
_READY = '{"event": "ready"}\n'
_LONGEST = timedelta(hours=12)
"""Of what one process does alone, such as a validation, while the others wait. A dead one is noticed at once."""
_GLOO = "GLOO_SOCKET_IFNAME"
_DYING = 5.0
"""Seconds in which a process that broke off a training is seen to be dead."""


@contextmanager
def training_together(unit: EvalUnit, device: torch.device) -> Iterator[ProcessGroup | None]:
    """Start the further processes of a training, and end them after it.

    Each loads the encoder and the data by itself, on the next GPU or on the CPU, and runs the same task up to the
    training; it writes nothing.
    """
    order, call = {"unit": unit.to_mapping()}, "gate_runner.runs.ranks:follow"
    with training_processes(unit.settings.num_processes, order, call, device) as group:
        yield group


@contextmanager
def training_processes(
    world: int, arguments: Mapping[str, Any], call: str, device: torch.device
) -> Iterator[ProcessGroup | None]:
    """The same for any training."""
    if world == 1:
        yield None
        return
    import torch.distributed as dist

    if dist.is_initialized():
        raise UsageError("setting num_processes: this process is already in a process group; use --isolate worker")
    kills, devices = killed_for_memory(), [f"cuda:{(device.index or 0) + rank}" for rank in range(1, world)]
    with tempfile.TemporaryDirectory() as folder:
        store, helpers = Path(folder) / "store", []
        try:
            for rank in range(1, world):
                helpers.append(subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
                order = {
                    "given": {**arguments, "device": devices[rank - 1] if device.type == "cuda" else str(device)},
                    "call": call, "rank": rank, "world": world, "store": str(store),
                }  # fmt: skip
                with contextlib.suppress(OSError):  # it is dead already, which the next line that it says tells
                    stream = helpers[-1].stdin
                    assert stream is not None
                    stream.write(json.dumps(order) + "\n")
                    stream.flush()
            for helper in helpers:
                assert helper.stdout is not None
                line = helper.stdout.readline()
                if line != _READY:
                    raise RuntimeError(line)
            yield _joined(store, 0, world, device)
        except Exception as error:
            if isinstance(error, RuntimeError) and not is_out_of_memory(error):
                _name_the_dead(helpers, kills, error)
            raise
        finally:
            if dist.is_initialized():
                dist.destroy_process_group()
            for helper in helpers:
                _end(helper)


def _joined(store: Path, rank: int, world: int, device: torch.device) -> ProcessGroup:
    import torch
    import torch.distributed as dist

    if device.type == "cuda":  # collectives and new tensors without a device go to this process's own GPU
        torch.cuda.set_device(device.index or 0)
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    with _on_the_loopback():
        dist.init_process_group(
            backend, init_method=store.absolute().as_uri(), rank=rank, world_size=world, timeout=_LONGEST
        )
    assert dist.group.WORLD is not None
    return dist.group.WORLD


@contextmanager
def _on_the_loopback() -> Iterator[None]:
    """Let gloo listen on the loopback, as all processes are on this machine, not on what the host's name stands for."""
    before = os.environ.get(_GLOO)
    names = [name for _, name in socket.if_nameindex() if name in ("lo", "lo0")]
    if not names:
        raise UsageError("setting num_processes needs the machine's loopback interface (lo), which is not there")
    os.environ[_GLOO] = names[0]
    try:
        yield
    finally:
        if before is None:
            del os.environ[_GLOO]
        else:
            os.environ[_GLOO] = before


def _name_the_dead(helpers: Sequence[subprocess.Popen[str]], kills: int | None, error: RuntimeError) -> None:
    """Raise what became of the first process that ended badly, if one did."""
    for rank, helper in enumerate(helpers, start=1):
        with contextlib.suppress(subprocess.TimeoutExpired):
            helper.wait(_DYING)
        if not helper.returncode:
            continue
        assert helper.stdout is not None
        lines = f"{error}\n{helper.stdout.read()}".splitlines()  # the first may have been read in place of "ready"
        events = [json.loads(line) for line in lines if line.startswith('{"event"') and line.endswith("}")]
        reason = next((event["reason"] for event in events if event["event"] == "failed"), None)
        status = helper.returncode
        if reason is None:
            reason = f"signal {-status} ({signal.strsignal(-status)})" if status < 0 else f"exit status {status}"
        message = f"process {rank} of {len(helpers) + 1} of this training died: {reason}"
        if status == -signal.SIGKILL and killed_for_memory() != kills:
            raise MemoryError(message) from error
        raise RuntimeError(message) from error


def _end(helper: subprocess.Popen[str]) -> None:
    """Let a process end by itself, as after a training it does; or end it."""
    try:
        helper.wait(_DYING if sys.exc_info()[0] is None else 0)
    except subprocess.TimeoutExpired:
        helper.kill()
        helper.wait()
    for stream in (helper.stdin, helper.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()


def main() -> None:
    """Take part in the training that one line of standard input describes; ends with it, or with its starter."""
    faulthandler.enable()
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print must not stand between the lines
    order = json.loads(sys.stdin.readline())
    threading.Thread(target=_leave_with, args=(sys.stdin,), daemon=True).start()
    try:
        _follow(order, out)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told to whom it concerns
        text = " ".join(str(error).split())
        out.write(json.dumps({"event": "failed", "reason": f"{type(error).__name__}: {text}"}) + "\n")
        out.flush()
        os._exit(1)
    os._exit(0)  # no thread of a backend may hold it up


def _leave_with(lines: Any) -> None:
    lines.read()
    os._exit(0)


def _follow(order: dict[str, Any], out: Any) -> None:
    import torch

    @contextmanager
    def together(kind: str) -> Iterator[ProcessGroup]:
        device = torch.device(order["given"]["device"] if kind == "cuda" else kind)
        out.write(_READY)
        yield _joined(Path(order["store"]), order["rank"], order["world"], device)
        os._exit(0)  # the first process alone goes on from here

    named(order["call"])(order["given"], together)


def follow(order: dict[str, Any], together: Callable[[str], AbstractContextManager[ProcessGroup]]) -> None:
    """Run a unit up to its training, and take a share of that."""
    from gate_runner.benchmarks.resolving import resolve
    from gate_runner.tasks import Job, run_task
    from vision_features.encoders import load_encoder
    from vision_features.encoders.loading import device_for

    unit = EvalUnit.from_mapping(order["unit"])
    encoder = load_encoder(unit.encoder, device=device_for(order["device"]))
    data = unit.load(encoder.image_size)
    watched, join = resolve(unit.settings.keep_zero_shot), lambda: together(encoder.device.type)
    job = Job(encoder, unit.benchmark, data, unit.settings, unit.seed, keep_zero_shot=watched, together=join)
    run_task(job)
