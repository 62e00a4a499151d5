"""Published few-shot heads in closed form: SS-Text, SS-Text+, ProKeR, and GDA with its published grid."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from vision_adapters.heads import LinearHead, fixed_head
from vision_adapters.tuning.baselines import (
    CacheHead,
    gda_head,
    gda_scores,
    keeps_zero_shot,
    kept_zero_shot,
    unit_texts,
)
from vision_adapters.tuning.data import Tuned, TuningData, search
from vision_adapters.tuning.unit_features import cosines

GDA_SHARES = (1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0)
"""The published search of alpha: seven decades."""
KERNEL_SHARPNESSES = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0)
KERNEL_PENALTIES = (0.001, 0.01, 0.03, 0.1, 0.3, 1.0)
Weights = Callable[[Tensor, Tensor, Tensor, float], Tensor]
"""Class weights from images at length 1, their 0/1 classes, the texts and the scale."""
UNVALIDATED_KERNEL = {"beta": 1.0, "penalty": 0.1}


def tune_ss_text(data: TuningData) -> Tuned:
    r"""SS-Text: each class's text, moved by its own images; no step, no validation.

    Scores are $s \cos(w_c, x)$ with $w_c = v_c + s \sum_{i : y_i = c} x_i$, v and x at length 1 and s the logit scale.
    At a scale of 100 the n images of a class weigh about 100 n times its text, however features are scaled: it is
    nearest class mean with one image per class, and with few, and can be far below zero-shot. So zero-shot is kept
    unless heads of the other folds hit more of the images than it, by a standard error; with one image per class,
    unless the images speak against it (`keeps_zero_shot`). `tune_ss_text_published` has no such guard.

    Source:
        Silva-Rodriguez et al., the solver that "Few-shot, now for real" (MICCAI 2025) starts from, with an equal hold
        on every text. Chooses with nothing, the guard with its own shots.
    """
    return _or_zero_shot(data, "ss_text", ss_text_weights)


def tune_ss_text_published(data: TuningData) -> Tuned:
    """SS-Text as its paper has it, also with one image per class.

    Source: as `tune_ss_text`. Chooses with nothing.
    """
    return _published(data, "ss_text_published", ss_text_weights)


def _published(data: TuningData, method: str, weights: Weights) -> Tuned:
    """The class weights of all images, without a guard."""
    texts = unit_texts(data, method)
    weight = weights(F.normalize(data.features, dim=1), data.targets(), texts, data.logit_scale)
    return Tuned(method, {}, None, _cosine_head(data, weight), (), data.metric)


def _or_zero_shot(data: TuningData, method: str, weights: Weights) -> Tuned:
    """The class weights of all images where validation speaks for them by a standard error, else zero-shot."""
    texts, unit = unit_texts(data, method), F.normalize(data.features, dim=1)
    candidates: tuple[dict[str, object], ...] = ()
    validation = None
    if data.fixed is not None or not data.has_validation:
        keep = keeps_zero_shot(data)
    else:
        rows, counted = data.validation_rows(), data.valid_mask()
        parts = [
            unit[fold.validation]
            @ F.normalize(weights(unit[fold.train], data.targets(fold.train), texts, data.logit_scale), dim=1).T
            for fold in data.folds
        ]
        scores = {"zero_shot": cosines(data, unit[rows])[counted], method: torch.cat(parts)[counted]}
        metrics = {kind: data.score(data.logit_scale * own, rows[counted]) for kind, own in scores.items()}
        hits = [(own.argmax(1) == data.labels[rows[counted]]).float() for own in scores.values()]
        gain = hits[1] - hits[0]
        keep = not float(gain.mean()) > float(gain.std()) / len(gain) ** 0.5
        candidates = tuple({"kind": kind, "validation": value} for kind, value in metrics.items())
        validation = metrics["zero_shot" if keep else method]
    if keep:
        return replace(kept_zero_shot(data, method), validation=validation, candidates=candidates)
    tuned = _published(data, method, weights)
    return replace(tuned, best_params={"kind": method}, validation=validation, candidates=candidates)


def tune_ss_text_plus(data: TuningData) -> Tuned:
    r"""SS-Text+: SS-Text that trusts a class's images by how many there are, and pushes classes apart.

    With $w_c = v_c + s \frac{n_c}{N} \sum_{i : y_i = c} x_i$, scores are $s \cos(w_c - \delta_c, x)$, $\delta_c$ being
    $2 w_c$ less the mean of all w, at length 1. A class without an image keeps its text before the push.
    Zero-shot is kept as in `tune_ss_text`.

    Source:
        Silva-Rodriguez et al., Few-shot, now for real: medical VLMs adaptation without balanced sets or validation
        (MICCAI 2025). Chooses with nothing, the guard with its own shots.
    """
    return _or_zero_shot(data, "ss_text+", _ss_text_plus_weights)


def tune_ss_text_plus_published(data: TuningData) -> Tuned:
    """SS-Text+ as its paper has it, also with one image per class.

    Source: as `tune_ss_text_plus`. Chooses with nothing.
    """
    return _published(data, "ss_text+_published", _ss_text_plus_weights)


def _ss_text_plus_weights(x: Tensor, member: Tensor, texts: Tensor, scale: float) -> Tensor:
    return pushed_apart(ss_text_weights(x, member, texts, scale, adaptive=True))


def ss_text_weights(
    x: Float[Tensor, "n d"],
    member: Float[Tensor, "n k"],
    texts: Float[Tensor, "k d"],
    scale: float,
    *,
    adaptive: bool = False,
) -> Float[Tensor, "k d"]:
    """Texts plus the scaled sums of their images; adaptive, each sum weighs by its class's share of the images."""
    sums = member.T @ x
    return texts + scale * (sums * (member.sum(0) / len(x))[:, None] if adaptive else sums)


def pushed_apart(weight: Float[Tensor, "k d"]) -> Float[Tensor, "k d"]:
    """Class weights less a step of length 1 that SS-Text+ takes from them."""
    return weight - F.normalize(2 * weight - weight.mean(0), dim=1)


def _cosine_head(data: TuningData, weight: Tensor) -> LinearHead:
    return fixed_head(data.logit_scale * F.normalize(weight, dim=1), weight.new_zeros(data.classes), "l2")


def tune_gda_published(data: TuningData) -> Tuned:
    """GDA with the published grid of seven shares; `tune_gda` has half decades and zero-shot itself besides.

    The published tables choose on a whole validation split, and on ImageNet on the test set: hand over a validation
    pair to have the first. They draw ten augmented views of each image; give them as further rows.

    Source: Wang et al., A hard-to-beat baseline for training-free CLIP-based adaptation (ICLR 2024).
    """
    unit_texts(data, "gda_published")

    def candidates() -> Iterator[tuple[dict[str, float], Tensor]]:
        scores = gda_scores(data)
        zero_shot = data.logit_scale * cosines(data, F.normalize(data.features[data.validation_rows()], dim=1))
        for alpha in GDA_SHARES:
            yield {"alpha": alpha}, zero_shot + alpha * scores

    return search(data, "gda_published", candidates(), gda_head(data), {"alpha": 1.0})


def tune_proker(data: TuningData) -> Tuned:
    r"""ProKeR: kernel ridge regression of what zero-shot leaves, in closed form.

    With cosines $f(x) = V x$ and $k(x, z) = e^{-\beta (1 - x \cdot z)}$, scores are
    $s\,[f(x) + k(x, S)\,(k(S, S) / \lambda + I)^{-1}(Y - f(S))]$ for images S with 0/1 labels Y. Beta and lambda are
    chosen on validation; with one image per class nothing can be validated, and they are 1 and 0.1.

    Source:
        Bendou et al., ProKeR: a kernel perspective on few-shot adaptation of large vision-language models (CVPR 2025).
        A regression held near f has another 1 / lambda in front of the bracket; the settings behind the published
        tables, and this, have not. Those choose on a whole validation split, on 200 points within this grid's ends.
    """
    texts = unit_texts(data, "proker")
    unit = F.normalize(data.features, dim=1)

    def candidates() -> Iterator[tuple[dict[str, float], Tensor]]:
        zero_shot = cosines(data, unit[data.validation_rows()])
        for beta in KERNEL_SHARPNESSES:
            for penalty in KERNEL_PENALTIES:
                parts = [
                    kernel(unit[fold.validation], unit[fold.train], beta)
                    @ proker_values(unit[fold.train], data.targets(fold.train), texts, beta, penalty)
                    for fold in data.folds
                ]
                yield {"beta": beta, "penalty": penalty}, data.logit_scale * (zero_shot + torch.cat(parts))

    def head(beta: float, penalty: float) -> nn.Module:
        values = proker_values(unit, data.targets(), texts, beta, penalty)
        return CacheHead(texts, unit, values, data.logit_scale, data.logit_scale, beta).eval()

    return search(data, "proker", candidates(), head, dict(UNVALIDATED_KERNEL))


def kernel(first: Float[Tensor, "n d"], second: Float[Tensor, "m d"], beta: float) -> Float[Tensor, "n m"]:
    """The radial kernel of features at length 1."""
    return torch.exp(-beta * (1 - first @ second.T))


def proker_values(
    x: Float[Tensor, "n d"], member: Float[Tensor, "n k"], texts: Float[Tensor, "k d"], beta: float, penalty: float
) -> Float[Tensor, "n k"]:
    """What each image adds to the scores of images like it."""
    system = kernel(x, x, beta).double()
    system.diagonal().add_(penalty)
    left = (member - x @ texts.T).double()
    values: Tensor = penalty * torch.linalg.solve(system, left)
    return values.to(x.dtype)
