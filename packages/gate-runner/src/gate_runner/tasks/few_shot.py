"""Few-shot classification: prototypes in a projected space that is trained on episodes of other classes.

Episodes are of so many ways and shots, or, as GATE means it, of many ways and shots, both drawn anew for each episode.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor, nn

from gate_data.data import Data, Split
from gate_data.request import SplitName
from gate_runner.errors import DataError
from gate_runner.settings.values import ensemble_in
from gate_runner.tasks.backbone import make_backbone
from gate_runner.tasks.drawing import pixels_of, shown
from gate_runner.tasks.fitting import fit_head
from gate_runner.tasks.job import Job, Outcome, Score
from gate_runner.tasks.losses_on_test import alike, losses_of
from gate_runner.tasks.scoring import with_chance
from gate_runner.tasks.task import Drawing
from gate_runner.tasks.training import ensemble_rows
from paired_scores.metrics import Score as Estimate
from paired_scores.metrics import score_outcomes
from vision_adapters.episodes import EncodedEpisodes, EpisodeHead, EpisodeRows, PrototypeHead
from vision_adapters.fewshot import Episodes, episode_indices, gate_episodes
from vision_adapters.losses import IGNORED, cross_entropy
from vision_adapters.training import Backbone
from vision_adapters.training.head import Inputs
from vision_adapters.training.predictions import most_averaged

_VALIDATION_SEED, TEST_SEED = 1, 2
_BATCH = 8
_GATE_BATCH = 4


def run(job: Job) -> Outcome:
    """Accuracy over test episodes, whose classes no training saw; the interval resamples episodes. Chance: 1 / ways."""
    ways, shots, queries = (int(job.training[key]) for key in ("ways", "shots", "queries"))
    backbone = make_backbone(job, "pooled")
    indices = {
        name: _episode_indices(split, name, ways, shots, queries, count, seed)
        for name, split, count, seed in drawn_splits(job)
    }
    own = torch.arange(ways).repeat_interleave(queries)
    answers = {name: own.expand(len(index), -1) for name, index in indices.items()}
    head = EpisodeHead(backbone.width, ways, shots)
    estimate, choices, training, losses = train_on_episodes(
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
    return Outcome((with_chance(estimate, 1 / ways), *losses), estimate.outcomes, {**about, **training}, predicted)


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
) -> tuple[Estimate, Int[Tensor, "e q"], dict[str, Any], tuple[Score, ...]]:
    """Train a head on episodes: its accuracy on those of the test split, the classes it chose, what a result says.

    Last come losses on the test split, which GATE's recipe scores.

    ``answers`` are -100 at places that are not scored; ``further`` are inputs of the head, a row per episode.
    """

    def inputs(of: Backbone, name: SplitName) -> Inputs:
        return EpisodeRows(of.rows(name), samples[name]), *(rows[name] for rows in further)

    encoded = partial(EncodedEpisodes, images=job.predict_size)

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
        lambda module, held: float(accuracies(encoded(module, held).chosen(at_once)[1], "validation").mean()),
        "higher",
        inputs=inputs,
        scales=[None] * len(further),
        own={"lr": 1e-3, "steps": steps, "batch_size": batch_size, "validate_every": max(1, steps // 6)},
    )
    with job.timed("test"):
        states = [checkpoint.state for checkpoint in most_averaged(fitted.kept)] if tuned else []
        tested = encoded(fitted.module, test, states=states)
        choices = tested.chosen(at_once)
        scores = {
            size: score_outcomes("accuracy", accuracies(values, "test"), seed=job.seed)
            for size, values in choices.items()
        }
    rows = {"ensembles": ensemble_rows("accuracy", scores)} if tuned else {}
    size = min(ensemble_in(job.settings.recipe_fields), len(states) or 1)
    about = {**fitted.about("accuracy"), **rows}
    if job.settings.recipe != "gate":
        return scores[size], choices[size], about, ()
    with job.timed("test"):
        together = max(1, job.predict_size // samples["test"][0].numel())  # episodes of as many images
        outputs = (batch[size] for batch in tested.scores(together))
        losses = losses_of(job, outputs, answers["test"], {"loss": cross_entropy}, blind=alike)
    return scores[size], choices[size], about, losses


@contextmanager
def _naming(split: str) -> Iterator[None]:
    """Report what a split lacks as an error of the data."""
    try:
        yield
    except ValueError as error:
        raise DataError(f"few-shot, {split} split: {error} (a larger --limit?)") from error


def _episode_indices(
    split: Split, name: str, ways: int, shots: int, queries: int, count: int, seed: int
) -> Int[Tensor, "e w m"]:
    with _naming(name):
        return episode_indices(split.targets, ways=ways, shots=shots, queries=queries, count=count, seed=seed)


def _gate_episodes(split: Split, name: str, low: int, high: int, count: int, seed: int) -> Episodes:
    with _naming(name):
        return gate_episodes(split.targets, low=low, high=high, count=count, seed=seed)


def draw(data: Data[Tensor], training: Mapping[str, Any], index: int) -> Drawing:
    """An episode as an image: a class per row, its shots first."""
    ways, shots, queries = (int(training[key]) for key in ("ways", "shots", "queries"))
    test = data.test
    drawn = _episode_indices(test, "test", ways, shots, queries, index + 1, TEST_SEED)[index]
    rows = [np.concatenate([pixels_of(test.images[int(i)], 32) for i in episode], axis=1) for episode in drawn]
    caption = f"an episode: a class per row, from the first, its shot{'s' * (shots > 1)} on the left"
    return Drawing(np.concatenate(rows, axis=0), caption)


def run_gate(job: Job) -> Outcome:
    """Accuracy over test episodes, whose classes no training saw; the interval resamples episodes.

    Chance is each episode's own, 1 over its ways, and the mean of these.
    """
    low, high = (int(job.training[key]) for key in ("least_ways", "most_ways"))
    backbone = make_backbone(job, "pooled")
    episodes = {name: _gate_episodes(split, name, low, high, *drawn) for name, split, *drawn in drawn_splits(job)}
    estimate, choices, training, losses = train_on_episodes(
        job,
        backbone,
        PrototypeHead(backbone.width),
        {name: own.samples for name, own in episodes.items()},
        {name: own.answers for name, own in episodes.items()},
        further=[{name: own.shots for name, own in episodes.items()}],
        batch_size=_GATE_BATCH,
        at_once=_GATE_BATCH,
    )
    test = episodes["test"]
    ways = test.ways.double()
    about = {
        "least_ways": low,
        "most_ways": int(ways.max()),
        "mean_shots": float(test.shots.sum() / ways.sum()),
        "test_episodes": len(estimate.outcomes),
    }
    predicted = torch.where(test.query, choices.view_as(test.query), -1).to(torch.int16).numpy()
    score = with_chance(estimate, float((1 / ways).mean()))
    return Outcome((score, *losses), estimate.outcomes, {**about, **training}, predicted)


def draw_gate(data: Data[Tensor], training: Mapping[str, Any], index: int) -> Drawing:
    """A shot of each of an episode's first classes."""
    low, high = int(training["least_ways"]), int(training["most_ways"])
    episodes = _gate_episodes(data.test, "test", low, high, index + 1, TEST_SEED)
    first = episodes.samples[index, : min(8, int(episodes.ways[index])), 0]
    pixels = np.concatenate([shown(data.test.images[int(sample)]) for sample in first], axis=1)
    return Drawing(pixels, f"an episode of {int(episodes.ways[index])} classes, one shot of each of the first")
