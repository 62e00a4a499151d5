"""Few-shot classification: prototypes in a projected space that is trained on episodes of other classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from gate_data.data import Data, Split
from gate_data.request import SplitName
from gate_runner.errors import DataError
from gate_runner.tasks.after_training import Fitted
from gate_runner.tasks.backbone import make_backbone
from gate_runner.tasks.drawing import pixels_of
from gate_runner.tasks.fitting import fit_head
from gate_runner.tasks.job import Job, Outcome
from gate_runner.tasks.score import Score
from gate_runner.tasks.task import Drawing
from gate_runner.tasks.training import ensemble_rows
from vision_adapters.episodes import EpisodeHead, EpisodeRows, chosen_classes
from vision_adapters.fewshot import sample_episode
from vision_adapters.losses import cross_entropy
from vision_adapters.metrics import METRICS, score_outcomes
from vision_adapters.metrics import Score as Estimate
from vision_adapters.training import Backbone, EncoderWithHead
from vision_adapters.training.head import Inputs
from vision_adapters.training.predictions import most_averaged

States = Sequence[Mapping[str, Tensor]]
"""Of checkpoints, the best first."""

_VALIDATION_SEED, TEST_SEED = 1, 2
_BATCH = 8


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
    indices = {name: episode_indices(split, name, ways, shots, queries, *drawn) for name, split, *drawn in counted}
    answers = torch.arange(ways).repeat_interleave(queries)
    head = EpisodeHead(backbone.width, ways, shots)

    def inputs(of: Backbone, name: SplitName) -> Inputs:
        return (EpisodeRows(of.rows(name), indices[name]),)

    test = inputs(backbone, "test")

    def chosen(module: EncoderWithHead, episodes: Inputs, states: States = ()) -> dict[int, Int[Tensor, "e wq"]]:
        return chosen_classes(module, episodes, images=job.predict_size, at_once=job.predict_size, states=states)

    def accuracies(choices: Int[Tensor, "e wq"]) -> np.ndarray:
        return (choices == answers).double().mean(dim=1).numpy()

    steps = int(job.training["steps"])
    fitted = fit_head(
        job,
        backbone,
        head,
        answers.expand(len(indices["train"]), -1),
        cross_entropy,
        lambda module, held: float(accuracies(chosen(module, held)[1]).mean()),
        "higher",
        inputs=inputs,
        own={"lr": 1e-3, "steps": steps, "batch_size": _BATCH, "validate_every": max(1, steps // 6)},
    )
    mean, outcomes, choices, rows = tested(job, fitted, lambda states: chosen(fitted.module, test, states), accuracies)
    score = Score("accuracy", METRICS["accuracy"].direction, mean.value, mean.low, mean.high, 1 / ways)
    training = {
        "head_parameters": sum(p.numel() for p in head.parameters()),
        "ways": ways,
        "shots": shots,
        "queries": queries,
        "test_episodes": len(indices["test"]),
        **fitted.about("accuracy"),
        **rows,
    }
    return Outcome((score,), outcomes, training, choices.view(-1, ways, queries).to(torch.int16).numpy())


def tested(
    job: Job,
    fitted: Fitted,
    chosen: Callable[[States], Mapping[int, Tensor]],
    accuracies: Callable[[Tensor], np.ndarray],
) -> tuple[Estimate, np.ndarray, Tensor, dict[str, Any]]:
    """Accuracy on the test episodes, with the weights that validated best and, of a trained encoder, of ensembles.

    Args:
        job: whose training it was.
        fitted: how it went.
        chosen: the classes that `chosen_classes` finds with given checkpoints.
        accuracies: of such classes, one per episode.
    """
    tuned = job.settings.tune != "frozen"
    with job.timed("test"):
        choices = chosen([checkpoint.state for checkpoint in most_averaged(fitted.kept)] if tuned else [])
        by_size = {size: accuracies(values) for size, values in choices.items()}
        scores = {size: score_outcomes("accuracy", values, seed=job.seed) for size, values in by_size.items()}
    rows = {"ensembles": ensemble_rows("accuracy", scores)} if tuned else {}
    return scores[1], by_size[1], choices[1], rows


def episode_indices(
    split: Split, name: str, ways: int, shots: int, queries: int, count: int, seed: int
) -> Int[Tensor, "e w m"]:
    """Sample indices of episodes: for each class its shots, then its queries.

    Returns:
        Indices ``[episode, class, sample]``.
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


def caution(training: Mapping[str, Any]) -> str:
    """How the episodes differ from the paper's."""
    ways, shots = training.get("ways"), training.get("shots")
    return f"few-shot episodes here have {ways} ways and {shots} shots, the paper's 5 to 50 and 2 to 15"
