"""One call for every method, and the choice of knowledge by validation."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

from vision_adapters.tuning.anchored import tune_anchored
from vision_adapters.tuning.baselines import tune_gda, tune_logistic, tune_tip, tune_zero_shot
from vision_adapters.tuning.data import HeldOut, Tuned, TuningData
from vision_adapters.tuning.discriminant import tune_lda
from vision_adapters.tuning.elevater import tune_elevater
from vision_adapters.tuning.probes import tune_clap, tune_lpp
from vision_adapters.tuning.projection import tune_prolip

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

METHODS: dict[str, Callable[[TuningData], Tuned]] = {
    "anchored": tune_anchored,
    "zero_shot": tune_zero_shot,
    "elevater": tune_elevater,
    "logistic": tune_logistic,
    "gda": tune_gda,
    "lda": tune_lda,
    "lp++": tune_lpp,
    "clap": tune_clap,
    "tip_adapter": tune_tip,
    "prolip": tune_prolip,
}


class Knowledge(NamedTuple):
    """Which class embeddings validated best: their name, the choice made with them, and every validation metric.

    Example:
        >>> import torch
        >>> from vision_adapters import tune, tuning_data
        >>> from vision_adapters.tuning import select_knowledge
        >>> features, labels = torch.eye(2).repeat(8, 1), torch.arange(2).repeat(8)
        >>> names = {"right": torch.eye(2), "swapped": torch.eye(2).flip(0)}
        >>> found = select_knowledge(tuning_data(features, labels), names)
        >>> found.name
        'right'
    """

    name: str
    tuned: Tuned
    validation: dict[str, float]


def tune(data: TuningData, method: str = "anchored") -> Tuned:
    """Fit a head on cached features, every choice made by validation.

    Args:
        data: from `tuning_data`; test data cannot be in it.
        method: "anchored" (the default), "zero_shot", "elevater", "logistic", "gda", "lda",
            "lp++", "clap", "tip_adapter" or "prolip".

    Returns:
        The finished choice, which `HeldOut.score` takes.

    Raises:
        ValueError: an unknown method, or one that the data does not suit (texts or single labels missing).
        TypeError: anything but `TuningData`; held-out test data above all.

    Example:
        >>> import torch
        >>> from vision_adapters.tuning import HeldOut, tune, tuning_data
        >>> texts = torch.eye(3)
        >>> labels = torch.arange(30) % 3
        >>> features = texts[labels] + 0.1 * torch.randn(30, 3, generator=torch.Generator().manual_seed(0))
        >>> tuned = tune(tuning_data(features, labels, class_embeddings=texts))
        >>> HeldOut(features, labels).score(tuned).value
        1.0
    """
    if isinstance(data, HeldOut):
        raise TypeError("held-out test data cannot be tuned on")
    if not isinstance(data, TuningData):
        raise TypeError(f"tune takes TuningData, got {type(data).__name__}; make it with tuning_data(...)")
    if method not in METHODS:
        raise ValueError(f"method {method!r} is unknown, expected one of {', '.join(METHODS)}")
    return METHODS[method](data)


def select_knowledge(data: TuningData, candidates: Mapping[str, Any], method: str = "anchored") -> Knowledge:
    """Choose among class embeddings (with this knowledge, with that, with none) by validation.

    Args:
        data: its own class embeddings are replaced.
        candidates: name -> [k, d] embeddings; the first among equals wins, so put the plain ones first.
        method: the tuner; its validation metric decides.

    Returns:
        The best name, its choice, and all metrics.

    Raises:
        ValueError: no candidates, a wrong shape (with the name), or a method without validation.

    Example:
        >>> import torch
        >>> from vision_adapters.tuning import select_knowledge, tuning_data
        >>> labels = torch.arange(20) % 2
        >>> data = tuning_data(torch.eye(2)[labels], labels)
        >>> select_knowledge(data, {"wrong": torch.eye(2).flip(0), "right": torch.eye(2)}, "zero_shot").name
        'right'

    Source:
        ELEVATER, section 4 (external knowledge is used where validation supports it); absent from its toolkit.
    """
    import torch

    if not candidates:
        raise ValueError("there are no candidates to choose from")
    found: dict[str, Tuned] = {}
    for name, embeddings in candidates.items():
        texts = torch.as_tensor(embeddings).to(data.features)
        if texts.shape != (data.classes, data.features.shape[1]):
            expected = (data.classes, data.features.shape[1])
            raise ValueError(f"candidate {name!r} has shape {tuple(texts.shape)}, expected {expected}")
        found[name] = tune(dataclasses.replace(data, class_embeddings=texts), method)
    scores: dict[str, float] = {}
    for name, tuned in found.items():
        if tuned.validation is None:
            raise ValueError(f"{method} has no validation to choose by on these data; method='zero_shot' has")
        scores[name] = tuned.validation
    best = max(scores, key=lambda name: scores[name])
    return Knowledge(best, found[best], scores)
