"""Images and texts in one space, by two trained projections: galleries, retrieval, and the choice among captions."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from gate_data.data import Split
from gate_data.pictures import Pictures
from gate_data.request import SplitName
from gate_runner.errors import MissingCapabilityError
from gate_runner.tasks.backbone import make_backbone
from gate_runner.tasks.features import different_texts, embedded, words
from gate_runner.tasks.fitting import Loss
from gate_runner.tasks.job import Job, Outcome
from gate_runner.tasks.predicted import best
from gate_runner.tasks.scoring import hits
from gate_runner.tasks.training import Measured, train_and_test
from vision_adapters.heads import Projections, seeded
from vision_adapters.losses import cross_entropy, grouped_cross_entropy, symmetric_cross_entropy
from vision_adapters.retrieval import chance_of_recall, gallery_chances, gallery_outcomes, recalls
from vision_adapters.rows import Rows
from vision_adapters.training import Scale
from vision_features.features import IndexedRows

_WIDTH = 128


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
        images, texts = joint[:, 0], joint[:, 1:]
        return {**gallery_outcomes(images, texts, _first_of_each(split)), **recalls(images, texts)}

    owners = torch.arange(len(job.data.train)).repeat_interleave(per_image)
    count = len(job.data.test)
    texts = len(job.data.test.texts or ()) // count
    chance = gallery_chances(count)
    for k in (1, 5, 10):
        chance |= {f"i2t_r@{k}": chance_of_recall(count * texts, texts, k), f"t2i_r@{k}": min(1.0, k / count)}
    every: dict[SplitName, Tensor] = {"train": owners, "test": torch.arange(len(job.data.test))}
    return _matched(job, inputs, loss, measure, chance, every, _nearest, _directions(lambda truth: truth))


def run_choice(job: Job) -> Outcome:
    """Which of a few captions is the image's; and, with the right captions alone, the galleries of `run`."""
    choices = len(job.data.classes)

    def scores(joint: Tensor) -> Tensor:
        return torch.einsum("nw,ntw->nt", joint[:, 0], joint[:, 1:])

    def loss(joint: Tensor, right: Tensor) -> Tensor:
        return cross_entropy(scores(joint), right)

    def measure(joint: Tensor, split: Split) -> dict[str, np.ndarray]:
        right = joint[torch.arange(len(joint)), 1 + split.targets]
        galleries = gallery_outcomes(joint[:, 0], right[:, None], _first_of_each(split))
        return {"accuracy": hits(scores(joint), split.targets), **galleries}

    def answer(joint: Tensor) -> np.ndarray:
        return best(scores(joint))

    chance = {**gallery_chances(len(job.data.test)), "accuracy": 1 / choices}
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
            return grouped_cross_entropy(scores.T if turned else scores, groups(truth))

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
