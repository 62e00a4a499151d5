"""What EqSim does in a batch: how equivariant the scores are, and which terms pull on the features."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from eqsim.backends.dense import dense_parts, matching_columns
from eqsim.batch import Batch
from eqsim.checks import check_values
from eqsim.features import at_least_float32
from eqsim.functional import differences, equivariance_score
from eqsim.residuals import RESIDUALS, pair_differences

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from torch import Tensor

    from eqsim.loss import BatchLoss
    from eqsim.settings import Settings

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
            with a contrastive loss, known pairs, negatives or a teacher, of theirs, too.
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
    text_features: Float[Tensor, "nm d"],
    logit_scale: Tensor | float | None = None,
    logit_bias: Tensor | float | None = None,
    *,
    close_pairs: Int[Tensor, "p 2"] | None = None,
    negatives_of: Int[Tensor, " m"] | None = None,
    teacher: tuple[Tensor, Tensor, Tensor | float] | None = None,
) -> Diagnosis:
    """Measure residuals, margins and the gradient of each term on one process's batch.

    Args:
        loss: the loss whose settings to look at; also `ClipEqSimLoss` and `SigLipEqSimLoss`.
        image_features: (n, d).
        text_features: (n + m, d), the last m negatives.
        logit_scale: as in the loss.
        logit_bias: as in the loss.
        close_pairs: as in the loss; None lets the loss's rule choose.
        negatives_of: as in the loss.
        teacher: as in the loss.

    Returns:
        A `Diagnosis`; `print` shows it as a table.

    Raises:
        ValueError: as the loss does; NaN or infinity in the features, with the row; a scale below 0.

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
    loss.check(image_features, text_features, logit_scale, logit_bias, close_pairs, negatives_of, teacher)
    check_values(image_features, text_features, logit_scale)
    settings = loss.settings
    image, text = (at_least_float32(rows.detach()).clone().requires_grad_() for rows in (image_features, text_features))
    with torch.enable_grad(), torch.autocast(image.device.type, enabled=False):
        scale = 1.0 if logit_scale is None else logit_scale
        batch = Batch.of(settings, image, text, scale, logit_bias, close_pairs, negatives_of, teacher).gathered()
        parts = dense_parts(batch)
        values = {name: settings.weight * getattr(parts.terms, name) for name in settings.term_names}
        if parts.contrastive is not None:
            values = {"contrastive": parts.contrastive} | values
        if parts.pair is not None:
            values["pair"] = settings.pair_weight * parts.pair
        if parts.hard is not None:
            values["hard"] = settings.hard_weight * parts.hard
        if parts.keep is not None:
            values["keep"] = settings.keep_weight * parts.keep
        norms = {}
        for name, value in values.items():
            grads = torch.autograd.grad(value, (image, text), retain_graph=True)
            norms[name] = float(torch.stack([grad.square().sum() for grad in grads]).sum().sqrt())
    total = sum(norms.values())
    dead = tuple(name for name in settings.term_names if norms[name] == 0.0)
    if dead:
        warnings.warn(
            f"{', '.join(dead)} gives no gradient on this batch (margin={settings.margin}, "
            f"margin_v1={settings.margin_v1}, weight={settings.weight})",
            UserWarning,
            stacklevel=2,
        )
    dots = (batch.image @ batch.text.mT).detach()
    scores = matching_columns(settings, dots, dots * batch.scale.detach())
    d, a, _ = differences(scores, None)
    residuals = {name: residual(d, a) for name, residual in RESIDUALS.items()}
    equivariance = equivariance_score(scores)
    off_diagonal = ~torch.eye(len(scores), dtype=torch.bool, device=scores.device)
    measured = {
        "text residual": residuals["v2_text"][off_diagonal],
        "image residual": residuals["v2_image"][off_diagonal],
        "equivariance score": equivariance,
    }
    told_apart = _told_apart(scores, batch.pairs)
    ratios = told_apart["(|d| + |a|) / 2M"]
    return Diagnosis(
        samples=len(scores),
        equivariance=equivariance.cpu(),
        quantiles={
            name: [_quantile(numbers, level) for level in QUANTILES]
            for name, numbers in (measured | told_apart).items()
        },
        right=float((ratios < 1).float().mean()) if len(ratios) else 0.0,
        terms={name: float(value.detach()) for name, value in values.items()},
        inside_margin=_inside_margin(settings, residuals, batch.pairs, off_diagonal),
        gradient_share={name: norm / total if total > 0 else 0.0 for name, norm in norms.items()},
        dead=dead,
    )


def _told_apart(scores: Tensor, pairs: Tensor | None) -> dict[str, Tensor]:
    """Return M, |d|, |a| and (|d| + |a|) / 2M of the pairs."""
    if pairs is None:
        n = scores.shape[0]
        pairs = torch.triu_indices(n, n, 1, device=scores.device).T
    d, a, twice_m = pair_differences(scores, pairs)
    reach = d.abs() + a.abs()
    ratio = torch.where(twice_m > 0, reach / twice_m, torch.full_like(reach, float("inf")))
    return {"M": twice_m / 2, "|d|": d.abs(), "|a|": a.abs(), "(|d| + |a|) / 2M": ratio}


def _quantile(values: Tensor, level: float) -> float:
    """Return a quantile of any number of values (torch.quantile stops at 2^24)."""
    if values.numel() == 0:
        return 0.0
    rank = 1 + round(level * (values.numel() - 1))
    return float(values.flatten().kthvalue(rank).values)


def _inside_margin(
    settings: Settings, residuals: dict[str, Tensor], pairs: Tensor | None, off_diagonal: Tensor
) -> dict[str, float]:
    """Return the share of each term's pairs whose squared residual is within the margin."""
    listed = torch.zeros_like(off_diagonal)
    if pairs is not None:
        listed[pairs[:, 0], pairs[:, 1]] = True
    shares = {}
    for name in (name for name in settings.term_names if name in residuals):
        chosen = off_diagonal if pairs is None else listed
        if name == "v1" and settings.mode == "hybrid":
            chosen = off_diagonal & ~(listed | listed.mT)
        margin = settings.margin_v1 if name == "v1" else settings.margin
        squares = residuals[name][chosen].square()
        if squares.numel():
            shares[name] = float((squares <= margin).float().mean())
    return shares
