"""A model card: a README with Hugging Face's model-index in its front matter, and a table that people read."""

from __future__ import annotations

from gate_runner.errors import UsageError
from gate_runner.exporting.files import Files
from gate_runner.exporting.means import Mean, means
from gate_runner.exporting.model import ModelName
from gate_runner.reports.scores import number
from gate_runner.runs.stored import StoredRun

_EXPLAINED = (
    "Means over seeds; intervals are over test samples; chance is what a model scores that never sees the image."
)


def files(run: StoredRun, model: ModelName, organization: str) -> Files:
    """``README.md``, whose front matter a model hub reads.

    Args:
        run: the run.
        model: what to call its encoder.
        organization: not shown.

    Returns:
        One file.

    Raises:
        UsageError: huggingface-hub or PyYAML is missing.
    """
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
                metric_type=row.metric,
                metric_name=f"{row.metric}, 95 % CI {number(row.low)} to {number(row.high)}",
                metric_value=row.value,
            )
            for row in rows
        ],
    )
    front = yaml.safe_dump({"tags": ["gate-runner"], "model-index": index}, sort_keys=False, allow_unicode=True)
    return Files({"README.md": f"---\n{front}---\n\n{_section(run, model, rows)}"})


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
        arrow = "↑" if row.direction == "higher" else "↓"
        interval = f"{number(row.low)} to {number(row.high)}"
        values = [row.name, f"{row.metric} {arrow}", number(row.value), interval, number(row.chance)]
        lines.append("| " + " | ".join(cell(text) for text in (*values, str(row.seeds), row.note)) + " |")
    return "\n".join(lines) + "\n"
