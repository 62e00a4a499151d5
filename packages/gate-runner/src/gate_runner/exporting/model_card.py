"""A model card: a README with Hugging Face's model-index and a table that people read, and `.eval_results` files."""

from __future__ import annotations

from gate_runner.__about__ import __version__
from gate_runner.errors import UsageError
from gate_runner.exporting.model import Files, Mean, ModelName, file_names, means
from gate_runner.reports.scores import number
from gate_runner.runs.stored import StoredRun

_EXPLAINED = (
    "Means over seeds; intervals are over test samples; chance is what a model scores that never sees the image."
)


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
                dataset_type=row.published,
                dataset_name=row.published,
                dataset_split="test",
                metric_type=row.metric,
                metric_name=f"{row.metric}, 95 % CI {number(row.low)} to {number(row.high)}",
                metric_value=row.value,
            )
            for row in rows
        ],
    )
    front = yaml.safe_dump({"tags": ["gate-runner"], "model-index": index}, sort_keys=False, allow_unicode=True)
    texts = {"README.md": f"---\n{front}---\n\n{_section(run, model, rows)}"}
    for name, stem in file_names(dict.fromkeys(row.published for row in rows)).items():
        entries = [
            EvalResultEntry(
                dataset_id=f"gate-runner/{stem}",
                task_id=row.metric,
                value=row.value,
                notes=f"95 % CI {number(row.low)} to {number(row.high)}; chance {number(row.chance)}; "
                f"{row.seeds} seeds of the head; gate-runner {__version__}{f'; {row.note}' if row.note else ''}",
            )
            for row in rows
            if row.published == name
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
        arrow = "↑" if row.direction == "higher" else "↓"
        interval = f"{number(row.low)} to {number(row.high)}"
        values = [row.published, f"{row.metric} {arrow}", number(row.value), interval, number(row.chance)]
        lines.append("| " + " | ".join(cell(text) for text in (*values, str(row.seeds), row.note)) + " |")
    return "\n".join(lines) + "\n"
