"""What stands beside zero-shot maps: the best map that never looks, one class for the image, and a trained head."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from gate_data.data import Data, Split
from gate_data.readers.splits import spread
from gate_runner.tasks.job import Job
from gate_runner.tasks.segmenting.native import images_of, truth_at
from gate_runner.tasks.segmenting.windows import Scored, Scorer
from vision_adapters.losses import IGNORED

if TYPE_CHECKING:
    from jaxtyping import Float, Int

_BLIND, _SIDE = 2000, 64
"""Training maps from which the blind map is made, at most, and its side."""
TRAINED, _PATCHES = 200, 200
"""Training images of the trained head, at most, and patches of each."""
_PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1)
"""Shares of the features' mean square, of which held-out patches choose one."""


def some(split: Split[Any], most: int) -> list[int]:
    """Return the numbers of samples, evenly spread where there are more than wanted."""
    return list(range(len(split))) if len(split) <= most else list(spread([0] * len(split), most))


def blind_map(data: Data[Any], classes: int) -> tuple[Int[Tensor, "s s"], str]:
    """Return at each place the class that training shows there most often, and what it was made of.

    Where nothing trains, it is the class with most pixels in the test, which no blind answer could know.
    """
    source, name = (data.train, "training maps") if len(data.train) else (data.test, "")
    counts = torch.zeros(_SIDE, _SIDE, classes, dtype=torch.long)
    numbers = some(source, _BLIND)
    for index in numbers:
        truth = truth_at(source, index)[None, None].float()
        small = F.interpolate(truth, (_SIDE, _SIDE), mode="nearest-exact")[0, 0].long()
        known = small != IGNORED
        counts += F.one_hot(small.clamp(0, classes - 1), classes) * known[..., None]
    if name:
        return counts.argmax(dim=-1), f"the most frequent class at each place of {len(numbers):,} {name}"
    best = int(counts.sum(dim=(0, 1)).argmax())
    return torch.full((_SIDE, _SIDE), best), "the class with most pixels in the test, for nothing trains"


def on(small: Int[Tensor, "s s"], shape: tuple[int, int]) -> Int[Tensor, "h w"]:
    """Return a map stretched to a size by the nearest place."""
    return F.interpolate(small[None, None].float(), shape, mode="nearest-exact")[0, 0].long()


def whole_classes(job: Job, weights: Float[Tensor, "k d"], of_class: Int[Tensor, " k"]) -> Int[Tensor, " n"]:
    """Return for each test image the class of the word that the image as a whole is most like."""
    features = F.normalize(job.encoded(job.data.test, "pooled", "test")[:].float().cpu(), dim=-1)
    return of_class[(features @ weights.T).argmax(dim=1)]


class TrainedHead(NamedTuple):
    """A linear head on the same patches, in the place of words."""

    weights: Float[Tensor, "k d"]
    bias: Float[Tensor, " k"]
    penalty: float
    images: int


def trained_head(scorer: Scorer, split: Split[Any], classes: int, seed: int) -> TrainedHead | None:
    """Return ridge regressions of each class on patches of training images; None where nothing trains.

    Labels are those of the pixel at the middle of a patch. The penalty is the one of four whose classes are right most
    often on every fifth image, which is then trained on, too.
    """
    numbers = some(split, TRAINED)
    if len(numbers) < 5:
        return None
    generator = torch.Generator().manual_seed(seed)
    features, labels, image_of = [], [], []
    width = scorer.weights.shape[1]
    plain = scorer.with_weights(torch.eye(width))
    scored = plain.over(images_of(split, numbers))
    for row, (index, image_scores) in enumerate(zip(numbers, scored, strict=True)):
        tokens, answers = _patches(image_scores, truth_at(split, index))
        known = torch.nonzero(answers != IGNORED).flatten()
        drawn = known[torch.randperm(len(known), generator=generator)[:_PATCHES]]
        features.append(tokens[drawn])
        labels.append(answers[drawn])
        image_of.append(torch.full((len(drawn),), row))
    x, y, image = torch.cat(features).double(), torch.cat(labels).long(), torch.cat(image_of)
    if not len(y):
        return None
    held = image % 5 == 4
    chosen = _PENALTIES[0]
    if bool(held.any()) and not bool(held.all()):
        right = []
        for penalty in _PENALTIES:
            weights, bias = _solved(x[~held], y[~held], classes, penalty)
            right.append(float(((x[held] @ weights.T + bias).argmax(dim=1) == y[held]).double().mean()))
        chosen = _PENALTIES[max(range(len(right)), key=right.__getitem__)]
    weights, bias = _solved(x, y, classes, chosen)
    return TrainedHead(weights.float(), bias.float(), chosen, len(numbers))


def _solved(x: Tensor, y: Tensor, classes: int, penalty: float) -> tuple[Tensor, Tensor]:
    targets = F.one_hot(y, classes).double()
    mean, middle = x.mean(dim=0), targets.mean(dim=0)
    centred = x - mean
    gram = centred.T @ centred / len(x)
    ridge = gram + penalty * gram.diagonal().mean().clamp_min(1e-12) * torch.eye(len(gram), dtype=gram.dtype)
    weights = torch.linalg.solve(ridge, centred.T @ (targets - middle) / len(x)).T
    return weights, middle - weights @ mean


def _patches(scored: Scored, truth: Tensor) -> tuple[Float[Tensor, "t d"], Int[Tensor, " t"]]:
    """Return the patches of an image's windows, and the class in the middle of each."""
    high, wide = scored.patches.shape[-2:]
    (tall, broad), size = scored.window, scored.size
    answers = []
    for top, left in scored.places:
        rows = (top + (torch.arange(high) + 0.5) * tall / high) * truth.shape[0] / size[0]
        columns = (left + (torch.arange(wide) + 0.5) * broad / wide) * truth.shape[1] / size[1]
        middle = truth[rows.long().clamp(max=truth.shape[0] - 1)]
        answers.append(middle[:, columns.long().clamp(max=truth.shape[1] - 1)].flatten())
    tokens = scored.patches.flatten(2).transpose(1, 2).flatten(0, 1).cpu()
    return tokens, torch.cat(answers).long()
