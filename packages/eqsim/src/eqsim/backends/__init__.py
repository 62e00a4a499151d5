"""The ways to compute a loss, one file of plain functions and one row of the table each, and the choice."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from eqsim.backends import dense, gram, tiled
from eqsim.batch import Size
from eqsim.checks import check_choice

if TYPE_CHECKING:
    from collections.abc import Callable

    from eqsim.batch import Batch, Parts
    from eqsim.settings import Settings

__all__ = ["BACKENDS"]


class Backend(NamedTuple):
    """One way to compute a loss.

    Attributes:
        refuses: says why it cannot do what is asked, or None.
        suits: says why "auto" should take it, or None. Asked only where it does not refuse.
        run: computes a batch.
    """

    refuses: Callable[[Settings, Size], str | None]
    suits: Callable[[Settings, Size], str | None]
    run: Callable[[Batch], Parts]


BACKENDS = {
    "dense": Backend(lambda settings, size: None, dense.suits, dense.run),
    "gram": Backend(gram.refuses, gram.suits, gram.run),
    # By name only: the kernels have run in Triton's interpreter alone, and a wrong gradient would be silent.
    "triton": Backend(tiled.triton_refuses, lambda settings, size: None, tiled.run_triton),
    "tiled": Backend(lambda settings, size: None, tiled.suits, tiled.run),
}
"""By the name that `backend=` gives; "auto" takes the first that can and suits, never "triton".

The last can everything.
"""


class BackendChoice(NamedTuple):
    """A backend and the reason for it."""

    name: str
    reason: str


def choose_backend(settings: Settings, size: Size) -> BackendChoice:
    """Pick a backend, or check the one asked for."""
    check_choice("backend", settings.backend, ("auto", *BACKENDS))
    if settings.backend != "auto":
        refusal = BACKENDS[settings.backend].refuses(settings, size)
        if refusal:
            able = [repr(name) for name, backend in BACKENDS.items() if backend.refuses(settings, size) is None]
            raise ValueError(f"backend={settings.backend!r}: {refusal}; {_listed(able)} can")
        return BackendChoice(settings.backend, "asked for")
    for name, backend in BACKENDS.items():
        reason = None if backend.refuses(settings, size) else backend.suits(settings, size)
        if reason is not None:
            return BackendChoice(name, reason)
    raise RuntimeError(f"no backend suits {settings}, {size}")


def _listed(names: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def compute_parts(batch: Batch) -> Parts:
    """Compute a batch by the backend that `choose_backend` gives."""
    return BACKENDS[choose_backend(batch.settings, batch.size).name].run(batch)
