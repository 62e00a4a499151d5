"""What all blocks of an encoder give in one forward pass, whatever library it comes from."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from jaxtyping import Float

_MOST_PREFIX = 8
"""Tokens before those of places, at most: a class token and registers."""


class Block(NamedTuple):
    """One block's output: the class token where there is one, and the tokens of places in row order."""

    cls: Float[Tensor, "n d"] | None
    places: Float[Tensor, "n t d"]
    grid: tuple[int, int]


class Blocks(NamedTuple):
    """All that one forward pass gives: the pooled output, the same before its projection, and every block's."""

    pooled: Float[Tensor, "n p"]
    backbone: Float[Tensor, "n b"] | None
    blocks: tuple[Block, ...]


GiveBlocks = Callable[[Tensor], Blocks]


def layout(blocks: Blocks) -> dict[str, int]:
    """The vectors of `summary` by name, in their order, and how wide each is."""
    widths = {"last": blocks.pooled.shape[1]}
    if blocks.backbone is not None:
        widths["before-projection"] = blocks.backbone.shape[1]
    for number, block in enumerate(blocks.blocks, start=1):
        if block.cls is not None:
            widths[f"block:{number}/cls"] = block.cls.shape[1]
        widths[f"block:{number}/mean"] = block.places.shape[2]
    return widths


def summary(blocks: Blocks) -> Float[Tensor, "n w"]:
    """One row an image: the pooled output, and of every block the class token and the mean of its places."""
    parts = [blocks.pooled, *([] if blocks.backbone is None else [blocks.backbone])]
    for block in blocks.blocks:
        parts += [*([] if block.cls is None else [block.cls]), block.places.mean(dim=1)]
    return torch.cat([part.float() for part in parts], dim=1)


def of_timm(model: Any) -> GiveBlocks:
    """By a timm model's ``forward_intermediates``; the pooled output is that of its ``forward_head``."""
    prefixed = "return_prefix_tokens" in inspect.signature(model.forward_intermediates).parameters
    more = {"return_prefix_tokens": True} if prefixed else {}

    def give(images: Tensor) -> Blocks:
        final, outputs = model.forward_intermediates(images, output_fmt="NCHW", norm=False, **more)
        pooled = model.forward_head(final, pre_logits=True).flatten(1)
        blocks = []
        for block in outputs:
            places, prefix = block if isinstance(block, tuple) else (block, None)
            cls = prefix[:, 0] if prefix is not None and prefix.shape[1] else None
            blocks.append(_of_map(places, cls))
        return Blocks(pooled, None, tuple(blocks))

    return give


def of_open_clip(visual: Any, projects: bool) -> GiveBlocks:
    """By an open_clip tower's ``forward_intermediates``."""

    def give(images: Tensor) -> Blocks:
        outputs = visual.forward_intermediates(images, output_extra_tokens=True)
        maps = outputs["image_intermediates"]
        prefixes = outputs.get("image_intermediates_prefix") or [None] * len(maps)
        blocks = tuple(
            _of_map(places, None if prefix is None or not prefix.shape[1] else prefix[:, 0])
            for places, prefix in zip(maps, prefixes, strict=True)
        )
        before = visual.ln_post(blocks[-1].cls) if projects and blocks[-1].cls is not None else None
        return Blocks(outputs["image_features"], before, blocks)

    return give


def grid_of(tokens: int, size: Sequence[int]) -> tuple[int, int]:
    """Rows and columns of places among an image's tokens: the largest grid of the image's shape."""
    common = math.gcd(*size)
    rows, columns = (side // common for side in size)
    times = math.isqrt(tokens // (rows * columns))
    return rows * times, columns * times


def by_hooks(module: nn.Module, image: Callable[[Tensor], Tensor]) -> GiveBlocks | None:
    """By hooks on a module's blocks while it encodes: the longest list of modules of one class, if there is one."""
    lists = [part for part in module.modules() if isinstance(part, nn.ModuleList | nn.Sequential) and _alike(part)]
    if not lists:
        return None
    hooked = list(max(lists, key=len))

    def give(images: Tensor) -> Blocks:
        outputs: list[Any] = []
        handles = [block.register_forward_hook(lambda *call: outputs.append(call[2])) for block in hooked]
        try:
            pooled = image(images)
        finally:
            for handle in handles:
                handle.remove()
        return Blocks(pooled, None, of_states(outputs, images))

    return give


def of_states(outputs: Sequence[Any], images: Tensor) -> tuple[Block, ...]:
    """Blocks from what modules gave of images: tokens ``[n, t, d]`` or maps ``[n, d, h, w]``, first of several.

    Tokens before those of `grid_of` are the class token and registers.
    """
    blocks = []
    for output in outputs:
        state = output[0] if isinstance(output, tuple | list) else getattr(output, "last_hidden_state", output)
        if not isinstance(state, Tensor) or state.shape[0] != len(images):
            continue
        if state.ndim == 4:
            blocks.append(_of_map(state, None))
        elif state.ndim == 3:
            grid = grid_of(state.shape[1], images.shape[-2:])
            prefix = state.shape[1] - grid[0] * grid[1]
            if prefix > _MOST_PREFIX:
                grid, prefix = (1, state.shape[1]), 0
            blocks.append(Block(state[:, 0] if prefix else None, state[:, prefix:], grid))
    return tuple(blocks)


def _alike(modules: nn.ModuleList | nn.Sequential) -> bool:
    """Whether a list has at least two modules, all of one class that has weights."""
    alike = len({type(block) for block in modules}) == 1
    return alike and len(modules) > 1 and next(modules[0].parameters(), None) is not None


def _of_map(maps: Tensor, cls: Tensor | None) -> Block:
    return Block(cls, maps.flatten(2).transpose(1, 2), (maps.shape[2], maps.shape[3]))
