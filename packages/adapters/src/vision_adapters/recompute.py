"""Blocks that are computed again in the backward pass, instead of keeping what they gave: less memory, more time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


def recomputed(module: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
    """A forward pass that keeps its inputs alone, and is taken again in the backward pass (Chen et al., 2016)."""
    norms = [part for part in module.modules() if isinstance(part, nn.modules.batchnorm._BatchNorm)]

    def passed(*inputs: Any, **named: Any) -> Any:
        if not torch.is_grad_enabled():
            return forward(*inputs, **named)
        calls = 0

        def once(*again: Any, **also: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == 1 or not norms:
                return forward(*again, **also)
            before = [(norm, norm.momentum, norm.num_batches_tracked) for norm in norms]
            for norm, _, count in before:
                norm.momentum = 0.0
                norm.num_batches_tracked = None if count is None else count.clone()
            try:
                return forward(*again, **also)
            finally:
                for norm, momentum, count in before:
                    norm.momentum, norm.num_batches_tracked = momentum, count

        return checkpoint(once, *inputs, use_reentrant=False, **named)

    passed.recomputes = True  # type: ignore[attr-defined]  # how `keep_blocks` knows its own
    return passed


def block_lists(module: nn.Module) -> dict[str, list[nn.Module]]:
    """Lists of modules of one class that hold parameters, by their names; a ValueError where there is none."""
    lists = {
        path: list(part.children())
        for path, part in module.named_modules()
        if isinstance(part, nn.ModuleList | nn.Sequential)
        and path
        and len({type(child) for child in part.children()}) == 1
        and any(True for _ in part.parameters())
    }
    if not lists:
        raise ValueError(f"{type(module).__name__} has no list of equal blocks")
    return lists


def recompute_blocks(module: nn.Module) -> list[str]:
    """Compute the outermost repeated blocks of an encoder again in the backward pass; `keep_blocks` undoes it."""
    lists = block_lists(module)
    outer = [path for path in lists if not any(path.startswith(f"{prefix}.") for prefix in lists)]
    blocks = [f"{path}.{name}" for path in outer for name, _ in module.get_submodule(path).named_children()]
    for path in blocks:
        block = module.get_submodule(path)
        setattr(block, "forward", recomputed(block, block.forward))  # noqa: B010 - of this one instance
    return blocks


def keep_blocks(module: nn.Module) -> None:
    """Undo `recompute_blocks`."""
    for part in module.modules():
        if getattr(vars(part).get("forward"), "recomputes", False):
            del part.forward
