"""One call for every method."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vision_adapters.heads import LinearHead
from vision_adapters.tuning.anchored import tune_anchored
from vision_adapters.tuning.baselines import tune_gda, tune_logistic, tune_tip, tune_zero_shot, unit_texts
from vision_adapters.tuning.closed_forms import (
    tune_gda_published,
    tune_proker,
    tune_ss_text,
    tune_ss_text_plus,
    tune_ss_text_plus_published,
    tune_ss_text_published,
)
from vision_adapters.tuning.data import HeldOut, Tuned, TuningData, tuning_data
from vision_adapters.tuning.discriminant import tune_lda
from vision_adapters.tuning.elevater import tune_elevater
from vision_adapters.tuning.probes import tune_clap, tune_clap_published, tune_cross_modal, tune_lpp
from vision_adapters.tuning.unlabelled import TRANSDUCTIONS, transduce_or

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
    "ss_text": tune_ss_text,
    "ss_text+": tune_ss_text_plus,
    "proker": tune_proker,
    "cross_modal": tune_cross_modal,
    "gda_published": tune_gda_published,
    "clap_published": tune_clap_published,
    "ss_text_published": tune_ss_text_published,
    "ss_text+_published": tune_ss_text_plus_published,
}
BALANCEABLE = ("anchored", "logistic", "tip_adapter")
"""Methods that take `class_weight` and `sample_weight`.

Discriminants ("gda", "lda") give all classes the same prior as they are.
"""


def tune(data: TuningData, method: str | None = None, *, unlabelled: Any = None) -> Tuned:
    """Fit a head on cached features, every choice made by validation.

    Args:
        data: from `tuning_data`; test data cannot be in it.
        method: "anchored" (the default), "zero_shot", "elevater", "logistic", "gda", "lda", "lp++", "clap",
            "tip_adapter", "ss_text", "ss_text+", "proker" or "cross_modal"; "gda_published" and "clap_published" are
            the papers' own search and penalty,
            "ss_text_published" and "ss_text+_published" have no guard.
            With `unlabelled`: "stata" (the default), "ss_text_u" or "transclip".
        unlabelled: features [m, d] of images without labels, which these methods classify together with the others.
            Where they give no reason to leave zero-shot, the default tuner's head of the labels is taken, which may be
            zero-shot: `best_params["fallback"]` says why.

    Returns:
        The choice; its `chosen_with` says which labels it was made with, beside those it was fitted on.

    Raises:
        ValueError: an unknown method, or one that the data does not suit (texts or single labels missing, class weights
            that it does not take).
        TypeError: anything but `TuningData`; held-out test data above all.

    Example:
        >>> texts, labels = torch.eye(3), torch.arange(30) % 3
        >>> features = texts[labels] + 0.1 * torch.randn(30, 3, generator=torch.Generator().manual_seed(0))
        >>> tuned = tune(tuning_data(features, labels, class_embeddings=texts))
        >>> HeldOut(features, labels).score(tuned).value
        1.0
    """
    if isinstance(data, HeldOut):
        raise TypeError("held-out test data cannot be tuned on")
    if not isinstance(data, TuningData):
        raise TypeError(f"tune takes TuningData, got {type(data).__name__}; make it with tuning_data(...)")
    if unlabelled is not None:
        return _with_unlabelled(data, method or "stata", unlabelled)
    method = method or "anchored"
    if method in TRANSDUCTIONS:
        raise ValueError(f"method {method!r} needs images without labels: tune(data, {method!r}, unlabelled=features)")
    if method not in METHODS:
        raise ValueError(f"method {method!r} is unknown, expected one of {', '.join((*METHODS, *TRANSDUCTIONS))}")
    if method not in BALANCEABLE:
        _refuse_weights(data, method)
    tuned = METHODS[method](data)
    return replace(tuned, chosen_with=data.choice_labels) if tuned.candidates else tuned


def _refuse_weights(data: TuningData, method: str) -> None:
    for name, value in (("class_weight", data.class_weight), ("sample_weight", data.sample_weight)):
        if value is not None:
            raise ValueError(f"method {method!r} takes no {name}, expected one of {', '.join(BALANCEABLE)}")


def _with_unlabelled(data: TuningData, method: str, unlabelled: Any) -> Tuned:
    """A transduction as a finished choice."""
    if isinstance(unlabelled, HeldOut):
        raise TypeError("unlabelled is held-out test data, which no tuner may see")
    if method in METHODS:
        raise ValueError(f"method {method!r} takes no unlabelled, expected one of {', '.join(TRANSDUCTIONS)}")
    _refuse_weights(data, method)
    texts = unit_texts(data, method)
    done = transduce_or(
        unlabelled,
        texts,
        method=method,
        logit_scale=data.logit_scale,
        labelled=(data.features, data.labels),
        guard=True,
        otherwise=lambda: tune(data),
    )
    params: dict[str, float | str] = {"fallback": done.fallback} if done.fallback else {}
    if done.labelled is not None:
        return replace(done.labelled, best_params={**done.labelled.best_params, **params})
    return Tuned(done.method, params, None, done.head, (), data.metric)


class LinearProbe(NamedTuple):
    """A solved probe: weights ``[k, d]`` on unit features, biases ``[k]``, and what it scored on a held-out fifth."""

    weight: Tensor
    bias: Tensor
    validation: float


def linear_probe(
    features: Float[Tensor, "n d"],
    labels: Int[Tensor, " n"],
    classes: int,
    *,
    metric: str = "accuracy",
    class_weight: Literal["balanced"] | None = None,
    seed: int = 0,
) -> LinearProbe:
    """A regression on features at length 1, at which the head of a training can start (LP-FT).

    Its strength is chosen by `metric` on a fifth of the images, which `seed` draws. Some of the k classes may have no
    image: these score below all others.

    Example:
        >>> probe = linear_probe(torch.eye(2).repeat(10, 1), torch.arange(2).repeat(10), 3)
        >>> (torch.eye(2) @ probe.weight.T + probe.bias).argmax(1).tolist()
        [0, 1]
    """
    present = torch.unique(labels)
    data = tuning_data(
        features, torch.searchsorted(present, labels), metric=metric, class_weight=class_weight, seed=seed
    )
    solved = tune_anchored(data, linear=True)
    assert isinstance(solved.head, LinearHead)
    with torch.no_grad():
        bias = solved.head.bias.new_full((classes,), float(solved.head.bias.min()) - 1.0)
        weight = solved.head.weight.new_zeros(classes, solved.head.weight.shape[1])
        weight[present], bias[present] = solved.head.weight, solved.head.bias
    return LinearProbe(weight, bias, solved.validation or 0.0)
