"""Images and captions in the space of the encoder's own: which is found by which, nothing trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch.nn.functional as F
from jaxtyping import Float

from gate_data.data import Split
from gate_data.ragged import Outcomes, Ragged
from gate_runner.errors import DataError
from gate_runner.tasks.features import captions_encoded, pooled
from gate_runner.tasks.job import Job, Outcome, Score
from gate_runner.tasks.scoring import mean_of
from gate_runner.tasks.task import Details
from paired_scores.clusters import cluster_interval, median_interval, weighted_median
from vision_adapters.retrieval import FirstRight, chance_of_rank, chance_of_recall, first_right

KS = (1, 5, 10)
_DIRECTIONS = {"i2t": "image to text", "t2i": "text to image"}
_HEADS = ["direction", "measure", "score", "95 % CI", "chance", "queries", "searched"]
_READING = (
    "A query counts as right if any right answer is among the first k of all answers. Each caption is a query of its "
    "own; a caption that several images have is searched once, and each of these images is right. Intervals draw "
    "images, with all their captions."
)


def run(job: Job) -> Outcome:
    """Recall at 1, 5 and 10 and the median rank, of captions for each image and of images for each caption.

    Cosines of the encoder's own features rank all captions, or all images, of the test split. Equal scores share their
    places. Chance is a random order.

    Raises:
        DataError: fewer than two images, or one caption for all.
    """
    test = job.data.test
    captions, owned = captions_of(test)
    if len(test) < 2 or len(captions) < 2:
        have = f"{len(test)} image{'s' * (len(test) != 1)} with {len(captions)} different caption"
        raise DataError(
            f"{job.benchmark.id}: {have}{'s' * (len(captions) != 1)}; expected at least two of both, or nothing is "
            "searched"
        )
    images = F.normalize(pooled(job, test, "test")[:].float(), dim=-1)
    texts = F.normalize(captions_encoded(job, captions)[:].float(), dim=-1)
    owners: list[list[int]] = [[] for _ in captions]
    for image, rows in enumerate(owned):
        for row in dict.fromkeys(rows):
            owners[row].append(image)
    with job.timed("test"):
        best = (images @ texts.T).argmax(dim=1).int().numpy()
        by_image = first_right(images, texts, owned, KS)
        by_text = first_right(texts, images, owners, KS)
        lengths = np.array([len(rows) for rows in owned])
        caption_rows = np.concatenate(owned).astype(np.int64)  # each caption of each image is a query
        by_caption = FirstRight(by_text.recall[caption_rows], by_text.rank[caption_rows])
        sizes = [len(set(rows)) for rows in owned], [len(owners[row]) for row in caption_rows]
        scored = {
            **_scored("i2t", by_image, np.ones(len(test), np.int64), len(captions), sizes[0], job.seed),
            **_scored("t2i", by_caption, lengths, len(test), sizes[1], job.seed),
        }
    chosen = [scored[metric] for metric in job.benchmark.metrics]
    training = {
        "steps": 0,
        "images": len(test),
        "captions": len(caption_rows),
        "different_captions": len(captions),
        "captions_each": [int(lengths.min()), int(lengths.max())],
        "captions_of_several": sum(len(rows) > 1 for rows in owners),
        "measures": [[name, score.value, score.low, score.high, score.chance] for name, (score, _) in scored.items()],
    }
    return Outcome(tuple(score for score, _ in chosen), chosen[0][1], training, _place_in(test, captions)[best])


def captions_of(split: Split) -> tuple[list[str], list[list[int]]]:
    """The different captions of a split in order, and which of them each image has; empty ones count nowhere."""
    texts, count = split.texts or (), len(split)
    each = len(texts) // max(1, count)
    rows: dict[str, int] = {}
    owned = [
        [rows.setdefault(text, len(rows)) for text in texts[image * each : (image + 1) * each] if text]
        for image in range(count)
    ]
    return list(rows), owned


def _place_in(split: Split, captions: Sequence[str]) -> np.ndarray:
    """Of each different caption, its first place among the split's texts."""
    first: dict[str, int] = {}
    for place, text in enumerate(split.texts or ()):
        first.setdefault(text, place)
    return np.array([first[text] for text in captions], np.int32)


def _scored(
    side: str, ranked: FirstRight, lengths: np.ndarray, searched: int, own: Sequence[int], seed: int
) -> dict[str, tuple[Score, Outcomes]]:
    """By metric the score of one direction, and outcomes in rows for each image."""
    images = np.repeat(np.arange(len(lengths)), lengths)
    several = bool((lengths != 1).any())
    scores: dict[str, tuple[Score, Outcomes]] = {}
    for column, k in enumerate(KS):
        name, recall = f"{side}_r@{k}", ranked.recall[:, column]
        chance = float(np.mean([chance_of_recall(searched, size, k) for size in own]))
        if several:
            value, low, high = cluster_interval("accuracy", recall, images.tolist(), seed=seed)
            low, high = max(0.0, low), min(1.0, high)
        else:
            estimate = mean_of(name, recall, "higher", seed)
            value, low, high = estimate.value, estimate.low, estimate.high
        outcomes = Ragged({"found": recall}, lengths) if side == "t2i" else recall
        scores[name] = Score(name, "higher", value, low, high, chance), outcomes
    name = f"{side}_median_rank"
    value, low, high = median_interval(ranked.rank, images.tolist(), seed=seed)
    chance = float(chance_of_rank(searched, own))
    scores[name] = Score(name, "lower", value, low, high, chance), Ragged({"rank": ranked.rank}, lengths)
    return scores


def share_found(outcomes: Any, weights: Float[np.ndarray, "r n"]) -> Float[np.ndarray, " r"]:
    """The share of captions that find an image of theirs, of images that are weighted."""
    owner = np.repeat(np.arange(len(outcomes)), outcomes.lengths)
    sums = np.bincount(owner, outcomes.columns["found"], minlength=len(outcomes))
    shares: np.ndarray = (weights @ sums) / (weights @ outcomes.lengths)
    return shares


def median_rank(outcomes: Any, weights: Float[np.ndarray, "r n"]) -> Float[np.ndarray, " r"]:
    """The median rank of the first right answer, of images that are weighted with all their queries."""
    owner = np.repeat(np.arange(len(outcomes)), outcomes.lengths)
    return weighted_median(outcomes.columns["rank"], weights[:, owner])


def details(training: Mapping[str, Any], encoder: str) -> Details:
    """What was searched, and how scores are read; empty for imported scores, which say neither."""
    if "measures" not in training:
        return Details([], _HEADS, [])
    low, high = training["captions_each"]
    each = f"{low}" if low == high else f"{low} to {high}"
    counts = {
        "i2t": [f"{training['images']:,}", f"{training['different_captions']:,}"],
        "t2i": [f"{training['captions']:,}", f"{training['images']:,}"],
    }
    rows = []
    for name, value, lowest, highest, chance in training["measures"]:
        side, _, measure = name.partition("_")
        places = 3 if measure.startswith("r@") else 1
        figures = [f"{value:.{places}f}", f"{lowest:.{places}f} to {highest:.{places}f}", f"{chance:.{places}f}"]
        shown = measure.replace("r@", "R@").replace("_", " ")
        rows.append([_DIRECTIONS[side], shown, *figures, *counts[side]])
    notes = [f"{each} captions an image; {training['captions_of_several']:,} captions have several images.", _READING]
    return Details(notes, _HEADS, rows, words=(0, 1))
