"""Errors at the door: each names the value that is wrong and what was expected."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torch import Tensor


def check_choice(name: str, value: object, allowed: Iterable[object]) -> None:
    """Raise ValueError unless `value` is one of `allowed`."""
    options = list(allowed)
    if value not in options:
        raise ValueError(f"{name}={value!r}: expected one of {', '.join(repr(option) for option in options)}")


def check_sides(sides: Sequence[str]) -> None:
    """Raise ValueError unless `sides` holds "text", "image" or both, each once."""
    if isinstance(sides, str) or not sides or len(set(sides)) != len(sides) or not set(sides) <= {"text", "image"}:
        raise ValueError(f"sides={sides!r}: expected a tuple of 'text' and/or 'image', each at most once")


def check_non_negative(**values: float) -> None:
    """Raise ValueError for a value that is negative or not finite."""
    for name, value in values.items():
        if not (0 <= value < float("inf")):
            raise ValueError(f"{name}={value!r}: expected a finite number >= 0")


def check_positive(**values: float) -> None:
    """Raise ValueError for a value that is not above 0, or not finite."""
    for name, value in values.items():
        if not (0 < value < float("inf")):
            raise ValueError(f"{name}={value!r}: expected a finite number > 0")


def check_features(image: Tensor, text: Tensor, *, negatives: bool = False, of: str = "") -> None:
    """Raise unless both are non-empty floating (n, d) tensors of one shape, dtype and device, or with more texts."""
    names = f"{of}image_features", f"{of}text_features"
    for name, value in zip(names, (image, text), strict=True):
        if not isinstance(value, torch.Tensor):
            raise TypeError(f"{name} is a {type(value).__name__}: expected a torch.Tensor of shape (n, d)")
        if value.ndim != 2 or 0 in value.shape:
            raise ValueError(f"{name} has shape {tuple(value.shape)}: expected (n, d) with n >= 1 and d >= 1")
        if not value.is_floating_point():
            raise TypeError(f"{name} has dtype {value.dtype}: expected a floating-point dtype")
    shapes = f"{tuple(image.shape)} against {tuple(text.shape)}"
    if image.shape[1] != text.shape[1]:
        raise ValueError(f"{' and '.join(names)} differ in width: {shapes}; expected one number of features")
    if not 0 <= len(text) - len(image) <= (len(text) if negatives else 0):
        texts = "at least as many texts as images" if negatives else "one text for each image"
        raise ValueError(f"{' and '.join(names)} differ in number: {shapes}; expected {texts}")
    for attribute in ("dtype", "device"):
        ours, theirs = getattr(image, attribute), getattr(text, attribute)
        if ours != theirs:
            raise ValueError(f"{' and '.join(names)} differ in {attribute}: {ours} against {theirs}")


def check_teacher(teacher: object, image: Tensor, text: Tensor) -> None:
    """Raise unless `teacher` is (image features, text features, logit scale) of the same images and texts."""
    if not isinstance(teacher, tuple) or len(teacher) != 3:
        raise TypeError(f"teacher={type(teacher).__name__}: expected (image_features, text_features, logit_scale)")
    check_features(*teacher[:2], negatives=True, of="the teacher's ")
    theirs, ours = ((len(images), len(texts)) for images, texts in (teacher[:2], (image, text)))
    if theirs != ours:
        raise ValueError(f"the teacher's features are of {theirs} images and texts: expected the batch's, {ours}")


def check_hard(focus: float, smoothing: float) -> None:
    """Raise ValueError for a focus below 0 or a smoothing outside [0, 1)."""
    check_non_negative(focus=focus)
    if not 0 <= smoothing < 1:
        raise ValueError(f"smoothing={smoothing!r}: expected a number in [0, 1)")


def readable(values: Tensor) -> bool:
    """Whether entries can be read without waiting for a device, or breaking a graph that is compiled."""
    return values.device.type == "cpu" and not torch.compiler.is_compiling()


def check_owners(owners: Tensor, negatives: int, n: int) -> None:
    """Raise unless `owners` names one of n images for each negative."""
    if not isinstance(owners, torch.Tensor) or owners.dtype != torch.int64 or owners.shape != (negatives,):
        shape = tuple(owners.shape) if isinstance(owners, torch.Tensor) else type(owners).__name__
        raise ValueError(
            f"negatives_of is {shape}: expected torch.int64 of shape ({negatives},), one for each negative"
        )
    if negatives and readable(owners) and (int(owners.min()) < 0 or int(owners.max()) >= n):
        wrong = int(owners.min()) if int(owners.min()) < 0 else int(owners.max())
        raise ValueError(f"negatives_of holds {wrong}: expected indices of this process's images, in [0, {n})")


def check_scores(scores: Tensor) -> None:
    """Raise unless `scores` is a non-empty square floating matrix."""
    if scores.ndim != 2 or scores.shape[0] != scores.shape[1] or scores.shape[0] == 0:
        raise ValueError(f"scores has shape {tuple(scores.shape)}: expected a square (n, n) with n >= 1")
    if not scores.is_floating_point():
        raise TypeError(f"scores has dtype {scores.dtype}: expected a floating-point dtype")


def check_pairs(pairs: Tensor, n: int, device: torch.device) -> None:
    """Raise unless `pairs` is an integer (p, 2) tensor on `device` of pairs of different samples."""
    if not isinstance(pairs, torch.Tensor):
        raise TypeError(f"close_pairs is a {type(pairs).__name__}: expected an integer torch.Tensor of shape (p, 2)")
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        msg = f"close_pairs has shape {tuple(pairs.shape)}: expected (p, 2), one row (i, j) for each ordered pair"
        raise ValueError(msg)
    if pairs.dtype not in (torch.int64, torch.int32):
        raise TypeError(f"close_pairs has dtype {pairs.dtype}: expected torch.int64 or torch.int32")
    if pairs.device != device:
        raise ValueError(f"close_pairs is on {pairs.device}: expected the features' device, {device}")
    if not readable(pairs) or pairs.shape[0] == 0:
        return
    outside = (pairs < 0) | (pairs >= n)
    if bool(outside.any()):
        row = int(outside.any(dim=1).nonzero()[0, 0])
        raise ValueError(f"close_pairs[{row}] = {tuple(pairs[row].tolist())}: expected indices in [0, {n})")
    same = pairs[:, 0] == pairs[:, 1]
    if bool(same.any()):
        row = int(same.nonzero()[0, 0])
        raise ValueError(f"close_pairs[{row}] = {tuple(pairs[row].tolist())}: a sample cannot be paired with itself")


def check_scale(score: str, logit_scale: Tensor | float | None, *, needed_for: str | None = None) -> None:
    """Raise ValueError when the score or the loss needs `logit_scale` and there is none, or it is not one number."""
    if logit_scale is None:
        if score in ("logits", "softmax") or needed_for:
            reason = needed_for or f"score={score!r}"
            raise ValueError(f"logit_scale is None: {reason} needs it (pass model.logit_scale.exp(), or a number)")
        return
    if isinstance(logit_scale, torch.Tensor) and logit_scale.numel() != 1:
        raise ValueError(f"logit_scale has shape {tuple(logit_scale.shape)}: expected one number")
    if not isinstance(logit_scale, torch.Tensor) and not 0 <= logit_scale < math.inf:  # tensors wait for the device
        raise ValueError(f"logit_scale is {logit_scale}: expected a finite number, at least 0")


def check_values(image_features: Tensor, text_features: Tensor, logit_scale: Tensor | float | None) -> None:
    """Raise ValueError for NaN, infinity, or a scale below 0; waits for the device."""
    for name, rows in (("image_features", image_features), ("text_features", text_features)):
        bad = ~torch.isfinite(rows).all(dim=-1)
        if bool(bad.any()):
            raise ValueError(f"{name}: row {int(bad.int().argmax())} has NaN or infinity")
    if isinstance(logit_scale, torch.Tensor) and not 0 <= float(logit_scale.detach()) < math.inf:
        raise ValueError(f"logit_scale is {float(logit_scale.detach())}: expected a finite number, at least 0")


LARGEST_LOG_SCALE = 4.61
"""Just above log 100, where CLIP clips its scale; scales themselves start at 10 (SigLIP) and 14 (CLIP)."""


def logarithm_given(logit_scale: Tensor | float | None) -> float | None:
    """Return the value of a scale that is a model's own parameter, if it is that of a logarithm; else None."""
    if not isinstance(logit_scale, torch.nn.Parameter):
        return None
    value = float(logit_scale.detach())
    return value if 1 < value < LARGEST_LOG_SCALE else None
