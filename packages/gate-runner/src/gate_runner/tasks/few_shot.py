"""Few-shot classification: prototypes in a projected space that is trained on episodes of other classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from gate_data.data import Data, Split
from gate_data.request import SplitName
from gate_runner.errors import DataError
from gate_runner.tasks.backbone import make_backbone
from gate_runner.tasks.drawing import pixels_of
from gate_runner.tasks.episodes import EpisodeRows, chosen_classes, tested
from gate_runner.tasks.fitting import fit_head, recipe_of
from gate_runner.tasks.job import Job, Outcome
from gate_runner.tasks.score import Score
from gate_runner.tasks.task import Drawing
from vision_adapters.fewshot import sample_episode
from vision_adapters.losses import cross_entropy
from vision_adapters.metrics import METRICS

_VALIDATION_SEED, TEST_SEED = 1, 2
_BATCH = 8


class EpisodeHead(nn.Module):
    """Prototypes of a whole batch of episodes, in a linear projection that starts as the identity.

    Untrained, it scores exactly as prototypes on the features themselves.

    Args:
        dim: channels of the features.
        ways: classes in an episode.
        shots: labelled samples per class.
    """

    def __init__(self, dim: int, ways: int, shots: int) -> None:
        super().__init__()
        self.project = nn.Linear(dim, dim, bias=False)
        nn.init.eye_(self.project.weight)
        self.log_scale = nn.Parameter(torch.tensor(-float(np.log(dim))))
        self.ways, self.shots = ways, shots

    def forward(self, samples: Float[Tensor, "e w m d"]) -> Float[Tensor, "e ways wq"]:
        """Scores of each class for each query; an episode holds, for each class, its shots and then its queries."""
        projected = self.project(samples)
        prototypes = projected[:, :, : self.shots].mean(dim=2)
        queries = projected[:, :, self.shots :].flatten(1, 2)
        squared = torch.cdist(queries, prototypes, compute_mode="donot_use_mm_for_euclid_dist").square()
        return -(squared * self.log_scale.exp()).transpose(1, 2)


def run(job: Job) -> Outcome:
    """Accuracy over test episodes, whose classes no training saw; the interval resamples episodes. Chance: 1 / ways."""
    ways, shots, queries = (int(job.training[key]) for key in ("ways", "shots", "queries"))
    data = job.data
    backbone = make_backbone(job, "pooled")
    counted: tuple[tuple[SplitName, Split, int, int], ...] = (
        ("train", data.train, int(job.training["episodes"]), 1000 + job.seed),
        ("validation", data.validation, 100, _VALIDATION_SEED),
        ("test", data.test, int(job.training["episodes"]), TEST_SEED),
    )
    episodes = {
        name: EpisodeRows(backbone.rows(name), episode_indices(split, name, ways, shots, queries, count, seed))
        for name, split, count, seed in counted
    }
    answers = torch.arange(ways).repeat_interleave(queries)
    head = EpisodeHead(backbone.width, ways, shots)
    module = backbone.attach(head)

    def chosen(name: SplitName, states: Sequence[Mapping[str, Tensor]] = ()) -> dict[int, Int[Tensor, "e wq"]]:
        size = job.predict_size
        return chosen_classes(module, episodes[name], images=size, at_once=size, states=states)

    def accuracies(choices: Int[Tensor, "e wq"]) -> np.ndarray:
        return (choices == answers).double().mean(dim=1).numpy()

    steps = int(job.training["steps"])
    recipe = recipe_of(job, lr=1e-3, steps=steps, batch_size=_BATCH, validate_every=max(1, steps // 6))
    fitted = fit_head(
        job,
        module,
        (episodes["train"],),
        answers.expand(len(episodes["train"]), -1),
        cross_entropy,
        recipe,
        lambda _: float(accuracies(chosen("validation")[1]).mean()),
        "higher",
    )
    found, outcomes, choices, rows = tested(job, fitted, lambda states: chosen("test", states), accuracies)
    score = Score("accuracy", METRICS["accuracy"].direction, found.value, found.low, found.high, 1 / ways)
    training = {
        "head_parameters": sum(p.numel() for p in head.parameters()),
        "ways": ways,
        "shots": shots,
        "queries": queries,
        "test_episodes": len(episodes["test"]),
        **fitted.about("accuracy"),
        **rows,
    }
    return Outcome((score,), outcomes, training, choices.view(-1, ways, queries).to(torch.int16).numpy())


def episode_indices(
    split: Split, name: str, ways: int, shots: int, queries: int, count: int, seed: int
) -> Int[Tensor, "e w m"]:
    """Sample indices of episodes: for each class its shots, then its queries.

    Args:
        split: what is drawn from.
        name: what an error calls it.
        ways: classes in an episode.
        shots: labelled samples per class.
        queries: samples per class that are asked for.
        count: number of episodes; the first ones do not depend on it.
        seed: of the drawing.

    Returns:
        Indices ``[episode, class, sample]``.

    Raises:
        DataError: too few classes with enough samples.
    """
    sizes = torch.bincount(split.targets)
    able = int((sizes >= shots + queries).sum())
    if able < ways:
        raise DataError(
            f"few-shot with {ways} ways needs {ways} classes of {shots + queries} images in the {name} split; "
            f"{able} of its {int((sizes > 0).sum())} classes have them (a larger --limit?)"
        )
    generator = torch.Generator().manual_seed(seed)
    rows = []
    for _ in range(count):
        drawn = sample_episode(split.targets, ways=ways, shots=shots, queries=queries, generator=generator)
        support = drawn.support.view(ways, shots)
        asked = drawn.query.view(ways, queries)
        rows.append(torch.cat([support, asked], dim=1))
    return torch.stack(rows)


def draw(data: Data[Tensor], training: Mapping[str, Any], index: int) -> Drawing:
    """An episode as a picture: a class per row, its shots first."""
    ways, shots, queries = (int(training[key]) for key in ("ways", "shots", "queries"))
    test = data.test
    drawn = episode_indices(test, "test", ways, shots, queries, index + 1, TEST_SEED)[index]
    rows = [np.concatenate([pixels_of(test.images[int(i)], 32) for i in one], axis=1) for one in drawn]
    said = f"an episode: a class per row, from the first, its shot{'s' * (shots > 1)} on the left"
    return Drawing(np.concatenate(rows, axis=0), said)


def caution(training: Mapping[str, Any]) -> str:
    """How the episodes differ from the paper's."""
    ways, shots = training.get("ways"), training.get("shots")
    return f"few-shot episodes here have {ways} ways and {shots} shots, the paper's 5 to 50 and 2 to 15"
