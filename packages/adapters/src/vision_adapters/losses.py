"""Losses of the task types: scores and targets in, one number out."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

IGNORED = -100


def cross_entropy(
    logits: Float[Tensor, "n k ..."], targets: Int[Tensor, "n ..."], weight: Float[Tensor, " k"] | None = None
) -> Float[Tensor, ""]:
    r"""Mean of $-\log \mathrm{softmax}(z)_y$ over the samples (and pixels) whose target is not -100.

    `weight` is what a sample of each class counts in the mean; see `class_balance`. Where nothing counts, it is 0.
    """
    if weight is not None:
        _check_labels(logits, targets)
        labelled = targets[targets != IGNORED].long()
        counts = bool((weight.to(labelled.device)[labelled] != 0).any())  # a mean over nothing is no number
        how = "mean" if counts else "sum"
        return F.cross_entropy(logits, targets.long(), weight=weight.to(logits), ignore_index=IGNORED, reduction=how)
    return _mean_valid(_cross_entropies(logits, targets), targets)


def class_balance(
    labels: Int[Tensor, " n"], classes: int, weights: Float[Tensor, " n"] | None = None
) -> Float[Tensor, " k"]:
    """What a sample of each class counts so that all classes count the same, 1 on average over the samples.

    As scikit-learn's `class_weight="balanced"`, of the classes that are there; one without samples counts 0. Samples
    with `weights` are counted by them.
    """
    counts = torch.bincount(labels, weights=weights, minlength=classes).float()
    total = len(labels) if weights is None else weights.sum()
    return torch.where(counts > 0, total / ((counts > 0).sum() * counts.where(counts > 0, 1.0)), 0.0)


def binary_cross_entropy(logits: Float[Tensor, "n k"], targets: Float[Tensor, "n k"]) -> Float[Tensor, ""]:
    r"""Mean over samples and labels of $-y\log\sigma(z) - (1 - y)\log(1 - \sigma(z))$: several labels per sample."""
    if logits.shape != targets.shape:
        raise ValueError(f"logits have shape {tuple(logits.shape)}, targets {tuple(targets.shape)}; expected the same")
    return F.binary_cross_entropy_with_logits(logits, targets.to(logits.dtype))


def _focal(cross_entropies: Tensor) -> Tensor:
    """Each target's focal loss, gamma 2, from its cross-entropy -log p (Lin et al., 2017, equation 4).

    1 - p as -expm1(log p) keeps its digits where p is near 1.
    """
    missing = (-torch.expm1(-cross_entropies)).clamp_min(torch.finfo(cross_entropies.dtype).tiny)
    return missing**2.0 * cross_entropies


def focal_loss(logits: Float[Tensor, "n k ..."], targets: Int[Tensor, "n ..."]) -> Float[Tensor, ""]:
    r"""Mean of $-(1 - p)^2 \log p$ over targets, p being the softmax of the true class; -100 does not count.

    Source: Lin et al. (2017), equation 4, with gamma 2.
    """
    _check_labels(logits, targets)
    return _mean_valid(_focal(_cross_entropies(logits, targets)), targets)


def soft_dice_loss(
    logits: Float[Tensor, "n k ..."], targets: Int[Tensor, "n ..."], *, background: int | None = None
) -> Float[Tensor, ""]:
    r"""One minus the mean over classes of $\frac{2\sum p y + 1}{\sum p + \sum y + 1}$, p being the scores' softmax.

    Pixels of target -100 count in no sum; `background` is a class to leave out of the mean over classes.

    Source: Milletari et al. (2016), with p rather than p squared in the denominator.
    """
    _check_labels(logits, targets)
    k = logits.shape[1]
    valid = targets != IGNORED
    p = logits.softmax(1) * valid[:, None]
    y = F.one_hot(targets.long().clamp_min(0), k).movedim(-1, 1) * valid[:, None]
    dims = (0, *range(2, logits.ndim))
    dice = (2 * (p * y).sum(dims) + 1.0) / (p.sum(dims) + y.sum(dims) + 1.0)
    if background is not None:
        dice = dice[torch.arange(k, device=dice.device) != background]
    return 1 - dice.mean()


def segmentation_loss(logits: Float[Tensor, "n k h w"], targets: Int[Tensor, "n h w"]) -> Float[Tensor, ""]:
    r"""GATE's loss for masks, class 0 being the background: $\ell(\text{objects}) + 0.1\,\ell(\text{all})$.

    $\ell$ is the mean of the focal loss and the cross-entropy.

    Source:
        GATE's released segmentation recipe; the paper gives no formula.
    """
    objects = targets.masked_fill(targets == 0, IGNORED)
    pixels = _cross_entropies(logits, targets)
    pixels = (_focal(pixels) + pixels) / 2
    shown = _mean_valid(pixels.masked_fill(objects == IGNORED, 0.0), objects)
    return shown + 0.1 * _mean_valid(pixels, targets)


def acdc_loss(logits: Float[Tensor, "n k ..."], targets: Int[Tensor, "n ..."]) -> Float[Tensor, ""]:
    r"""GATE's loss for ACDC: soft dice of the structures + 0.01 x soft dice of the background, class 0.

    Source:
        GATE's released medical segmentation recipe.
    """
    if logits.shape[1] < 2:
        raise ValueError(f"logits have {logits.shape[1]} class, expected the background and at least one structure")
    structures = soft_dice_loss(logits, targets, background=0)
    k = logits.shape[1]
    overall = soft_dice_loss(logits, targets)
    alone = k * overall - (k - 1) * structures  # the mean over k classes less that over the k - 1 others
    return structures + 0.01 * alone


def symmetric_cross_entropy(logits: Float[Tensor, "n n"], groups: Int[Tensor, " n"]) -> Float[Tensor, ""]:
    """Contrastive loss of image-text pairs: the mean of the cross-entropies along rows and along columns.

    Pair i of the similarities is (i, i); pairs of one number in `groups` (one image with several captions) are
    positives of one another, each with an equal share, which is ours (Radford et al., 2021, figure 3).
    """
    n = len(logits)
    if logits.shape != (n, n) or groups.shape != (n,):
        raise ValueError(f"expected logits [n, n] and groups [n], got {tuple(logits.shape)} and {tuple(groups.shape)}")
    same = (groups[:, None] == groups[None, :]).to(logits.dtype)
    share = same / same.sum(1, keepdim=True)
    rows = -(share * logits.log_softmax(1)).sum(1).mean()
    columns = -(share.T * logits.log_softmax(0)).sum(0).mean()
    return (rows + columns) / 2


def grouped_cross_entropy(logits: Float[Tensor, "n n"], groups: Int[Tensor, " n"]) -> Float[Tensor, ""]:
    """One direction of `symmetric_cross_entropy`: the mean of the cross-entropies along rows.

    Rows look for columns; of texts that look for images, give the transposed logits.

    Example:
        >>> round(float(grouped_cross_entropy(torch.zeros(4, 4), torch.tensor([0, 0, 1, 2]))), 4)  # log 4
        1.3863
    """
    n = len(logits)
    if logits.shape != (n, n) or groups.shape != (n,):
        raise ValueError(f"expected logits [n, n] and groups [n], got {tuple(logits.shape)} and {tuple(groups.shape)}")
    same = (groups[:, None] == groups[None, :]).to(logits.dtype)
    return -(same / same.sum(dim=1, keepdim=True) * logits.log_softmax(dim=1)).sum(dim=1).mean()


def l1(predictions: Float[Tensor, "n ..."], targets: Float[Tensor, "n ..."]) -> Float[Tensor, ""]:
    r"""Mean of $|\hat y - y|$; a trailing dimension of size 1 is dropped where the targets lack it."""
    if predictions.ndim == targets.ndim + 1 and predictions.shape[-1] == 1:
        predictions = predictions.squeeze(-1)
    if predictions.shape != targets.shape:
        raise ValueError(f"predictions have shape {tuple(predictions.shape)}, targets {tuple(targets.shape)}")
    return (predictions - targets.to(predictions.dtype)).abs().mean()


def _check_labels(logits: Tensor, targets: Tensor) -> None:
    """Refuse shapes that do not belong together and labels out of range."""
    expected = (logits.shape[0], *logits.shape[2:])
    if logits.ndim < 2 or tuple(targets.shape) != expected:
        raise ValueError(
            f"logits have shape {tuple(logits.shape)}, targets {tuple(targets.shape)}; expected targets of {expected}"
        )
    wrong = ((targets < 0) | (targets >= logits.shape[1])) & (targets != IGNORED)
    if bool(wrong.any()):
        value = int(targets[wrong][0])
        raise ValueError(f"target {value} is out of range, expected 0..{logits.shape[1] - 1} or {IGNORED}")


def _cross_entropies(logits: Tensor, targets: Tensor) -> Tensor:
    """Each target's cross-entropy, 0 where it is -100."""
    _check_labels(logits, targets)
    return F.cross_entropy(logits, targets.long(), reduction="none", ignore_index=IGNORED)


def _mean_valid(values: Tensor, targets: Tensor) -> Tensor:
    """Mean of `values`, which are 0 where the target is -100, over the other targets."""
    return values.sum() / (targets != IGNORED).sum().clamp_min(1)
