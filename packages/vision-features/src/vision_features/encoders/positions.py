"""Let a frozen vision transformer take images of another size for a while: its learnt positions are interpolated."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gate_data.request import Size, height_width
from vision_features.encoders.blocks import grid_of
from vision_features.errors import EncoderError

if TYPE_CHECKING:
    from jaxtyping import Float

    from vision_features.encoders.encoder import Encoder

_NAMES = ("positional_embedding", "pos_embed", "position_embedding", "position_embeddings")
"""Parameters of positions, as open_clip, timm and others call them."""
_STRICT = "strict_img_size"
"""What a patch embedding of timm refuses other sizes by."""


def patch_side(encoder: Encoder) -> int:
    """Return the pixels of a patch's side, by the grid that an encoder makes of an image of its own size.

    Raises:
        EncoderError: the encoder gives no patch features.
    """
    high, wide = height_width(encoder.image_size)
    rows, _ = encoder.encode_patches(torch.zeros(1, 3, high, wide, dtype=torch.uint8)).grid
    return high // rows


def interpolated(
    positions: Float[Tensor, "*one t w"], own: tuple[int, int], grid: tuple[int, int]
) -> Float[Tensor, "*one s w"]:
    """Return positions of another grid, bicubic; those of tokens before the patches stay as they are."""
    flat = positions.reshape(-1, positions.shape[-1])
    prefix = len(flat) - own[0] * own[1]
    square = flat[prefix:].T.reshape(1, -1, *own).float()
    resized = F.interpolate(square, grid, mode="bicubic", align_corners=False)[0].flatten(1).T.to(flat)
    return torch.cat([flat[:prefix], resized]).reshape(*positions.shape[:-2], -1, positions.shape[-1])


@contextmanager
def taking(encoder: Encoder, size: Size) -> Iterator[None]:
    """Have an encoder take images of another height and width, in pixels, while a block runs.

    Learnt positions are interpolated as CLIP's users do for segmentation; a model of transformers is asked to do it
    itself. Nothing changes where the size is the encoder's own.

    Raises:
        EncoderError: the encoder has no positions that can be interpolated, or the size is no multiple of its patches.
    """
    wanted, own_size = height_width(size), height_width(encoder.image_size)
    if wanted == own_size:
        yield
        return
    module = encoder.module
    side = patch_side(encoder)
    if wanted[0] % side or wanted[1] % side:
        raise EncoderError(
            f"encoder {encoder.spec!r} has patches of {side} pixels; an image of {wanted[0]} x {wanted[1]} is no "
            f"multiple of them"
        )
    own, grid = ((high // side, wide // side) for high, wide in (own_size, wanted))
    before = encoder.image_size
    with ExitStack() as stack:
        changed = 0
        for part in module.modules() if module is not None else ():
            changed += _asked(part, stack) + _swapped(part, own, grid, stack)
            if getattr(part, _STRICT, False):
                stack.enter_context(_set(part, _STRICT, False))
        if not changed:
            raise EncoderError(
                f"encoder {encoder.spec!r} takes images of {own_size[0]} x {own_size[1]} pixels, and shows no learnt "
                f"positions that could be interpolated to {wanted[0]} x {wanted[1]}"
            )
        encoder.image_size = wanted
        try:
            yield
        finally:
            encoder.image_size = before


def _asked(part: nn.Module, stack: ExitStack) -> int:
    """Ask an embedding of transformers to interpolate; return whether it can."""
    forward: Callable[..., Any] = part.forward
    if not hasattr(part, "interpolate_pos_encoding"):
        return 0
    if "interpolate_pos_encoding" not in inspect.signature(forward).parameters:
        return 0

    def interpolating(*given: Any, **named: Any) -> Any:
        named["interpolate_pos_encoding"] = True
        return forward(*given[:1], **named)

    stack.enter_context(_set(part, "forward", interpolating))
    return 1


def _swapped(part: nn.Module, own: tuple[int, int], grid: tuple[int, int], stack: ExitStack) -> int:
    """Put interpolated positions in the place of learnt ones; return whether a module has some of this grid."""
    if getattr(part, "dynamic_img_size", False):  # timm's, which interpolates in each pass
        return 1
    changed = 0
    for name in _NAMES:
        positions = part._parameters.get(name)
        if positions is None or positions.ndim not in (2, 3):
            continue
        count, places = positions.numel() // positions.shape[-1], own[0] * own[1]
        if not 0 <= count - places <= 8 or grid_of(count, own) != own:
            continue
        resized = nn.Parameter(interpolated(positions.detach(), own, grid), requires_grad=False)
        part._parameters[name] = resized
        stack.callback(partial(part._parameters.__setitem__, name, positions))
        changed += 1
    return changed


@contextmanager
def _set(part: Any, name: str, value: Any) -> Iterator[None]:
    """Set an attribute of an instance while a block runs."""
    held, before = name in part.__dict__, part.__dict__.get(name)
    part.__dict__[name] = value
    try:
        yield
    finally:
        if held:
            part.__dict__[name] = before
        else:
            del part.__dict__[name]
