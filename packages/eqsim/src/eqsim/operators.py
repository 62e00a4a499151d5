"""Registers passes over a batch as operators of their own, which autocast and `torch.compile` see as one node.

`torch.library.custom_op` would do the same, but imports the compiler at the first call, which takes seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

_LIBRARY: Any = torch.library.Library("eqsim", "DEF")  # type: ignore[no-untyped-call]  # torch leaves this class untyped


def operator(schema: str, shapes: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that registers a function without autograd as the operator of `schema`.

    Args:
        schema: the operator's name and typed arguments, as in torch's own operator schemas.
        shapes: the same arguments to empty outputs of the right shapes, for tracing.
    """
    name = schema.partition("(")[0]

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        _LIBRARY.define(schema)
        _LIBRARY.impl(name, function, "CompositeExplicitAutograd")
        torch.library.register_fake(f"eqsim::{name}", shapes, lib=_LIBRARY)
        registered: Callable[..., Any] = getattr(torch.ops.eqsim, name).default
        return registered

    return register
