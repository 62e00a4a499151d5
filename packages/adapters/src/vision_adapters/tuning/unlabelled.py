"""Images without labels beside class texts, and few labels where there are some: transduction, with a guard."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from vision_adapters.heads import fixed_head, language_head
from vision_adapters.tuning.anchored import tune_anchored
from vision_adapters.tuning.data import Tuned, check_features, labels_of, rows_of, tuning_data
from vision_adapters.tuning.folds import FOLDS, class_folds
from vision_adapters.tuning.gaussians import GaussianHead, Graph, Mixture, nearest, stata, transclip

SINKHORN, SOLVED = 10, 3
ABSENT = 4
"""A class without a label counts as the rarest one with labels, divided by this."""
ERRORS = 1.5
"""Standard errors of a paired difference by which transduction may be behind."""
LEAST_CLASSES = 1 / 3
"""The share of zero-shot's effective number of classes below which classes have run together."""
STEADY = 0.85
"""The share of images on whose class heads of two halves must agree, if a head of few labels could be had instead."""


class Way(NamedTuple):
    """What a method has besides features and labels: the nearest images, and the classes' frequencies in few labels."""

    graph: Graph
    marginal: Tensor | None


@dataclass(frozen=True, eq=False)
class Transduced:
    """What images without labels made of class texts.

    Args:
        method: that was taken; "zero_shot", or the default tuner's "anchored", if it fell back.
        probabilities: [n, k], of the images without labels.
        head: for any other image: features -> scores, in evaluation mode.
        fallback: why zero-shot, or the head of the labels alone, is kept; "" if neither is.
        labelled: the head of the labels alone, where it is kept.

    Example:
        >>> transduce(torch.zeros(0, 3), torch.eye(3)).fallback
        'zero-shot is kept: no image without a label'
    """

    method: str
    probabilities: Float[Tensor, "n k"]
    head: nn.Module
    fallback: str = ""
    labelled: Tuned | None = None


def transduce(
    unlabelled: Any,
    class_embeddings: Any,
    *,
    method: str = "stata",
    logit_scale: float = 100.0,
    labelled: tuple[Any, Any] | None = None,
    guard: bool = True,
) -> Transduced:
    """Classify images together, by class texts and by one another.

    Args:
        unlabelled: features [n, d]; any number, also none.
        class_embeddings: [k, d], a text for each class.
        method: "stata" (the default); "ss_text_u", which needs labels; or "transclip", the peer.
        logit_scale: the dual encoder's scale, > 0.
        labelled: features [m, d] and classes [m] of few labelled images; classes may have none.
        guard: fall back where the images give no reason to leave zero-shot, and say why in `fallback`: to the default
            tuner's head of the labels where each class has some, else to zero-shot.

    Raises:
        ValueError: an unknown method, features or texts that cannot be compared, a class without a text.

    Example:
        >>> texts, labels = torch.eye(3, 8), torch.arange(60) % 3
        >>> images = texts[labels] + 0.3 * torch.randn(60, 8, generator=torch.Generator().manual_seed(0))
        >>> done = transduce(images, texts, logit_scale=10.0)
        >>> done.method, bool((done.probabilities.argmax(1) == labels).float().mean() > 0.9)
        ('stata', True)
        >>> transduce(images[:1], texts).fallback
        'zero-shot is kept: 1 image without a label, and none to compare it with'
    """
    return transduce_or(
        unlabelled, class_embeddings, method=method, logit_scale=logit_scale, labelled=labelled, guard=guard
    )


def transduce_or(
    unlabelled: Any,
    class_embeddings: Any,
    *,
    method: str,
    logit_scale: float,
    labelled: tuple[Any, Any] | None,
    guard: bool,
    otherwise: Callable[[], Tuned] | None = None,
) -> Transduced:
    """`transduce`, with another head of the labels to fall back to."""
    if method not in TRANSDUCTIONS:
        raise ValueError(
            f"method {method!r} takes no images without labels, expected one of {', '.join(TRANSDUCTIONS)}"
        )
    if not logit_scale > 0:
        raise ValueError(f"logit_scale must be positive, got {logit_scale}")
    texts = rows_of(class_embeddings, "class_embeddings").float().cpu()
    check_features(texts, "class_embeddings")
    empty = (texts == 0).all(1)
    if bool(empty.any()):
        raise ValueError(f"class {int(empty.nonzero()[0])} has no text: its embedding is all 0")
    x = rows_of(unlabelled, "unlabelled features").float().cpu()
    if x.numel():
        check_features(x, "unlabelled features")
    else:
        x = texts[:0]
    known, labels = texts[:0], torch.zeros(0, dtype=torch.long)
    if labelled is not None:
        known = rows_of(labelled[0], "labelled features").float().cpu()
        check_features(known, "labelled features")
        labels = labels_of(labelled[1], len(known), len(texts))
    if method == "ss_text_u" and not len(known):
        raise ValueError(
            "ss_text_u takes its classes' frequencies from few labels, and there are none; stata needs none"
        )
    for name, rows in (("unlabelled features", x), ("labelled features", known)):
        if rows.shape[1] != texts.shape[1] and len(rows):
            raise ValueError(f"{name} have {rows.shape[1]} columns, class_embeddings {texts.shape[1]}")
    texts = F.normalize(texts, dim=1)
    unit = F.normalize(x.reshape(-1, texts.shape[1]), dim=1)
    member = F.one_hot(labels, len(texts)).float()
    done = transduced(unit, texts, logit_scale, F.normalize(known, dim=1), member, method, guard=guard)
    if not done.fallback or not bool((member.sum(0) > 0).all()):
        return done
    if otherwise is None:
        head = tune_anchored(tuning_data(known, labels, class_embeddings=texts, logit_scale=logit_scale))
    else:
        head = otherwise()
    if head.best_params.get("kind") == "zero_shot":
        return done
    probabilities = head.scores(x.reshape(-1, texts.shape[1])).softmax(1)
    reason = done.fallback.replace("zero-shot is kept", "the head of the labels alone is kept", 1)
    return Transduced(head.method, probabilities, head.head, reason, head)


def transduced(
    x: Tensor, texts: Tensor, scale: float, known: Tensor, member: Tensor, method: str, *, guard: bool
) -> Transduced:
    """`transduce` of what was checked: everything at length 1, labels as 0/1 columns."""
    zero_shot = (scale * x @ texts.T).softmax(1)

    def plain(reason: str) -> Transduced:
        return Transduced("zero_shot", zero_shot, language_head(texts, scale).eval(), f"zero-shot is kept: {reason}")

    if len(x) < 2:
        return plain("1 image without a label, and none to compare it with" if len(x) else "no image without a label")
    everything = torch.cat([known, x])
    graph = nearest(everything)
    way, labelled = Way(graph, label_marginal(member) if len(member) else None), member
    probabilities, head = TRANSDUCTIONS[method](everything, texts, scale, member, way)
    if not guard:
        return Transduced(method, probabilities[len(known) :], head)
    if not len(known):
        reason = doubt(zero_shot, probabilities, graph)
        return plain(reason) if reason else Transduced(method, probabilities, head)
    if method == "ss_text_u" and not labels_pay(everything, texts, scale, member, way):
        member = member[:0]
        probabilities, head = TRANSDUCTIONS[method](everything, texts, scale, member, way)
    blind = TRANSDUCTIONS[method](everything, texts, scale, member[:0], way)[0] if len(member) else probabilities
    before = (scale * everything @ texts.T).softmax(1)
    reason = (
        doubt(before, blind, graph)
        or doubt(before, probabilities, graph)
        or behind(before[: len(known)], blind[: len(known)], labelled)
        or unsteady(everything, texts, scale, labelled, len(member) > 0, method, way)
    )
    return plain(reason) if reason else Transduced(method, probabilities[len(known) :], head)


def doubt(before: Float[Tensor, "n k"], after: Float[Tensor, "n k"], graph: Graph) -> str:
    """Say what speaks against leaving zero-shot where no label can tell; "" if nothing does.

    Images that are nearest to one another must not agree on their class less often than before, and the classes must
    not run together: their effective number, the exponential of the entropy of their frequencies, may fall to a third.
    """
    agreement = [_agreement(probabilities.argmax(1), graph) for probabilities in (before, after)]
    gain = agreement[1] - agreement[0]
    if float(gain.mean()) < -ERRORS * float(gain.std()) / len(gain) ** 0.5:
        lost = [float(rows.mean()) for rows in agreement]
        return f"neighbours agree on a class less often, {lost[1]:.0%} after {lost[0]:.0%}"
    number = [_effective_classes(probabilities) for probabilities in (before, after)]
    if number[1] < LEAST_CLASSES * number[0]:
        return f"its classes run together, {number[1]:.1f} after {number[0]:.1f} (effective numbers)"
    return ""


def behind(before: Float[Tensor, "m k"], blind: Float[Tensor, "m k"], member: Float[Tensor, "m k"]) -> str:
    """Say so if few labels, which nobody has shown to it, are hit less often than by zero-shot; "" if not.

    One label fewer of two or more is enough: few labels have little to say, and the head that is fitted to them alone
    is a good fallback.
    """
    hits = [(probabilities.argmax(1) == member.argmax(1)).float() for probabilities in (before, blind)]
    gain = hits[1] - hits[0]
    if len(gain) > 1 and float(gain.sum()) < 0:
        right = [int(hit.sum()) for hit in hits]
        return f"of {len(member)} labels it hits {right[1]} unseen, zero-shot {right[0]}"
    return ""


def unsteady(
    x: Float[Tensor, "n d"],
    texts: Float[Tensor, "k d"],
    scale: float,
    labelled: Float[Tensor, "m k"],
    shown: bool,
    method: str,
    way: Way,
) -> str:
    """Say so if heads of two halves of all images, the first m labelled, disagree on many others; "" if not.

    Two heads of accuracy a that are fitted on other images agree about as often as each of them is right: what differs
    is what they learnt from single images.

    Source: Jiang et al., Assessing generalization of SGD via disagreement (ICLR 2022). The halves, and the bound, are
    ours.
    """
    count = len(labelled)
    shuffled = torch.randperm(len(x) - count, generator=torch.Generator().manual_seed(0))
    half = torch.cat([class_folds(labelled.argmax(1), 2, 0), shuffled % 2]) == 0
    answers = []
    for part in (half, ~half):
        rows, member = x[part], labelled[part[:count]]
        of_part = way._replace(graph=nearest(rows))
        head = TRANSDUCTIONS[method](rows, texts, scale, member if shown else member[:0], of_part)[1]
        with torch.no_grad():
            answers.append(head(x[count:]).argmax(1))
    agreed = float((answers[0] == answers[1]).double().mean())
    return f"heads of two halves of the images agree on {agreed:.0%} of them" if agreed < STEADY else ""


def labels_pay(
    x: Float[Tensor, "n d"], texts: Float[Tensor, "k d"], scale: float, member: Float[Tensor, "m k"], way: Way
) -> bool:
    """Whether SS-Text-U hits held-out labels more often, by a standard error, if it has the others in its weights.

    Else labels count by their frequencies alone. They outweigh a class's text ten times, as in SS-Text, so that single
    images are followed; with one image per class none can be held out.
    """
    assert way.marginal is not None
    known, labels = x[: len(member)], member.argmax(1)

    def hits(weight: Tensor) -> Tensor:
        return ((known @ F.normalize(weight, dim=1).T).argmax(1) == labels).double()

    without = hits(ss_text_u_weights(x, texts, scale, known[:0], member[:0], way.marginal))
    folds, gains = class_folds(labels, FOLDS, 0), []
    for fold in range(FOLDS):
        others = folds != fold
        rows = ~others & (member[others].sum(0) > 0)[labels]
        if bool(rows.any()):
            rest = torch.cat([known[~others], x[len(member) :]])
            weight = ss_text_u_weights(rest, texts, scale, known[others], member[others], way.marginal)
            gains.append((hits(weight) - without)[rows])
    gain = torch.cat(gains) if gains else without[:0]
    if 2 * len(gain) < len(member):
        return False
    return float(gain.mean()) > float(gain.std(correction=0)) / math.sqrt(len(gain))


def _agreement(classes: Tensor, graph: Graph) -> Tensor:
    """The share of each image's neighbours that have its class."""
    return (classes[graph.neighbours] == classes[:, None]).float().mean(1)


def _effective_classes(probabilities: Tensor) -> float:
    share = torch.bincount(probabilities.argmax(1), minlength=probabilities.shape[1]) / len(probabilities)
    return float(torch.special.entr(share).sum().exp())


def _stata(x: Tensor, texts: Tensor, scale: float, member: Tensor, way: Way) -> tuple[Tensor, nn.Module]:
    return _of_mixture(stata(x, texts, scale, member, graph=way.graph), texts, scale)


def _transclip(x: Tensor, texts: Tensor, scale: float, member: Tensor, way: Way) -> tuple[Tensor, nn.Module]:
    return _of_mixture(transclip(x, texts, scale, member, graph=way.graph), texts, scale)


def _of_mixture(mixture: Mixture, texts: Tensor, scale: float) -> tuple[Tensor, nn.Module]:
    """Assignments, and a head with one variance per axis for all classes.

    A class's own variances follow its few images too closely to score others by: 24 images per class in 1,280
    dimensions put such a head 6.9 points below zero-shot on CIFAR-10, and 1.1 with common variances.
    """
    count = mixture.assignment.sum(0)
    common = (count @ mixture.variances / count.sum()).expand_as(mixture.variances)
    return mixture.assignment, GaussianHead(texts, mixture.means.clone(), common.clone(), scale).eval()


def _ss_text_u(x: Tensor, texts: Tensor, scale: float, member: Tensor, way: Way) -> tuple[Tensor, nn.Module]:
    known, rest = x[: len(member)], x[len(member) :]
    assert way.marginal is not None
    weight = ss_text_u_weights(rest, texts, scale, known, member, way.marginal)
    head = fixed_head(scale * F.normalize(weight, dim=1), weight.new_zeros(len(texts)), "l2")
    return (scale * x @ F.normalize(weight, dim=1).T).softmax(1), head


def label_marginal(member: Float[Tensor, "m k"]) -> Float[Tensor, " k"]:
    """Return how frequent each class is among few labels; one without labels is rarer than the rarest."""
    share = member.sum(0) / len(member)
    share = torch.where(share > 0, share, share[share > 0].min() / ABSENT)
    return share / share.sum()


def transported(scores: Float[Tensor, "n k"], marginal: Float[Tensor, " k"], rounds: int) -> Float[Tensor, "n k"]:
    r"""Return assignments that add up to a class marginal, by Sinkhorn's steps from $e^{\text{scores}}$.

    Each round scales columns to the marginal, then rows to 1; in logarithms, so that no score is too large.
    """
    logs, target = scores - scores.max(), (marginal * len(scores)).log()
    for _ in range(rounds):
        logs = logs + (target - logs.logsumexp(0))
        logs = logs - logs.logsumexp(1, keepdim=True)
    return logs.exp() if rounds else scores.softmax(1)


def ss_text_u_weights(
    x: Float[Tensor, "n d"],
    texts: Float[Tensor, "k d"],
    scale: float,
    known: Float[Tensor, "m d"],
    member: Float[Tensor, "m k"],
    marginal: Float[Tensor, " k"],
) -> Float[Tensor, "k d"]:
    r"""SS-Text-U: SS-Text whose images without labels are assigned by transport to the few labels' marginal.

    From w = v, three times: codes q are `transported` of $s \cos(w_c, x_i)$ in ten steps, and
    $w_c = v_c + \frac{s\,n_c}{2 m} \sum_{y_i = c} x_i + \frac{s}{n} \sum_i q_{ic} x_i$.

    Source:
        Silva-Rodriguez and Konukoglu, Semi-supervised few-shot adaptation of vision-language models (2026). Chooses
        with nothing.
    """
    of_labels = (member.T @ known) * (scale * member.sum(0) / (2 * max(len(known), 1)))[:, None]
    weight = texts
    for _ in range(SOLVED):
        codes = transported(scale * x @ F.normalize(weight, dim=1).T, marginal, SINKHORN)
        weight = texts + of_labels + scale / len(x) * codes.T @ x
    return weight


TRANSDUCTIONS: dict[str, Callable[[Tensor, Tensor, float, Tensor, Way], tuple[Tensor, nn.Module]]] = {
    "stata": _stata,
    "ss_text_u": _ss_text_u,
    "transclip": _transclip,
}
