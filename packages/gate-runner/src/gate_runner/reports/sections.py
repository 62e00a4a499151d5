"""Sections of the page that need no chart: tables of task types, pictures of samples, failures."""

from __future__ import annotations

from pathlib import Path

from gate_data.imports import named
from gate_runner.charts.markup import folded, joined, note, piece, table
from gate_runner.reports.contents import Contents, overviews
from gate_runner.reports.pictures import made_again
from gate_runner.tasks.registry import known_task_type
from gate_runner.tasks.task import Details


def details(contents: Contents) -> str:
    """Tables that a task type has of its results, such as a suite's subsets; empty where there are none."""
    parts = []
    for row in contents.rows:
        detailed = known_task_type(row.task).details
        for run in contents.runs if detailed else ():
            for result in run.named(row.name):
                if result.status == "ok":
                    shown: Details = named(detailed)(result.training, run.encoder)
                    inside = [*map(note, shown.notes), table(shown.heads, shown.rows, words=shown.words)]
                    seed = f", seed {result.seed}" if len(run.named(row.name)) > 1 else ""
                    parts.append(folded(f"{row.name}, {run.label}{seed}", joined(inside)))
    return joined(parts)


def over_sets(contents: Contents) -> str:
    """Tables over all results of a task type; empty where none has them."""
    parts: list[str] = []
    for shown in overviews(contents.runs):
        parts += [piece("headed", shown.title), note(shown.note) if shown.note else ""]
        parts.append(table(shown.heads, shown.rows, words=shown.words))
    return joined(parts)


def examples(contents: Contents, count: int, data_root: Path | None) -> str:
    """Pictures of the hardest test samples of each benchmark, and of its worst confusions; empty for none wanted."""
    if count < 1 or not contents.rows:
        return ""
    explained = (
        "The worst test samples over runs and seeds, and boxes' best; below them the samples of the most frequent "
        "confusions. They were made again from their source and are shown only where they are the same data, by "
        "digest, as the runs saw."
    )
    parts = [note(explained)]
    for row in contents.rows:
        again, reason = made_again(contents, row, data_root)
        shown, reason = again.hardest(count) if again else ([], reason)
        parts.append(piece("headed", row.name))
        if reason:
            parts.append(note(f"No pictures: {reason}."))
        if shown:
            parts.append(piece("pictures", shown))
        for caption, confused in again.confused(count) if again and not reason else ():
            parts.append(folded(caption, piece("pictures", confused)))
    return joined(parts)


def failures(contents: Contents) -> str:
    """What failed and why; empty where nothing did."""
    rows = [[name, label, reason] for label, name, reason in contents.failures]
    return table(["Benchmark", "Run", "Reason"], rows, words=[1, 2]) if rows else ""
