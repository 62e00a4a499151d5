"""Few-shot classification: prototypes in a projected space that is trained on episodes of other classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor, nn

from gate_data.data import Data, Split
from gate_data.request import SplitName
from gate_runner.errors import DataError
from gate_runner.tasks.backbone import make_backbone
from gate_runner.tasks.drawing import pixels_of
from gate_runner.tasks.fitting import fit_head
from gate_runner.tasks.job import Job, Outcome
from gate_runner.tasks.task import Drawing
from gate_runner.tasks.training import ensemble_rows, with_chance
from vision_adapters.episodes import EpisodeHead, EpisodeRows, chosen_classes
from vision_adapters.fewshot import sample_episode
from vision_adapters.losses import IGNORED, cross_entropy
from vision_adapters.metrics import Score as Estimate
from vision_adapters.metrics import score_outcomes
from vision_adapters.training import Backbone, EncoderWithHead
from vision_adapters.training.head import Inputs
from vision_adapters.training.predictions import most_averaged

_VALIDATION_SEED, TEST_SEED = 1, 2
_BATCH = 8


def run(job: Job) -> Outcome:
    """Accuracy over test episodes, whose classes no training saw; the interval resamples episodes. Chance: 1 / ways."""
    ways, shots, queries = (int(job.training[key]) for key in ("ways", "shots", "queries"))
    backbone = make_backbone(job, "pooled")
    indices = {
        name: episode_indices(split, name, ways, shots, queries, count, seed)
        for name, split, count, seed in drawn_splits(job)
    }
    own = torch.arange(ways).repeat_interleave(queries)
    answers = {name: own.expand(len(index), -1) for name, index in indices.items()}
    head = EpisodeHead(backbone.width, ways, shots)
    estimate, choices, training = train_on_episodes(
        job, backbone, head, indices, answers, batch_size=_BATCH, at_once=job.predict_size
    )
    about = {
        "head_parameters": sum(p.numel() for p in head.parameters()),
        "ways": ways,
        "shots": shots,
        "queries": queries,
        "test_episodes": len(indices["test"]),
    }
    predicted = choices.view(-1, ways, queries).to(torch.int16).numpy()
    return Outcome((with_chance(estimate, 1 / ways),), estimate.outcomes, {**about, **training}, predicted)


def drawn_splits(job: Job) -> list[tuple[SplitName, Split, int, int]]:
    """Each split with the number of its episodes and the seed that draws them."""
    data, count = job.data, int(job.training["episodes"])
    return [
        ("train", data.train, count, 1000 + job.seed),
        ("validation", data.validation, 100, _VALIDATION_SEED),
        ("test", data.test, count, TEST_SEED),
    ]


def train_on_episodes(
    job: Job,
    backbone: Backbone,
    head: nn.Module,
    samples: Mapping[SplitName, Int[Tensor, "e w m"]],
    answers: Mapping[SplitName, Int[Tensor, "e q"]],
    *,
    further: Sequence[Mapping[SplitName, Tensor]] = (),
    batch_size: int,
    at_once: int,
) -> tuple[Estimate, Int[Tensor, "e q"], dict[str, Any]]:
    """Train a head on episodes: its accuracy on those of the test split, the classes it chose, what a result says.

    ``answers`` are -100 at places that are not scored; ``further`` are inputs of the head, a row per episode.
    """

    def inputs(of: Backbone, name: SplitName) -> Inputs:
        return EpisodeRows(of.rows(name), samples[name]), *(rows[name] for rows in further)

    def chosen(module: EncoderWithHead, episodes: Inputs, states: Sequence[Mapping[str, Tensor]] = ()) -> Any:
        return chosen_classes(module, episodes, images=job.predict_size, at_once=at_once, states=states)

    def accuracies(choices: Int[Tensor, "e q"], name: SplitName) -> np.ndarray:
        counts = answers[name] != IGNORED
        right = (choices == answers[name]) & counts
        return (right.sum(dim=1).double() / counts.sum(dim=1)).numpy()

    steps, tuned, test = int(job.training["steps"]), job.settings.tune != "frozen", inputs(backbone, "test")
    fitted = fit_head(
        job,
        backbone,
        head,
        answers["train"],
        cross_entropy,
        lambda module, held: float(accuracies(chosen(module, held)[1], "validation").mean()),
        "higher",
        inputs=inputs,
        scales=[None] * len(further),
        own={"lr": 1e-3, "steps": steps, "batch_size": batch_size, "validate_every": max(1, steps // 6)},
    )
    with job.timed("test"):
        states = [checkpoint.state for checkpoint in most_averaged(fitted.kept)] if tuned else []
        choices = chosen(fitted.module, test, states)
        scores = {
            size: score_outcomes("accuracy", accuracies(values, "test"), seed=job.seed)
            for size, values in choices.items()
        }
    rows = {"ensembles": ensemble_rows("accuracy", scores)} if tuned else {}
    return scores[1], choices[1], {**fitted.about("accuracy"), **rows}


def episode_indices(
    split: Split, name: str, ways: int, shots: int, queries: int, count: int, seed: int
) -> Int[Tensor, "e w m"]:
    """Sample indices of episodes: for each class its shots, then its queries."""
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
        query = drawn.query.view(ways, queries)
        rows.append(torch.cat([support, query], dim=1))
    return torch.stack(rows)


def draw(data: Data[Tensor], training: Mapping[str, Any], index: int) -> Drawing:
    """An episode as a picture: a class per row, its shots first."""
    ways, shots, queries = (int(training[key]) for key in ("ways", "shots", "queries"))
    test = data.test
    drawn = episode_indices(test, "test", ways, shots, queries, index + 1, TEST_SEED)[index]
    rows = [np.concatenate([pixels_of(test.images[int(i)], 32) for i in episode], axis=1) for episode in drawn]
    caption = f"an episode: a class per row, from the first, its shot{'s' * (shots > 1)} on the left"
    return Drawing(np.concatenate(rows, axis=0), caption)
