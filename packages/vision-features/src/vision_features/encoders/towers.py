"""A ViT and a causal text transformer in one space: CLIP's two towers in plain torch, for the encoders that come along.

Parameters have the names and shapes that open_clip gives them, and the methods are those of its `CLIP` that encoders
are read by, so that weights, read-outs and prompt learning are the same on both. Importing open_clip takes five seconds
of CPU time, for towers that these encoders do not have.

Source: Radford et al. (2021), sections 2.4 and 2.5; checked against open_clip's `CLIP`, to the bit.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import Any, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


class LayerNorm(nn.LayerNorm):
    """Layer norm whose output has the type of its input, under autocast too."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - the name that its base class has
        """Return the normalised features."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps).to(input.dtype)


class Attention(nn.MultiheadAttention):
    """torch's own, whose projections without gradients are one matrix product each, equal to the bit.

    torch turns the tokens before the batch, which makes a product for each image of it: slower on a CPU.
    """

    def forward(  # type: ignore[override]  # no weights, and no mask of keys, are asked for in these towers
        self,
        query: Float[Tensor, "n q d"],
        key: Float[Tensor, "n t d"],
        value: Float[Tensor, "n t d"],
        attn_mask: Float[Tensor, "q t"] | None = None,
    ) -> tuple[Float[Tensor, "n q d"], Tensor | None]:
        """Return what the queries read; the mask is added to what keys and queries are compared by."""
        if torch.is_grad_enabled():  # gradients would differ by rounding
            return super().forward(query, key, value, need_weights=False, attn_mask=attn_mask)

        def heads(tokens: Tensor, first: int, last: int) -> tuple[Tensor, ...]:
            part = slice(first * self.embed_dim, last * self.embed_dim)
            projected = F.linear(tokens, self.in_proj_weight[part], self.in_proj_bias[part])
            split = projected.view(*tokens.shape[:2], last - first, self.num_heads, self.head_dim)
            return split.permute(2, 0, 3, 1, 4).unbind()

        q, k, v = heads(query, 0, 3) if query is key else (*heads(query, 0, 1), *heads(key, 1, 3))
        read = F.scaled_dot_product_attention(q, k, v, attn_mask=attn_mask)
        return self.out_proj(read.transpose(1, 2).reshape(query.shape)), None


class Block(nn.Module):
    """Attention and a perceptron, each behind a layer norm and added to its input."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.ln_1 = LayerNorm(width)
        self.attn = Attention(width, heads, batch_first=True)
        self.ln_2 = LayerNorm(width)
        layers = {"c_fc": nn.Linear(width, 4 * width), "gelu": nn.GELU(), "c_proj": nn.Linear(4 * width, width)}
        self.mlp = nn.Sequential(OrderedDict(layers))

    def forward(self, x: Float[Tensor, "n t d"], attn_mask: Tensor | None = None) -> Float[Tensor, "n t d"]:
        """Return the tokens after this block."""
        h = self.ln_1(x)
        mask = None if attn_mask is None else attn_mask.to(h.dtype)
        x = x + self.attn(h, h, h, attn_mask=mask)[0]
        return cast("Tensor", x + self.mlp(self.ln_2(x)))

    def first(self, x: Float[Tensor, "n t d"]) -> Float[Tensor, "n 1 d"]:
        """Return the first token after this block; of the others, keys and values alone are computed."""
        h = self.ln_1(x)
        read = x[:, :1] + self.attn(h[:, :1], h, h)[0]
        return cast("Tensor", read + self.mlp(self.ln_2(read)))


class Transformer(nn.Module):
    """Blocks, one after another; with `grad_checkpointing` their activations are computed again going back."""

    def __init__(self, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.width, self.layers, self.grad_checkpointing = width, layers, False
        self.resblocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])

    def get_cast_dtype(self) -> torch.dtype:
        """Return the type of the weights."""
        return cast("Any", self.resblocks[0]).mlp.c_fc.weight.dtype  # type: ignore[no-any-return]  # a module's attribute

    def states(self, x: Float[Tensor, "n t d"], attn_mask: Tensor | None = None) -> list[Float[Tensor, "n t d"]]:
        """Return the tokens after each block."""
        outputs = []
        for block in self.resblocks:
            x = checkpoint(block, x, attn_mask, use_reentrant=False) if self.grad_checkpointing else block(x, attn_mask)
            outputs.append(x)
        return outputs

    def forward(self, x: Float[Tensor, "n t d"], attn_mask: Tensor | None = None) -> Float[Tensor, "n t d"]:
        """Return the tokens after the last block."""
        return self.states(x, attn_mask)[-1]


class ImageTower(nn.Module):
    """A ViT: patches and a class token, whose last state is the image's feature times `proj`."""

    def __init__(self, output: int, image_size: int, patch_size: int, width: int, layers: int, head_width: int) -> None:
        super().__init__()
        self.image_size, self.patch_size = (image_size, image_size), (patch_size, patch_size)
        self.grid_size = (image_size // patch_size,) * 2
        self.output_dim, self.pool_type, self.attn_pool = output, "tok", None
        self.conv1: nn.Module = nn.Conv2d(3, width, patch_size, stride=patch_size, bias=False)
        scale = width**-0.5
        self.class_embedding = nn.Parameter(scale * torch.randn(width))
        self.positional_embedding = nn.Parameter(scale * torch.randn(math.prod(self.grid_size) + 1, width))
        self.ln_pre = LayerNorm(width)
        self.transformer = Transformer(width, layers, width // head_width)
        self.ln_post = LayerNorm(width)
        self.proj = nn.Parameter(scale * torch.randn(width, output))

    def set_grad_checkpointing(self, enable: bool = True) -> None:
        """Compute activations again going back, or keep them."""
        self.transformer.grad_checkpointing = enable

    def embedded(self, images: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n t d"]:
        """Return the class token and the patches before the first block; of any batch, in an exported file too."""
        x = self.conv1(images).flatten(2).transpose(1, 2)
        cls = self.class_embedding.to(x.dtype).expand(x.shape[0], 1, -1)
        return cast("Tensor", self.ln_pre(torch.cat([cls, x], dim=1) + self.positional_embedding.to(x.dtype)))

    def forward(self, images: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n d"]:
        """Return the images' features."""
        return cast("Tensor", self.ln_post(self.transformer(self.embedded(images)))[:, 0] @ self.proj)

    def class_state(self, images: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n d"]:
        """Return the class token that `forward` projects, up to float rounding; the last block computes no patch.

        Activations are kept: where gradients are wanted under `grad_checkpointing`, use `forward_intermediates`.
        """
        x = self.embedded(images)
        *before, last = self.transformer.resblocks
        for block in before:
            x = block(x)
        return cast("Tensor", self.ln_post(cast("Block", last).first(x))[:, 0])

    def forward_intermediates(
        self,
        images: Float[Tensor, "n 3 h w"],
        indices: int | None = None,
        *,
        normalize_intermediates: bool = False,
        intermediates_only: bool = False,
        output_extra_tokens: bool = False,
    ) -> dict[str, Any]:
        """Return maps [n, d, rows, columns] of all blocks, or the last `indices`, class tokens and features.

        Keys are open_clip's: `image_intermediates`, `image_intermediates_prefix` and `image_features`.
        """
        states = self.transformer.states(self.embedded(images))
        chosen = states if indices is None else states[-indices:]
        if normalize_intermediates:
            chosen = [self.ln_post(state) for state in chosen]
        grid = [side // patch for side, patch in zip(images.shape[2:], self.patch_size, strict=True)]
        maps = [state[:, 1:].transpose(1, 2).reshape(state.shape[0], -1, *grid).contiguous() for state in chosen]
        output: dict[str, Any] = {"image_intermediates": maps}
        if output_extra_tokens:
            output["image_intermediates_prefix"] = [state[:, :1] for state in chosen]
        if not intermediates_only:
            output["image_features"] = self.ln_post(states[-1])[:, 0] @ self.proj
        return output


class DualEncoder(nn.Module):
    """Images and texts in one space.

    Args:
        embed_dim: width of the common space.
        vision_cfg: `image_size`, `patch_size`, `width`, `layers` and `head_width` of the image tower.
        text_cfg: `context_length`, `vocab_size`, `width`, `heads`, `layers` and `eos_id` of the text tower, which looks
            back only and is read at its end token (`pool_type` "eos").

    Raises:
        TypeError: a field of either that these towers do not have.

    Example:
        >>> vision = {"image_size": 16, "patch_size": 8, "width": 8, "layers": 1, "head_width": 4}
        >>> text = {"context_length": 4, "vocab_size": 9, "width": 8, "heads": 2, "layers": 1, "eos_id": 8}
        >>> model = DualEncoder(6, vision, text)
        >>> model.encode_image(torch.zeros(2, 3, 16, 16)).shape, model.encode_text(torch.tensor([[1, 8, 0, 0]])).shape
        (torch.Size([2, 6]), torch.Size([1, 6]))
    """

    def __init__(self, embed_dim: int, vision_cfg: dict[str, Any], text_cfg: dict[str, Any]) -> None:
        super().__init__()
        self.visual = ImageTower(embed_dim, **vision_cfg)
        self._add_text(embed_dim, **text_cfg)
        self.logit_scale = nn.Parameter(torch.ones([]) * math.log(1 / 0.07))
        self.logit_bias = None

    def _add_text(
        self,
        output: int,
        *,
        context_length: int,
        vocab_size: int,
        width: int,
        heads: int,
        layers: int,
        eos_id: int,
        pool_type: str = "eos",
    ) -> None:
        """Add the text tower; it draws its weights after the image tower has drawn its own."""
        if pool_type != "eos":
            raise TypeError(f"pool_type {pool_type!r}: the text tower is read at its end token, expected 'eos'")
        self.context_length, self.vocab_size = context_length, vocab_size
        self.text_pool_type, self.text_eos_id = pool_type, eos_id
        embedding, places = nn.Embedding(vocab_size, width), nn.Parameter(torch.empty(context_length, width))
        self.transformer = Transformer(width, layers, heads)
        self.token_embedding, self.positional_embedding, self.ln_final = embedding, places, LayerNorm(width)
        self.text_projection = nn.Parameter(torch.empty(width, output))
        later = torch.full((context_length, context_length), -math.inf).triu_(1)
        self.register_buffer("attn_mask", later, persistent=False)
        nn.init.normal_(embedding.weight, std=0.02)
        nn.init.normal_(places, std=0.01)
        blocks: Any = self.transformer.resblocks
        for block in blocks:
            nn.init.normal_(block.attn.in_proj_weight, std=width**-0.5)
            nn.init.normal_(block.attn.out_proj.weight, std=width**-0.5 * (2 * layers) ** -0.5)
            nn.init.normal_(block.mlp.c_fc.weight, std=(2 * width) ** -0.5)
            nn.init.normal_(block.mlp.c_proj.weight, std=width**-0.5 * (2 * layers) ** -0.5)
        nn.init.normal_(self.text_projection, std=width**-0.5)

    def set_grad_checkpointing(self, enable: bool = True) -> None:
        """Compute activations of both towers again going back, or keep them."""
        self.visual.set_grad_checkpointing(enable)
        self.transformer.grad_checkpointing = enable

    def encode_image(self, image: Float[Tensor, "n 3 h w"], normalize: bool = False) -> Float[Tensor, "n d"]:
        """Return features of images that are scaled and normalised."""
        features = cast("Tensor", self.visual(image))
        return F.normalize(features, dim=-1) if normalize else features

    def words(self, text: Int[Tensor, "n t"]) -> list[Float[Tensor, "n t w"]]:
        """Return the tokens of texts after each block; ids are as long as the context."""
        dtype = self.transformer.get_cast_dtype()
        x = self.token_embedding(text).to(dtype) + self.positional_embedding.to(dtype)
        return self.transformer.states(x, self.get_buffer("attn_mask"))

    def encode_text(self, text: Int[Tensor, "n t"], normalize: bool = False) -> Float[Tensor, "n d"]:
        """Return features of texts, by their token ids."""
        x = self.ln_final(self.words(text)[-1])
        end = (text == self.text_eos_id).int().argmax(dim=-1)
        features = cast("Tensor", x[torch.arange(x.shape[0], device=x.device), end] @ self.text_projection)
        return F.normalize(features, dim=-1) if normalize else features

    def forward_intermediates(
        self,
        image: Float[Tensor, "n 3 h w"] | None = None,
        text: Int[Tensor, "n t"] | None = None,
        *,
        image_indices: int | None = None,
        text_indices: int | None = None,
        normalize_intermediates: bool = False,
        intermediates_only: bool = True,
    ) -> dict[str, Any]:
        """Return maps of images and tokens of texts after all blocks, or the last ones, under open_clip's keys."""
        if not intermediates_only:
            raise ValueError("features are given by encode_image and encode_text; expected intermediates_only=True")
        output: dict[str, Any] = {}
        if image is not None:
            output = self.visual.forward_intermediates(
                image, image_indices, normalize_intermediates=normalize_intermediates, intermediates_only=True
            )
        if text is not None:
            states = self.words(text)
            chosen = states if text_indices is None else states[-text_indices:]
            output["text_intermediates"] = [self.ln_final(x) if normalize_intermediates else x for x in chosen]
        return output
