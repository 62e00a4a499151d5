"""One Ray actor per shard; a lost one is started again; needs the extra `ray`."""

from __future__ import annotations

from typing import Any

from oven_retrieval.shards.layout import ShardError, ShardLayout
from oven_retrieval.shards.search import ShardWorker, worker_arguments


def _ray() -> Any:
    try:
        import ray
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        raise ImportError("shards over machines need ray: pip install 'oven-retrieval[ray]'") from error
    return ray


class RayWorkers:
    """Actors on the Ray cluster that is connected (`ray.init` first), each with one shard open."""

    def __init__(
        self,
        layout: ShardLayout,
        *,
        cpus: float = 1.0,
        resources: list[dict[str, float]] | None = None,
        retries: int = 1,
        timeout: float = 600.0,
    ) -> None:
        ray = self._ray = _ray()
        if not ray.is_initialized():
            raise ShardError("ray: expected a connection; call ray.init first")
        cluster_cpus = float(ray.cluster_resources().get("CPU", 0.0))
        if cluster_cpus < cpus * len(layout):
            raise ShardError(
                f"ray: {len(layout)} shards of {cpus} processors each need {cpus * len(layout):g}, the cluster has "
                f"{cluster_cpus:g}; expected fewer shards or a smaller share (cpus)"
            )
        if resources is not None and len(resources) != len(layout):
            raise ValueError(f"resources: expected {len(layout)}, one per shard, got {len(resources)}")
        self._layout, self._cpus, self._resources = layout, cpus, resources
        self._retries, self._timeout = retries, timeout
        self._made = worker_arguments(layout)
        self.actors: list[Any] = [self._start(shard) for shard in range(len(layout))]

    def _start(self, shard: int) -> Any:
        actor = self._ray.remote(ShardWorker).options(
            num_cpus=self._cpus, resources=self._resources[shard] if self._resources else None
        )
        return actor.remote(*self._made[shard])

    def ask(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of every worker at once; what was lost is asked again."""
        shared = [self._ray.put(argument) for argument in arguments]
        return self._gather(list(range(len(self.actors))), method, shared)

    def ask_one(self, shard: int, method: str, *arguments: Any) -> Any:
        """Call a method of one; errors as in `ask`."""
        return self._gather([shard], method, list(arguments))[0]

    def _gather(self, shards: list[int], method: str, arguments: list[Any]) -> list[Any]:
        answers: dict[int, Any] = {}
        for attempt in range(self._retries + 1):
            waiting = {
                shard: getattr(self.actors[shard], method).remote(*arguments)
                for shard in shards
                if shard not in answers
            }
            lost: dict[int, str] = {}
            for shard, reference in waiting.items():
                try:
                    answers[shard] = self._ray.get(reference, timeout=self._timeout)
                except self._ray.exceptions.GetTimeoutError:
                    raise ShardError(f"{self._layout.folder(shard)}: no answer within {self._timeout:g} s") from None
                except self._ray.exceptions.RayActorError as error:
                    lost[shard] = str(error).strip().splitlines()[-1]
                    if attempt < self._retries:
                        self.actors[shard] = self._start(shard)
            if not lost:
                return [answers[shard] for shard in shards]
        shard, reason = next(iter(lost.items()))
        raise ShardError(f"{self._layout.folder(shard)}: lost {self._retries + 1} times: {reason}")

    def close(self) -> None:
        """Stop the actors; the connection stays."""
        for actor in self.actors:
            self._ray.kill(actor)
        self.actors = []
