"""ELEVATER's own search of learning rate and weight decay, run after run or as one batched program."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from paired_scores.metrics import metric_named
from vision_adapters.heads import LinearHead, language_head, seeded
from vision_adapters.tuning.data import Tuned, TuningData
from vision_adapters.tuning.folds import make_folds

RATES = tuple(float(rate) for rate in np.logspace(-6, -1, 6))
DECAYS = tuple(float(decay) for decay in np.logspace(-6, 6, 97))
COARSE = tuple(range(0, 97, 16))
SPANS = (8, 4, 2, 1)
EPOCHS, FINAL_EPOCHS, BATCH, MOMENTUM = 10, 50, 64, 0.9
CACHE = 1_750_000  # bytes of weights and momenta in work at a time: what a core keeps near, on the machines we measured


class Run(NamedTuple):
    """One configuration of the search: places in RATES and DECAYS."""

    rate: int
    decay: int


def tune_elevater(data: TuningData) -> Tuned:
    """The published search: six learning rates, weight decays refined around the best, 10 epochs each, then 50 epochs.

    SGD with momentum .9, batches of 64 in one fixed order, batch normalisation without affine on the raw features,
    logit scale 1, started at the class texts, or at random without them. A run's score is that of its best epoch on
    validation. The final run trains on training and validation; its last epoch is taken, for nothing is left to choose
    an epoch by. Several folds are replaced by the toolkit's split of all rows.

    The configurations of a stage are trained side by side: the normalised batches are shared, gradients are written
    out, and as many configurations as a core's cache holds are one matrix product.

    A run that is not finite scores 0, as in the toolkit (minus infinity for a metric of which less is better). So does
    one whose decay erases the weights in one step (lr x decay >= 1): what it leaves is rounding noise, which no two
    programs share. Among equals, the lowest rate and decay win.

    Source: ELEVATER, appendix on hyper-parameter tuning; epochs, order and refinement are its toolkit's. Differences:
    the toolkit reports the epoch that is best on the test set; its data order differs, for it depends on its loader.
    """
    fold = data.folds[0] if len(data.folds) == 1 else make_folds(data.labels, "toolkit", 0)[0]
    train = _Problem(data, fold.train, fold.validation)
    scores: dict[Run, float] = {}

    def score(runs: list[Run]) -> None:
        scores.update({run: train.failed for run in runs if RATES[run.rate] * DECAYS[run.decay] >= 1})
        new = list(dict.fromkeys(run for run in runs if run not in scores))
        scores.update(zip(new, train.scores(new), strict=True))

    everything = range(len(RATES))
    coarse = [Run(rate, decay) for rate in everything for decay in COARSE]
    score(coarse)
    peak, top = [-1] * len(RATES), [-math.inf] * len(RATES)

    def climb(run: Run) -> None:
        if peak[run.rate] < 0 or scores[run] > top[run.rate]:
            peak[run.rate], top[run.rate] = run.decay, scores[run]

    for run in coarse:
        climb(run)
    for span in SPANS:
        stage: list[Run] = []
        for rate in everything:
            ends = max(peak[rate] - span, 0), min(peak[rate] + span, len(DECAYS) - 1)
            stage += [Run(rate, end) for end in ends if end != peak[rate]]
        score(stage)
        for run in stage:
            climb(run)
    chosen = max(everything, key=lambda rate: (top[rate], -rate))
    run = Run(chosen, peak[chosen])
    head = _Problem(data, torch.arange(len(data.labels)), None).final(run)
    tried = tuple(
        {"lr": RATES[run.rate], "weight_decay": DECAYS[run.decay], "validation": metric}
        for run, metric in scores.items()
    )
    picked = {"lr": RATES[run.rate], "weight_decay": DECAYS[run.decay]}
    return Tuned("elevater", picked, top[chosen], head, tried, data.metric)


class _Problem:
    """Features to train on and to validate on, and the training of many configurations side by side."""

    def __init__(self, data: TuningData, train: Tensor, held: Tensor | None) -> None:
        self.data, self.held = data, held
        self.x, self.y = data.features[train], data.labels[train]
        self.targets = data.targets(train)
        self.held_features = None if held is None else data.features[held]
        self.failed = 0.0 if metric_named(data.metric).direction == "higher" else -math.inf

    def batches(self, epoch: int) -> list[Tensor]:
        """The epoch's batches; one of a single sample has no variance and is skipped."""
        generator = np.random.default_rng([0, epoch])
        parts = torch.from_numpy(generator.permutation(len(self.x)))
        return [part for part in torch.split(parts, BATCH) if len(part) > 1]

    def head(self) -> LinearHead:
        """The start: class texts, or random weights, the same in every search, without them."""
        embeddings = self.data.class_embeddings
        if embeddings is not None:
            return language_head(embeddings, 1.0, features="batchnorm")
        return seeded(lambda: LinearHead(self.x.shape[1], self.data.classes, features="batchnorm"), 0)

    def scores(self, runs: list[Run]) -> list[float]:
        """The best epochs' validation scores of many configurations, trained side by side."""
        groups = self.groups(runs)
        norm = torch.nn.BatchNorm1d(self.x.shape[1], affine=False)
        best = dict.fromkeys(runs, self.failed)
        for epoch in range(EPOCHS):
            parts = self.normalised(norm, epoch)
            assert self.held_features is not None
            held = F.pad(norm.eval()(self.held_features), (0, 1), value=1.0)
            for group in groups:
                group.train_epoch(parts, several=self.data.several)
                scores = (held @ group.weights).view(len(held), len(group.runs), -1)
                for index, run in enumerate(group.runs):
                    best[run] = max(best[run], self.validated(scores[:, index]))
        return [best[run] for run in runs]

    def final(self, run: Run) -> LinearHead:
        """The head after the long run."""
        head, (group,) = self.head(), self.groups([run])
        assert isinstance(head.norm, torch.nn.BatchNorm1d)
        for epoch in range(FINAL_EPOCHS):
            group.train_epoch(self.normalised(head.norm, epoch), several=self.data.several)
        with torch.no_grad():
            head.weight.copy_(group.weights[:-1].T)
            head.bias.copy_(group.weights[-1])
        return head.eval()

    def groups(self, runs: list[Run]) -> list[_Group]:
        """Runs in groups whose weights and momenta stay in a core's own cache, all at the start."""
        head = self.head()
        # the bias is a row of its own below the weights: one product makes the scores, one the gradients
        start = torch.cat([head.weight.detach().T, head.bias.detach()[None]])
        size = max(1, CACHE // (2 * start.numel() * start.element_size()))
        return [_Group(runs[first : first + size], start) for first in range(0, len(runs), size)]

    def normalised(self, norm: torch.nn.BatchNorm1d, epoch: int) -> list[tuple[Tensor, Tensor]]:
        """The epoch's batches after batch normalisation, which every run shares, with a column of ones."""
        norm.train()
        batches = []
        for part in self.batches(epoch):
            x = F.pad(norm(self.x[part]), (0, 1), value=1.0)
            batches.append((x, self.targets[part] if self.data.several else self.y[part]))
        return batches

    def validated(self, scores: Tensor) -> float:
        """The metric, the worst value for scores that are not finite."""
        assert self.held is not None
        if not bool(torch.isfinite(scores).all()):
            return self.failed
        value = self.data.score(scores, self.held)
        return value if math.isfinite(value) else self.failed


class _Group:
    """Weights [d + 1, runs * k] of a few runs side by side, and the moves that their momenta make."""

    def __init__(self, runs: list[Run], start: Tensor) -> None:
        k = start.shape[1]
        self.runs, self.classes = runs, k
        self.weights = start.repeat(1, len(runs))
        self.moves = torch.zeros_like(self.weights)  # the learning rate times the momentum
        rates = [RATES[run.rate] for run in runs]
        self.rate = torch.tensor(rates).repeat_interleave(k)
        self.decay = torch.tensor([rate * DECAYS[run.decay] for rate, run in zip(rates, runs, strict=True)])
        self.decay = self.decay.repeat_interleave(k)

    def train_epoch(self, parts: list[tuple[Tensor, Tensor]], *, several: bool) -> None:
        """One epoch of SGD with momentum and decay; the gradient of the mean loss is (p - y) x / b."""
        count, k = len(self.runs), self.classes
        for x, y in parts:
            scores = torch.mm(x, self.weights)
            by_run = scores.view(len(x), count, k)
            if several:
                by_run.sigmoid_().sub_(y[:, None]).div_(k)
            else:
                by_run = torch.softmax(by_run, 2)
                by_run[torch.arange(len(x)), :, y] -= 1
            residual = by_run.view(len(x), count * k).mul_(self.rate)
            self.moves.addmm_(x.T, residual, beta=MOMENTUM, alpha=1 / len(x)).addcmul_(self.weights, self.decay)
            self.weights.sub_(self.moves)
