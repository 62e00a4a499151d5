"""Image classification: a linear head on pooled features, or an attentive one on places.

Where the encoder is frozen, the probe is solved, not stepped: a benchmark must not measure its own optimiser.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gate_runner.errors import DataError, UsageError
from gate_runner.tasks.features import kinds_to_probe, rows_of, solvable
from gate_runner.tasks.job import Job, Outcome
from gate_runner.tasks.predicted import best, confident, distributions, with_classes
from gate_runner.tasks.scoring import most_frequent, outcome_of, score
from paired_scores.metrics import METRICS, evaluate
from vision_adapters.calibration import calibrate
from vision_adapters.losses import class_balance, cross_entropy
from vision_adapters.tuning import Fold, Tuned, TuningData, tune, tuning_data
from vision_adapters.tuning.folds import FOLDS, PLENTY, class_folds

if TYPE_CHECKING:
    from gate_data.data import Split
    from gate_runner.tasks.fitting import Loss

UNSEEN_FOLDS = FOLDS
"""Folds on which the whole choice of a head of few images is scored."""


def run(job: Job) -> Outcome:
    """Chance: the training split's most frequent classes, whatever the image.

    The head of an encoder that is trained starts at the class prompts, at the probe of the frozen features, or at
    random, as the settings have it.
    """
    return with_classes(job, _run(job, most_frequent(job)))


def _run(job: Job, blind: Tensor) -> Outcome:
    classes = len(job.data.classes)
    loss: Loss = cross_entropy
    if job.settings.class_weight == "balanced":
        loss = partial(cross_entropy, weight=class_balance(job.data.train.targets, classes))
    if job.settings.folds is not None:
        return _cross_validated(job, blind)
    _refuse_nothing_to_learn(job)
    if str(job.training.get("readout", "")).endswith("/attentive"):
        from gate_runner.tasks.classification_training import train_attentive

        return train_attentive(job, blind, loss)
    if job.settings.tune == "frozen" and solvable(job):
        return solve_and_test(job, blind)
    from gate_runner.tasks.classification_training import train

    return train(job, blind, loss)


def _refuse_nothing_to_learn(job: Job) -> None:
    """Refuse training images of one class alone, and a limit that leaves a frozen encoder's head nothing to choose by.

    Such a head cannot be solved, and would be trained for thousands of steps.
    """
    if job.encoder.detector is not None:
        return  # it gives no features, which is said first
    limit, validation = job.settings.limit, job.data.validation.targets
    present = torch.unique(job.data.train.targets)
    larger = "those of another class" if limit is None else f"a larger --limit than {limit}"
    if len(present) == 1:
        name = job.data.classes[int(present[0])]
        raise DataError(f"{job.benchmark.id}: all training images are of the class {name!r}: it needs {larger}")
    if limit is not None and job.settings.tune == "frozen" and not torch.isin(validation, present).any():
        raise DataError(
            f"{job.benchmark.id}: no validation image is of a class that is trained, so that no head can be chosen: "
            f"it needs {larger}"
        )


def solve_and_test(job: Job, blind: Tensor) -> Outcome:
    """Logistic regression on standardised features, its strength chosen on validation, then fitted on both splits.

    Where the encoder shows features before its projection, they are tried, too, and taken where they validate better.
    Where validation would be a small draw from few images, folds over all that are labelled choose; see `drawn_small`.
    """
    metric, few = job.benchmark.metrics[0], drawn_small(job)
    labelled = [job.data.train.targets, *([job.data.validation.targets] if few else [])]
    present = torch.unique(torch.cat(labelled))
    kinds = kinds_to_probe(job)
    known: dict[str, Tensor] = {}
    solutions: dict[str, tuple[Tuned, Tensor]] = {}
    chosen_data: dict[str, TuningData] = {}
    for number, (name, kind) in enumerate(kinds.items()):
        features = {split: rows_of(job, rows, kind, f"{split}-{name}")[:].float() for split, rows in _splits(job)}
        with job.timed("train"):
            solved = job.shared.get("solved")  # by an earlier pass over the same training and validation images
            if solved is not None and name in solved:
                tuned, data, known[name] = solved[name]
                solutions[name], chosen_data[name] = (tuned, features["test"]), data
                continue
            if few:
                known[name] = torch.cat([features["train"], features["validation"]])
                labels = torch.searchsorted(present, torch.cat(labelled))
                data = tuning_data(known[name], labels, **_options(job))
            else:
                data = _tuning_data(job, features["train"], features["validation"], present)
            solutions[name], chosen_data[name] = (tune(data), features["test"]), data
            if solved is not None:
                solved[name] = solutions[name][0], data, known.get(name, features["train"])
            job.progress("train", number + 1, len(kinds))
    chosen = max(solutions, key=lambda name: solutions[name][0].validation or 0.0)
    tuned, test = solutions[chosen]
    training = {
        "head_parameters": tuned.trained_parameters(),
        "steps": 0,
        "features": chosen,
        **_way(tuned.best_params),
        "tried": [
            {"features": name, **_way(row), metric: row["validation"]}
            for name, (solution, _) in solutions.items()
            for row in solution.candidates
        ],
        "chosen_by": {"folds": len(data.folds), "samples": len(data.validation_rows()), metric: tuned.validation},
    }
    if few and "solved" not in job.shared:
        with job.timed("train"):
            unseen = _unseen(job, known, torch.cat(labelled))
            training["chosen_by"] = {**training["chosen_by"], "unseen": unseen}
    head = None
    if job.settings.save_heads:
        from gate_runner.tasks.classification_training import read_at  # most runs keep no head
        from vision_features.heads.calibrating import calibrated
        from vision_features.heads.saved import KeptHead

        classes = [job.data.classes[index] for index in present.tolist()]
        with job.timed("train"):
            fitted = calibrate(chosen_data[chosen], tuned=tuned)
        numbers = torch.full((len(job.data.classes),), -1)
        numbers[present] = torch.arange(len(present))
        record = calibrated(fitted, tuned.scores(test), numbers[job.data.test.targets.long()], job.seed)
        training["calibration"] = record.training
        plain = KeptHead(tuned.head, "backbone" if kinds[chosen] == "backbone" else "projected", classes)
        head = read_at(job, replace(plain, calibration=record.card))
    with job.timed("test"):
        scores = _scores(tuned, test, present, len(job.data.classes))
        outcome = outcome_of(job, scores, blind, training, best, head)
    return replace(outcome, confidence=confident(scores, training), distributions=distributions(scores, training))


def drawn_small(job: Job) -> bool:
    """Whether validation is a draw, image by image, from fewer own images than a draw can choose among heads by.

    It is not where somebody gave the split, or where groups keep images together, which folds would tear apart.
    """
    if "file" not in job.benchmark.sources or len(job.data.train) + len(job.data.validation) >= PLENTY:
        return False
    from gate_data.own import read_benchmark
    from gate_data.readers import table

    file = Path(job.benchmark.sources["file"])
    own = read_benchmark(file)
    data, splits = own.data, own.splits
    if data.kind not in ("folders", "table", "datasets", "webdataset") or splits.group:
        return False
    if not (data.table and splits.column):
        return not splits.validation
    word = splits.validation or "validation"  # a column may tell training from test alone
    return all(row.text(splits.column) != word for row in table(file.parent / data.table, [splits.column]))


def _unseen(job: Job, known: dict[str, Tensor], labels: Tensor) -> float | None:
    """The metric on folds that the whole choice, made anew on the other folds, did not see; None where undefined.

    A validation score is the best of many on the same images, so it flatters; this one does not.
    """
    numbers, scores = class_folds(labels, UNSEEN_FOLDS, job.seed), torch.empty(len(labels), len(job.data.classes))
    for fold in range(UNSEEN_FOLDS):
        train, test = (numbers != fold).nonzero().flatten(), (numbers == fold).nonzero().flatten()
        if len(test) == 0 or len(torch.unique(labels[train])) < 2:
            return None
        _, scores[test], _ = _fold(job, known, train, test, labels)
    return float(evaluate(job.benchmark.metrics[0], scores, labels, resamples=0).value)


def _scores(tuned: Tuned, features: Tensor, present: Tensor, classes: int) -> Tensor:
    """Scores of all classes: those that the training lacks are below all that it has."""
    logits = tuned.scores(features)
    scores = logits.new_full((len(logits), classes), float(logits.min()) - 1.0)
    scores[:, present] = logits
    return scores


def _way(row: Mapping[str, Any]) -> dict[str, Any]:
    """The kind of head and its numbers."""
    return {name: value for name, value in row.items() if name not in ("validation", "loss")}


def _splits(job: Job) -> list[tuple[str, Split]]:
    return [("train", job.data.train), ("validation", job.data.validation), ("test", job.data.test)]


def _tuning_data(job: Job, train: Tensor, held: Tensor, present: Tensor) -> TuningData:
    """Training and validation rows of the classes that training shows, numbered anew."""
    counts = torch.isin(job.data.validation.targets, present)
    labels = torch.cat([job.data.train.targets, job.data.validation.targets[counts]])
    rows = torch.cat([train, held[counts]])
    fold = Fold(torch.arange(len(train)), torch.arange(len(train), len(rows)))
    named = torch.searchsorted(present, labels)
    return TuningData(rows, named, len(present), None, 100.0, job.benchmark.metrics[0], (fold,), job.class_weight)


def _cross_validated(job: Job, blind: Tensor) -> Outcome:
    """Scores of all samples. The interval is the wider of that of the samples and of that over the folds' heads.

    The latter is Student's with the variance of the folds' values times 1 / k + 1 / (k - 1): folds share samples.
    Groups are in one fold each.

    Source:
        Nadeau and Bengio, Inference for the generalization error, Machine Learning 52, 2003.
    """
    from gate_data.original_files import GROUP

    data, metric, count = job.data.test, job.benchmark.metrics[0], job.settings.folds or 2
    scores, values = torch.empty(len(data), len(job.data.classes)), []
    heads: list[dict[str, Any]] = []
    groups = data.columns.get(GROUP)
    if groups is not None and len(set(groups)) < count:
        raise UsageError(
            f"setting folds={count}: the samples are of {len(set(groups))} groups ('group' under [splits]), which "
            f"folds keep whole; expected at least {count}"
        )
    features = {name: rows_of(job, data, kind, name)[:].float() for name, kind in kinds_to_probe(job).items()}
    with job.timed("train"):
        numbers = _numbered(data.targets, groups, count, job.seed)
        for fold in range(count):
            train, test = (numbers != fold).nonzero().flatten(), (numbers == fold).nonzero().flatten()
            name, scores[test], params = _fold(job, features, train, test, data.targets, groups)
            values.append(evaluate(metric, scores[test], data.targets[test], resamples=0).value)
            heads.append({"features": name, **params})
    with job.timed("test"):
        judged = score(job, scores, data.targets, blind)
    from scipy.special import stdtrit  # an import of 0.2 s, which no other score needs

    mean = math.fsum(values) / count
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    half = float(stdtrit(count - 1, 0.975)) * math.sqrt(variance * (1 / count + 1 / (count - 1)))
    (headline, estimate), *further = judged
    least, most = METRICS[metric].within
    low, high = max(mean - half, least), min(mean + half, most)
    headline = replace(headline, low=min(headline.low, low), high=max(headline.high, high))
    crossed = {"folds": count, "values": values, "low": low, "high": high, "heads": heads}
    training = {"steps": 0, "head_parameters": 0, "cross_validation": crossed}
    every = (headline, *(scored for scored, _ in further))
    outcome = Outcome(every, estimate.outcomes, training, best(scores), confidence=confident(scores))
    return replace(outcome, distributions=distributions(scores))


def _options(job: Job) -> dict[str, Any]:
    """What `tuning_data` takes of a job."""
    return {"metric": job.benchmark.metrics[0], "class_weight": job.class_weight, "seed": job.seed}


def _within(targets: Tensor, groups: Sequence[str], seed: int) -> tuple[Fold, ...]:
    """Folds of whole groups to choose a head by, one of them where samples are plenty; none of a single group."""
    count = min(FOLDS, len(set(groups)))
    if count < 2:
        return ()
    numbers = _numbered(targets, groups, count, seed)
    parts = [
        Fold((numbers != fold).nonzero().flatten(), (numbers == fold).nonzero().flatten()) for fold in range(count)
    ]
    whole = tuple(part for part in parts if len(part.train) and len(part.validation))
    return whole[:1] if len(targets) >= PLENTY else whole


def _numbered(targets: Tensor, groups: Sequence[str] | None, count: int, seed: int) -> Tensor:
    """The fold of each sample: as many of each class in each as that goes, and no group in two."""
    if groups is None:
        return class_folds(targets, count, seed)
    from sklearn.model_selection import StratifiedGroupKFold

    numbers = torch.full((len(targets),), -1)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)  # it is where it can be
        dealt = StratifiedGroupKFold(count, shuffle=True, random_state=seed)
        for fold, (_, test) in enumerate(dealt.split(targets.numpy(), targets.numpy(), np.array(groups))):
            numbers[torch.from_numpy(test)] = fold
    return numbers


def _fold(
    job: Job,
    features: dict[str, Tensor],
    train: Tensor,
    test: Tensor,
    targets: Tensor,
    groups: Sequence[str] | None = None,
) -> tuple[str, Tensor, dict[str, Any]]:
    """The features that validate best within the other folds, and what their head says of this one."""
    labels = targets[train]
    present = torch.unique(labels)
    named = torch.searchsorted(present, labels)
    data = {name: tuning_data(rows[train], named, **_options(job)) for name, rows in features.items()}
    if groups is not None:
        inner = _within(named, [groups[at] for at in train.tolist()], job.seed)
        data = {name: replace(rows, folds=inner or rows.folds) for name, rows in data.items()}
    tuned = {name: tune(rows) for name, rows in data.items()}
    chosen = max(tuned, key=lambda name: -math.inf if (value := tuned[name].validation) is None else value)
    scores = _scores(tuned[chosen], features[chosen][test], present, len(job.data.classes))
    return chosen, scores, dict(tuned[chosen].best_params)
