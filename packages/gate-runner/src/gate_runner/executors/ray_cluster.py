"""A Ray cluster: one task for each part, on whatever node has room."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from gate_runner.errors import UsageError
from gate_runner.executors.executor import Opening, Postponed
from gate_runner.executors.remote import compute, described, numbers_in, order, outcome_of, take, tell_started
from gate_runner.executors.slot import failed
from gate_runner.runs.observers import Observer
from gate_runner.runs.part import Part
from gate_runner.runs.request import RunRequest
from gate_runner.runs.results import Result

_OPTIONS = {"address": None, "cpus": 1, "gpus": None, "cluster_cpus": None, "temp_dir": None}
_LOOPBACK = "127.0.0.1"
_LOOK = 0.5
"""Seconds between two looks at what has begun."""


class RayExecutor:
    """Gives parts to a Ray cluster. All nodes must have gate-runner installed, and see the run folder.

    Args:
        request: ``executor_options`` may have ``address`` (a cluster's; by default one is started here, or the one in
            ``RAY_ADDRESS`` is taken; what is started here listens on the loopback alone), ``cpus`` and ``gpus`` of each
            part (1 and, where the cluster has GPUs, 1),
            ``cluster_cpus`` and ``temp_dir`` of a cluster that is started here.

    Raises:
        ImportError: Ray is not installed.
        UsageError: an option that there is not.
    """

    def __init__(self, request: RunRequest) -> None:
        # Ray reads this when it is imported; without it, it turns 127.0.0.1 into the machine's own address
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        try:
            import ray
        except ImportError as error:
            raise ImportError("--executor ray needs Ray: pip install 'gate-runner[ray]'") from error
        self.ray: Any = ray
        self.request = request
        options = numbers_in(request.settings.executor_options)
        self.address, self.cpus, self.gpus, self.cluster_cpus, self.temp_dir = take(options, _OPTIONS, "ray")
        self.pending: dict[Any, Part] = {}
        self.started = False

    def open(self) -> Opening:
        """Describe the encoder here, and join the cluster."""
        self.opening = described(self.request)
        if not self.ray.is_initialized():
            resources = {}
            if self.address is None and not os.environ.get("RAY_ADDRESS"):
                if self.ray.util.get_node_ip_address() != _LOOPBACK:
                    raise UsageError(
                        "ray was imported before and would listen on every interface of this machine, where whoever "
                        "reaches it can run code; set RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0 before it is imported, or "
                        "name a cluster with --setting executor_options=address=…"
                    )
                resources = {"num_cpus": self.cluster_cpus, "include_dashboard": False, "_temp_dir": self.temp_dir}
                resources["_node_ip_address"] = _LOOPBACK
            self.ray.init(
                address=self.address,
                log_to_driver=False,
                logging_level="ERROR",
                **{name: value for name, value in resources.items() if value is not None},
            )
            self.started = True
        if self.gpus is None:
            self.gpus = 1 if self.ray.cluster_resources().get("GPU", 0) >= 1 else 0
        return self.opening

    def run(self, parts: Sequence[Part], observer: Observer) -> Iterator[Result | Postponed]:
        """Submit all parts, and hand on what comes back."""
        # A lost node or process is Ray's to retry; what fails inside is the slot's.
        task = self.ray.remote(compute).options(
            num_cpus=self.cpus, num_gpus=self.gpus, max_retries=self.request.settings.retries, retry_exceptions=False
        )
        self.pending = {task.remote(order(part, self.opening)): part for part in parts}
        started: set[tuple[str, int]] = set()
        while self.pending:
            ready, _ = self.ray.wait(list(self.pending), num_returns=1, timeout=_LOOK)
            tell_started(list(self.pending.values()), started, observer)
            for reference in ready:
                part = self.pending.pop(reference)
                try:
                    yield outcome_of(part, self.ray.get(reference))
                except self.ray.exceptions.RayTaskError as error:
                    raise error.cause from None
                except self.ray.exceptions.RayError as error:
                    reason = next(iter(str(error).splitlines()), "") or type(error).__name__
                    yield failed(part, self.opening, f"its Ray worker was lost: {reason}")

    def close(self) -> None:
        """Stop what still runs, and leave the cluster."""
        if self.ray.is_initialized():
            for task in self.pending:
                self.ray.cancel(task, force=True)
            if self.started:
                self.ray.shutdown()
