"""SLURM: the same files as in this process, whatever is lost on the way."""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from gate_runner.errors import StorageError, UsageError
from gate_runner.executors import EncoderInfo, executor_names, jobs, run
from gate_runner.executors.executor import HereExecutor
from gate_runner.executors.slurm import SlurmExecutor, _Awaited, _last_line, _reason, safe_imports
from gate_runner.executors.worker import COMMAND
from gate_runner.runs import RunRequest
from gate_runner.runs.observers import Observer
from gate_runner.runs.request import make_request
from gate_runner.runs.results import Result
from gate_runner.runs.unit import EvalUnit
from wary_files.stopping import TerminatedError

from ._sleepy import comparable, sleepy_request


@pytest.fixture
def request_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunRequest:
    return sleepy_request(tmp_path, monkeypatch)


@pytest.mark.filterwarnings("ignore")  # submitit warns about what a local job cannot do
def test_slurm_gives_what_this_process_gives(request_here: RunRequest, tmp_path: Path) -> None:
    pytest.importorskip("submitit", reason="submitit is not installed")
    options = {"cluster": "local", "timeout_min": "5"}
    request = replace(request_here, output=tmp_path / "jobs").changed(
        isolate="worker", executor="slurm", executor_options=options, seeds=(0,)
    )
    assert comparable(run(request)) == comparable(run(request_here.changed(seeds=(0,))))
    assert run(request)[0].status == "ok"  # it is there: nothing is submitted


@pytest.mark.filterwarnings("ignore")
def test_a_lost_job_is_a_row(request_here: RunRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    submitit = pytest.importorskip("submitit", reason="submitit is not installed")
    monkeypatch.setattr(submitit.Job, "_results_timeout_s", 1)  # for the file of a job that is over, 15 s otherwise
    Path("lost").write_text("")
    request = replace(request_here, output=tmp_path / "jobs").changed(
        isolate="worker", executor="slurm", executor_options={"cluster": "local"}, seeds=(0,), time_limit=60.0
    )

    def opened(executor: SlurmExecutor) -> EncoderInfo:  # in this process, which takes no seconds to start
        executor.opening = HereExecutor(request_here).open()
        return executor.opening

    monkeypatch.setattr(SlurmExecutor, "open", opened)
    (lost,) = run(request)
    assert lost.status == "failed"
    assert lost.reason.startswith("its job ")


def test_slurm_says_what_is_missing(request_here: RunRequest) -> None:
    pytest.importorskip("submitit")
    request = request_here.changed(isolate="worker", executor="slurm")
    if shutil.which("srun") is None:
        with pytest.raises(UsageError, match="slurm: "):
            run(request)
    unknown = request.changed(executor_options={"cluster": "local", "partitoin": "gpu"})
    with pytest.raises(UsageError, match="partitoin"):
        run(unknown)


@pytest.mark.parametrize("name", ["out\ntouch PWNED\n#", "out\rx", "out\x1b[2J", "runs-%j", "100%"])
def test_slurm_refuses_what_its_script_would_obey(name: str, request_here: RunRequest, tmp_path: Path) -> None:
    pytest.importorskip("submitit")
    request = replace(request_here, output=tmp_path / name).changed(
        isolate="worker", executor="slurm", executor_options={"cluster": "local"}
    )
    with pytest.raises(UsageError, match="expected a text without control characters or %"):
        SlurmExecutor(request)
    options = {"cluster": "local", "slurm_comment": "x\ntouch PWNED"}
    with pytest.raises(UsageError, match="executor_options slurm_comment is"):
        SlurmExecutor(replace(request, output=tmp_path).changed(executor_options=options))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tasks_per_node": "2"}, "executor_options tasks_per_node is '2': expected 1"),
        ({"slurm_ntasks_per_node": "2"}, "executor_options slurm_ntasks_per_node is '2': expected 1"),
        ({"nodes": "two"}, "executor_options nodes is 'two': expected 1"),
        ({"mem_gb": "16GB"}, r'slurm: Parameter "mem_gb" expected type'),
        ({"timeout_min": "-3"}, "executor_options timeout_min is '-3': expected minutes above 0"),
        ({"timeout_min": "1h"}, "executor_options timeout_min is '1h': expected minutes above 0"),
        ({"timeout_min": "nan"}, "executor_options timeout_min is 'nan': expected minutes above 0"),
    ],
)
def test_slurm_refuses_options_that_no_job_of_one_benchmark_has(
    options: dict[str, str], message: str, request_here: RunRequest, tmp_path: Path
) -> None:
    pytest.importorskip("submitit")
    request = request_here.changed(isolate="worker", executor="slurm", executor_options={"cluster": "local"} | options)
    with pytest.raises(UsageError, match=message):
        SlurmExecutor(replace(request, output=tmp_path))


def test_an_output_without_honest_name_is_refused() -> None:
    with pytest.raises(UsageError, match="without control characters"):
        make_request("digits", output="out\ntouch PWNED\n#")


@pytest.mark.parametrize("name", ["$(touch PWNED)", "'; touch PWNED; '", "`touch PWNED`", '" | touch PWNED #', "☃ a b"])
def test_a_batch_script_runs_nothing_of_the_folders_name(
    name: str, request_here: RunRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("submitit")
    programs = tmp_path / "programs"
    programs.mkdir()
    for program, text in (
        ("srun", "echo srun >> called"),
        ("squeue", ""),
        ("sbatch", 'bash "$1" && echo Submitted batch job 7'),
    ):
        (programs / program).write_text(f"#!/bin/sh\n{text}\n")
        (programs / program).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    request = replace(request_here, output=tmp_path / name).changed(isolate="worker", executor="slurm")
    executor = SlurmExecutor(request)
    assert executor.executor.submit(print).job_id == "7"
    assert (tmp_path / "called").read_text() == "srun\n"
    assert not list(tmp_path.rglob("PWNED"))

    # A name with a line break would run, were it not refused: this look sees what a script does.
    monkeypatch.setattr("gate_runner.executors.slurm._refuse_in_scripts", lambda *_: None)
    broken = replace(request, output=tmp_path / "out\ntouch PWNED\n#")
    assert SlurmExecutor(broken).executor.submit(print).job_id == "7"
    assert list(tmp_path.rglob("PWNED"))


class _Touches:
    """A pickle that calls a function."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("PWNED",)


@pytest.mark.filterwarnings("ignore")
def test_answers_that_lie_in_the_run_folder_are_not_believed(
    request_here: RunRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger's run folder may hold an answer for each number that a job can get."""
    submitit = pytest.importorskip("submitit")
    monkeypatch.chdir(tmp_path)
    programs = tmp_path / "programs"
    programs.mkdir()
    for program, text in (
        ("srun", "exit 0"),
        ("squeue", "exit 0"),
        ("sbatch", "echo Submitted batch job 7"),
        ("sacct", "exit 1"),
    ):
        (programs / program).write_text(f"#!/bin/sh\n{text}\n")
        (programs / program).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    answer = tmp_path / "run" / "slurm" / "7" / "7_0_result.pkl"
    answer.parent.mkdir(parents=True)
    answer.write_bytes(pickle.dumps(("success", _Touches())))
    request = replace(request_here, output=tmp_path / "run").changed(isolate="worker", executor="slurm")
    job = SlurmExecutor(request).executor.submit(print)
    monkeypatch.setattr(submitit.Job, "_results_timeout_s", 0)
    monkeypatch.setattr(submitit.Job, "wait", lambda job: None)
    with pytest.raises(submitit.core.utils.UncompletedJobError):
        job.result()
    assert not (tmp_path / "PWNED").exists()

    shutil.rmtree(tmp_path / "run" / "slurm")
    (tmp_path / "run" / "slurm").symlink_to(tmp_path)
    with pytest.raises(StorageError, match="slurm is a link"):
        SlurmExecutor(request)


@pytest.mark.filterwarnings("ignore")
def test_a_job_imports_nothing_of_the_working_folder(request_here: RunRequest, tmp_path: Path) -> None:
    pytest.importorskip("submitit")
    for name in ("submitit", "cloudpickle", "numpy", "pickle"):
        (tmp_path / f"{name}.py").write_text("from pathlib import Path\nPath('RAN').touch()\n")
    request = replace(request_here, output=tmp_path / "run").changed(
        isolate="worker", executor="slurm", executor_options={"cluster": "local"}
    )
    before = dict(os.environ)
    with contextlib.chdir(tmp_path):
        executor = SlurmExecutor(request).executor
        with safe_imports():
            job = executor.submit(os.getcwd)
        assert job.result() == str(tmp_path)
    assert dict(os.environ) == before  # the user's own processes import what they did
    assert not (tmp_path / "RAN").exists()


@pytest.mark.parametrize("in_a_job", [True, False])
def test_a_job_that_slurm_takes_its_node_from_does_not_fail(in_a_job: bool) -> None:
    """SIGTERM is followed by SIGKILL, and the job then runs again; a worker that died of the first was a failure."""
    environment = {name: value for name, value in os.environ.items() if name != "SLURM_JOB_ID"}
    process = subprocess.Popen(
        COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**environment, **({"SLURM_JOB_ID": "7"} if in_a_job else {})},
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    order = '{"open": {"encoder": "nowhere:make", "device": "cpu"}}\n'
    process.stdin.write(order)
    process.stdin.flush()
    assert "refused" in process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    if in_a_job:
        process.stdin.write(order)
        process.stdin.flush()
        assert "refused" in process.stdout.readline()
        process.kill()
    process.communicate()
    assert process.returncode == (-signal.SIGKILL if in_a_job else -signal.SIGTERM)


@pytest.mark.parametrize(
    ("state", "gone"),
    [("RUNNING", False), ("SIGNALING", False), ("SUSPENDED", False), ("", False),
     ("PENDING", True), ("CANCELLED", True), ("COMPLETING", True), ("TIMEOUT", True)],
)  # fmt: skip
def test_a_job_goes_if_its_own_state_says_so(
    state: str, gone: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last job of array 1 has the number 1, and its warning before preemption reaches it as SIGNALING."""
    rows = f"1_0|RUNNING|0:09|None|a.sh\n1_1|COMPLETED|0:09|None|a.sh\n{f'1_2|{state}|0:09|None|a.sh' if state else ''}"
    squeue = tmp_path / "squeue"
    squeue.write_text(f"#!/bin/sh\ncat <<'END'\n{rows}\nEND\n")
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    array = {"SLURM_ARRAY_JOB_ID": "1", "SLURM_ARRAY_TASK_ID": "2"}
    assert jobs.taken({"SLURM_JOB_ID": "1", **array}) is gone


def test_jobs_that_still_run_are_slurms_word_alone(tmp_path: Path) -> None:
    folder = tmp_path / "slurm" / "drawn"
    jobs.note_parts(folder, [("digits", 0), ("digits", 1), ("cifar100", 0)])
    script = str(folder / "script.sh")
    states = {"7_0": "COMPLETING", "7_1": "CANCELLED", "7_2": "PENDING", "7_3": "RUNNING"}
    known = {number: jobs.Job(number, state, 0.0, script) for number, state in states.items()}
    known["8"] = jobs.Job("8", "RUNNING", 0.0, str(tmp_path / "other" / "drawn" / "script.sh"))
    running = jobs.of_folder(known, tmp_path / "slurm")
    assert {key: job.id for key, job in running.items()} == {("digits", 0): "7_0", ("cifar100", 0): "7_2"}
    assert jobs.of_folder({}, tmp_path / "slurm") == {}


def test_the_last_line_of_a_jobs_log_is_its_reason(tmp_path: Path) -> None:
    err, out = tmp_path / "err", tmp_path / "out"
    assert _last_line((err, out)) == ""
    out.write_text("loading\n\x1b[2Jno space left\n\n")
    err.write_text("\n")
    assert _last_line((err, out)) == r"\x1b[2Jno space left"
    err.write_text("slurmstepd: error: *** STEP CANCELLED ***\nsrun: error: n1: task 0: Exited with exit code 143\n")
    assert _last_line((err, out)) == "slurmstepd: error: *** STEP CANCELLED ***"
    err.write_text("x" * 10_000 + "\nslurmstepd: error: Exceeded job memory limit" + "!" * 500)
    assert _last_line((err, out)).startswith("slurmstepd: error: Exceeded job memory limit!")
    assert len(_last_line((err, out))) == 200


def test_a_failed_job_says_its_error_and_no_path() -> None:
    message = (
        "Job (task=0) failed during processing with trace:\n----------------------\n"
        "Traceback (most recent call last):\n"
        '  File "x.py", line 1, in f\n{}\n\n----------------------\nYou can check full logs with ... or at paths:\n'
        "  - /run/slurm/a/1_0_log.err\n  - /run/slurm/a/1_0_log.out"
    )
    assert _reason(message.format("OSError: no space")) == "OSError: no space"
    assert _reason("lost its node\n") == "lost its node"
    assert _reason("") == "no message"
    often = "submitit.core.utils.UncompletedJobError: Job not requeued because: timed-out too many times."
    assert _reason(message.format(often)).startswith("it reached SLURM's time limit again and again")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("error", [KeyboardInterrupt, TerminatedError])
def test_sigterm_leaves_jobs_to_slurm_and_ctrl_c_cancels_them(
    request_here: RunRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: type[BaseException],
) -> None:
    pytest.importorskip("submitit", reason="submitit is not installed")
    cancelled: list[str] = []

    class Job:
        def cancel(self, *, check: bool) -> None:
            cancelled.append("7")

    def opened(executor: SlurmExecutor) -> EncoderInfo:
        executor.opening = HereExecutor(request_here).open()
        return executor.opening

    def running(executor: SlurmExecutor, parts: Sequence[EvalUnit], observer: Observer) -> Iterator[Result]:
        executor.pending = [_Awaited(parts[0], "7", tmp_path, Job()), _Awaited(parts[0], "8", tmp_path, None)]
        raise error
        yield

    monkeypatch.setattr(SlurmExecutor, "open", opened)
    monkeypatch.setattr(SlurmExecutor, "run", running)
    request = replace(request_here, output=tmp_path / "jobs").changed(
        isolate="worker", executor="slurm", executor_options={"cluster": "local"}, seeds=(0,)
    )
    with pytest.raises(error):
        run(request)
    line = f"1 jobs of {tmp_path / 'jobs'} go on in SLURM; the same command waits for them"
    assert (cancelled, line in caplog.text) == (([], True) if error is TerminatedError else (["7"], False))


def test_names() -> None:
    assert executor_names()[:2] == ["local", "slurm"]


def test_interrupted_workers_are_gone(request_here: RunRequest) -> None:
    """Ctrl-C in the process that watches leaves no worker behind."""
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # background jobs ignore it
        "import sys; from dataclasses import replace; from pathlib import Path\n"
        "from gate_runner.benchmarks import resolve; from gate_runner.executors import run\n"
        "from gate_runner.runs import RunRequest\n"
        "from gate_runner.settings import Settings\n"
        "from gate_runner.runs.observers import Observer\n"
        "class Say(Observer):\n"
        "    def started(self, name, seed): print('started', flush=True)\n"
        "benchmarks = [replace(one, training={**one.training, 'steps': 10**6}) for one in resolve(['cifar100'])]\n"
        "run(RunRequest(benchmarks, sys.argv[1], Path('long'), Settings(isolate='worker')), Say())\n"
    )
    assert isinstance(request_here.encoder, str)
    process = subprocess.Popen(
        [sys.executable, "-c", code, request_here.encoder], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    workers = _children(process.pid)
    assert workers
    process.send_signal(signal.SIGINT)
    _, message = process.communicate(timeout=120)
    assert "KeyboardInterrupt" in message
    assert not [pid for pid in workers if Path(f"/proc/{pid}/cmdline").exists() and _command(pid)]


def _children(pid: int) -> list[int]:
    if not Path(f"/proc/{pid}/task").is_dir():
        pytest.skip("no /proc on this system")
    texts = [(task / "children").read_text() for task in Path(f"/proc/{pid}/task").iterdir()]
    return [int(word) for text in texts for word in text.split()]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
