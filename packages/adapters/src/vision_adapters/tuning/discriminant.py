"""Linear discriminant analysis with Ledoit-Wolf shrinkage: alone, and as a candidate of the default."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from vision_adapters.heads import LinearHead, fixed_head
from vision_adapters.tuning.data import Tuned, TuningData, search
from vision_adapters.tuning.unit_features import class_means, cosines

TEMPERATURES = (1.0, 0.3, 0.1)
"""Factors of the discriminant's scores, whose own are too sure of themselves where images are few."""
BLENDS = (0.0, 4.0, 12.0, 35.0, 100.0)
"""The texts' part in the scores: cosines times these."""


def can_discriminate(member: Float[Tensor, "n k"]) -> bool:
    """Whether there is scatter within classes to estimate: two images more than there are classes with any."""
    return len(member) >= int((member.sum(0) > 0).sum()) + 2


def fit_discriminant(
    unit: Float[Tensor, "n d"], member: Float[Tensor, "n k"], weights: Float[Tensor, " n"] | None = None
) -> tuple[Float[Tensor, "k d"], Float[Tensor, " k"]]:
    r"""$w_c = \Sigma^{-1}\mu_c$ and $b_c = -\mu_c^\top\Sigma^{-1}\mu_c / 2$, equal priors.

    $\Sigma$ is the covariance within classes, drawn towards a multiple of the identity as far as Ledoit and Wolf's
    formula says (2004). A class without images gets the mean of all. `weights` are `TuningData.effective_weights`.
    """
    means = class_means(unit, member, weights).double()
    centred = unit.double() - member.double() @ means
    counts = centred.new_ones(len(unit)) if weights is None else weights.double()
    share, size = _shrinkage(centred, counts)
    samples = float(counts.sum())
    # one degree of freedom is lost for each class
    factor = samples / max(1, samples - int((member.sum(0) > 0).sum()))
    ridge = factor * share * size + 1e-9 + 1e-6 * factor * size
    rows = centred * (counts * (factor * (1 - share) / samples)).sqrt()[:, None]
    weight = _solved(rows, ridge, means)
    bias = -0.5 * (weight * means).sum(1)
    return weight.to(unit.dtype), bias.to(unit.dtype)


def _shrinkage(centred: Float[Tensor, "n d"], counts: Float[Tensor, " n"]) -> tuple[float, float]:
    """Return Ledoit and Wolf's share of the multiple of the identity, and that multiple, of rows whose mean is 0.

    The result is scikit-learn's, without the second that it takes to import.
    """
    width, count = centred.shape[1], float(counts.sum())
    rows = centred * (counts / count).sqrt()[:, None]
    products = _smaller_products(rows)  # has the eigenvalues of the covariance, whichever side it is of
    squares = float(products.square().sum())
    size = float(products.diagonal().sum()) / width
    away = squares / width - size**2  # squared distance to the multiple of the identity
    lengths = centred.square().sum(1)
    noise = (float((counts * lengths.square()).sum()) / count - squares) / (width * count)
    return (max(0.0, min(1.0, min(noise, away) / away)) if away > 0 else 0.0), size


def _smaller_products(rows: Float[Tensor, "n d"]) -> Float[Tensor, "m m"]:
    return rows @ rows.T if len(rows) < rows.shape[1] else rows.T @ rows


def _solved(rows: Float[Tensor, "n d"], ridge: float, means: Float[Tensor, "k d"]) -> Float[Tensor, "k d"]:
    r"""Return $(X^\top X + \rho I)^{-1} \mu_c$, by Woodbury's identity where samples are fewer than features."""
    products = _smaller_products(rows)
    products.diagonal().add_(ridge)
    if len(rows) < rows.shape[1]:
        inside: Tensor = torch.linalg.solve(products, rows @ means.T)
        return (means - inside.T @ rows) / ridge
    solution: Tensor = torch.linalg.solve(products, means.T)
    return solution.T


def discriminant_scores(data: TuningData, unit: Float[Tensor, "n d"]) -> Float[Tensor, "v k"] | None:
    """Scores of every validation row by the discriminant of its fold, or None where one cannot be fitted."""
    if data.several or not all(can_discriminate(data.targets(fold.train)) for fold in data.folds):
        return None
    fits = [
        (fold, *fit_discriminant(unit[fold.train], data.targets(fold.train), data.effective_weights(fold.train)))
        for fold in data.folds
    ]
    return torch.cat([unit[fold.validation] @ weight.T + bias for fold, weight, bias in fits]) + _log_prior(data)


def _log_prior(data: TuningData) -> Tensor:
    """What the classes' weights add to their scores: nothing where they are balanced, for priors are equal."""
    weights = data.class_weight
    return torch.zeros(()) if weights is None or weights == "balanced" else torch.tensor(weights).log()


def discriminant_head(
    data: TuningData, features: Float[Tensor, "n d"], temperature: float, blend: float, *, raw: bool = False
) -> LinearHead:
    """The head fitted on all rows."""
    weight, bias = fit_discriminant(features, data.targets(), data.effective_weights())
    weight = temperature * weight
    if data.class_embeddings is not None and blend:
        weight = weight + blend * F.normalize(data.class_embeddings, dim=1)
    return fixed_head(weight, temperature * (bias + _log_prior(data)), "raw" if raw else "l2")


def tune_lda(data: TuningData) -> Tuned:
    """Shrinkage discriminant analysis, blended with the texts where there are some."""
    unit = F.normalize(data.features, dim=1)
    if data.several:
        raise ValueError(f"lda takes one label per sample, got labels of shape {tuple(data.labels.shape)}")
    if not can_discriminate(data.targets()):
        raise ValueError(
            f"lda needs scatter within classes; {len(unit)} images of {data.classes} classes have too little"
        )
    scores = discriminant_scores(data, unit)
    texts = data.class_embeddings is not None
    candidates = None
    if scores is not None and data.has_validation:
        similarities = cosines(data, unit[data.validation_rows()])
        candidates = (
            ({"temperature": temperature, "blend": blend}, temperature * scores + blend * similarities)
            for blend in (BLENDS if texts else (0.0,))
            for temperature in (TEMPERATURES if texts else (1.0,))
        )
    plain = {"temperature": 1.0, "blend": data.logit_scale if texts else 0.0}
    return search(data, "lda", candidates, lambda **params: discriminant_head(data, unit, **params), plain)
