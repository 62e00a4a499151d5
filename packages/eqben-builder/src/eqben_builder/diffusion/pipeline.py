"""Two pictures of one noise with Stable Diffusion: the second edited by attention processors after the first."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from eqben_builder.diffusion.attention_edit import MapEdit, edited_map

EXTRA = "eqben-builder[diffusion]"


class EditedPair(NamedTuple):
    """Two uint8 pictures [height, width, 3]; `refused` says whether the pipeline's own safety checker objects."""

    images: tuple[NDArray[np.uint8], NDArray[np.uint8]]
    refused: bool


def load_pipeline(model: str, device: str = "cpu") -> Any:
    """A Stable Diffusion 1 or 2 pipeline from a folder or the hub; pickled weights are not read."""
    try:
        import diffusers
    except ImportError as error:
        raise ImportError(f"diffusers is not installed: pip install '{EXTRA}'") from error
    local = Path(model).is_dir()
    # Untyped to mypy, by way of Any: diffusers' classes are annotated in part.
    library: Any = diffusers
    pipeline = library.StableDiffusionPipeline.from_pretrained(model, use_safetensors=True, local_files_only=local)
    pipeline.scheduler = library.DDIMScheduler.from_config(pipeline.scheduler.config)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline.to(device)


def edited_pair(
    pipeline: Any,
    prompts: tuple[str, str],
    edit: MapEdit,
    *,
    seed: int,
    size: int | None = None,
    steps: int = 50,
    guidance: float = 7.5,
    cross: float = 0.8,
    self_share: float = 0.4,
    self_pixels: int = 256,
    fused: bool = True,
) -> EditedPair:
    """Draw two prompts from one noise, made on the CPU whatever the device, the second with the first's attention."""
    factor = int(pipeline.vae_scale_factor)
    side = int(size or pipeline.unet.config.sample_size * factor)
    if side % factor or side < factor or steps < 1:
        raise ValueError(f"size = {side!r}, steps = {steps!r}: expected a multiple of {factor}, and at least 1")
    state = EditState(edit, steps, cross, self_share, self_pixels)
    generator = torch.Generator("cpu").manual_seed(seed)
    shape = (1, pipeline.unet.config.in_channels, side // factor, side // factor)
    noise = torch.randn(shape, generator=generator).repeat(2, 1, 1, 1).to(pipeline.device, pipeline.unet.dtype)

    def count(_: Any, step: int, __: Any, values: dict[str, Any]) -> dict[str, Any]:
        state.step = step + 1
        return values

    before = dict(pipeline.unet.attn_processors)
    try:
        pipeline.unet.set_attn_processor({name: PromptToPromptProcessor(state, fused=fused) for name in before})
        with torch.no_grad():
            result = pipeline(
                list(prompts), height=side, width=side, num_inference_steps=steps, guidance_scale=guidance,
                latents=noise, output_type="np", callback_on_step_end=count,
            )  # fmt: skip
    finally:
        pipeline.unet.set_attn_processor(before)
    first, second = (np.rint(255 * np.clip(image, 0, 1)).astype(np.uint8) for image in result.images)
    return EditedPair((first, second), any(result.nsfw_content_detected or ()))


@dataclass
class EditState:
    """What all processors of one run share; `cross` and `self_share` are shares of its steps, from the first."""

    edit: MapEdit
    steps: int
    cross: float = 0.8
    self_share: float = 0.4
    self_pixels: int = 256
    step: int = field(default=0)

    def __post_init__(self) -> None:
        for name in ("cross", "self_share"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name} = {getattr(self, name)!r} lies outside [0, 1]")

    @property
    def edits_cross(self) -> bool:
        """Whether cross-attention is edited in this step."""
        return self.step < self.cross * self.steps

    def edits_self(self, pixels: int) -> bool:
        """Whether self-attention over so many positions is taken over in this step."""
        return self.step < self.self_share * self.steps and pixels <= self.self_pixels


class PromptToPromptProcessor:
    """Computes attention as diffusers does, and edits the last row of each (source, target) half of the batch.

    The batch is (source, target), or (empty, empty, source, target) with classifier-free guidance; the empty prompts'
    attention is not edited.
    """

    def __init__(self, state: EditState, *, fused: bool = True) -> None:
        self.state = state
        self.fused = fused
        #: The last edited map and the source's, kept where `fused` is false: float [heads, pixels, words].
        self.maps: tuple[Tensor, Tensor] | None = None

    def __call__(
        self,
        attn: Any,
        hidden_states: Float[Tensor, "batch pixels width"],
        encoder_hidden_states: Float[Tensor, "batch words text"] | None = None,
        attention_mask: Tensor | None = None,
        temb: Tensor | None = None,
    ) -> Float[Tensor, "batch pixels width"]:
        """One attention layer."""
        if hidden_states.ndim != 3 or len(hidden_states) not in (2, 4) or attention_mask is not None:
            raise ValueError(
                f"expected a batch of (source, target), with or without guidance, and no mask; found hidden states of "
                f"shape {list(hidden_states.shape)}"
            )
        residual = hidden_states
        if attn.group_norm is not None:
            hidden_states = attn.group_norm(hidden_states.transpose(1, 2)).transpose(1, 2)
        text = hidden_states if encoder_hidden_states is None else encoder_hidden_states
        if encoder_hidden_states is not None and attn.norm_cross:
            text = attn.norm_encoder_hidden_states(text)
        query, key, value = attn.to_q(hidden_states), attn.to_k(text), attn.to_v(text)
        query, key, value = (x.unflatten(-1, (attn.heads, -1)).transpose(1, 2) for x in (query, key, value))
        mixed = self._mixed(query, key, value, attn.scale, crossed=encoder_hidden_states is not None)
        mixed = mixed.transpose(1, 2).flatten(2).to(query.dtype)
        mixed = attn.to_out[1](attn.to_out[0](mixed))
        if attn.residual_connection:
            mixed = mixed + residual
        out: Tensor = mixed / attn.rescale_output_factor
        return out

    def _mixed(
        self,
        query: Float[Tensor, "batch heads pixels d"],
        key: Float[Tensor, "batch heads words d"],
        value: Float[Tensor, "batch heads words d"],
        scale: float,
        *,
        crossed: bool,
    ) -> Float[Tensor, "batch heads pixels d"]:
        source, target = len(query) - 2, len(query) - 1
        if not crossed and self.state.edits_self(query.shape[2]):
            # The target looks where the source looks, at values of its own.
            query, key = query.clone(), key.clone()
            query[target], key[target] = query[source], key[source]
        plain = self._attend(query, key, value, scale)
        if not crossed or not self.state.edits_cross:
            return plain
        edit = self.state.edit.to(value)
        if self.fused:
            # Every sample goes through the same call as without an edit, so that the source's bytes stay the same.
            theirs = self._attend(query[source], key[source], edit.source @ value[target], scale)
            own = self._attend(query[target], key[target], edit.target @ value[target], scale)
            changed = theirs + own
        else:
            looked = self._map(query, key, scale)
            new = edited_map(edit, looked[source], looked[target])
            self.maps = (new, looked[source])
            changed = new @ value[target]
        return torch.cat([plain[:target], changed[None]])

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        if self.fused:
            return F.scaled_dot_product_attention(query, key, value, scale=scale)
        return self._map(query, key, scale) @ value

    @staticmethod
    def _map(query: Tensor, key: Tensor, scale: float) -> Tensor:
        return (query @ key.transpose(-1, -2) * scale).softmax(dim=-1)
