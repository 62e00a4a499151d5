"""The losses that are compared: each a function of a batch's features, its scale and one weight."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F

from eqsim import EqSimLoss
from eqsim.functional import eqsim_relative, pair_loss


class Features(NamedTuple):
    """Unit features; `pairs` are rows of known pairs, which come first, and `false` a false text for each other row.

    `progress` is the share of the steps that are done, of methods that begin gently.
    """

    image: torch.Tensor
    text: torch.Tensor
    scale: torch.Tensor
    pairs: torch.Tensor
    false: torch.Tensor | None = None
    progress: float = 1.0

    def logits(self) -> torch.Tensor:
        """Scaled scores, images by texts."""
        return self.scale * self.image @ self.text.T


def contrastive(batch: Features, added: torch.Tensor | None = None) -> torch.Tensor:
    """CLIP's loss; `added` is added to the logits, which is the logarithm of a weight inside both softmaxes."""
    logits = batch.logits() if added is None else batch.logits() + added
    labels = torch.arange(len(logits))
    return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2


def upweighted(batch: Features, weight: float) -> torch.Tensor:
    """The control: the known negatives count `weight` times in the contrastive loss, and nothing else is there."""
    added = torch.zeros(len(batch.image), len(batch.image))
    first, second = batch.pairs.unbind(1)
    added[first, second] = added[second, first] = math.log(weight)
    return contrastive(batch, added)


def _own_false(batch: Features) -> torch.Tensor:
    """The false text of each row: of a pair its other caption, of a single scene a word exchanged."""
    if batch.false is None:
        raise ValueError("no false captions were encoded")
    partner = batch.pairs.flip(1).flatten()
    return torch.cat([batch.text[partner], batch.false])


def negclip(batch: Features, weight: float) -> torch.Tensor:
    """NegCLIP: false captions as further texts of every image, its own counted `weight` times (1 in the paper).

    Its hard images are in the batch already, for every loss here: the other picture of a known pair.
    """
    if batch.false is None:
        raise ValueError("no false captions were encoded")
    further = batch.scale * batch.image @ batch.false.T
    singles = torch.arange(2 * len(batch.pairs), len(batch.image))
    further[singles, torch.arange(len(singles))] += math.log(weight)
    logits, labels = batch.logits(), torch.arange(len(batch.image))
    rows = F.cross_entropy(torch.cat([logits, further], dim=1), labels)
    return (rows + F.cross_entropy(logits.T, labels)) / 2


def fsc(batch: Features, weight: float, focus: float = 2.0, smoothing: float = 0.02) -> torch.Tensor:
    """FSC-CLIP's selective calibration: focal, smoothed cross-entropy of a text against its false one, beside CLIP's.

    The term over whole features; the published sum has one over patches, too, which is left out here.
    """
    right = (batch.image * batch.text).sum(1)
    wrong = (batch.image * _own_false(batch)).sum(1)
    log_p = (batch.scale * torch.stack([right, wrong], dim=1)).log_softmax(1)
    target = torch.tensor([1 - smoothing / 2, smoothing / 2])
    term = -(target * (1 - log_p.exp()) ** focus * log_p).sum(1).mean()
    return contrastive(batch) + weight * term


def v2(batch: Features, weight: float) -> torch.Tensor:
    """EqSim's v2 over the known pairs."""
    return contrastive(batch) + weight * EqSimLoss("v2")(batch.image, batch.text, close_pairs=batch.pairs)


def hybrid(batch: Features, weight: float) -> torch.Tensor:
    """EqSim as the paper recommends it."""
    return contrastive(batch) + weight * EqSimLoss("hybrid")(batch.image, batch.text, close_pairs=batch.pairs)


def pair(batch: Features, weight: float) -> torch.Tensor:
    """`PairLoss` over the known pairs."""
    return contrastive(batch) + weight * pair_loss(batch.logits(), batch.pairs)


def relative(batch: Features, weight: float) -> torch.Tensor:
    """EqSim's relative form over the known pairs."""
    return contrastive(batch) + weight * eqsim_relative(batch.image @ batch.text.T, batch.pairs)


def growing(batch: Features, weight: float) -> torch.Tensor:
    """A curriculum: the known negatives count once at first, and `weight` times in the end."""
    return upweighted(batch, weight**batch.progress)


def swaps(batch: Features, weight: float) -> torch.Tensor:
    """The control, with captions whose two sides are exchanged as further texts of the single scenes, counted alike."""
    return (upweighted(batch, weight) + negclip(batch, weight)) / 2


def growing_swaps(batch: Features, weight: float) -> torch.Tensor:
    """Both."""
    return swaps(batch, weight**batch.progress)


Method = Callable[[Features, float], torch.Tensor]
METHODS: dict[str, Method] = {
    "contrastive": lambda batch, weight: contrastive(batch),
    "upweighted": upweighted,
    "negclip": negclip,
    "fsc": fsc,
    "v2": v2,
    "hybrid": hybrid,
    "pair": pair,
    "relative": relative,
}
TRANSFER: dict[str, Method] = {
    "growing": growing,
    "swapped": lambda batch, weight: negclip(batch, weight),
    "swaps": swaps,
    "growing swaps": growing_swaps,
}
"""What the literature offers for kinds that are in no known pair; run in one cell, see `run.py`."""
FALSE_TEXTS = {"negclip": "false", "fsc": "false", "swapped": "swapped", "swaps": "swapped", "growing swaps": "swapped"}
"""These encode false captions of the single scenes, too, by one of two rules: half as many texts again."""

GRIDS: dict[str, tuple[float, ...]] = {
    "upweighted": (4.0, 16.0, 64.0),
    "negclip": (1.0, 4.0, 16.0),
    "fsc": (0.5, 2.0, 8.0),
    "v2": (4.0, 16.0, 64.0),
    "hybrid": (4.0, 16.0, 64.0),
    "pair": (0.5, 2.0, 8.0),
    "relative": (0.25, 1.0, 4.0),
}
TRANSFER_GRIDS = dict.fromkeys(TRANSFER, (4.0, 16.0, 64.0))
"""Where the search of a weight begins. It goes on by a factor of four past the end that is best: `run.search`."""
MOST_TRIED = 6
"""Values of each method's weight, the same for all."""
