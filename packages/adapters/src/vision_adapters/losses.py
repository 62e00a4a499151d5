"""Losses of the task types: scores and targets in, one number out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

if TYPE_CHECKING:
    from jaxtyping import Float, Int

IGNORED = -100


def cross_entropy(
    logits: Float[Tensor, "n k ..."], targets: Int[Tensor, "n ..."], weight: Float[Tensor, " k"] | None = None
) -> Float[Tensor, ""]:
    r"""Mean of $-\log \mathrm{softmax}(z)_y$ over the samples (and pixels) whose target is not -100.

    Args:
        logits: scores, classes in dimension 1.
        targets: classes 0 … k - 1, or -100.
        weight: what a sample of each class counts in the mean; all the same by default. See `class_balance`.

    Example:
        >>> cross_entropy(torch.zeros(3, 4), torch.tensor([0, 1, -100]))
        tensor(1.3863)
    """
    if weight is not None:
        _check_labels(logits, targets)
        return F.cross_entropy(logits, targets.long(), weight=weight.to(logits), ignore_index=IGNORED)
    return _mean_valid(_cross_entropies(logits, targets), targets)


def class_balance(labels: Int[Tensor, " n"], classes: int) -> Float[Tensor, " k"]:
    """What a sample of each class counts so that all classes count the same, 1 on average over the samples.

    Args:
        labels: 0 … k - 1.
        classes: k; one without samples counts 0.

    Example:
        >>> class_balance(torch.tensor([0, 0, 0, 1]), 3)
        tensor([0.6667, 2.0000, 0.0000])

    Source:
        scikit-learn's `class_weight="balanced"`, of the classes that are there.
    """
    counts = torch.bincount(labels, minlength=classes).float()
    return torch.where(counts > 0, len(labels) / ((counts > 0).sum() * counts.clamp_min(1)), 0.0)


def binary_cross_entropy(logits: Float[Tensor, "n k"], targets: Float[Tensor, "n k"]) -> Float[Tensor, ""]:
    r"""Mean over samples and labels of $-y\log\sigma(z) - (1 - y)\log(1 - \sigma(z))$: several labels per sample.

    Example:
        >>> binary_cross_entropy(torch.zeros(2, 3), torch.ones(2, 3))
        tensor(0.6931)
    """
    if logits.shape != targets.shape:
        raise ValueError(f"logits have shape {tuple(logits.shape)}, targets {tuple(targets.shape)}; expected the same")
    return F.binary_cross_entropy_with_logits(logits, targets.to(logits.dtype))


def focal_loss(
    logits: Float[Tensor, "n k ..."], targets: Int[Tensor, "n ..."], *, gamma: float = 2.0
) -> Float[Tensor, ""]:
    r"""Mean of $-(1 - p_y)^\gamma \log p_y$ over the targets that are not -100.

    Args:
        logits: scores, classes in dimension 1.
        targets: classes 0 … k - 1, or -100.
        gamma: >= 0; 0 gives the cross-entropy.

    Returns:
        The mean; 0 when every target is -100.

    Raises:
        ValueError: a target out of range, or a negative `gamma`.

    Numerics:
        1 - p is formed as -expm1(log p), which keeps its digits when p is near 1.

    Example:
        >>> focal_loss(torch.zeros(1, 2), torch.tensor([1]), gamma=1.0)
        tensor(0.3466)

    Source:
        Lin et al. (2017), equation 4.
    """
    if gamma < 0:
        raise ValueError(f"gamma must be at least 0, got {gamma}")
    return _mean_valid(_focal(_cross_entropies(logits, targets), gamma), targets)


def _focal(cross_entropies: Tensor, gamma: float) -> Tensor:
    """Each target's focal loss from its cross-entropy, -log p."""
    # At p = 1 the power's own derivative may be infinite (gamma < 1): the smallest normal number keeps it finite.
    missing = (-torch.expm1(-cross_entropies)).clamp_min(torch.finfo(cross_entropies.dtype).tiny)
    return missing**gamma * cross_entropies


def soft_dice_loss(
    logits: Float[Tensor, "n k ..."],
    targets: Int[Tensor, "n ..."],
    *,
    background: int | None = None,
    smooth: float = 1.0,
) -> Float[Tensor, ""]:
    r"""One minus the mean over classes of $\frac{2\sum p y + \epsilon}{\sum p + \sum y + \epsilon}$.

    Args:
        logits: scores, classes in dimension 1; p is their softmax.
        targets: classes 0 … k - 1, or -100 for pixels that count in no sum.
        background: a class to leave out of the mean over classes; its pixels stay in the sums of the others.
        smooth: epsilon, which makes a class that is nowhere predicted nor present score 1.

    Example:
        >>> z = torch.tensor([[[9.0, -9.0]], [[-9.0, 9.0]]]).movedim(0, 1) * 9
        >>> round(float(soft_dice_loss(z, torch.tensor([[0, 1]]))), 6)
        0.0

    Source:
        Milletari et al. (2016), with p rather than p squared in the denominator.
    """
    _check_labels(logits, targets)
    k = logits.shape[1]
    valid = targets != IGNORED
    p = logits.softmax(1) * valid[:, None]
    y = F.one_hot(targets.long().clamp_min(0), k).movedim(-1, 1) * valid[:, None]
    dims = (0, *range(2, logits.ndim))
    dice = (2 * (p * y).sum(dims) + smooth) / (p.sum(dims) + y.sum(dims) + smooth)
    if background is not None:
        dice = dice[torch.arange(k, device=dice.device) != background]
    return 1 - dice.mean()


def segmentation_loss(
    logits: Float[Tensor, "n k h w"],
    targets: Int[Tensor, "n h w"],
    *,
    background: int = 0,
    background_weight: float = 0.1,
    gamma: float = 2.0,
) -> Float[Tensor, ""]:
    r"""GATE's loss for masks: $\ell(\text{objects}) + 0.1\,\ell(\text{all})$.

    $\ell$ is the mean of the focal loss and the cross-entropy.

    Example:
        >>> z, y = torch.zeros(1, 2, 1, 2), torch.tensor([[[0, 1]]])
        >>> round(float(segmentation_loss(z, y)), 4)  # 1.1 x (ln 2 + ln 2 / 4) / 2
        0.4765

    Source:
        GATE's released segmentation recipe; the paper gives no formula.
    """
    objects = targets.masked_fill(targets == background, IGNORED)
    pixels = _cross_entropies(logits, targets)
    pixels = (_focal(pixels, gamma) + pixels) / 2
    shown = _mean_valid(pixels.masked_fill(objects == IGNORED, 0.0), objects)
    return shown + background_weight * _mean_valid(pixels, targets)


def acdc_loss(
    logits: Float[Tensor, "n k ..."],
    targets: Int[Tensor, "n ..."],
    *,
    background: int = 0,
    background_weight: float = 0.01,
) -> Float[Tensor, ""]:
    r"""GATE's loss for ACDC: soft dice of the structures + 0.01 x soft dice of the background.

    Example:
        >>> z = torch.randn(2, 4, 5, 5)
        >>> bool(acdc_loss(z, z.argmax(1)) > 0)
        True

    Source:
        GATE's released medical segmentation recipe.
    """
    if logits.shape[1] < 2:
        raise ValueError(f"logits have {logits.shape[1]} class, expected the background and at least one structure")
    structures = soft_dice_loss(logits, targets, background=background)
    k = logits.shape[1]
    overall = soft_dice_loss(logits, targets)
    alone = k * overall - (k - 1) * structures  # the mean over k classes less that over the k - 1 others
    return structures + background_weight * alone


def symmetric_cross_entropy(logits: Float[Tensor, "n n"], groups: Int[Tensor, " n"]) -> Float[Tensor, ""]:
    r"""Contrastive loss of image-text pairs: the mean of the cross-entropies along rows and along columns.

    Args:
        logits: similarity of each image with each text of the batch; pair i is (i, i).
        groups: a number per pair; pairs with the same number (one image with several captions) are positives of one
            another, each with an equal share. Distinct numbers give the usual loss.

    Example:
        >>> symmetric_cross_entropy(torch.zeros(4, 4), torch.arange(4))
        tensor(1.3863)

    Source:
        Radford et al. (2021), figure 3; equal shares among several positives are ours.
    """
    n = len(logits)
    if logits.shape != (n, n) or groups.shape != (n,):
        raise ValueError(f"expected logits [n, n] and groups [n], got {tuple(logits.shape)} and {tuple(groups.shape)}")
    same = (groups[:, None] == groups[None, :]).to(logits.dtype)
    share = same / same.sum(1, keepdim=True)
    rows = -(share * logits.log_softmax(1)).sum(1).mean()
    columns = -(share.T * logits.log_softmax(0)).sum(0).mean()
    return (rows + columns) / 2


def l1(predictions: Float[Tensor, "n ..."], targets: Float[Tensor, "n ..."]) -> Float[Tensor, ""]:
    r"""Mean of $|\hat y - y|$.

    Args:
        predictions: one number per target; a trailing dimension of size 1 is dropped where the targets lack it.
        targets: what was to be predicted.

    Example:
        >>> l1(torch.tensor([[1.0], [3.0]]), torch.tensor([1.0, 1.0]))
        tensor(1.)
    """
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
