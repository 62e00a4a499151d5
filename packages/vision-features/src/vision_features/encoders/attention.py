"""Find the attention of a tower's last block, whichever library made it, and compute with its queries, keys and values.

Three forms of module are known: torch's ``nn.MultiheadAttention`` (open_clip, many own encoders), timm's ``Attention``
with one ``qkv`` matrix, and separate ``q_proj``, ``k_proj``, ``v_proj`` (transformers). What else an attention does,
such as rotary positions or a relative bias, is found by a comparison with its own output, see `Attention.check`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vision_features.errors import MissingCapabilityError

if TYPE_CHECKING:
    from jaxtyping import Float

_SEPARATE = ("q_proj", "k_proj", "v_proj")
_OUT = ("out_proj", "o_proj", "proj", "dense")
_SCALES = ("ls_1", "ls1", "layer_scale1", "gamma_1")
"""What multiplies an attention's output before it is added: layer scale, by its names in three libraries."""
_AGREEMENT = 1e-3
"""Largest difference from the module's own output, as a share of its largest value."""


class Heads(NamedTuple):
    """Queries, keys and values of each head."""

    queries: Float[Tensor, "n h t d"]
    keys: Float[Tensor, "n h t d"]
    values: Float[Tensor, "n h t d"]


class Attention:
    """A self-attention module as three projections and an output projection; its weights are read, never copied.

    Args:
        module: the attention.
        block: the block around it, whose layer scale is applied where a variant leaves out the rest of the block.

    Raises:
        MissingCapabilityError: the module has none of the three forms.
    """

    def __init__(self, module: nn.Module, block: nn.Module) -> None:
        self.module: Any = module
        self.block = block
        if form_of(module) is None:
            raise MissingCapabilityError(
                f"attention {type(module).__name__} has neither in_proj_weight, qkv nor q_proj, k_proj and v_proj"
            )
        self.form = form_of(module)
        self.batch_first = bool(getattr(module, "batch_first", True))

    @property
    def heads(self) -> int:
        """Return the number of heads."""
        return int(getattr(self.module, "num_heads", None) or self.module.num_attention_heads)

    def split(self, tokens: Float[Tensor, "n t w"]) -> Heads:
        """Project tokens to queries, keys and values of each head."""
        module = self.module
        if self.form == "joint":
            parts = F.linear(tokens, module.in_proj_weight, module.in_proj_bias).chunk(3, dim=-1)
        elif self.form == "qkv":
            parts = module.qkv(tokens).chunk(3, dim=-1)
        else:
            parts = tuple(getattr(module, name)(tokens) for name in _SEPARATE)
        queries, keys, values = (part.view(*part.shape[:2], self.heads, -1).transpose(1, 2) for part in parts)
        if self.form == "qkv":
            queries, keys = module.q_norm(queries), module.k_norm(keys)
        return Heads(queries, keys, values)

    def join(self, values: Float[Tensor, "n h t d"]) -> Float[Tensor, "n t w"]:
        """Put heads side by side again, through the output projection."""
        out = next(getattr(self.module, name) for name in _OUT if hasattr(self.module, name))
        joined: Tensor = out(values.transpose(1, 2).flatten(2))
        return joined

    def scaled(self, output: Float[Tensor, "n t w"]) -> Float[Tensor, "n t w"]:
        """Multiply an output by the block's layer scale, if it has one."""
        scale = next((part for name in _SCALES if (part := getattr(self.block, name, None)) is not None), None)
        if scale is None:
            return output
        scaled: Tensor = scale(output) if isinstance(scale, nn.Module) else scale * output
        return scaled

    def check(self, tokens: Float[Tensor, "n t w"], own: Float[Tensor, "n t w"]) -> None:
        """Compare plain attention by these parts with what the module itself gave of the same tokens.

        Raises:
            MissingCapabilityError: they differ: the module does more than softmax(q k) v.
        """
        heads = self.split(tokens)
        ours = self.join(F.scaled_dot_product_attention(heads.queries, heads.keys, heads.values))
        difference = float((ours - own).abs().max())
        if not difference <= _AGREEMENT * max(float(own.abs().max()), 1e-6):
            raise MissingCapabilityError(
                f"attention {type(self.module).__name__} is not softmax(q k) v alone (rotary positions, a bias or a "
                f"gate): its output differs by {difference:.2g}"
            )


def form_of(module: nn.Module) -> str | None:
    """Return how a module keeps its projections: ``"joint"``, ``"qkv"``, ``"separate"``, or None if it has none."""
    if isinstance(module, nn.MultiheadAttention) and module.in_proj_weight is not None:
        return "joint"
    if isinstance(getattr(module, "qkv", None), nn.Linear) and hasattr(module, "q_norm") and hasattr(module, "proj"):
        return "qkv"
    separate = all(isinstance(getattr(module, name, None), nn.Linear) for name in _SEPARATE)
    counted = hasattr(module, "num_heads") or hasattr(module, "num_attention_heads")
    return "separate" if separate and counted and any(hasattr(module, name) for name in _OUT) else None


def attention_in(block: nn.Module) -> nn.Module | None:
    """Return the one self-attention of a block; None where it has none, or several."""
    known = [part for part in block.modules() if form_of(part) is not None]
    return known[0] if len(known) == 1 else None


def attention_lists(module: nn.Module) -> list[list[nn.Module]]:
    """Return the lists of blocks of one class with an attention each, the longest first."""
    lists = [
        list(part)
        for part in module.modules()
        if isinstance(part, nn.ModuleList | nn.Sequential)
        and len(part)
        and len({type(block) for block in part}) == 1
        and attention_in(part[len(part) - 1]) is not None
    ]
    return sorted(lists, key=len, reverse=True)


def weighted(weights: Float[Tensor, "n t t"], values: Float[Tensor, "n h t d"]) -> Float[Tensor, "n h t d"]:
    """Average values by weights that all heads share."""
    return torch.einsum("nts,nhsd->nhtd", weights.to(values), values)
