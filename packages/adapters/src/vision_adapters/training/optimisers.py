"""Optimisers of torch that import no compiler: that takes each process that trains more than a second."""

from __future__ import annotations

import inspect

import torch
from torch.optim import SGD, Adam, AdamW, Optimizer

_plain = inspect.unwrap
"""Give a method without what keeps torch's compiler out of it, and imports the compiler for that."""


class _NotCompiled(Optimizer):
    """Takes part in no function that torch compiles."""

    add_param_group = _plain(Optimizer.add_param_group)
    load_state_dict = _plain(Optimizer.load_state_dict)
    state_dict = _plain(Optimizer.state_dict)
    zero_grad = _plain(Optimizer.zero_grad)


class PlainSGD(_NotCompiled, SGD):
    """Compute what `torch.optim.SGD` does."""

    step = torch.no_grad()(_plain(SGD.step))


class PlainAdam(_NotCompiled, Adam):
    """Compute what `torch.optim.Adam` does."""

    step = torch.no_grad()(_plain(Adam.step))


class PlainAdamW(_NotCompiled, AdamW):
    """Compute what `torch.optim.AdamW` does."""

    step = torch.no_grad()(_plain(AdamW.step))
