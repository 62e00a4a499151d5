"""What EqSim does in a batch: how equivariant the scores are, and which terms pull on the features."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from eqsim.backends.dense import dense_contrastive, dense_pair_loss, dense_terms
from eqsim.close_pairs import Multinomial, TopK, select_close_pairs
from eqsim.features import as_scalar, at_least_float32, unit_rows
from eqsim.functional import equivariance_score
from eqsim.residuals import RESIDUALS, pair_differences

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from torch import Tensor

    from eqsim.loss import BatchLoss

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True, eq=False)  # it holds a tensor, which has no single truth
class Diagnosis:
    """What `diagnose` measured on one batch.

    Attributes:
        samples: batch size looked at.
        equivariance: equivariance score of every unordered pair i < j (`eqsim.functional.equivariance_score`).
        quantiles: the quantiles of `QUANTILES` of the signed residuals d - a ("text residual") and d + a ("image
            residual") and of the equivariance score, over all pairs; and of M = (s_ii + s_jj - s_ij - s_ji) / 2, |d|,
            |a| and (|d| + |a|) / 2M over the close pairs, or over all where there is no list. A pair is right, each
            image and text against the other, exactly when M > 0 and the last is below 1; for M <= 0 it is infinite.
        right: share of those pairs that are right (the group score).
        terms: value of each term after its margin, times the weight.
        inside_margin: for each term with pairs, the share of its pairs whose squared residual is within the margin.
        gradient_share: norm of each term's gradient with respect to both feature matrices, over the sum of the norms;
            with a contrastive loss, that too.
        dead: terms that exist in the mode, but have no gradient.

    Example:
        >>> from eqsim import EqSimLoss, diagnose
        >>> diagnosis = diagnose(EqSimLoss("v2"), torch.eye(3), torch.eye(3).roll(1, 0) * 0.5 + torch.eye(3))
        >>> diagnosis.samples, diagnosis.right, diagnosis.dead
        (3, 1.0, ())
    """

    samples: int
    equivariance: Tensor
    quantiles: dict[str, list[float]]
    right: float
    terms: dict[str, float]
    inside_margin: dict[str, float]
    gradient_share: dict[str, float]
    dead: tuple[str, ...]

    def __str__(self) -> str:
        mean = f"mean equivariance score {float(self.equivariance.mean()):.4g}" if len(self.equivariance) else "no pair"
        lines = [f"{self.samples} sample{'s' * (self.samples != 1)}, {mean}"]
        heading = "  ".join(f"{level:>9.0%}" for level in QUANTILES)
        lines.append(f"{'quantiles':<22}{heading}")
        lines += [
            f"{name:<22}" + "  ".join(f"{value:>9.3g}" for value in values) for name, values in self.quantiles.items()
        ]
        lines.append(f"{'pairs that are right':<22}{self.right:>9.1%}")
        for name, share in self.gradient_share.items():
            inside = (
                f", {self.inside_margin[name]:.0%} of pairs inside the margin" if name in self.inside_margin else ""
            )
            dead = "  NO GRADIENT" if name in self.dead else ""
            lines.append(f"{name:<22}{self.terms[name]:.4g}, {share:.1%} of the gradient{inside}{dead}")
        return "\n".join(lines)


def diagnose(
    loss: BatchLoss,
    image_features: Float[Tensor, "n d"],
    text_features: Float[Tensor, "n d"],
    logit_scale: Tensor | float | None = None,
    logit_bias: Tensor | float | None = None,
    *,
    close_pairs: Int[Tensor, "p 2"] | None = None,
) -> Diagnosis:
    """Measure residuals, margins and the gradient of each term on one process's batch.

    Args:
        loss: the loss whose settings to look at; also `ClipEqSimLoss` and `SigLipEqSimLoss`.
        image_features: (n, d).
        text_features: (n, d).
        logit_scale: as in the loss.
        logit_bias: as in the loss.
        close_pairs: as in the loss; None lets the loss's rule choose.

    Returns:
        A `Diagnosis`; `print` shows it as a table.

    Raises:
        ValueError: as the loss does.

    Warns:
        UserWarning: when a term has no gradient at all.

    Numerics: keeps n x n matrices and waits for the device; meant for every few hundred steps, on a few thousand
        samples at most.

    Example:
        >>> import torch
        >>> from eqsim import EqSimLoss, diagnose
        >>> generator = torch.Generator().manual_seed(0)
        >>> image, text = torch.randn(2, 32, 8, generator=generator)
        >>> sorted(diagnose(EqSimLoss(), image, text).gradient_share)
        ['v1', 'v2_image', 'v2_text']

    Source: "EqSim/EqBen" figure 6 plots the distribution of the equivariance score.
    """
    loss.check(image_features, text_features, logit_scale, logit_bias, close_pairs)
    image, text = (at_least_float32(rows.detach()).clone().requires_grad_() for rows in (image_features, text_features))
    with torch.enable_grad(), torch.autocast(image.device.type, enabled=False):
        scale = as_scalar(1.0 if logit_scale is None else logit_scale, image).detach()
        rows = (unit_rows(image), unit_rows(text)) if loss.settings.score == "cosine" else (image, text)
        dots = rows[0] @ rows[1].mT
        logits = dots * scale
        n = dots.shape[0]
        scores = {"cosine": dots, "logits": logits, "softmax": logits.softmax(dim=1)}[loss.settings.score][:, :n]
        if close_pairs is None and isinstance(loss.close, (TopK, Multinomial)):
            drawn_from = (dots if loss.settings.draws_by_temperature else logits)[:, :n]
            close_pairs = select_close_pairs(drawn_from.detach(), loss.close, generator=loss.settings.generator)
        elif close_pairs is None and loss.close is not None:
            with torch.no_grad():
                close_pairs = loss.close(rows[0], rows[1][:n], scale)
        terms = dense_terms(loss.settings, scores, close_pairs)
        names = [name for name in terms._fields if name in loss.settings.term_names]
        values = {name: loss.weight * getattr(terms, name) for name in names}
        if loss.settings.pair_weight > 0:
            values["pair"] = loss.settings.pair_weight * dense_pair_loss(logits[:, :n], close_pairs)
        if loss.settings.contrast is not None:
            bias = 0.0 if logit_bias is None else as_scalar(logit_bias, image).detach()
            values = {"contrastive": dense_contrastive(logits + bias, loss.settings.contrast)} | values
        norms = {}
        for name, value in values.items():
            grads = torch.autograd.grad(value, (image, text), retain_graph=True)
            norms[name] = float(torch.stack([grad.square().sum() for grad in grads]).sum().sqrt())
    total = sum(norms.values())
    dead = tuple(name for name in names if norms[name] == 0.0)
    if dead:
        warnings.warn(
            f"{', '.join(dead)} gives no gradient on this batch (margin={loss.settings.margin}, "
            f"margin_v1={loss.settings.margin_v1}, weight={loss.weight})",
            UserWarning,
            stacklevel=2,
        )
    scores = scores.detach()
    quantiles, right = _told_apart(scores, close_pairs)
    return Diagnosis(
        samples=scores.shape[0],
        equivariance=equivariance_score(scores).cpu(),
        quantiles=_quantiles(scores) | quantiles,
        right=right,
        terms={name: float(value.detach()) for name, value in values.items()},
        inside_margin=_inside(loss, scores, close_pairs, names),
        gradient_share={name: norm / total if total > 0 else 0.0 for name, norm in norms.items()},
        dead=dead,
    )


def _told_apart(scores: Tensor, pairs: Tensor | None) -> tuple[dict[str, list[float]], float]:
    """Return quantiles of M, |d|, |a| and (|d| + |a|) / 2M over the pairs, and the share of pairs that are right."""
    if pairs is None:
        n = scores.shape[0]
        pairs = torch.triu_indices(n, n, 1, device=scores.device).T
    d, a, twice_m = pair_differences(scores, pairs)
    reach = d.abs() + a.abs()
    ratio = torch.where(twice_m > 0, reach / twice_m, torch.full_like(reach, float("inf")))
    values = {"M": twice_m / 2, "|d|": d.abs(), "|a|": a.abs(), "(|d| + |a|) / 2M": ratio}
    right = float((ratio < 1).float().mean()) if len(pairs) else 0.0
    return {name: [_quantile(value, level) for level in QUANTILES] for name, value in values.items()}, right


def _residuals(scores: Tensor) -> dict[str, Tensor]:
    diagonal = scores.diagonal()
    d, a = diagonal[:, None] - diagonal[None], scores - scores.mT
    return {name if name == "v1" else f"v2_{name}": residual(d, a) for name, residual in RESIDUALS.items()}


def _quantiles(scores: Tensor) -> dict[str, list[float]]:
    n = scores.shape[0]
    off_diagonal = ~torch.eye(n, dtype=torch.bool, device=scores.device)
    residuals = _residuals(scores)
    values = {
        "text residual": residuals["v2_text"][off_diagonal],
        "image residual": residuals["v2_image"][off_diagonal],
        "equivariance score": equivariance_score(scores),
    }
    return {name: [_quantile(value, level) for level in QUANTILES] for name, value in values.items()}


def _quantile(values: Tensor, level: float) -> float:
    """Return a quantile of any number of values (torch.quantile stops at 2^24)."""
    if values.numel() == 0:
        return 0.0
    rank = 1 + round(level * (values.numel() - 1))
    return float(values.flatten().kthvalue(rank).values)


def _inside(loss: BatchLoss, scores: Tensor, pairs: Tensor | None, names: list[str]) -> dict[str, float]:
    n = scores.shape[0]
    listed = torch.zeros((n, n), dtype=torch.bool, device=scores.device)
    if pairs is not None:
        listed[pairs[:, 0], pairs[:, 1]] = True
    off_diagonal = ~torch.eye(n, dtype=torch.bool, device=scores.device)
    share = {}
    residuals = _residuals(scores)
    for name in (name for name in names if name in residuals):
        chosen = off_diagonal if pairs is None else listed
        if name == "v1" and loss.settings.mode == "hybrid":
            chosen = off_diagonal & ~(listed | listed.mT)
        margin = loss.settings.margin_v1 if name == "v1" else loss.settings.margin
        squares = residuals[name][chosen].square()
        if squares.numel():
            share[name] = float((squares <= margin).float().mean())
    return share
