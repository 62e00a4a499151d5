"""A real SLURM of two nodes: whatever happens to a job or to who submitted it, the same command ends right.

Where `cluster.INSTALL` was not run, all of it is skipped.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.slurm.cluster import INSTALL, NODES, Cluster, missing

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(bool(missing()), reason=f"no {', '.join(missing())} here: {INSTALL}"),
]
HERE = Path(__file__).parent
_LONG = 300.0
"""Seconds after which what is waited for is missing: a busy machine takes a minute to start six jobs."""
_START = "from gate_runner.executors import jobs; jobs._LAST = jobs._FIRST; from gate_runner.cli import main; main()"
"""The command line, which asks this SLURM every two seconds, as nobody else does."""
PHASES = ("load", "data", "encode", "train", "save", "saved")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as started:
        yield started
    assert started.processes() == []


def _hear_ctrl_c() -> None:
    """Undo what a script's ``pytest &`` hands on to all processes below it: Ctrl-C is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Submitter(subprocess.Popen[str]):
    """A command that submits, and the file of what it prints."""

    log: Path


class Job(NamedTuple):
    """A job as SLURM shows it."""

    state: str
    restarts: int
    node: str


class Lab:
    """A folder in which somebody submits runs, and what they see of them."""

    def __init__(self, cluster: Cluster, place: Path, seeds: int) -> None:
        self.cluster, self.place, self.seeds = cluster, place, seeds
        for name in ("hold", "at"):
            (place / name).mkdir(parents=True)
        shutil.copy(HERE / "held.py", place / "held.py")
        self.submitters: list[Submitter] = []
        self.environment = cluster.environment | {
            "HELD": str(place), "GATE_RUNNER_CACHE": str(place / "cache"), "OMP_NUM_THREADS": "1"
        }  # fmt: skip

    def command(self, *options: str) -> Submitter:
        seeds = [word for seed in range(self.seeds) for word in ("--seed", str(seed))]
        log = self.place / f"{len(self.submitters)}.log"
        with log.open("w") as file:
            process = Submitter(
            [sys.executable, "-P", "-c", _START, "run", "cifar100", "--encoder",
             "held:make", "--limit", "64", *seeds, "--output", "run", "--executor", "slurm", *options],
            cwd=self.place, env=self.environment, text=True, stdout=file, stderr=file, start_new_session=True,
            preexec_fn=_hear_ctrl_c,
        )  # fmt: skip
        process.log = log
        self.submitters.append(process)
        return process

    def hold(self, index: int, phase: str) -> None:
        (self.place / "hold" / str(index)).write_text(phase)

    def release(self, *indices: int) -> None:
        for index in indices or range(self.seeds):
            (self.place / "hold" / str(index)).unlink(missing_ok=True)

    def reached(self, phase: str, index: int = 0) -> list[Path]:
        return list((self.place / "at").glob(f"*_{index} {phase}"))

    def jobs(self) -> dict[str, Job]:
        """Each job of the folder, in the order of their numbers."""
        fields = "--Format=JobArrayID:99,State:99,RestartCnt:99,NodeList:99,Command:999"
        lines = self.cluster.ask("squeue", "--noheader", "--array", "--states=all", fields).splitlines()
        rows = [[line[start : start + 99].strip() for start in range(0, 396, 99)] for line in lines
                if f"{self.place}/run/" in line]  # fmt: skip
        rows.sort(key=lambda row: _order(row[0]))
        return {number: Job(state, int(restarts), node) for number, state, restarts, node in rows}

    def job(self, index: int) -> str:
        return [number for number in self.jobs() if _order(number)[1] == index][-1]

    def state(self, index: int = 0) -> str:
        return self.jobs()[self.job(index)].state

    def requeued(self, *indices: int) -> bool:
        """Whether SLURM has queued these parts again, be they still in the queue or running once more."""
        return all(self.jobs()[self.job(index)].restarts == 1 for index in indices)

    def computed(self) -> Counter[int]:
        file = self.place / "computed"
        return Counter(int(line.split()[0]) for line in file.read_text().splitlines()) if file.exists() else Counter()

    def results(self) -> dict[int, dict[str, object]]:
        found = [json.loads(path.read_text()) for path in (self.place / "run" / "results").glob("*.json")]
        return {result["seed"]: result for result in found}

    def right(self, expected: dict[int, object], *, times: int = 1) -> None:
        """Every part has the score of this process, and was computed so many times."""
        assert {seed: result["scores"] for seed, result in self.results().items()} == expected
        assert self.computed() == dict.fromkeys(range(self.seeds), times)


def _order(number: str) -> tuple[int, int]:
    job, _, index = number.partition("_")
    return int(job), int(index or 0)


@pytest.fixture
def lab(cluster: Cluster, tmp_path: Path) -> Iterator[Callable[[int], Lab]]:
    labs: list[Lab] = []

    def made(seeds: int) -> Lab:
        labs.append(Lab(cluster, tmp_path / f"lab{len(labs)}", seeds))
        return labs[-1]

    yield made
    for one in labs:
        one.release()
        for process in one.submitters:
            if process.poll() is None:
                process.kill()
                process.wait()
        for number, job in one.jobs().items():
            if job.state in ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING"):
                cluster.ask("scancel", number)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[int, object]:
    """Scores of each seed in one process without SLURM."""
    place = tmp_path_factory.mktemp("here")
    (place / "at").mkdir()
    shutil.copy(HERE / "held.py", place / "held.py")
    seeds = [word for seed in range(len(PHASES)) for word in ("--seed", str(seed))]
    subprocess.run(
        [sys.executable, "-P", "-c", "from gate_runner.cli import main; main()", "run", "cifar100", "--encoder",
         "held:make", "--limit", "64", *seeds, "--output", "run", "--setting", "isolate=none"],
        cwd=place, env={**os.environ, "HELD": str(place), "GATE_RUNNER_CACHE": str(place / "cache")}, check=True,
        capture_output=True,
    )  # fmt: skip
    results = [json.loads(path.read_text()) for path in (place / "run" / "results").glob("*.json")]
    return {result["seed"]: result["scores"] for result in results}


def until(what: str, condition: Callable[[], object], process: Submitter | None = None) -> None:
    """Wait; a submitter that ended before is shown."""
    end = time.monotonic() + _LONG
    while not condition():
        if process is not None and process.poll() is not None:
            pytest.fail(f"the command ended before {what}:\n{process.log.read_text()}")
        if time.monotonic() > end:
            pytest.fail(f"no {what} in {_LONG:.0f} s")
        time.sleep(0.1)


def ended(process: Submitter, status: int = 0) -> str:
    process.wait(_LONG)
    text = process.log.read_text()
    assert process.returncode == status, text
    assert "Traceback" not in text
    assert "sacct" not in text
    return text


def some(expected: dict[int, object], seeds: int) -> dict[int, object]:
    return {seed: expected[seed] for seed in range(seeds)}


def test_an_array_of_parts_a_killed_one_and_a_preempted_one(
    lab: Callable[[int], Lab], expected: dict[int, object]
) -> None:
    one = lab(3)
    one.hold(1, "data")
    one.hold(2, "train")
    command = one.command("--setting", "executor_options=slurm_partition=graceful")
    until("two parts that wait", lambda: one.reached("data", 1) and one.reached("train", 2), command)
    assert [_order(number)[0] for number in one.jobs()] == [_order(number)[0] for number in one.jobs()][:1] * 3

    # The process of one part is killed: a row that failed, with a reason.
    (worker,) = [
        pid
        for pid in one.cluster.processes()
        if _variable(pid, "SLURM_ARRAY_TASK_ID") == "1"
        and b"gate_runner.executors.worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
    os.kill(worker, signal.SIGKILL)
    until("the row of the killed part", lambda: 1 in one.results(), command)
    assert one.results()[1]["status"] == "failed"
    assert "its process died: signal 9" in str(one.results()[1]["reason"])

    # Somebody with a higher priority takes the other's node: it waits in the queue, and goes on.
    one.cluster.ask("sbatch", "--partition=urgent", "--nodes=2", "--exclusive", "--wrap=sleep 4", "--output=/dev/null")
    until("a part in the queue", lambda: one.requeued(2), command)
    one.release()
    text = ended(command, 1)
    assert "signal 9" in text
    assert one.results()[2]["scores"] == expected[2]

    ended(one.command())
    one.right(some(expected, 3))
    assert len(one.jobs()) == 4


def _variable(pid: int, name: str) -> str:
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    except OSError:  # it has ended
        return ""
    return next((text.partition("=")[2] for text in variables if text.startswith(f"{name}=")), "")


def _watcher(pid: int) -> int:
    """The slurmstepd that a process is a child of; 0 where it is another's."""
    parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return parent if "slurmstepd" in Path(f"/proc/{parent}/comm").read_text() else 0


def test_a_part_that_reaches_slurms_time_limit(lab: Callable[[int], Lab], expected: dict[int, object]) -> None:
    """Shortly before, it is queued again, and goes on."""
    one = lab(2)
    one.hold(1, "train")
    command = one.command()
    until("a part that trains", lambda: 0 in one.results() and one.reached("train", 1), command)
    one.cluster.ask("scontrol", "update", f"jobid={one.job(1)}", "timelimit=1")
    until("a part in the queue", lambda: one.requeued(1), command)
    one.cluster.ask("scontrol", "update", f"jobid={one.job(1)}", "timelimit=60")
    one.release()
    ended(command)
    one.right(some(expected, 2))
    assert len(one.jobs()) == 2


def test_a_job_that_somebody_cancels(lab: Callable[[int], Lab], expected: dict[int, object]) -> None:
    one = lab(2)
    one.hold(1, "train")
    command = one.command()
    until("a part that trains", lambda: one.reached("train", 1), command)
    time.sleep(2)
    one.cluster.ask("scancel", one.job(1))
    text = ended(command, 1)
    row = one.results()[1]
    assert re.fullmatch(r"its job \S+ failed: it was cancelled \(.*CANCELLED.*\)", str(row["reason"])), row["reason"]
    assert 2 < row["seconds"]["total"] < _LONG  # type: ignore[index]
    assert "it was cancelled" in text
    one.release()
    ended(one.command())
    one.right(some(expected, 2))


def test_nodes_that_are_drained_and_one_that_dies(lab: Callable[[int], Lab], expected: dict[int, object]) -> None:
    one = lab(2)
    one.hold(0, "data")
    one.hold(1, "encode")
    command = one.command()
    until("both parts", lambda: one.reached("data", 0) and one.reached("encode", 1), command)
    lost = one.jobs()[one.job(0)].node
    other = next(node for node in NODES if node != lost)
    try:
        one.cluster.ask("scontrol", "update", f"nodename={other}", "state=drain", "reason=test")
        steps = [pid for pid in one.cluster.processes() if _variable(pid, "SLURMD_NODENAME") == lost]
        watchers = {parent for pid in steps if (parent := _watcher(pid))}
        one.cluster.stop(lost, signal.SIGKILL)
        for pid in (*watchers, *steps):  # those first that would tell the controller of the others' end
            os.kill(pid, signal.SIGKILL)
        one.cluster.ask("scontrol", "update", f"nodename={lost}", "state=down", "reason=test")
        until("a part in the queue", lambda: one.requeued(0), command)
        one.release()
        line = "1 job waits in SLURM's queue: Nodes required for job are DOWN, DRAINED or reserved"
        until("SLURM's reason", lambda: line in command.log.read_text(), command)
        # Only the other node: SLURM still has to end the lost one's jobs, and would end what it starts there.
        one.cluster.ask("scontrol", "update", f"nodename={other}", "state=resume")
        ended(command)
    finally:
        one.cluster.node(lost)
        one.cluster.resume()
    one.right(some(expected, 2))


def test_ctrl_c_cancels_the_jobs_and_the_same_command_goes_on(
    lab: Callable[[int], Lab], expected: dict[int, object]
) -> None:
    one = lab(2)
    one.hold(1, "train")
    command = one.command()
    until("a result and a part that trains", lambda: 0 in one.results() and one.reached("train", 1), command)
    command.send_signal(signal.SIGINT)
    text = ended(command, 130)
    assert " of 2 results are in run" in text
    until("no running job", lambda: one.state(1) == "CANCELLED")
    assert 1 not in one.results()
    one.release()
    ended(one.command())
    one.right(some(expected, 2))


def test_the_submitter_is_killed_and_the_same_command_waits_for_its_jobs(
    lab: Callable[[int], Lab], expected: dict[int, object]
) -> None:
    one = lab(2)
    one.hold(1, "load")
    command = one.command()
    until("a part that loads", lambda: 0 in one.results() and one.reached("load", 1), command)
    command.kill()
    command.wait(_LONG)
    again = one.command()
    until("a command that looks for jobs", lambda: " to run, " in again.log.read_text(), again)
    time.sleep(2)  # in which it would submit
    one.release()
    ended(again)
    one.right(some(expected, 2))
    assert len(one.jobs()) == 2


def test_a_requeue_in_every_phase(lab: Callable[[int], Lab], expected: dict[int, object]) -> None:
    one = lab(len(PHASES))
    for index, phase in enumerate(PHASES):
        one.hold(index, phase)
    command = one.command()
    until("every phase", lambda: all(one.reached(phase, index) for index, phase in enumerate(PHASES)), command)
    for index in reversed(range(len(PHASES))):  # first the one whose number is the array's
        one.cluster.ask("scontrol", "requeue", one.job(index))
    until("all parts in the queue", lambda: one.requeued(*range(len(PHASES))), command)
    one.release()
    ended(command)
    assert len(one.jobs()) == len(PHASES)
    one.right(expected)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ("slurm_partition=nosuch", "slurm has no partition 'nosuch': expected graceful, main, urgent"),
        (
            "cpus_per_task=100",
            "slurm takes no job: sbatch: error: Batch job submission failed: More processors requested than permitted",
        ),
    ],
)
def test_what_the_cluster_has_not_is_one_line(options: str, line: str, lab: Callable[[int], Lab]) -> None:
    text = ended(lab(1).command("--setting", f"executor_options={options}"), 2)
    assert [row for row in text.splitlines() if "load" not in row] == [f"gate-runner: {line}"]


def test_no_munge_is_one_line(lab: Callable[[int], Lab]) -> None:
    one = lab(1)
    one.cluster.stop("munged")
    try:
        text = ended(one.command(), 2)
    finally:
        one.cluster.munge()
    (row,) = text.splitlines()
    assert row.startswith("gate-runner: slurm does not answer: squeue: error: Munge encode failed")
