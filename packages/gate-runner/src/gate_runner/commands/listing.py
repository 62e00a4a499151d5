"""Commands that list what there is: ``gate-runner ls …``, and env."""

from __future__ import annotations

from typing import Annotated

import typer

from gate_runner.commands.options import AsJson
from gate_runner.terminal import echo, echo_json, echo_table

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.command()
def packs(json: AsJson = False) -> None:
    """Named lists of benchmarks."""
    from gate_runner.benchmarks import PACKS

    _show(json, [{"pack": name, "benchmarks": " ".join(members)} for name, members in PACKS.items()])


@app.command()
def benchmarks(json: AsJson = False) -> None:
    """What can be scored, and by which metrics.

    From which sources, and the licences of the data.
    """
    from gate_runner.benchmarks import all_benchmarks

    rows = [
        {
            "benchmark": benchmark.id,
            "task": benchmark.task,
            "metrics": " ".join(benchmark.metrics),
            "sources": " ".join(benchmark.sources),
            "licence": benchmark.licence,
        }
        for benchmark in all_benchmarks().values()
    ]
    _show(json, rows)


@app.command()
def tasks(json: AsJson = False) -> None:
    """The kinds of problems.

    What is trained for each, and which benchmarks are of it.
    """
    from gate_runner.benchmarks import all_benchmarks
    from gate_runner.tasks.registry import task_types

    named: dict[str, list[str]] = {}
    for benchmark in all_benchmarks().values():
        named.setdefault(benchmark.task, []).append(benchmark.id)
    rows = [
        {"task": task.id, "trained": task.summary, "benchmarks": str(len(named.get(task.id, [])))}
        for task in task_types().values()
    ]
    _show(json, rows)


@app.command()
def metrics(json: AsJson = False) -> None:
    """Names of metrics, and which way is better.

    And the benchmarks that have them.
    """
    from gate_runner.benchmarks import all_benchmarks
    from paired_scores.metrics import METRICS

    users: dict[str, list[str]] = {name: [] for name in METRICS}
    for benchmark in all_benchmarks().values():
        for name in benchmark.metrics:
            users.setdefault(name, []).append(benchmark.id)
    rows = [
        {
            "metric": name,
            "better": METRICS[name].direction if name in METRICS else "as its task says",
            "benchmarks": " ".join(ids[:4]) + (f" and {len(ids) - 4} more" if len(ids) > 4 else ""),
        }
        for name, ids in users.items()
    ]
    _show(json, rows)


@app.command()
def encoders(json: AsJson = False) -> None:
    """The forms that a spec string can take."""
    from vision_features.encoders.spec import encoder_forms

    _show(json, [{"spec": form, "what": text} for form, text in encoder_forms()])


@app.command()
def models(json: AsJson = False) -> None:
    """GATE's 21 models, which ``run --models`` takes."""
    from gate_runner.commands.paper_models import GATE_MODELS

    _show(json, [{"model": name, "spec": model.spec, "note": model.note} for name, model in GATE_MODELS.items()])


@app.command()
def statistics(
    table: Annotated[str, typer.Argument(help="compared (ELEVATER's table 1), icinw (5) or odinw (6).")] = "icinw",
    json: AsJson = False,
) -> None:
    """ELEVATER's tables of data sets: sizes, concepts, metrics."""
    from gate_data import statistics as rows_of

    rows = rows_of(table)
    if json:
        echo_json(rows)
        return
    shown = [{name: _told(value) for name, value in row.items()} for row in rows]
    _show(False, shown)


def _told(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else ""
    return f"{value:,}" if isinstance(value, int) else str(value)


@app.command()
def settings(json: AsJson = False) -> None:
    """Every setting of a run.

    Its group, its option, where it has one, its default, and what it says.
    """
    from gate_runner.settings.record import DECLARED, Settings, flag_of
    from gate_runner.settings.signatures import COMMAND_LINE, written

    start = Settings().changed(**COMMAND_LINE)
    rows = [
        {
            "setting": name,
            "group": declared.group,
            "option": flag_of(name) if declared.common else "",
            "default": "" if (value := getattr(start, name)) in (None, (), {}) else written(value),
            "what it says": declared.help.partition("\n")[0],
        }
        for name, declared in DECLARED.items()
    ]
    _show(json, rows)


@app.command()
def published(
    backbone: Annotated[str, typer.Option(help="Encoder of the rows, RN50 or ViT-B/16; both by default.")] = "",
    json: AsJson = False,
) -> None:
    """Published few-shot accuracies.

    With their sources, and what they were chosen with.
    """
    from gate_runner.tasks.coop.published import SEEN, base_to_new_table, few_shot_table
    from gate_runner.tasks.coop.published import published as rows

    if json:
        echo_json(rows())
        return
    echo(SEEN)
    for table in (few_shot_table(backbone=backbone), base_to_new_table(backbone=backbone)):
        echo(table.as_markdown(), nl=False)


def _show(json: bool, rows: list[dict[str, str]]) -> None:
    if json:
        echo_json(rows)
    else:
        echo_table(list(rows[0]), [list(row.values()) for row in rows], words=rows[0])


def env(json: AsJson = False) -> None:
    """Print versions, hardware and extras.

    Nothing that it prints identifies a person.
    """
    from gate_runner.commands.environment import described, environment

    entries = environment()
    if json:
        echo_json(entries)
    else:
        echo("\n".join(described(entries)))
