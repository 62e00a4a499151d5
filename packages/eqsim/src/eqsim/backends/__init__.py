"""The ways to compute a loss: one file and one row of `eqsim.backends.choice.BACKENDS` each."""

from eqsim.backends.backend import Backend, Need, Work
from eqsim.backends.choice import BACKENDS, BackendChoice, choose_backend, compute_parts

__all__ = ["BACKENDS", "Backend", "BackendChoice", "Need", "Work", "choose_backend", "compute_parts"]
