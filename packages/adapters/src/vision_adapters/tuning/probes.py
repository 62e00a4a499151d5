"""Published probes that start at the class texts: CLAP, LP++ and the cross-modal probe."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from vision_adapters.heads import LinearHead, fixed_head
from vision_adapters.tuning.baselines import keeps_zero_shot, kept_zero_shot, unit_texts
from vision_adapters.tuning.data import Tuned, TuningData, search
from vision_adapters.tuning.unit_features import may_move

STEPS, EVERY, MOMENTUM = 300, 10, 0.9
CLAP_RATE = 0.1
TEXT_SHARE = 250.0
CROSS_MODAL_RATE, CROSS_MODAL_DECAY = 1e-3, 0.01
CROSS_MODAL_STEPS = (0, 10, 20, 50, 100, 200, 400)
UNVALIDATED_STEPS = 50


def tune_clap(data: TuningData) -> Tuned:
    r"""A linear probe held near each class's text, the hold set by how well the text does; no validation.

    The mean cross-entropy of $s \cos(w_c, x)$ plus $\sum_c \lambda_c \lVert w_c - v_c \rVert^2$, $\lambda_c$ being
    the mean zero-shot probability of class c on its own images; from w = v, 300 steps on all samples with momentum
    0.9 at a rate that falls from 0.1 along a cosine. With one image per class, zero-shot is kept unless the images
    speak against it (`keeps_zero_shot`); `tune_clap_published` has no such guard.

    Source:
        Silva-Rodriguez et al., A closer look at the few-shot adaptation of large vision-language models (2024), and its
        released code: the multipliers stay at their start, the steps are its optimiser's. It draws augmented views
        in batches of 256; cached features are one view, and all are taken at once. Its code takes the mean over
        classes of the penalties, on texts before they are scaled to length 1 (`tune_clap_published`); here their sum,
        at length 1.
    """
    texts = unit_texts(data, "clap")
    return kept_zero_shot(data, "clap") if keeps_zero_shot(data) else _clap(data, "clap", texts, 1.0)


def tune_clap_published(data: TuningData) -> Tuned:
    r"""CLAP with the penalty of its released code: $\frac{1}{k}\sum_c \lambda_c \lVert w_c - t_c \rVert^2$.

    t are the texts as the encoder gave them, of any length, at which w starts; all else is as in `tune_clap`. Hand over
    class embeddings that nobody has scaled to length 1.

    Source: as `tune_clap`. Chooses with nothing.
    """
    unit_texts(data, "clap_published")
    assert data.class_embeddings is not None
    return _clap(data, "clap_published", data.class_embeddings, 1 / data.classes)


def _clap(data: TuningData, method: str, texts: Tensor, share: float) -> Tuned:
    """CLAP from texts at some length, each penalty counting so much."""
    unit, member = F.normalize(data.features, dim=1), data.targets()
    trust = ((data.logit_scale * unit @ F.normalize(texts, dim=1).T).softmax(1) * member).sum(0) / member.sum(0)
    weight = clap_weights(unit, member, texts, data.logit_scale, share * trust)
    head = fixed_head(data.logit_scale * F.normalize(weight, dim=1), weight.new_zeros(data.classes), "l2")
    return Tuned(method, {"trust": float(trust.mean())}, None, head, (), data.metric)


def clap_weights(
    x: Float[Tensor, "n d"],
    member: Float[Tensor, "n k"],
    texts: Float[Tensor, "k d"],
    scale: float,
    trust: Float[Tensor, " k"],
    *,
    steps: int = STEPS,
) -> Float[Tensor, "k d"]:
    """CLAP's class weights after its steps."""
    w, moved = texts, torch.zeros_like(texts)
    for step in range(steps):
        length = w.norm(dim=1, keepdim=True)
        towards = w / length
        residual = (scale * x @ towards.T).softmax(1) - member
        raw = scale * residual.T @ x / len(x)
        gradient = (raw - (raw * towards).sum(1, keepdim=True) * towards) / length + 2 * trust[:, None] * (w - texts)
        moved = MOMENTUM * moved + gradient
        w = w - CLAP_RATE * 0.5 * (1 + math.cos(math.pi * step / steps)) * moved
    return w


def tune_lpp(data: TuningData) -> Tuned:
    r"""LP++: class weights plus the texts, each with its own learned share: $(w_c + \alpha_c v_c) \cdot x$.

    Cross-entropy by gradient steps on all samples. w starts at the sum of its class's features, every $\alpha_c$ at 250
    times the mean over classes of the images' cosine with their own text. w moves with momentum 0.9 at the rate
    $4n / \lambda_{\max}(X^\top X)$; $\alpha$ at $n / (4 \max_c \sum_i (x_i \cdot v_c)^2)$ in every tenth step.
    How many of 300 steps are taken is chosen on validation, every tenth being tried; with one image per class, nothing
    can be validated, and zero-shot is kept, or all are taken if the images speak against it (`keeps_zero_shot`).

    Source:
        Huang et al., LP++: a surprisingly strong linear probe for few-shot CLIP (2024): the objective, starts, rates
        and order of its released code. That code also trains a bias of random start, which the paper's formula
        lacks, and never clears the gradient of alpha between steps; neither is done here. It validates every step.
    """
    texts = unit_texts(data, "lp++")
    if keeps_zero_shot(data):
        return kept_zero_shot(data, "lp++")
    unit = F.normalize(data.features, dim=1)

    def candidates() -> Iterator[tuple[dict[str, float], Tensor]]:
        paths = [(fold, lpp_states(unit[fold.train], data.targets(fold.train), texts)) for fold in data.folds]
        for index in range(STEPS // EVERY + 1):
            scores = torch.cat([unit[fold.validation] @ path[index].T for fold, path in paths])
            yield {"steps": float(EVERY * index)}, scores

    def head(steps: float) -> LinearHead:
        weight = lpp_states(unit, data.targets(), texts)[int(steps) // EVERY]
        return fixed_head(weight, weight.new_zeros(data.classes), "l2")

    return search(data, "lp++", candidates(), head, {"steps": float(STEPS)}, latest=True)


def lpp_states(
    x: Float[Tensor, "n d"], member: Float[Tensor, "n k"], texts: Float[Tensor, "k d"]
) -> list[Float[Tensor, "k d"]]:
    """LP++'s combined weights at the start and after every tenth step."""
    n, counts = len(x), member.sum(0)
    similarity = x @ texts.T
    own = (similarity * member).sum(0)[counts > 0] / counts[counts > 0]
    w = member.T @ x
    alpha = x.new_full((len(texts),), TEXT_SHARE * float(own.mean()))
    rate_w = 4 * n / float(torch.linalg.matrix_norm(x, 2)) ** 2
    rate_alpha = n / (4 * float(similarity.square().sum(0).max()))
    moved, states = torch.zeros_like(w), [w + alpha[:, None] * texts]
    for step in range(1, STEPS + 1):
        residual = ((x @ w.T + alpha * similarity).softmax(1) - member) / n
        moved = MOMENTUM * moved + residual.T @ x
        w = w - rate_w * moved
        if step % EVERY == 0:
            alpha = alpha - rate_alpha * (residual * similarity).sum(0)
            states.append(w + alpha[:, None] * texts)
    return states


def tune_cross_modal(data: TuningData) -> Tuned:
    r"""The cross-modal linear probe: class texts are samples of their classes, beside the images.

    Half of the loss is the mean cross-entropy of the images, half that of the texts, with scores $s\,w_c \cdot x$;
    w starts at the texts and takes full AdamW steps at a rate of 0.001 with a decay of 0.01. How many of 400 steps are
    taken is chosen on validation; with one image per class nothing can be validated, and 50 are taken if the images
    speak for moving the head (`may_move`), else none, which is zero-shot.

    Source:
        Lin et al., Multimodality helps unimodality: cross-modal few-shot learning with multimodal models (CVPR 2023),
        its linear probe. It draws batches of images and texts, half each, takes up to 12,800 steps and searches rate
        and decay on `min(shots, 4)` further validation images per class; here, batches are whole.
    """
    texts = unit_texts(data, "cross_modal")
    unit = F.normalize(data.features, dim=1)

    def candidates() -> Iterator[tuple[dict[str, float], Tensor]]:
        paths = [
            (fold, cross_modal_states(unit[fold.train], data.targets(fold.train), texts, data.logit_scale))
            for fold in data.folds
        ]
        for index, steps in enumerate(CROSS_MODAL_STEPS):
            scores = [data.logit_scale * unit[fold.validation] @ path[index].T for fold, path in paths]
            yield {"steps": float(steps)}, torch.cat(scores)

    def head(steps: float) -> LinearHead:
        (weight,) = cross_modal_states(unit, data.targets(), texts, data.logit_scale, at=(int(steps),))
        return fixed_head(data.logit_scale * weight, weight.new_zeros(data.classes), "l2")

    moves = data.has_validation or may_move(data, unit)
    return search(data, "cross_modal", candidates(), head, {"steps": float(UNVALIDATED_STEPS if moves else 0)})


def cross_modal_states(
    x: Float[Tensor, "n d"],
    member: Float[Tensor, "n k"],
    texts: Float[Tensor, "k d"],
    scale: float,
    *,
    at: Sequence[int] = CROSS_MODAL_STEPS,
) -> list[Float[Tensor, "k d"]]:
    """The cross-modal probe's class weights after some numbers of steps."""
    w, own = texts.clone(), torch.eye(len(texts), dtype=x.dtype)
    first, second = torch.zeros_like(w), torch.zeros_like(w)
    states = [w.clone()] if 0 in at else []
    for step in range(1, max(at) + 1):
        images = ((scale * x @ w.T).softmax(1) - member).T @ x / len(x)
        of_texts = ((scale * texts @ w.T).softmax(1) - own).T @ texts / len(texts)
        gradient = scale * (images + of_texts) / 2
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient.square()
        root = (second / (1 - 0.999**step)).sqrt() + 1e-8
        w = w * (1 - CROSS_MODAL_RATE * CROSS_MODAL_DECAY) - CROSS_MODAL_RATE * first / (1 - 0.9**step) / root
        if step in at:
            states.append(w.clone())
    return states
