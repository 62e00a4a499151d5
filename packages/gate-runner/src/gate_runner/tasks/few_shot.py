"""Few-shot classification: prototypes in a projected space that is trained on episodes of other classes.

Episodes are of so many ways and shots, or, as GATE means it, of many ways and shots, both drawn anew for each episode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn

from gate_data.data import Data, Split
from gate_data.request import SplitName
from gate_runner.errors import DataError
from gate_runner.setting_values import ensemble_in
from gate_runner.tasks.backbone import make_backbone
from gate_runner.tasks.drawing import pixels_of, shown
from gate_runner.tasks.fitting import fit_head
from gate_runner.tasks.job import Job, Outcome
from gate_runner.tasks.losses_on_test import alike, losses_on_test
from gate_runner.tasks.score import Score
from gate_runner.tasks.task import Drawing
from gate_runner.tasks.training import ensemble_rows, with_chance
from paired_scores.metrics import Score as Estimate
from paired_scores.metrics import score_outcomes
from vision_adapters.episodes import EpisodeHead, EpisodeRows, PrototypeHead, chosen_classes
from vision_adapters.fewshot import sample_episode
from vision_adapters.losses import IGNORED, cross_entropy
from vision_adapters.training import Backbone, EncoderWithHead
from vision_adapters.training.head import Inputs
from vision_adapters.training.predictions import most_averaged

_VALIDATION_SEED, TEST_SEED = 1, 2
_BATCH = 8
QUERIES, LEAST_SHOTS, MOST_SUPPORT = 5, 2, 250
MOST_OF_A_CLASS = 50
"""Shots and queries that one draw of a class takes stay below it."""
LEAST_SAMPLES = 5
_GATE_BATCH = 4


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
    size = min(ensemble_in(job.settings.recipe_fields), len(states) or 1)
    about = {**fitted.about("accuracy"), **rows}
    if job.settings.recipe != "gate":
        return scores[size], choices[size], about, ()
    with job.timed("test"):
        best = most_averaged(fitted.kept)[:size]
        together = max(1, job.predict_size // samples["test"][0].numel())  # episodes of as many images
        terms = {"loss": cross_entropy}
        losses = losses_on_test(
            job, fitted.module, best, test, answers["test"], terms, batch_size=together, blind=alike
        )
    return scores[size], choices[size], about, losses


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


class Episodes(NamedTuple):
    """Episodes of different sizes, padded: sample indices, shots first, and which places of a class are there."""

    samples: Int[Tensor, "e w m"]
    shots: Bool[Tensor, "e w m"]
    query: Bool[Tensor, "e w m"]

    @property
    def ways(self) -> Int[Tensor, " e"]:
        """Classes in each episode."""
        return self.query.any(dim=2).sum(dim=1)

    @property
    def answers(self) -> Int[Tensor, "e wm"]:
        """The class of each place that is a query, -100 elsewhere."""
        own = torch.arange(self.query.shape[1])[None, :, None].expand_as(self.query)
        return torch.where(self.query, own, IGNORED).flatten(1)


def gate_episodes(split: Split, name: str, low: int, high: int, count: int, seed: int) -> Episodes:
    """Episodes as GATE draws them, but no sample twice in one.

    Ways are uniform from ``low`` to ``high``, cut to the number of classes; that many classes are drawn with
    replacement. Queries are 5 for each, or half of the smallest class drawn. Shots are uniform from 2 to below
    ``min(samples, room, 50) - queries``, where ``room`` is what a support set of 250 leaves when every class to come
    takes one; a class without room for 2 is left out. A class that is drawn again adds its shots and queries to those
    that it has, as far as its samples reach.

    Source:
        GATE's released few-shot sets. A class drawn twice is drawn from all of its samples there, so that one can be
        shot and query at once.
    """
    members = [torch.nonzero(split.targets == label).flatten().numpy() for label in torch.unique(split.targets)]
    members = [own for own in members if len(own) >= LEAST_SAMPLES]
    if len(members) < low:
        raise DataError(
            f"few-shot with {low} ways or more needs {low} classes of {LEAST_SAMPLES} images in the {name} split; "
            f"it has {len(members)}"
        )
    return _padded([_episode(members, low, high, np.random.default_rng((seed, number))) for number in range(count)])


def _episode(
    members: list[np.ndarray], low: int, high: int, rng: np.random.Generator
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Shots and queries of each class of one episode, in the order in which classes were drawn."""
    ways = min(int(rng.integers(low, high + 1)), len(members))
    drawn = rng.integers(0, len(members), ways)
    queries = min(QUERIES, min(len(members[label]) for label in drawn) // 2)
    counts: dict[int, list[int]] = {}
    support = 0
    for position, label in enumerate(drawn.tolist()):
        room = MOST_SUPPORT - support - (ways - position)
        end = min(len(members[label]), room, MOST_OF_A_CLASS) - queries
        if end <= LEAST_SHOTS:
            continue
        shots = int(rng.integers(LEAST_SHOTS, end))
        support += shots
        sizes = counts.setdefault(label, [0, 0])
        sizes[0] += shots
        sizes[1] += queries
    episode = []
    for label, (shots, queries_of) in counts.items():
        own = rng.permutation(members[label])
        queries_of = min(queries_of, len(own) // 2)
        shots = min(shots, len(own) - queries_of)
        episode.append((own[:shots], own[shots : shots + queries_of]))
    return episode


def _padded(drawn: list[list[tuple[np.ndarray, np.ndarray]]]) -> Episodes:
    wide = max(len(episode) for episode in drawn)
    long = max(len(shots) + len(query) for episode in drawn for shots, query in episode)
    index = torch.zeros(len(drawn), wide, long, dtype=torch.long)
    shots, query = (torch.zeros(len(drawn), wide, long, dtype=torch.bool) for _ in range(2))
    for row, episode in enumerate(drawn):
        for class_index, (first, second) in enumerate(episode):
            index[row, class_index, : len(first)] = torch.from_numpy(first)
            index[row, class_index, len(first) : len(first) + len(second)] = torch.from_numpy(second)
            shots[row, class_index, : len(first)] = True
            query[row, class_index, len(first) : len(first) + len(second)] = True
    return Episodes(index, shots, query)


def run_gate(job: Job) -> Outcome:
    """Accuracy over test episodes, whose classes no training saw; the interval resamples episodes.

    Chance is each episode's own, 1 over its ways, and the mean of these.
    """
    low, high = (int(job.training[key]) for key in ("least_ways", "most_ways"))
    backbone = make_backbone(job, "pooled")
    episodes = {name: gate_episodes(split, name, low, high, *drawn) for name, split, *drawn in drawn_splits(job)}
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
    episodes = gate_episodes(data.test, "test", low, high, index + 1, TEST_SEED)
    first = episodes.samples[index, : min(8, int(episodes.ways[index])), 0]
    pixels = np.concatenate([shown(data.test.images[int(sample)]) for sample in first], axis=1)
    return Drawing(pixels, f"an episode of {int(episodes.ways[index])} classes, one shot of each of the first")
