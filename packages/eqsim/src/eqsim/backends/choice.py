"""The table of backends, and the choice between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from eqsim.backends import dense, gram, tiled, triton_tiles
from eqsim.backends.backend import Backend, Work
from eqsim.checks import check_choice

if TYPE_CHECKING:
    from eqsim.backends.backend import Need
    from eqsim.objective import Parts

BACKENDS = (
    Backend("dense", dense.refuses, dense.suits, dense.run),
    Backend("gram", gram.refuses, gram.suits, gram.run),
    Backend("triton", triton_tiles.refuses, triton_tiles.suits, triton_tiles.run),
    Backend("tiled", tiled.refuses, tiled.suits, tiled.run),
)
"""One row for each; "auto" takes the first that can and suits. The last can everything."""


class BackendChoice(NamedTuple):
    """A backend and the reason for it.

    Example:
        >>> BackendChoice("gram", "asked for").name
        'gram'
    """

    name: str
    reason: str


def choose_backend(need: Need, wish: str = "auto") -> BackendChoice:
    """Pick a backend, or check the one asked for.

    Args:
        need: what is to be computed.
        wish: a name of `BACKENDS`, or "auto".

    Raises:
        ValueError: an unknown name, or a backend that cannot do this; the message says why and which can.

    Example:
        >>> from eqsim.backends import Need, choose_backend
        >>> from eqsim.objective import Objective
        >>> choose_backend(Need(Objective("v1"), None, n=64, d=512, device="cpu", listed=False)).name
        'dense'
    """
    check_choice("backend", wish, ("auto", *(backend.name for backend in BACKENDS)))
    refusals = {backend.name: backend.refuses(need) for backend in BACKENDS}
    if wish != "auto":
        if refusals[wish]:
            able = [repr(name) for name, refusal in refusals.items() if refusal is None]
            msg = f"backend={wish!r}: {refusals[wish]}; {_listed(able)} can"
            raise ValueError(msg)
        return BackendChoice(wish, "asked for")
    for backend in BACKENDS:
        reason = None if refusals[backend.name] else backend.suits(need)
        if reason is not None:
            return BackendChoice(backend.name, reason)
    msg = f"no backend suits {need}"
    raise RuntimeError(msg)


def _listed(names: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def compute_parts(work: Work, wish: str = "auto") -> Parts:
    """Compute a batch by the backend that `choose_backend` gives.

    Args:
        work: the batch and what is to be computed of it.
        wish: a name of `BACKENDS`, or "auto".

    Raises:
        ValueError: as `choose_backend`.

    Example:
        >>> import torch
        >>> from eqsim.backends import Work, compute_parts
        >>> from eqsim.objective import Objective
        >>> image, text = torch.eye(2), torch.tensor([[1.0, 0.0], [0.6, 0.8]])
        >>> alone = dict(rank=0, world_size=1, generator=None)
        >>> work = Work.of(Objective("v1"), None, image, text, 1.0, None, None, None, **alone)
        >>> round(float(compute_parts(work).terms.v1), 4)
        0.36
    """
    name = choose_backend(work.need(), wish).name
    return next(backend for backend in BACKENDS if backend.name == name).run(work)
