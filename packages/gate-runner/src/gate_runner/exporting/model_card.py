"""A model card: a README with Hugging Face's model-index and a table that people read."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from gate_runner.charts.table import Table
from gate_runner.errors import DataError, UsageError
from gate_runner.exporting.model import Files, ModelName, published
from gate_runner.reports.scores import number
from gate_runner.runs.stored import StoredRun
from gate_runner.tasks.job import Score

_EXPLAINED = (
    "Means over seeds; intervals are over test samples; chance is what a model scores that never sees the image."
)


class Mean(NamedTuple):
    """A benchmark's metric: where the mean over seeds, and of the ends of their intervals, stands in place of each."""

    name: str
    task: str
    score: Score
    seeds: int
    note: str

    @property
    def interval(self) -> str:
        """Its ends."""
        return f"{number(self.score.low)} to {number(self.score.high)}"


def files(run: StoredRun, model: ModelName, organization: str) -> Files:
    """``README.md``, whose front matter a model hub reads."""
    try:
        import yaml
        from huggingface_hub import EvalResult
        from huggingface_hub.repocard_data import eval_results_to_model_index
    except ImportError as error:
        raise UsageError("a model card needs huggingface-hub: pip install 'gate-runner[hf]'") from error
    rows = means(run)
    index = eval_results_to_model_index(
        model.name,
        [
            EvalResult(
                task_type=row.task,
                dataset_type=row.name,
                dataset_name=row.name,
                dataset_split="test",
                metric_type=row.score.metric,
                metric_name=f"{row.score.metric}, 95 % CI {row.interval}",
                metric_value=row.score.value,
            )
            for row in rows
        ],
    )
    front = yaml.safe_dump({"tags": ["gate-runner"], "model-index": index}, sort_keys=False, allow_unicode=True)
    return Files({"README.md": f"---\n{front}---\n\n{_section(run, model, rows)}"})


def _section(run: StoredRun, model: ModelName, rows: list[Mean]) -> str:
    texts = [
        (
            row.name,
            f"{row.score.metric} {'↑' if row.score.direction == 'higher' else '↓'}",
            number(row.score.value),
            row.interval,
            number(row.score.chance),
            str(row.seeds),
            row.note,
        )
        for row in rows
    ]
    heads = ("benchmark", "metric", "score", "95 % CI", "chance", "seeds", "note")
    table = Table("scores", "", heads, tuple(texts), words=(1, 6))
    about = f"Scores of `{run.encoder.replace('`', '')}` by gate-runner. {_EXPLAINED}"
    return f"# {model.name}\n\n{about}\n\n{table.as_markdown()}"


def means(run: StoredRun) -> list[Mean]:
    """One row per benchmark and metric, in order; failed results have none.

    An interval is the mean of the seeds' intervals: it holds the variation of test samples, not of heads.
    """
    rows = []
    for name in dict.fromkeys(result.name for result in run.results if result.status == "ok"):
        done = [result for result in run.named(name) if result.status == "ok"]
        first, metrics = done[0], [[(score.metric, score.direction) for score in result.scores] for result in done]
        if any(seed != metrics[0] for seed in metrics):
            raise DataError(f"{run.path}: seeds of {name} have other metrics than its first: there is no mean of them")
        note = "; ".join(filter(None, ["own data" if first.source == "file" else "", first.note]))
        for rank, score in enumerate(first.scores):
            seeds = [result.scores[rank] for result in done]
            means = {
                field: sum(getattr(seed, field) for seed in seeds) / len(seeds)
                for field in ("value", "low", "high", "chance")
            }
            score = replace(score, **means)
            rows.append(Mean(published(name, first.source), first.task, score, len(seeds), note))
    return rows
