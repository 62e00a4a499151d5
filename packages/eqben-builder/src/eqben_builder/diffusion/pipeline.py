"""Two images of one noise with Stable Diffusion: the second edited by attention processors after the first.

Prompt-to-prompt as algebra: an edited attention map is a linear map of the source's map and the target's own,

    P' = P_source A + P_target B

with matrices A and B over the words' positions. Replacing words moves columns (A = mapper, B = 0); refining keeps the
columns of the words that both prompts share and lets the target attend to the new ones. As the output of attention is
P' V, the same edit can be made on the values instead:

    P' V = P_source (A V) + P_target (B V)

which needs no attention map at all and so runs with fused attention.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from wary_files.checkpoints import whole

if TYPE_CHECKING:
    from collections.abc import Sequence

EXTRA = "eqben-builder[diffusion]"


class MapEdit(NamedTuple):
    """The two matrices of an edit.

    source: A, float [words, words]; row i says where the source's attention to its word i goes.
    target: B, float [words, words].
    """

    source: Float[Tensor, "words words"]
    target: Float[Tensor, "words words"]

    def to(self, like: Tensor) -> MapEdit:
        """The edit on the device and in the type of a tensor."""
        return MapEdit(self.source.to(like), self.target.to(like))


def word_tokens(tokenizer: Any, prompt: str) -> list[list[int]]:
    """The tokens of each word of a prompt, without those of beginning and end."""
    words = [list(tokenizer(word, add_special_tokens=False).input_ids) for word in prompt.split()]
    tokens = list(tokenizer(prompt, add_special_tokens=False).input_ids)
    if [token for word in words for token in word] != tokens:
        raise ValueError(f"prompt {prompt!r}: its words do not tokenise one by one")
    if len(tokens) + 2 > tokenizer.model_max_length:
        raise ValueError(f"prompt {prompt!r} has {len(tokens)} tokens, {tokenizer.model_max_length - 2} fit")
    return words


def _spans(words: Sequence[Sequence[int]]) -> list[range]:
    """Positions of each word's tokens, after the beginning's one."""
    spans, at = [], 1
    for word in words:
        spans.append(range(at, at + len(word)))
        at += len(word)
    return spans


def replace_words(tokenizer: Any, source: str, target: str) -> MapEdit:
    """Let each word of the target look where the word in its place in the source looks: prompt-to-prompt's word swap.

    A word of n tokens that takes the place of one of m spreads the attention of the m evenly over its n.
    """
    ours, theirs = word_tokens(tokenizer, source), word_tokens(tokenizer, target)
    if len(ours) != len(theirs):
        raise ValueError(f"{source!r} has {len(ours)} words and {target!r} {len(theirs)}: refine instead of replacing")
    size = int(tokenizer.model_max_length)
    mapper = torch.zeros(size, size)
    mapper[0, 0] = 1
    ends = [1, 1]
    for a, b in zip(_spans(ours), _spans(theirs), strict=True):
        if len(a) == len(b):
            for i, j in zip(a, b, strict=True):
                mapper[i, j] = 1
        else:
            mapper[a.start : a.stop, b.start : b.stop] = 1 / len(b)
        ends = [a.stop, b.stop]
    # The end of the text and the padding after it, position by position; what has no partner keeps its place.
    for k in range(size):
        i, j = min(ends[0] + k, size - 1), ends[1] + k
        if j >= size:
            break
        mapper[i, j] = 1
    return MapEdit(mapper, torch.zeros(size, size))


def refine_prompt(tokenizer: Any, source: str, target: str) -> MapEdit:
    """Let the words that both prompts share look where the source's look, and new words where they like.

    Prompt-to-prompt's prompt refinement; shared tokens are found by the longest matching runs.
    """
    size = int(tokenizer.model_max_length)
    ours, theirs = ([token for word in word_tokens(tokenizer, prompt) for token in word] for prompt in (source, target))
    shared, own = torch.zeros(size, size), torch.zeros(size, size)
    shared[0, 0] = 1
    partner: dict[int, int] = {}
    for block in SequenceMatcher(None, ours, theirs, autojunk=False).get_matching_blocks():
        partner |= {block.b + k: block.a + k for k in range(block.size)}
    for j in range(len(theirs)):
        if j in partner:
            shared[partner[j] + 1, j + 1] = 1
        else:
            own[j + 1, j + 1] = 1
    for k in range(size - 1 - len(theirs)):
        shared[min(1 + len(ours) + k, size - 1), 1 + len(theirs) + k] = 1
    return MapEdit(shared, own)


class EditedPair(NamedTuple):
    """Two uint8 images [height, width, 3]; `refused` says whether the pipeline's own safety checker objects."""

    images: tuple[NDArray[np.uint8], NDArray[np.uint8]]
    refused: bool


def load_pipeline(model: str, device: str = "cpu") -> Any:
    """A Stable Diffusion 1 or 2 pipeline from a folder or the hub; pickled weights are not read.

    Raises:
        DataError: a part lacks weights, which would be random.
    """
    try:
        import diffusers
        import transformers
    except ImportError as error:
        raise ImportError(f"diffusers is not installed: pip install '{EXTRA}'") from error
    local = Path(model).is_dir()
    # Untyped to mypy, by way of Any: diffusers' classes are annotated in part.
    library: Any = diffusers
    parts = {
        "unet": library.UNet2DConditionModel,
        "vae": library.AutoencoderKL,
        "text_encoder": transformers.CLIPTextModel,
    }
    pipeline = library.StableDiffusionPipeline.from_pretrained(
        model,
        use_safetensors=True,
        trust_remote_code=False,
        local_files_only=local,
        **{
            name: whole(form.from_pretrained, model, subfolder=name, local_files_only=local)[0]
            for name, form in parts.items()
        },
    )
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
) -> EditedPair:
    """Draw two prompts from one noise, made on the CPU whatever the device, the second with the first's attention."""
    factor = int(pipeline.vae_scale_factor)
    side = int(size or pipeline.unet.config.sample_size * factor)
    if side % factor or side < factor or steps < 1:
        raise ValueError(f"size = {side!r}, steps = {steps!r}: expected a multiple of {factor}, and at least 1")
    state = EditState(edit, steps, cross, self_share)
    generator = torch.Generator("cpu").manual_seed(seed)
    shape = (1, pipeline.unet.config.in_channels, side // factor, side // factor)
    noise = torch.randn(shape, generator=generator).repeat(2, 1, 1, 1).to(pipeline.device, pipeline.unet.dtype)

    def count(_: Any, step: int, __: Any, values: dict[str, Any]) -> dict[str, Any]:
        state.step = step + 1
        return values

    before = dict(pipeline.unet.attn_processors)
    try:
        pipeline.unet.set_attn_processor({name: PromptToPromptProcessor(state) for name in before})
        with torch.no_grad():
            result = pipeline(
                list(prompts), height=side, width=side, num_inference_steps=steps, guidance_scale=guidance,
                latents=noise, output_type="np", callback_on_step_end=count,
            )  # fmt: skip
    finally:
        pipeline.unet.set_attn_processor(before)
    first, second = (np.rint(255 * np.clip(image, 0, 1)).astype(np.uint8) for image in result.images)
    return EditedPair((first, second), any(result.nsfw_content_detected or ()))


#: Self-attention over more positions than these, 16 x 16, is never taken over, as in prompt-to-prompt.
SELF_PIXELS = 256


@dataclass
class EditState:
    """What all processors of one run share; `cross` and `self_share` are shares of its steps, from the first."""

    edit: MapEdit
    steps: int
    cross: float = 0.8
    self_share: float = 0.4
    step: int = 0

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
        return self.step < self.self_share * self.steps and pixels <= SELF_PIXELS


class PromptToPromptProcessor:
    """Computes attention as diffusers does, and edits the last row of each (source, target) half of the batch.

    The batch is (source, target), or (empty, empty, source, target) with classifier-free guidance; the empty prompts'
    attention is not edited.
    """

    def __init__(self, state: EditState) -> None:
        self.state = state

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
        plain = F.scaled_dot_product_attention(query, key, value, scale=scale)
        if not crossed or not self.state.edits_cross:
            return plain
        edit = self.state.edit.to(value)
        # Every sample goes through the same call as without an edit, so that the source's bytes stay the same.
        theirs, own = (
            F.scaled_dot_product_attention(query[k], key[k], matrix @ value[target], scale=scale)
            for k, matrix in ((source, edit.source), (target, edit.target))
        )
        return torch.cat([plain[:target], (theirs + own)[None]])
