"""A SLURM of two nodes on this machine, in one temporary folder, gone when it ends.

Needs Debian's ``slurm-wlm`` and ``munge``, no root, no cgroups and no accounting database. By hand::

    python tests/slurm/cluster.py gate-runner run cifar100 --encoder micro-clip --executor slurm

runs a command inside it. Without a command the path of its ``slurm.conf`` is printed when it is ready, and it ends with
its standard input: a process that starts it and is killed leaves no daemon behind.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

NODES = ("n1", "n2")
INSTALL = "apt-get install -y slurm-wlm munge"
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "srun", "scancel", "sinfo")
_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"])
"""Daemons lie in folders that only root's PATH has."""
_READY, _EMPTY, _TERM = 60.0, 20.0, 10.0
"""Seconds for the nodes to be idle, for jobs to be cancelled, and for a daemon to end."""

CONF = """\
ClusterName=one-machine
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CredType=cred/munge
# A job that is queued again waits for cred_expire seconds, 120 by default.
AuthInfo=socket={folder}/munge.sock,cred_expire=6
SlurmctldPort={ports[0]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
SchedulerParameters=batch_sched_delay=0,sched_interval=2,sched_min_interval=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
EnforcePartLimits=ALL
ReturnToService=2
KillWait=2
SlurmdParameters=config_overrides
MinJobAge=600
TreeWidth=16
# More CPUs than the machine has: parts that wait do not keep others from starting.
NodeName={nodes[0]} NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=8 State=UNKNOWN
NodeName={nodes[1]} NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=8 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE PriorityTier=1 State=UP
PartitionName=graceful Nodes=ALL MaxTime=INFINITE PriorityTier=1 GraceTime=3 State=UP
PartitionName=urgent Nodes=ALL MaxTime=INFINITE PriorityTier=9 State=UP
"""


def missing() -> list[str]:
    """Return the programs that a cluster needs and this machine lacks."""
    return [name for name in PROGRAMS if shutil.which(name, path=_PATH) is None]


class Cluster:
    """Start munged, slurmctld and a slurmd for each node; stop them and all jobs at the end of the ``with`` block."""

    def __init__(self) -> None:
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Cluster:
        if absent := missing():
            raise SystemExit(f"no {', '.join(absent)} on this machine: {INSTALL}")
        self.folder = Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if "slurmctld" in self.daemons:
            with contextlib.suppress(subprocess.SubprocessError):
                self.ask("scancel", "--signal=KILL", f"--user={getpass.getuser()}")
                self.ask("scancel", f"--user={getpass.getuser()}")
                end = time.monotonic() + _EMPTY
                while self.ask("squeue", "--noheader").strip() and time.monotonic() < end:
                    time.sleep(0.2)
        for name in reversed(list(self.daemons)):
            self.stop(name)
        for pid in self.processes():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def environment(self) -> dict[str, str]:
        """What a process of this cluster's users has; nothing of a cluster around it."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "SBATCH"))}
        return environment | {"SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": _PATH}

    def ask(self, *command: str) -> str:
        """Run one of SLURM's programs and return what it prints."""
        return _run(command, self.environment)

    def node(self, name: str) -> None:
        """Start a node's slurmd, once more if it was stopped."""
        self._daemon(name, ["slurmd", "-D", "-N", name])

    def resume(self) -> None:
        """Return all nodes to service; one that was down returns by itself, and then refuses to be resumed."""

        def resumed() -> bool:
            for name in NODES:
                with contextlib.suppress(subprocess.CalledProcessError):
                    self.ask("scontrol", "update", f"nodename={name}", "state=resume")
            states = self.ask("sinfo", "--noheader", "--Node", "--format=%T").split()
            return all(state.rstrip("*") in ("idle", "mixed", "allocated") for state in states)

        _wait("nodes in service", resumed, self)

    def munge(self) -> None:
        """Start munged, by which all others know one another."""
        folder = self.folder
        files = {"key": "munge.key", "socket": "munge.sock", "pid": "munged.pid", "log": "munged.log", "seed": "seed"}
        options = [f"--{name}{'' if name == 'socket' else '-file'}={folder / file}" for name, file in files.items()]
        self._daemon("munged", ["munged", "--foreground", "--force", *options])
        _wait("munged", lambda: (folder / "munge.sock").exists(), self)

    def stop(self, name: str, number: signal.Signals = signal.SIGTERM) -> None:
        """End a daemon."""
        process = self.daemons.pop(name)
        process.send_signal(number)
        try:
            process.wait(_TERM)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def processes(self) -> list[int]:
        """Return the processes that belong to this cluster, by their environment."""
        return [int(place.name) for place in Path("/proc").iterdir() if place.name.isdigit() and self._ours(place)]

    def _ours(self, place: Path) -> bool:
        try:
            environment = (place / "environ").read_bytes()
        except OSError:
            return False
        return f"SLURM_CONF={self.folder}/slurm.conf\0".encode() in environment

    def _start(self) -> None:
        folder = self.folder
        for name in ("state", *(f"spool.{node}" for node in NODES)):
            (folder / name).mkdir()
        key = folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(1024))
        host, user = platform.node().partition(".")[0], getpass.getuser()
        text = CONF.format(host=host, user=user, folder=folder, ports=_free_ports(3), nodes=NODES)
        (folder / "slurm.conf").write_text(text)
        self.munge()
        self._daemon("slurmctld", ["slurmctld", "-D"])
        for node in NODES:
            self.node(node)
        _wait("two idle nodes", lambda: self._idle() == 2 * len(NODES), self)

    def _idle(self) -> int:
        with contextlib.suppress(subprocess.SubprocessError):
            return (
                self.ask("sinfo", "--noheader", "--Node", "--partition=main,urgent", "--format=%T")
                .split()
                .count("idle")
            )
        return 0

    def _daemon(self, name: str, command: Sequence[str]) -> None:
        with (self.folder / f"{name}.out").open("ab") as log:
            self.daemons[name] = subprocess.Popen(
                command, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder
            )


def _wait(what: str, condition: object, cluster: Cluster) -> None:
    assert callable(condition)
    end = time.monotonic() + _READY
    while not condition():
        dead = [name for name, process in cluster.daemons.items() if process.poll() is not None]
        if dead or time.monotonic() > end:
            logs = [path.read_text(errors="replace")[-2000:] for path in sorted(cluster.folder.glob("*.out"))]
            raise SystemExit(f"no {what} ({', '.join(dead) or f'within {_READY:.0f} s'}):\n" + "\n".join(logs))
        time.sleep(0.1)


def _run(command: Sequence[str], environment: Mapping[str, str]) -> str:
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    if answer.returncode:
        raise subprocess.CalledProcessError(answer.returncode, command, answer.stdout, answer.stderr)
    return answer.stdout


def _free_ports(number: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def main(command: Sequence[str]) -> int:
    """Run a command inside a cluster, or keep one until standard input ends."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(0))
    with Cluster() as cluster:
        if command:
            return subprocess.run(command, env=cluster.environment, check=False).returncode
        print(cluster.folder, flush=True)
        sys.stdin.read()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
