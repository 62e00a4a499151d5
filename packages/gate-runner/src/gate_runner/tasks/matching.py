"""Images and texts in one space, by two trained projections: galleries, retrieval, and the choice among captions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from gate_data.data import Split
from gate_data.pictures import Pictures
from gate_data.request import SplitName
from gate_runner.errors import MissingCapabilityError
from gate_runner.features import IndexedRows
from gate_runner.tasks.backbone import make_backbone
from gate_runner.tasks.features import different_texts, embedded, words
from gate_runner.tasks.fitting import Loss
from gate_runner.tasks.job import Job, Outcome
from gate_runner.tasks.predicted import best
from gate_runner.tasks.training import Measured, hits, train_and_test
from vision_adapters.heads import seeded
from vision_adapters.losses import cross_entropy, symmetric_cross_entropy
from vision_adapters.rows import Rows
from vision_adapters.training import Scale

GALLERY = 64
"""GATE's: an image is matched with this many texts, and a text with this many images."""
_IN_GALLERIES = {
    "image_to_text": (False, 1), "text_to_image": (True, 1), "image_to_text@5": (False, 5), "text_to_image@5": (True, 5)
}  # fmt: skip
"""Metrics in galleries: whether texts look for images, and among how many best the right one counts."""
_WIDTH = 128
_MOST_SCALE = 100.0


class Projections(nn.Module):
    """Image and text side by side: unit vectors of both, and the scale of their cosines."""

    def __init__(self, image_dim: int, text_dim: int, width: int) -> None:
        super().__init__()
        self.image, self.text = nn.Linear(image_dim, width), nn.Linear(text_dim, width)
        self.log_scale = nn.Parameter(torch.tensor(float(np.log(1 / 0.07))))

    def forward(self, image: Tensor, texts: Tensor) -> Tensor:
        """``[n, d]`` and ``[n, t, e]`` to ``[n, 1 + t, width]``, images first, texts times the scale."""
        scale = self.log_scale.exp().clamp_max(_MOST_SCALE)
        texts = F.normalize(self.text(texts), dim=-1) * scale
        return torch.cat([F.normalize(self.image(image), dim=-1)[:, None], texts], dim=1)


def run(job: Job) -> Outcome:
    """Which text belongs to an image, and which image to a text.

    ``image_to_text`` and ``text_to_image`` are accuracies in galleries of 64 with one caption of each image, drawn by a
    fixed seed; ``i2t_r@k`` and ``t2i_r@k`` are recalls among all test images and all their captions, equal
    scores sharing their places.
    """
    per_image = len(job.data.train.texts or ()) // len(job.data.train)

    def inputs(name: SplitName, images: Rows, texts: Tensor) -> tuple[Rows, Rows]:
        if name != "train":
            return images, texts
        flat = texts.reshape(-1, 1, texts.shape[-1])  # every caption is a pair of its own
        return IndexedRows(images, torch.arange(len(flat)) // per_image), flat

    def loss(joint: Tensor, image: Tensor) -> Tensor:
        return symmetric_cross_entropy(joint[:, 0] @ joint[:, 1].T, image)

    def measure(joint: Tensor, split: Split) -> dict[str, np.ndarray]:
        return {**_galleries(joint, split), **_recalls(joint)}

    owners = torch.arange(len(job.data.train)).repeat_interleave(per_image)
    count = len(job.data.test)
    gallery = 1 / min(GALLERY, count)
    chance = {name: min(1.0, k * gallery) for name, (_, k) in _IN_GALLERIES.items()}
    for k in (1, 5, 10):
        chance |= {f"i2t_r@{k}": min(1.0, k / count), f"t2i_r@{k}": min(1.0, k / count)}
    every: dict[SplitName, Tensor] = {"train": owners, "test": torch.arange(len(job.data.test))}
    return _matched(job, inputs, loss, measure, chance, every, _nearest, _directions(lambda truth: truth))


def run_choice(job: Job) -> Outcome:
    """Which of a few captions is the picture's; and, with the right captions alone, the galleries of `run`."""
    choices = len(job.data.classes)

    def scores(joint: Tensor) -> Tensor:
        return torch.einsum("nw,ntw->nt", joint[:, 0], joint[:, 1:])

    def loss(joint: Tensor, right: Tensor) -> Tensor:
        return cross_entropy(scores(joint), right)

    def measure(joint: Tensor, split: Split) -> dict[str, np.ndarray]:
        right = joint[torch.arange(len(joint)), 1 + split.targets]
        paired = torch.stack([joint[:, 0], right], dim=1)
        return {"accuracy": hits(scores(joint), split.targets), **_galleries(paired, split)}

    def answer(joint: Tensor) -> np.ndarray:
        return best(scores(joint))

    gallery = 1 / min(GALLERY, len(job.data.test))
    chance = {name: min(1.0, k * gallery) for name, (_, k) in _IN_GALLERIES.items()} | {"accuracy": 1 / choices}
    targets: dict[SplitName, Tensor] = {"train": job.data.train.targets}

    def right(joint: Tensor, truth: Tensor) -> Tensor:
        return torch.stack([joint[:, 0], joint[torch.arange(len(joint)), 1 + truth]], dim=1)

    terms = _directions(lambda truth: torch.arange(len(truth)), right)
    return _matched(job, lambda _, images, texts: (images, texts), loss, measure, chance, targets, answer, terms)


def _directions(
    groups: Callable[[Tensor], Tensor], pairs: Callable[[Tensor, Tensor], Tensor] = lambda joint, _: joint
) -> dict[str, Loss]:
    """Cross-entropies in a batch of images with a text each, by who looks for whom.

    ``groups`` gives targets to numbers of images, ``pairs`` outputs and targets to images with their texts.
    """

    def direction(*, turned: bool) -> Loss:
        def loss(joint: Tensor, truth: Tensor) -> Tensor:
            chosen = pairs(joint, truth)
            scores = chosen[:, 0] @ chosen[:, 1].T
            owners = groups(truth)
            same = (owners[:, None] == owners[None, :]).to(scores.dtype)
            ranked = (scores.T if turned else scores).log_softmax(dim=1)
            return -(same / same.sum(dim=1, keepdim=True) * ranked).sum(dim=1).mean()

        return loss

    return {"image_to_text_loss": direction(turned=False), "text_to_image_loss": direction(turned=True)}


def _matched(
    job: Job,
    inputs: Callable[[SplitName, Rows, Tensor], tuple[Rows, Rows]],
    loss: Callable[[Tensor, Tensor], Tensor],
    measure: Callable[[Tensor, Split], dict[str, np.ndarray]],
    chance: dict[str, float],
    targets: dict[SplitName, Tensor],
    answer: Callable[[Tensor], np.ndarray],
    terms: Mapping[str, Loss],
) -> Outcome:
    backbone = make_backbone(job, "pooled")
    texts = {name: _text_features(job, getattr(job.data, name)) for name in ("train", "validation", "test")}
    scale = Scale.of(texts["train"])
    head = seeded(lambda: Projections(backbone.width, texts["train"].shape[-1], _WIDTH), job.seed)

    return train_and_test(
        job,
        backbone,
        head,
        loss,
        Measured(measure, chance),
        inputs=lambda of, name: inputs(name, of.rows(name), texts[name]),
        scales=(scale,),
        targets=targets,
        answer=answer,
        side_by_side=True,
        terms=terms,
    )


def _text_features(job: Job, split: Split) -> Float[Tensor, "n t e"]:
    """Of each sample's texts; an encoder without a text side gets the mean of fixed random vectors of the words."""
    different, rows = different_texts(split)
    try:
        features = embedded(job, different)
    except MissingCapabilityError:
        tokens = words(job, split, "")
        means = []
        for numbers in torch.split(torch.arange(len(different)), 4096):
            mask = tokens.mask[numbers][..., None]
            means.append((tokens.tokens[numbers] * mask).sum(dim=1) / mask.sum(dim=1).clamp_min(1))
        features = torch.cat(means)
    return features[rows].reshape(len(split), -1, features.shape[-1])


def _galleries(joint: Tensor, split: Split) -> dict[str, np.ndarray]:
    """Accuracies in galleries of 64 different images, each with one text; a short last one is filled from the first."""
    first = torch.from_numpy(_first_of_each(split))
    order = first[torch.randperm(len(first), generator=torch.Generator().manual_seed(0))]
    texts = joint.shape[1] - 1
    chosen = torch.randint(texts, (len(joint),), generator=torch.Generator().manual_seed(1))
    image, text = joint[:, 0], joint[torch.arange(len(joint)), 1 + chosen]
    size = min(GALLERY, len(order))
    outcomes = {name: np.full(len(joint), np.nan) for name in _IN_GALLERIES}
    for start in range(0, len(order), size):
        queries = order[start : start + size]
        members = torch.cat([queries, order[: size - len(queries)]])
        scores = image[members] @ text[members].T
        truth = torch.arange(len(queries))
        for name, (turned, k) in _IN_GALLERIES.items():
            ranked = scores.T if turned else scores
            outcomes[name][queries.numpy()] = hits(ranked[: len(queries)], truth, k)
    return outcomes


def _first_of_each(split: Split) -> np.ndarray:
    """The first sample of each different image."""
    keys = (
        split.images.files
        if isinstance(split.images, Pictures)
        else [pixels.numpy().tobytes() for pixels in split.images]
    )
    first: dict[object, int] = {}
    for index, key in enumerate(keys):
        first.setdefault(key, index)
    return np.array(list(first.values()))


def _nearest(joint: Tensor) -> np.ndarray:
    """Of each image, the most similar of all captions."""
    text = joint[:, 1:].reshape(-1, joint.shape[-1])
    return np.concatenate([best(images @ text.T) for images in torch.split(joint[:, 0], 256)])


def _recalls(joint: Tensor) -> dict[str, np.ndarray]:
    """Recalls among all images and all their texts; an image is found by any of its texts, and its texts count each."""
    count, texts = len(joint), joint.shape[1] - 1
    image, text = joint[:, 0], joint[:, 1:].reshape(count * texts, -1)
    sizes = (1, 5, 10)
    of_images, of_texts = [], []
    for start in range(0, count, 256):
        scores = image[start : start + 256] @ text.T
        owners = torch.arange(start, start + len(scores))
        own = owners[:, None] * texts + torch.arange(texts)
        of_images.append(_found_within(scores, own, sizes))
    for start in range(0, count * texts, 256):
        scores = text[start : start + 256] @ image.T
        own = torch.arange(start, start + len(scores))[:, None] // texts
        of_texts.append(_found_within(scores, own, sizes))
    i2t, t2i = torch.cat(of_images), torch.cat(of_texts).reshape(count, texts, -1).mean(dim=1)
    return {
        f"{direction}_r@{k}": recalls[:, column].numpy()
        for column, k in enumerate(sizes)
        for direction, recalls in (("i2t", i2t), ("t2i", t2i))
    }


def _found_within(
    scores: Float[Tensor, "n m"], own: Int[Tensor, "n o"], sizes: Sequence[int]
) -> Float[Tensor, "n sizes"]:
    """For each row, the chance that one of its own columns is among the k best, when equal scores stand in any order.

    Of ``g`` columns with the best own score, ``o`` are own; ``r`` places are left for them: 1 - C(g-o, r) / C(g, r).
    """
    mine = scores.gather(1, own)
    best = mine.max(dim=1, keepdim=True).values
    ahead, tied = (scores > best).sum(dim=1), (scores == best).sum(dim=1)
    wrong = tied - (mine == best).sum(dim=1)
    chances = []
    for k in sizes:
        missed = torch.ones(len(scores), dtype=torch.float64)
        for filled in range(k):
            factor = (wrong - filled).clamp_min(0) / (tied - filled).clamp_min(1)
            missed = torch.where(filled < k - ahead, missed * factor.double(), missed)
        chances.append(1 - missed)
    return torch.stack(chances, dim=1)
