"""What was predicted for each tested sample: kept beside its outcome, and said in words beside the truth.

A task type's ``say`` is one of these functions, from data, what was predicted of one sample, and the sample's index.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gate_data.data import Data
from gate_runner.tasks.task import Details

if TYPE_CHECKING:
    from gate_runner.tasks.job import Job, Outcome


def best(scores: Float[Tensor, "n k"]) -> Int[np.ndarray, " n"]:
    """The class with the highest score of each sample, the first of equal ones."""
    return scores.argmax(dim=1).int().cpu().numpy()


def confident(scores: Float[Tensor, "n k"], training: Mapping[str, Any] | None = None) -> Float[np.ndarray, " n"]:
    """Return the probability of the class with the highest score, calibrated if the result's training has a record."""
    surest: np.ndarray = _calibrated(scores, training).amax(dim=1).cpu().numpy()
    return surest


MOST_PROBABILITIES = 16_000_000
"""Samples times classes up to which all probabilities are stored with outcomes: 32 MB before compression."""


def distributions(
    scores: Float[Tensor, "n k"], training: Mapping[str, Any] | None = None
) -> Float[np.ndarray, "n k"] | None:
    """Return every class's probability in half precision; None of more than `MOST_PROBABILITIES` of them."""
    if scores.numel() > MOST_PROBABILITIES:
        return None
    return _calibrated(scores, training).half().cpu().numpy()


def _calibrated(scores: Float[Tensor, "n k"], training: Mapping[str, Any] | None) -> Float[Tensor, "n k"]:
    from vision_adapters.calibration import SoftmaxMap

    record = (training or {}).get("calibration") or {}
    fitted = SoftmaxMap(float(record.get("temperature", 1.0)), float(record.get("uniform", 0.0)))
    return fitted.probabilities(scores.float())


def likely(probabilities: Float[Tensor, "n k"]) -> Bool[np.ndarray, "n k"]:
    """The labels that are more likely than not."""
    labels_on: np.ndarray = (probabilities > 0.5).cpu().numpy()
    return labels_on


def values(predictions: Float[Tensor, " n"]) -> Float[np.ndarray, " n"]:
    """The values themselves."""
    return predictions.float().cpu().numpy()


def mistaken(predicted: Int[Tensor, "n h w"], truth: Int[Tensor, "n h w"], classes: int) -> Float[np.ndarray, "n 3"]:
    """Of each class map the two classes that are confused most: what is there, what it is taken for, its share."""
    rows = np.full((len(truth), 3), (-1.0, -1.0, 0.0), np.float32)
    for row, (guess, true) in enumerate(zip(predicted.long(), truth.long(), strict=True)):
        wrong = (true >= 0) & (guess != true)
        if bool(wrong.any()):
            counts = torch.bincount(true[wrong] * classes + guess[wrong])
            most = int(counts.argmax())
            rows[row] = most // classes, most % classes, int(counts[most]) / int((true >= 0).sum())
    return rows


def a_class(data: Data[Any], predicted: np.ndarray, index: int) -> str:
    """The name of a class or an answer."""
    return data.classes[int(predicted)]


def labels(data: Data[Any], predicted: np.ndarray, index: int) -> str:
    """The labels that are more likely than not, of several."""
    return ", ".join(name for name, present in zip(data.classes, predicted, strict=True) if present) or "none"


def heads_of(classes: Sequence[str]) -> dict[str, list[str]]:
    """Heads and their classes, from names like ``species/beluga``."""
    names: dict[str, list[str]] = {}
    for name in classes:
        head, _, label = name.partition("/")
        names.setdefault(head, []).append(label)
    return names


def heads(data: Data[Any], predicted: np.ndarray, index: int) -> str:
    """A class of each head."""
    chosen = zip(heads_of(data.classes).values(), predicted, strict=True)
    return ", ".join(names[int(label)] for names, label in chosen)


def a_value(data: Data[Any], predicted: np.ndarray, index: int) -> str:
    """A number."""
    return f"{float(predicted):.3g}"


def a_caption(data: Data[Any], predicted: np.ndarray, index: int) -> str:
    """One of all captions of the test split."""
    return (data.test.texts or ())[int(predicted)]


def a_choice(data: Data[Any], predicted: np.ndarray, index: int) -> str:
    """One of the captions that the sample offers."""
    texts = data.test.texts or ()
    return texts[len(texts) // len(data.test) * index + int(predicted)]


def an_episode(data: Data[Any], predicted: np.ndarray, index: int) -> str:
    """Which of an episode's classes its queries were taken for, numbered from 1: the three most frequent mistakes."""
    own = np.arange(len(predicted))[:, None]
    is_query, wrong = predicted >= 0, (predicted >= 0) & (predicted != own)
    pairs = Counter((row, int(predicted[row, query])) for row, query in zip(*map(list, np.nonzero(wrong)), strict=True))
    often = {1: "once", 2: "twice"}
    listed = [f"class {row + 1} taken for class {guess + 1} ({often.get(count, f'{count} times')})"
              for (row, guess), count in pairs.most_common(3)]  # fmt: skip
    right = f"{int(is_query.sum() - wrong.sum())} of {int(is_query.sum())} queries right"
    return "; ".join([right, ", ".join(listed)] if listed else [right])


def a_map(data: Data[Any], predicted: np.ndarray, index: int) -> str:
    """The two classes of a class map that are confused most, see `mistaken`."""
    truth, guess, share = predicted.tolist()
    if truth < 0:
        return "every pixel right"
    return f"{data.classes[int(truth)]} taken for {data.classes[int(guess)]} on {share:.0%} of the pixels"


def objects(data: Data[Any], predicted: np.ndarray, index: int) -> str:
    """How many of an image's objects its best boxes found, and the class that is missed most."""
    count, hits, missed = predicted.tolist()
    boxes = "box" if count == 1 else f"{count} boxes"
    sentence = f"{hits} of {count} object{'s' * (count != 1)} found by the best {boxes}"
    if missed < 0:
        return sentence
    return f"{sentence}; missed{' most' * (count - hits > 1)}: {data.classes[missed]}"


def a_pair(data: Data[Any], predicted: np.ndarray, index: int) -> str:
    """The caption that each of two images is more similar to."""
    first, second = ((data.test.texts or ())[2 * index + int(choice)] for choice in predicted)
    return f"“{first}” for the first image, “{second}” for the second"


_CELLS = 200
"""Of the most frequent confusions, at most: a thousand classes have a million pairs."""
_NOTED = 5


def with_classes(job: Job, outcome: Outcome) -> Outcome:
    """The outcome with what it did within each class, of what was predicted and the test targets."""
    from paired_scores.metrics import by_class, confusion, evaluate

    guessed, classes = outcome.predicted, job.data.classes
    if guessed is None or guessed.ndim != 1 or len(guessed) != len(job.data.test):
        return outcome
    true = np.asarray(job.data.test.targets)
    table = confusion(guessed, true, len(classes))
    off = np.argwhere((table > 0) & ~np.eye(len(classes), dtype=bool))
    order = sorted(off.tolist(), key=lambda cell: (-table[cell[0], cell[1]], cell))
    by_class_row: dict[str, Any] = {
        "scores": {
            name: {"value": estimate.value, "low": estimate.low, "high": estimate.high}
            for name in ("macro_f1", "micro_f1")
            for estimate in [evaluate(name, guessed, true, seed=job.seed)]
        },
        "rows": [
            {"class": classes[row.label], "support": row.support, "predicted": row.predicted,
             "precision": _plain(row.precision), "recall": _plain(row.recall), "f1": _plain(row.f1)}
            for row in by_class(guessed, true, len(classes), seed=job.seed)
        ],
        "confused": [[classes[row], classes[column], int(table[row, column])] for row, column in order[:_CELLS]],
    }  # fmt: skip
    if levels := _levels(guessed, true, classes, job.seed):
        by_class_row["levels"] = levels
    return replace(outcome, training={**outcome.training, "by_class": by_class_row})


def _levels(guessed: np.ndarray, true: np.ndarray, classes: Sequence[str], seed: int) -> list[dict[str, Any]]:
    """How often the group is right where classes are called ``GROUP/CLASS``, for each level above the classes."""
    from paired_scores.metrics import evaluate

    paths = [name.split("/") for name in classes]
    rows = []
    for level in range(1, min(map(len, paths))):
        groups = ["/".join(path[:level]) for path in paths]
        names = sorted(set(groups))
        number = np.array([names.index(group) for group in groups])
        estimate = evaluate("accuracy", number[guessed], number[true], seed=seed)
        rows.append({"groups": names, "accuracy": [estimate.value, estimate.low, estimate.high]})
    return rows


def _plain(interval: tuple[float, float, float] | None) -> list[float] | None:
    """As a result's file has it, so that a unit of another process gives the same."""
    return None if interval is None else list(interval)


def details(training: Mapping[str, Any], encoder: str) -> Details:
    """The classes from the worst F1 on, and what is confused most."""
    by_class = training.get("by_class")
    heads = ["class", "samples", "predicted", "precision", "recall", "F1"]
    if not by_class:
        return Details([], heads, [])
    f1s = [f"{name.replace('_f1', ' F1')} {estimate['value']:.3f} ({estimate['low']:.3f} to {estimate['high']:.3f})"
           for name, estimate in by_class["scores"].items()]  # fmt: skip
    notes = [", ".join(f1s) + "."] if f1s else []
    for level, row in enumerate(by_class.get("levels", ()), start=1):
        shown = ", ".join(row["groups"][:_NOTED]) + (" …" if len(row["groups"]) > _NOTED else "")
        notes.append(f"The group of level {level} ({shown}) is right: {_interval(row['accuracy'])}.")
    if by_class["confused"]:
        pairs = ", ".join(f"{true} taken for {guess} {count}" for true, guess, count in by_class["confused"][:_NOTED])
        notes.append(f"Confused most: {pairs}.")
    rows = sorted(by_class["rows"], key=lambda row: (row["f1"] or [1.0])[0])
    listed = [
        [row["class"], str(row["support"]), str(row["predicted"])]
        + [_interval(row[name]) for name in ("precision", "recall", "f1")]
        for row in rows
    ]
    return Details(notes, heads, listed)


def _interval(value: Any) -> str:
    return "–" if value is None else f"{value[0]:.3f} ({value[1]:.3f} to {value[2]:.3f})"
