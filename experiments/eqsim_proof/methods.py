"""The losses that are compared: each a function of unit features, the scale and the known pairs of a batch."""

from __future__ import annotations

from collections.abc import Callable

import torch

from eqsim import CyclicLoss, EqSimLoss, TopK
from eqsim.functional import eqsim_relative, pair_loss, select_close_pairs

Term = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
MINED = TopK(k=1)


def contrastive(image: torch.Tensor, text: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    logits = scale * image @ text.T
    labels = torch.arange(len(image))
    return (torch.nn.functional.cross_entropy(logits, labels) + torch.nn.functional.cross_entropy(logits.T, labels)) / 2


def hinge(image: torch.Tensor, text: torch.Tensor, scale: torch.Tensor, pairs: torch.Tensor) -> torch.Tensor:
    """VSE++'s hinge on the hardest negative of the batch, both ways, margin 0.2."""
    scores = image @ text.T
    own = scores.diagonal()
    others = scores.masked_fill(torch.eye(len(scores), dtype=torch.bool), -1.0)
    return sum((torch.relu(0.2 + others.amax(dim) - own)).mean() for dim in (0, 1))


def cyclic(image: torch.Tensor, text: torch.Tensor, scale: torch.Tensor, pairs: torch.Tensor) -> torch.Tensor:
    return CyclicLoss(reduction="mean")(image, text)


def v1(image: torch.Tensor, text: torch.Tensor, scale: torch.Tensor, pairs: torch.Tensor) -> torch.Tensor:
    return EqSimLoss("v1")(image, text)


def v2(image: torch.Tensor, text: torch.Tensor, scale: torch.Tensor, pairs: torch.Tensor) -> torch.Tensor:
    return EqSimLoss("v2")(image, text, close_pairs=pairs)


def hybrid(image: torch.Tensor, text: torch.Tensor, scale: torch.Tensor, pairs: torch.Tensor) -> torch.Tensor:
    return EqSimLoss("hybrid")(image, text, close_pairs=pairs)


def pair(image: torch.Tensor, text: torch.Tensor, scale: torch.Tensor, pairs: torch.Tensor) -> torch.Tensor:
    return pair_loss(scale * image @ text.T, pairs)


def relative(image: torch.Tensor, text: torch.Tensor, scale: torch.Tensor, pairs: torch.Tensor) -> torch.Tensor:
    return eqsim_relative(image @ text.T, pairs)


def mined(term: Term) -> Term:
    """The same term over each sample's nearest other texts and images in place of the known pairs."""

    def over_mined(image: torch.Tensor, text: torch.Tensor, scale: torch.Tensor, pairs: torch.Tensor) -> torch.Tensor:
        found = select_close_pairs((image @ text.T).detach(), MINED)
        return term(image, text, scale, found)

    return over_mined


TERMS: dict[str, Term] = {
    "hinge": hinge,
    "cyclip": cyclic,
    "v1": v1,
    "v2": v2,
    "hybrid": hybrid,
    "pair": pair,
    "relative": relative,
    "pair-mined": mined(pair),
    "relative-mined": mined(relative),
    "v2-mined": mined(v2),
}

GRIDS: dict[str, tuple[float, ...]] = {
    **dict.fromkeys(("hinge", "cyclip", "v1", "v2", "hybrid"), (0.25, 1.0, 4.0)),
    "pair": (1.0, 4.0, 16.0),
    "relative": (0.5, 2.0, 8.0),
}
"""Three values each, a factor of four apart. For `pair` and `relative` the weight itself; for the others the norm of
the term's gradient over the contrastive loss's on the first batch, since their values differ by orders."""

ABSOLUTE = ("pair", "relative")


def base_of(name: str) -> str:
    """The term whose searched weight a mined form takes."""
    return name.removesuffix("-mined")
