"""Benchmarks of image classification without a probe: nearest neighbours, retrieval, clusters; nothing is trained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F

from gate_runner.errors import DataError
from gate_runner.tasks.features import pooled
from gate_runner.tasks.job import Job, Outcome
from gate_runner.tasks.predicted import best
from gate_runner.tasks.scoring import mean_of, most_frequent, outcome_of, with_chance
from vision_adapters.clusters import agreement, cluster, matched_clusters
from vision_adapters.neighbours import choose_neighbours, neighbour_votes, rank_gallery

if TYPE_CHECKING:
    from gate_data.data import Split

_MOST_NEIGHBOURS = 200


def knn(job: Job) -> Outcome:
    """Votes of the nearest labelled images by cosine, searched by FAISS; how many vote is chosen on validation.

    The chosen number then votes among training and validation images together, as a solved probe is fitted on both.
    Chance: the training split's most frequent classes.
    """
    data = job.data
    train, held, test = (_unit(job, getattr(data, name), name) for name in ("train", "validation", "test"))
    with job.timed("train"):
        near = _nearest(held, train, data.train.targets)
        choice = choose_neighbours(near[0], near[1], data.validation.targets.numpy(), len(data.classes))
    metric = job.benchmark.metrics[0]
    tried = [{"k": k, metric if metric.startswith("acc") else "acc@1": value} for k, value in choice.accuracies.items()]
    with job.timed("test"):
        labels = torch.cat([data.train.targets, data.validation.targets])
        named, similar = _nearest(test, np.concatenate([train, held]), labels, choice.k)
        votes = torch.from_numpy(neighbour_votes(named, similar, len(data.classes)))
        return outcome_of(job, votes, most_frequent(job), {"steps": 0, "k": choice.k, "tried": tried}, best)


def retrieval(job: Job) -> Outcome:
    """Each test image asks for the others of its class, or of its pair, among all other test images.

    Chance: a random order. The interval resamples queries; one without another image of its own does not count.
    """
    labels = job.data.test.targets.numpy()
    features = _unit(job, job.data.test, "test")
    with job.timed("test"):
        try:
            ranking = rank_gallery(features, features, labels, labels, same=True, seed=job.seed)
        except ValueError as error:
            raise DataError(f"{job.benchmark.id}: {error}") from error
        columns = {"map": (ranking.average_precision, ranking.chance_precision)}
        for column, k in enumerate((1, 5, 10)):
            columns[f"recall@{k}"] = (ranking.recall[:, column], float(ranking.chance_recall[column]))
        scores = [
            with_chance(mean_of(name, outcomes, "higher", job.seed), chance)
            for name in job.benchmark.metrics
            for outcomes, chance in [columns[name]]
        ]
    lonely = int(np.isnan(ranking.average_precision).sum())
    training = {"steps": 0, "gallery": len(labels) - 1, "queries_without_relevant": lonely}
    return Outcome(tuple(scores), columns[job.benchmark.metrics[0]][0], training)


def clustering(job: Job) -> Outcome:
    """As many clusters of the test images as they have classes, by k-means; how far they agree with the classes.

    Chance: one cluster for all.
    """
    labels = job.data.test.targets.numpy()
    features = _unit(job, job.data.test, "test")
    with job.timed("test"):
        clusters = matched_clusters(cluster(features, len(np.unique(labels)), seed=job.seed), labels)
        judged = [agreement(name, clusters, labels, seed=job.seed) for name in job.benchmark.metrics]
        scores = tuple(with_chance(estimate, 0.0) for estimate in judged)
    training = {"steps": 0, "clusters": len(np.unique(clusters)), "accuracy": float((clusters == labels).mean())}
    return Outcome(scores, judged[0].outcomes, training, clusters.astype(np.int32))


def _unit(job: Job, split: Split, name: str) -> np.ndarray:
    """Pooled features of length 1."""
    return F.normalize(pooled(job, split, name)[:].float(), dim=-1).numpy()


def _nearest(queries: np.ndarray, rows: np.ndarray, labels: torch.Tensor, k: int | None = None) -> Any:
    """Classes and cosines of the nearest rows of each query."""
    from oven_retrieval.vectors import ArrayRows, exact_search

    nearest = exact_search(queries, ArrayRows(rows), min(k or _MOST_NEIGHBOURS, len(rows)))
    return labels.numpy()[nearest.rows], nearest.scores
