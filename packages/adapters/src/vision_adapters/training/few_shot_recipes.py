"""Fixed settings of published few-shot fine-tuning, as recipes for `fit` and `fit_head`."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from torch import nn

from vision_adapters.low_rank import lora_names
from vision_adapters.training.recipe import Recipe

RATE, BATCH = 2e-4, 32
CLIP_LORA_STEPS, CLIP_LORA_RANK, CLIP_LORA_ALPHA = 500, 2, 1
TWO_STAGE_STEPS, TWO_STAGE_SHARE = 300, 0.6


class LowRankSettings(NamedTuple):
    """What `add_lora` takes, and the recipe that trains it."""

    rank: int
    alpha: int
    targets: list[str]
    recipe: Recipe


def clip_lora(module: nn.Module, shots: int, **changes: object) -> LowRankSettings:
    """CLIP-LoRA's settings for an encoder: updates of rank 2 on its attentions, 500 steps a shot, no validation.

    AdamW at 0.0002 along a cosine, batches of 32. The best step is not looked for: `fit(choose="last")`.

    Args:
        module: the encoder; its `nn.MultiheadAttention` and its layers named q_proj, k_proj, v_proj or qkv are targets.
        shots: labelled images per class, at least 1.
        changes: fields of `Recipe` to set otherwise.

    Raises:
        ValueError: shots below 1, or an encoder without attentions.

    Example:
        >>> settings = clip_lora(nn.TransformerEncoderLayer(8, 2), shots=4)
        >>> settings.rank, settings.targets, settings.recipe.steps
        (2, ['self_attn'], 2000)

    Source:
        Zanella and Ben Ayed, Low-rank few-shot adaptation of vision-language models (2024): one setting for eleven
        sets. It updates queries, keys and values, with a dropout of 0.25; an `nn.MultiheadAttention` here gets an
        update of what it puts out, too, and there is no dropout. Chooses with nothing.
    """
    targets = lora_names(module)
    if not targets:
        raise ValueError(f"{type(module).__name__} has no attention to put a low-rank update on")
    recipe = _recipe(CLIP_LORA_STEPS * _at_least_one(shots), changes)
    return LowRankSettings(CLIP_LORA_RANK, CLIP_LORA_ALPHA, targets, recipe)


def two_stage(shots: int, **changes: object) -> tuple[Recipe, Recipe]:
    """2SFS's two recipes: 60 % of 300 steps a shot train the norms, the rest the head on the encoder that came out.

    For the first, `train_only(encoder, "norm")` and a head at the class texts that stays as it is; for the second,
    `FrozenFeatures` and the same head. No validation: `fit(choose="last")` in both.

    Example:
        >>> first, second = two_stage(shots=4)
        >>> first.steps, second.steps, first.lr
        (720, 480, 0.0002)

    Source:
        Farina et al., Rethinking few-shot adaptation of vision-language models in two stages (2025): 300 steps a shot,
        0.6 of them in the first stage, for all sets. Chooses with nothing.
    """
    steps = TWO_STAGE_STEPS * _at_least_one(shots)
    first = round(TWO_STAGE_SHARE * steps)
    return _recipe(first, changes), _recipe(steps - first, changes)


def _at_least_one(shots: int) -> int:
    if shots < 1:
        raise ValueError(f"shots must be at least 1, got {shots}")
    return shots


def _recipe(steps: int, changes: dict[str, object]) -> Recipe:
    recipe = Recipe(
        lr=RATE, steps=steps, batch_size=BATCH, validate_every=max(steps, 1), betas=(0.9, 0.999), eps=1e-8,
        schedule="cosine",
    )  # fmt: skip
    return dataclasses.replace(recipe, **changes)  # type: ignore[arg-type]  # Recipe checks the values itself
