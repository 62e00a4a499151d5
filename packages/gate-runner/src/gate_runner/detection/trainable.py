"""What of a detector learns: its class layers, a prompt's table, or nearly all; and a detector put back as it was."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from gate_runner.encoders.detectors import Detector
from gate_runner.errors import UsageError

_TOKENS = 1000
_HEADS = (
    "class_embed", "bbox_embed", "class_labels_classifier", "bbox_predictor", "enc_score_head", "enc_bbox_head",
    "enc_output", "text_projection",
)  # fmt: skip
_BACKBONE = re.compile(r"(?:^|\.)(?:(?:vision_)?backbone|conv_encoder)\.")
_STAGE = re.compile(r"(?:^|\.)(?:(?:stages|layers|layer|blocks)[._](\d+)|layer([1-4]))\.")
_STEM = re.compile(r"(?:^|\.)(?:embeddings|embedder|patch_embed|stem\w*|conv1|bn1|cls_token|pos_embed)(?:\.|$)")


def with_classes(detector: Detector, classes: int) -> None:
    """Give a closed-set detector so many classes, with new class layers where it has another number."""
    model = detector.model
    if model.config.num_labels == classes:
        return
    names = {number: str(number) for number in range(classes)}
    labels = {"id2label": names, "label2id": {name: number for number, name in names.items()}}
    config = type(model.config).from_dict({**model.config.to_dict(), **labels})
    fresh = type(model)(config)
    own, old = fresh.state_dict(), model.state_dict()
    fresh.load_state_dict({**own, **{name: old[name] for name in old if own[name].shape == old[name].shape}})
    detector.model = fresh.train(model.training).to(detector.device)


def choose(detector: Detector, tune: str) -> list[str]:
    """Leave gradients to what a way of tuning trains.

    Args:
        detector: changed in place; prompt tuning adds a table of zeros to the text encoder's tokens.
        tune: ``"linear"``: the layers that say classes and boxes, and the projection of the text; ``"prompt"``: the
            table alone; ``"full"``: all but the backbone's stem and first stage (of a transformer its patch embedding
            and first block), which are GLIP's two frozen stages; of YOLOS, which has no backbone, all.
    """
    model = detector.model
    model.requires_grad_(False)
    if tune == "prompt":
        wide = model.config.text_config.hidden_size
        text = model.model.text_backbone
        if not hasattr(text, "prompt_table"):
            text.prompt_table = nn.Parameter(torch.zeros(_TOKENS, wide, device=detector.device))
            text.register_forward_hook(_with_table)
        text.prompt_table.requires_grad_(True)
    else:
        for name, weight in model.named_parameters():
            head = any(part in name for part in _HEADS)
            weight.requires_grad_(head if tune == "linear" else not low(name))
    names = [name for name, weight in model.named_parameters() if weight.requires_grad]
    if not names:
        raise UsageError(f"--tune {tune}: {detector.family} has no weights of that kind")
    return names


def low(name: str) -> bool:
    """Whether a weight belongs to the stem or the first stage of a picture's backbone.

    Source:
        GLIP's ``FREEZE_CONV_BODY_AT 2``: in its ResNet and its Swin transformer the stem is the first of the two.
    """
    inside = _BACKBONE.split(name)
    if len(inside) == 1 or "projector" in name:
        return False
    stage = _STAGE.search(inside[-1])
    if stage is None:
        return _STEM.search(inside[-1]) is not None
    return stage[1] == "0" or stage[2] == "1"


def _with_table(module: Any, inputs: Any, output: Any) -> Any:
    """Add the learned table to the tokens that the text encoder gives."""
    tokens = output.last_hidden_state
    output["last_hidden_state"] = tokens + module.prompt_table[: tokens.shape[1]]
    return output


def steady(model: nn.Module) -> None:
    """Let batch normalisation whose weights are frozen keep its statistics, too; call it after ``train()``."""
    for part in model.modules():
        if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d) and not any(w.requires_grad for w in part.parameters()):
            part.eval()


@contextmanager
def unchanged(detector: Detector) -> Iterator[None]:
    """Put a detector back as it was after a training: the next part begins with the same weights."""
    model = detector.model
    before = {name: value.detach().clone() for name, value in model.state_dict().items()}
    try:
        yield
    finally:
        text = getattr(getattr(model, "model", None), "text_backbone", None)
        if text is not None and hasattr(text, "prompt_table"):
            del text.prompt_table
            text._forward_hooks.clear()
        model.load_state_dict(before)
        model.requires_grad_(False)
        detector.model = model
