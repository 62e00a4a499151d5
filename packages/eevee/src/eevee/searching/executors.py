"""`map` functions that spread the scoring: this process, several processes, or Ray."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from eevee.errors import EeveeError, MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from eevee.searching.evaluation import MapFunction


LOOPBACK = "127.0.0.1"


@contextmanager
def open_map(spec: str = "serial") -> Iterator[MapFunction]:
    """A `map` for `select(map_function=...)` and DEAP's toolbox; its workers end with the block.

    Args:
        spec: `serial`, `processes:N` (N workers of this machine), or `ray` (the cluster of RAY_ADDRESS, or one that is
            started here, on the loopback alone; `ray:N` starts one with N CPUs). The result does not depend on it.

    Raises:
        EeveeError: an unknown spec; Ray was imported before and would listen beyond this machine; Ray is not installed
            (the message names the extra).

    Example:
        >>> with open_map() as spread:
        ...     list(spread(abs, [-1, 2]))
        [1, 2]
    """
    kind, _, count = spec.partition(":")
    if count and not (count.isdigit() and int(count) > 0):
        raise EeveeError(f"executor {spec!r}; expected a positive number after the colon")
    if kind == "serial" and not count:
        yield map
    elif kind == "processes":
        from concurrent.futures import ProcessPoolExecutor
        from multiprocessing import get_context

        with ProcessPoolExecutor(int(count) if count else None, get_context("spawn"), _one_thread) as pool:
            yield pool.map
    elif kind == "ray":
        yield from _ray(int(count) if count else None)
    else:
        raise EeveeError(f"executor {spec!r}; expected serial, processes:N, ray or ray:N")


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)


def _ray(cpus: int | None) -> Iterator[MapFunction]:
    # Ray reads this when it is imported; without it, it turns 127.0.0.1 into the machine's own address
    os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    try:
        import ray
    except ModuleNotFoundError:
        raise MissingExtraError("ray", "ray") from None
    ours = not ray.is_initialized()
    if ours and not os.environ.get("RAY_ADDRESS"):
        if ray.util.get_node_ip_address() != LOOPBACK:  # type: ignore[no-untyped-call]  # Ray does not type it
            raise EeveeError(
                "ray was imported before and would listen on every interface of this machine, where whoever reaches it "
                "can run code; set RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0 before it is imported, or name a cluster in "
                "RAY_ADDRESS"
            )
        ray.init(
            num_cpus=cpus,
            include_dashboard=False,
            log_to_driver=False,
            configure_logging=False,
            _node_ip_address=LOOPBACK,
        )
    elif ours:
        ray.init(log_to_driver=False, configure_logging=False)

    def call(function: Callable[[Any], Any], argument: Any) -> Any:
        _one_thread()
        return function(argument)

    remote = ray.remote(call)

    def spread(function: Callable[[Any], Any], arguments: Iterable[Any]) -> Iterable[Any]:
        shared = ray.put(function)
        return iter(ray.get([remote.remote(shared, argument) for argument in arguments]))

    try:
        yield spread
    finally:
        if ours:
            ray.shutdown()
