"""Sets of classes that hold the true one as often as was requested, and "none of these", by conformal prediction."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, get_args

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from paired_scores.metrics import wilson
from vision_adapters.tuning.data import check_features
from vision_adapters.tuning.unlabelled import transported

__all__ = [
    "GUARANTEE", "ConformalSets", "Coverage", "OpenWorld", "conformal_quantile", "coverage_of", "full_conformal_sets",
    "nonconformity", "transport_to_labels",
]  # fmt: skip

Kind = Literal["lac", "aps", "raps"]
Known = Literal["score", "probability", "energy"]
RAPS_PENALTY, RAPS_FREE = 0.001, 1
"""RAPS adds the first for each class behind the second."""
CONF_OT_STEPS = 3
_ROUNDING = 0.05
"""Probabilities of one sample may sum to so much more or less than 1, as those of half precision do."""
GUARANTEE = (
    "Of images drawn as the calibration images were, and that the head was not fitted on, at least the requested share "
    "has its true class in the set: on average over images and draws, not for each class."
)


def nonconformity(
    probabilities: Float[Tensor, "n k"],
    kind: Kind = "lac",
    *,
    noise: Float[Tensor, " n"] | None = None,
    penalty: float = RAPS_PENALTY,
    free: int = RAPS_FREE,
) -> Float[Tensor, "n k"]:
    r"""Return how little each class conforms to each sample: a set holds the classes below a threshold.

    "lac" is $1 - p_c$. "aps" is the probability of all classes that are more probable than c, plus $u\,p_c$. "raps" is
    that plus a penalty for each class before c in this order, beyond some that are free.

    Args:
        probabilities: of classes.
        kind: which score.
        noise: u of each sample in 0 to 1, for coverage that is exact rather than above; 1 by default.
        penalty: of "raps".
        free: ranks without one, of "raps".

    Raises:
        ValueError: probabilities of another shape, an unknown kind, or noise of another length or outside 0 to 1.

    Example:
        >>> nonconformity(torch.tensor([[0.5, 0.3, 0.2]]), "aps").round(decimals=3).tolist()
        [[0.5, 0.800000011920929, 1.0]]

    Source:
        Sadinle et al. (2019), LAC; Romano et al. (2020), APS; Angelopoulos et al. (2021), RAPS.
    """
    if kind not in get_args(Kind):
        raise ValueError(f"kind must be one of {get_args(Kind)}, got {kind!r}")
    _check_rows(probabilities, "probabilities")
    if noise is not None and (noise.shape != probabilities.shape[:1] or not bool(((noise >= 0) & (noise <= 1)).all())):
        raise ValueError(f"noise has shape {tuple(noise.shape)}; expected {len(probabilities)} numbers in 0 to 1")
    if kind == "lac":
        return 1 - probabilities
    ordered, order = probabilities.sort(dim=1, descending=True, stable=True)
    u = torch.ones(len(probabilities), 1) if noise is None else noise[:, None]
    scores = ordered.cumsum(1) - ordered + u.to(ordered) * ordered
    if kind == "raps":
        scores = scores + penalty * (torch.arange(1, ordered.shape[1] + 1) - free).clamp_min(0).to(ordered)
    return torch.zeros_like(scores).scatter_(1, order, scores)


def conformal_quantile(scores: Float[Tensor, " n"], coverage: float) -> float:
    """Return the threshold that a new score stays at or below with the requested probability.

    It is the ceil((n + 1) coverage)-th smallest of n; infinity where n is too small for that, and at a coverage of 1.

    Raises:
        ValueError: coverage outside (0, 1], or a score that is NaN.

    Example:
        >>> conformal_quantile(torch.arange(1.0, 20.0), 0.9), conformal_quantile(torch.arange(5.0), 0.9)
        (18.0, inf)
    """
    _check_share(coverage)
    if bool(torch.isnan(scores).any()):
        raise ValueError(f"scores: row {int(torch.isnan(scores).nonzero()[0])} is NaN, and would leave every set empty")
    place = math.ceil(round((len(scores) + 1) * coverage, 9))
    if coverage == 1 or place > len(scores):
        return math.inf
    return float(scores.sort().values[place - 1])


class ConformalSets(NamedTuple):
    """Nonconformity of calibration samples' true classes, from which sets of any coverage follow.

    Example:
        >>> probabilities = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.7, 0.3]])
        >>> sets = ConformalSets.fit(probabilities, torch.tensor([0, 1, 0, 0]))
        >>> sets.sets(torch.tensor([[0.5, 0.5], [0.95, 0.05]]), coverage=0.8).tolist()
        [[False, False], [True, False]]
        >>> print(sets)
        lac on 4 labels: sets of all classes above a coverage of 80 %
    """

    kind: Kind
    scores: Float[Tensor, " n"]

    @classmethod
    def fit(
        cls,
        probabilities: Float[Tensor, "n k"],
        labels: Int[Tensor, " n"],
        kind: Kind = "lac",
        *,
        noise: Float[Tensor, " n"] | None = None,
    ) -> ConformalSets:
        """Take the scores of calibration samples that the head was not fitted on.

        Raises:
            ValueError: no sample, another number of labels, a class out of range, or rows that are not probabilities
                or do not sum to 1.
        """
        if probabilities.ndim != 2 or labels.shape != probabilities.shape[:1] or not len(labels):
            raise ValueError(
                f"probabilities have shape {tuple(probabilities.shape)}, labels {tuple(labels.shape)}; expected [n, k] "
                "and [n], n > 0"
            )
        labels = _classes(labels, probabilities.shape[1])
        _refuse_scores(probabilities)
        scores = nonconformity(probabilities, kind, noise=noise)
        return cls(kind, scores[torch.arange(len(labels)), labels])

    def sets(
        self, probabilities: Float[Tensor, "n k"], coverage: float, *, noise: Float[Tensor, " n"] | None = None
    ) -> Bool[Tensor, "n k"]:
        """Return which classes are in each sample's set; a set may be empty where nothing conforms."""
        _refuse_scores(probabilities)
        threshold = conformal_quantile(self.scores, coverage)
        return nonconformity(probabilities, self.kind, noise=noise) <= threshold

    def most(self) -> float:
        """Return the largest coverage for which sets need not hold all classes."""
        return len(self.scores) / (len(self.scores) + 1)

    def __str__(self) -> str:
        """Say on how many labels sets rest."""
        largest = 100 * self.most()
        return f"{self.kind} on {len(self.scores):,} labels: sets of all classes above a coverage of {largest:.4g} %"


class Coverage(NamedTuple):
    """How sets did on labelled samples: covered with Wilson's interval, their size, and the classes' mean distance.

    Example:
        >>> coverage_of(torch.eye(2, dtype=torch.bool), torch.tensor([0, 0]), 0.9).size
        1.0
    """

    covered: float
    low: float
    high: float
    size: float
    class_gap: float


def coverage_of(sets: Bool[Tensor, "n k"], labels: Int[Tensor, " n"], coverage: float) -> Coverage:
    """Score sets; `class_gap` is the mean over classes of how far their own coverage is from the requested one.

    Raises:
        ValueError: sets that are not truth values, shapes that do not fit each other, or coverage outside (0, 1].

    Example:
        >>> coverage_of(torch.eye(2, dtype=torch.bool), torch.tensor([0, 0]), 0.9).covered
        0.5
    """
    if sets.ndim != 2 or labels.shape != sets.shape[:1] or not len(labels):
        raise ValueError(
            f"sets have shape {tuple(sets.shape)}, labels {tuple(labels.shape)}; expected [n, k] and [n], n > 0"
        )
    if sets.dtype != torch.bool:
        raise ValueError(f"sets are {sets.dtype}, expected truth values: which classes are in each set")
    _check_share(coverage)
    labels = _classes(labels, sets.shape[1])
    hit = sets[torch.arange(len(labels)), labels].double()
    share = float(hit.mean())
    gaps = [abs(float(hit[labels == label].mean()) - coverage) for label in torch.unique(labels)]
    return Coverage(share, *wilson(share, len(hit)), float(sets.sum(1).double().mean()), sum(gaps) / len(gaps))


def transport_to_labels(
    calibration: Float[Tensor, "n k"], new: Float[Tensor, "m k"], labels: Int[Tensor, " n"]
) -> tuple[Float[Tensor, "n k"], Float[Tensor, "m k"]]:
    """Return probabilities of calibration and new samples together, moved to the labels' frequencies: Conf-OT.

    Three steps of Sinkhorn's from the softmax of all scores, which treat all samples alike. The frequencies are of the
    calibration labels, so that the guarantee holds in approximation: over a hundred draws each, coverages of 90 % came
    out at 88.8 to 90.3 % (`experiments/few_labels.py`). A class without a calibration label keeps a hundredth of one.

    Args:
        calibration: scores, the logit scale included.
        new: scores.
        labels: of the calibration samples.

    Example:
        >>> near, far = transport_to_labels(torch.eye(2), torch.zeros(1, 2), torch.tensor([0, 0]))
        >>> bool(far[0, 0] > 0.9)  # all labels are of the first class
        True

    Source:
        Silva-Rodriguez et al., Conformal prediction for zero-shot models (CVPR 2025): transport over calibration and
        test samples together, with the calibration labels' marginal.
    """
    if calibration.ndim != 2 or labels.shape != calibration.shape[:1]:
        raise ValueError(
            f"calibration has shape {tuple(calibration.shape)}, labels {tuple(labels.shape)}; expected [n, k] and [n]"
        )
    labels = _classes(labels, calibration.shape[1])
    counts = torch.bincount(labels, minlength=calibration.shape[1]).to(calibration).clamp_min(0.01)
    moved = transported(torch.cat([calibration, new]), counts / counts.sum(), CONF_OT_STEPS)
    return moved[: len(calibration)], moved[len(calibration) :]


def full_conformal_sets(
    features: Float[Tensor, "n d"],
    labels: Int[Tensor, " n"],
    new: Float[Tensor, "m d"],
    class_embeddings: Float[Tensor, "k d"],
    coverage: float,
    *,
    logit_scale: float = 100.0,
) -> Bool[Tensor, "m k"]:
    r"""Return sets without a calibration split: SS-Text is fitted again for each new image with each class.

    With (x, c) among the labelled images only $w_c$ changes, to $w_c + s x$; c is in the set of x if more than
    $(1 - \text{coverage})(n + 1)$ of the n + 1 images, x among them, conform to their class no better than x does.

    Raises:
        ValueError: a share outside (0, 1], a scale that is not positive and finite, NaN or infinity in features, or
            shapes that do not fit each other.

    Example:
        >>> texts = torch.eye(3)
        >>> labels = torch.arange(30) % 3
        >>> features = texts[labels] + 0.1 * torch.randn(30, 3, generator=torch.Generator().manual_seed(0))
        >>> full_conformal_sets(features, labels, texts, texts, 0.9, logit_scale=10.0).tolist()
        [[True, False, False], [False, True, False], [False, False, True]]

    Source:
        Silva-Rodriguez et al., full conformal adaptation of medical vision-language models (2025), with LAC.
    """
    _check_share(coverage)
    if not 0 < logit_scale < math.inf:
        raise ValueError(f"logit_scale must be positive and finite, got {logit_scale}")
    if coverage == 1 or not len(new):
        return torch.ones(len(new), len(class_embeddings), dtype=torch.bool)
    given = {"features": features, "new features": new, "class_embeddings": class_embeddings}
    for name, held in given.items():
        check_features(held, name)  # one NaN would leave every set empty
        if held.shape[1] != features.shape[1]:
            raise ValueError(f"{name} have {held.shape[1]} columns, features {features.shape[1]}; expected equal")
    if labels.shape != features.shape[:1]:
        raise ValueError(f"features have shape {tuple(features.shape)}, labels {tuple(labels.shape)}; expected [n]")
    labels = _classes(labels, len(class_embeddings))
    x, z, texts = (F.normalize(rows.double(), dim=1) for rows in (features, new, class_embeddings))
    member = F.one_hot(labels, len(texts)).double()
    weight = texts + logit_scale * member.T @ x
    plain = logit_scale * x @ F.normalize(weight, dim=1).T
    of_new = logit_scale * z @ F.normalize(weight, dim=1).T
    gram = x @ z.T
    rows = torch.arange(len(x))
    chosen = torch.zeros(len(z), len(texts), dtype=torch.bool)
    for c, w in enumerate(weight):
        length = (w + logit_scale * z).norm(dim=1)
        column = logit_scale * (x @ w[:, None] + logit_scale * gram) / length
        own = logit_scale * (z @ w + logit_scale) / length
        others = plain.clone()
        others[:, c] = -math.inf
        total = torch.logaddexp(others.logsumexp(1)[:, None], column)
        true = torch.where((labels == c)[:, None], column, plain[rows, labels][:, None])
        conforming = true - total
        behind = of_new.clone()
        behind[:, c] = -math.inf
        of_itself = own - torch.logaddexp(behind.logsumexp(1), own)
        worse = (conforming <= of_itself).sum(0) + 1
        chosen[:, c] = worse > round((1 - coverage) * (len(x) + 1), 9)
    return chosen


class OpenWorld(NamedTuple):
    """How well known images fit their best class, from which follows below what an image is none of the classes.

    Example:
        >>> known = OpenWorld.fit(torch.tensor([[5.0, 0.0], [4.0, 1.0], [0.0, 6.0], [3.0, 1.0]]), kind="score")
        >>> known.none_of_these(torch.tensor([[1.0, 1.1], [4.0, 0.0]]), coverage=0.8).tolist()
        [True, False]
    """

    kind: Known
    fits: Float[Tensor, " n"]

    @classmethod
    def fit(cls, scores: Float[Tensor, "n k"], kind: Known = "energy") -> OpenWorld:
        """Take scores of images of the known classes that the head was not fitted on; no label is needed."""
        if not len(scores):
            raise ValueError("there are no scores of known images to take a threshold from")
        return cls(kind, best_fit(scores, kind))

    def none_of_these(self, scores: Float[Tensor, "n k"], coverage: float = 0.95) -> Bool[Tensor, " n"]:
        """Return which images fit worse than all but the requested share of known images do."""
        return -best_fit(scores, self.kind) > conformal_quantile(-self.fits, coverage)


def best_fit(scores: Float[Tensor, "n k"], kind: Known) -> Float[Tensor, " n"]:
    """Return how well each sample fits its best class: the largest score or probability, or the log of their sum.

    Source: Hendrycks and Gimpel (2017), probability; Liu et al. (2020), energy; Vaze et al. (2022), score.
    """
    if kind not in get_args(Known):
        raise ValueError(f"kind must be one of {get_args(Known)}, got {kind!r}")
    _check_rows(scores, "scores")
    wrong = (torch.isnan(scores) | (scores == math.inf)).any(1)
    if bool(wrong.any()):
        raise ValueError(f"scores: row {int(wrong.nonzero()[0])} holds NaN or infinity, which fits no class")
    if kind == "energy":
        return scores.logsumexp(1)
    return (scores if kind == "score" else scores.softmax(1)).amax(1)


def _classes(labels: Tensor, count: int) -> Int[Tensor, " n"]:
    """Labels as whole numbers of 64 bits: bytes and booleans would choose rows as a mask does."""
    if labels.is_floating_point() or labels.is_complex():
        raise ValueError(f"labels are {labels.dtype}, expected whole numbers")
    labels = labels.long()
    if bool((labels < 0).any()) or bool((labels >= count).any()):
        raise ValueError(f"labels must lie in 0..{count - 1}, got {labels.tolist()[:8]}")
    return labels


def _check_share(coverage: float) -> None:
    if not 0 < coverage <= 1:
        raise ValueError(f"coverage must be above 0 and at most 1, got {coverage}")


def _check_rows(scores: Tensor, name: str) -> None:
    if scores.ndim != 2:
        raise ValueError(f"{name} have shape {tuple(scores.shape)}, expected [n, k]")


def _refuse_scores(probabilities: Tensor) -> None:
    _check_rows(probabilities, "probabilities")
    wrong = (probabilities < 0) | (probabilities > 1 + 1e-6) | ~torch.isfinite(probabilities)
    if bool(wrong.any()):
        raise ValueError(f"expected probabilities, got {float(probabilities[wrong][0])}; apply a softmax first")
    if not probabilities.is_floating_point():
        raise ValueError(f"probabilities are {probabilities.dtype}, expected floating-point numbers")
    sums = probabilities.double().sum(1)
    off = (sums - 1).abs() > _ROUNDING
    if bool(off.any()):
        row = int(off.nonzero()[0])
        raise ValueError(
            f"row {row}: the probabilities of its {probabilities.shape[1]} classes sum to {float(sums[row]):.4g}, "
            "expected 1; apply a softmax first, not a sigmoid"
        )
