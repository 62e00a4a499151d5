"""GATE's training recipes by architecture and task."""

from __future__ import annotations

import dataclasses
from typing import Literal, get_args

from torch import nn

from vision_adapters.training.recipe import Recipe

Family = Literal["vit", "text", "audio", "efficientformer", "hybrid", "convolutional"]
Task = Literal[
    "classification", "medical", "fewshot", "segmentation", "medical_segmentation", "relational", "image_text", "video"
]  # fmt: skip
RATES = {"vit": 1e-5, "text": 1e-5, "audio": 1e-5, "efficientformer": 1e-5, "hybrid": 2e-5, "convolutional": 1e-3}
BATCHES = {
    "classification": 64, "medical": 32, "fewshot": 1, "segmentation": 8, "medical_segmentation": 1, "relational": 64,
    "image_text": 64, "video": 8,
}  # fmt: skip


def gate_recipe(family: Family, task: Task = "classification", **changes: object) -> Recipe:
    """GATE's recipe for an encoder of some architecture on some task.

    10,000 steps of AdamW, validated every 500, halved on plateaus of 1,000 steps, the decoder of segmentation ten times
    as fast; in bfloat16 on a GPU that computes in it.

    Args:
        family: "vit", "text", "audio" and "efficientformer" learn at 1e-5; "hybrid" (ConvNeXt and convolutional
            transformers) at 2e-5; "convolutional" at 1e-3, or 6e-4 for segmentation.
        task: sets the batch size.
        changes: fields of `Recipe` to set otherwise, for example `steps=500`.

    Example:
        >>> gate_recipe("convolutional", "segmentation").lr
        0.0006

    Source:
        GATE, section 8.1 (rates, schedule, 10k iterations, validation every 500, bfloat16); batch sizes and the
        decoder's factor are its code's, which validates every 250 and gives every other head the encoder's rate.
    """
    if family not in get_args(Family):
        raise ValueError(f"family must be one of {get_args(Family)}, got {family!r}")
    if task not in get_args(Task):
        raise ValueError(f"task must be one of {get_args(Task)}, got {task!r}")
    rate = 6e-4 if family == "convolutional" and task in ("segmentation", "medical_segmentation") else RATES[family]
    decoder = 10.0 if task in ("segmentation", "medical_segmentation") else 1.0
    recipe = Recipe(
        lr=rate, steps=10_000, batch_size=BATCHES[task], validate_every=500, head_lr_scale=decoder, precision="auto"
    )
    return dataclasses.replace(recipe, **changes)  # type: ignore[arg-type]  # Recipe checks the values itself


def family_of(module: nn.Module) -> Family | None:
    """The architecture family by whose learning rate GATE trains an encoder, or None for one that it does not know."""
    names = {type(part).__name__.lower() for part in module.modules()}
    if any("efficientformer" in name for name in names):
        return "efficientformer"
    if any(word in name for name in names for word in ("convnext", "maxxvit", "coatnet", "resnext", "levit")):
        return "hybrid"
    if any(name.endswith("attention") for name in names):
        return "vit"
    return "convolutional" if any(name.startswith("conv") for name in names) else None
