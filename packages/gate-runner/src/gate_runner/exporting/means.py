"""Scores of a run, averaged over seeds, for forms that have one row per benchmark and metric."""

from __future__ import annotations

from dataclasses import dataclass

from gate_runner.runs.stored import StoredRun


@dataclass(frozen=True)
class Mean:
    """A benchmark's metric, the mean over seeds.

    Args:
        benchmark: its id.
        name: its name; stand-ins begin with ``micro/``.
        task: its task type.
        metric: the metric's name.
        direction: ``"higher"`` or ``"lower"`` is better.
        value: the mean.
        low: the mean of the lower ends of the 95 % intervals over test samples.
        high: of the upper ends.
        chance: of the chance levels.
        seeds: how many.
        note: what a reader must know.
        source: of the data; ``"file"`` are one's own.
    """

    benchmark: str
    name: str
    task: str
    metric: str
    direction: str
    value: float
    low: float
    high: float
    chance: float
    seeds: int
    note: str
    source: str

    @property
    def published(self) -> str:
        """The name outside of the run's folder: one's own data never carry a data set's name alone."""
        return published(self.name, self.source)


def published(name: str, source: str) -> str:
    """A benchmark's name where others read it.

    Example:
        >>> published("birds", "file"), published("cifar100", "local")
        ('own/birds', 'cifar100')
    """
    return f"own/{name}" if source == "file" else name


def means(run: StoredRun) -> list[Mean]:
    """One row per benchmark and metric, in order; failed results have none.

    An interval is the mean of the seeds' intervals: it holds the variation of test samples, not of heads.

    Example:
        >>> from pathlib import Path
        >>> means(StoredRun(Path("r"), "", (), {}))
        []
    """
    rows = []
    for name in dict.fromkeys(result.name for result in run.results):
        done = [result for result in run.named(name) if result.status == "ok"]
        if not done:
            continue
        for rank, score in enumerate(done[0].scores):
            seeds = [result.scores[rank] for result in done]
            value, low, high, chance = (
                sum(getattr(seed, field) for seed in seeds) / len(seeds) for field in ("value", "low", "high", "chance")
            )
            first = done[0]
            note = "; ".join(filter(None, ["own data" if first.source == "file" else "", first.note]))
            rows.append(
                Mean(first.benchmark, name, first.task, score.metric, score.direction, value, low, high, chance,
                     len(seeds), note, first.source)
            )  # fmt: skip
    return rows
