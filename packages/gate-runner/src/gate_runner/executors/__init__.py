"""Where units are computed: in this process, in workers on this machine, under SLURM."""

from __future__ import annotations

from gate_runner.executors.executor import EncoderInfo, Executor, LockedElsewhere
from gate_runner.executors.run import executor_names as executor_names
from gate_runner.executors.run import run as run

__all__ = ["EncoderInfo", "Executor", "LockedElsewhere"]
