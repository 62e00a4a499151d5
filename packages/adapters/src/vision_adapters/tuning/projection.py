"""A dual encoder's last projection, fitted again on a few images and held near where it was."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from vision_adapters.training.optimisers import PlainAdam
from vision_adapters.tuning.data import check_features

STEPS, RATE = 300, 1e-4


def fit_projection(
    features: Float[Tensor, "n b"],
    labels: Int[Tensor, " n"],
    projection: Float[Tensor, "b d"],
    class_embeddings: Float[Tensor, "k d"],
    *,
    logit_scale: float = 100.0,
    shots: int = 1,
    rate: float = RATE,
    steps: int = STEPS,
) -> Float[Tensor, "b d"]:
    r"""Fit the matrix from a backbone's features to the texts' space again; classes without images follow it.

    With $P_0$ the encoder's own matrix, $v_c$ the class texts at length 1 and s the logit scale, minimise
    $\frac{1}{n} \sum_i \mathrm{CE}(s \cos(v_c, x_i P), y_i) + \frac{1}{N} \lVert P - P_0 \rVert^2$ over P, N being the
    shots, from $P_0$ by Adam on all images at a rate that falls along a cosine. Nothing is chosen.

    Args:
        features: of the images, before the projection.
        labels: classes 0 to k - 1.
        projection: the encoder's own.
        class_embeddings: a text embedding for each class, of any length but 0.
        logit_scale: the encoder's, > 0.
        shots: images of each class, at least 1; fewer hold the matrix nearer to its start.
        rate: of Adam's first step; its authors report the mean over 1e-5 to 1e-2.
        steps: how many.

    Returns:
        The fitted matrix.

    Raises:
        ValueError: shapes that do not fit, labels out of range, values that are not finite, shots below 1.

    Example:
        >>> x = torch.eye(4).repeat(5, 1)
        >>> fitted = fit_projection(x, torch.arange(20) % 4, torch.eye(4), torch.eye(4).roll(1, 0), rate=0.05, shots=16)
        >>> (x[:4] @ fitted @ torch.eye(4).roll(1, 0).T).argmax(1).tolist()
        [0, 1, 2, 3]

    Source:
        Fahes et al., CLIP's visual embedding projector is a few-shot cornucopia (ProLIP, 2024): loss, optimiser, 300
        steps and 1 / N. Its code sees another augmented view at each step; here, the features that are given.
    """
    count, width = features.shape
    if projection.shape[0] != width:
        raise ValueError(f"projection has shape {tuple(projection.shape)}, expected {width} rows, the features' width")
    if class_embeddings.ndim != 2 or class_embeddings.shape[1] != projection.shape[1]:
        raise ValueError(
            f"class_embeddings have shape {tuple(class_embeddings.shape)}, expected [k, {projection.shape[1]}]"
        )
    if labels.shape != (count,):
        raise ValueError(f"labels have shape {tuple(labels.shape)}, expected ({count},)")
    if count == 0 or int(labels.min()) < 0 or int(labels.max()) >= len(class_embeddings):
        shown = "no label" if count == 0 else f"{int(labels.min())} to {int(labels.max())}"
        raise ValueError(f"labels are {shown}, expected 0 to {len(class_embeddings) - 1}")
    if shots < 1:
        raise ValueError(f"shots must be at least 1, not {shots}")
    for name, value in (("features", features), ("projection", projection), ("class_embeddings", class_embeddings)):
        check_features(value, name)
    with torch.inference_mode(False), torch.enable_grad():
        x, texts = features.detach().float().clone(), F.normalize(class_embeddings.detach().float().clone(), dim=1)
        start, truth = projection.detach().float().clone(), labels.detach().long().clone()
        matrix = start.clone().requires_grad_(True)
        optimiser = PlainAdam([matrix], lr=rate)
        for step in range(steps):
            for group in optimiser.param_groups:
                group["lr"] = rate * 0.5 * (1 + math.cos(math.pi * step / steps))
            scores = logit_scale * F.normalize(x @ matrix, dim=1) @ texts.T
            loss = F.cross_entropy(scores, truth) + (matrix - start).square().sum() / shots
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]  # torch's
            optimiser.step()
    return matrix.detach()
