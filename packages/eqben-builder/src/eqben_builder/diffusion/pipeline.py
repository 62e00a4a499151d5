"""Two pictures of one noise with Stable Diffusion, the second edited after the first."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from eqben_builder.diffusion.processor import EditState, PromptToPromptProcessor

if TYPE_CHECKING:
    from eqben_builder.diffusion.attention_edit import MapEdit

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
