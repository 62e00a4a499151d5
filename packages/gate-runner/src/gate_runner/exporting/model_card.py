"""A model card: a README with Hugging Face's model-index and a table that people read, and `.eval_results` files."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from gate_runner.__about__ import __version__
from gate_runner.errors import DataError, UsageError
from gate_runner.exporting.model import Files, ModelName, published
from gate_runner.reports.scores import number
from gate_runner.runs.stored import StoredRun
from gate_runner.tasks.score import Score

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
    """``README.md``, whose front matter a model hub reads, and ``.eval_results/NAME.yaml`` for each benchmark."""
    try:
        import yaml
        from huggingface_hub import EvalResult, EvalResultEntry, eval_result_entries_to_yaml
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
    texts = {"README.md": f"---\n{front}---\n\n{_section(run, model, rows)}"}
    for name, stem in _file_names(dict.fromkeys(row.name for row in rows)).items():
        entries = [
            EvalResultEntry(
                dataset_id=f"gate-runner/{stem}",
                task_id=row.score.metric,
                value=row.score.value,
                notes=f"95 % CI {row.interval}; chance {number(row.score.chance)}; "
                f"{row.seeds} seeds of the head; gate-runner {__version__}{f'; {row.note}' if row.note else ''}",
            )
            for row in rows
            if row.name == name
        ]
        listed = eval_result_entries_to_yaml(entries)
        texts[f".eval_results/{stem}.yaml"] = yaml.safe_dump(listed, sort_keys=False, allow_unicode=True)
    remark = "ids in .eval_results are gate-runner/NAME: a hub shows only those of its own benchmark data sets"
    return Files(texts, (remark,))


def _section(run: StoredRun, model: ModelName, rows: list[Mean]) -> str:
    def cell(text: str) -> str:
        return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")

    lines = [
        f"# {model.name}",
        "",
        f"Scores of `{run.encoder.replace('`', '')}` by gate-runner. {_EXPLAINED}",
        "",
        "| benchmark | metric | score | 95 % CI | chance | seeds | note |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        score, arrow = row.score, "↑" if row.score.direction == "higher" else "↓"
        values = [row.name, f"{score.metric} {arrow}", number(score.value), row.interval, number(score.chance)]
        lines.append("| " + " | ".join(cell(text) for text in (*values, str(row.seeds), row.note)) + " |")
    return "\n".join(lines) + "\n"


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


def _file_names(names: Iterable[str]) -> dict[str, str]:
    """Names as parts of file names, no two of them alike: the second of a kind gets a number.

    Example:
        >>> _file_names(["own/a b", "own/a-b", "digits"])
        {'own/a b': 'own-a-b', 'own/a-b': 'own-a-b-2', 'digits': 'digits'}
    """
    plain: dict[str, str] = {}
    for name in names:
        stem = start = re.sub(r"[^A-Za-z0-9._-]+", "-", name)
        for copy in itertools.count(2):
            if stem.lower() not in {other.lower() for other in plain.values()}:
                break
            stem = f"{start}-{copy}"
        plain[name] = stem
    return plain
