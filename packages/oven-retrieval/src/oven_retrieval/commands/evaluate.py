"""``oven eval``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oven_retrieval.commands.terminal import echo

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from oven_retrieval.evaluation.scores import Outcomes
    from oven_retrieval.kb import KnowledgeBase

Reference = Annotated[Path | None, typer.Option(help="OVEN's reference jsonl of this split.")]
Predictions = Annotated[
    list[Path] | None,
    typer.Option(help="Predictions of this split: data_id, pred_entity_id. Repeatable: one a model, in one order."),
]


def evaluate(
    query_reference: Reference = None,
    query_predictions: Predictions = None,
    entity_reference: Reference = None,
    entity_predictions: Predictions = None,
    human_reference: Reference = None,
    human_predictions: Predictions = None,
    name: Annotated[list[str] | None, typer.Option(help="Name of each model; its file's by default.")] = None,
    kb: Annotated[
        Path | None, typer.Option("--kb", help="Project folder: tells kinds of errors, and popularity.")
    ] = None,
    page: Annotated[Path | None, typer.Option(help="Write a results page of one model, one HTML file.")] = None,
    figure: Annotated[
        Path | None, typer.Option(help="Write accuracy by popularity, models side by side, as SVG; needs --kb.")
    ] = None,
    edges: Annotated[str, typer.Option(help="Where the figure's bins of popularity start.")] = "0,100,1000,5000",
    images: Annotated[Path | None, typer.Option(help="Folder of the questions' images, for the page.")] = None,
    title: Annotated[str, typer.Option(help="Title of the page.")] = "OVEN results",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object; of several models, by name.")] = False,
) -> None:
    """Score predictions, next to OVEN's official numbers.

    Every question counts once, with intervals. Of several models, the paper's table: seen, unseen, harmonic means.
    """
    from oven_retrieval import KnowledgeBase
    from oven_retrieval.evaluation import evaluate_splits, model_table, outcomes, read_splits, report_lines, write_page

    files = {
        "query": (query_reference, query_predictions or []),
        "entity": (entity_reference, entity_predictions or []),
        "human": (human_reference, human_predictions or []),
    }
    names = _names(files, name or [])
    for option, folder in (("--images", images), ("--kb", kb)):
        if folder is not None and not folder.is_dir():
            raise ValueError(f"eval: {option} {folder}: expected a folder")
    if page is not None and len(names) > 1:
        raise ValueError(f"eval: --page shows one model, got {len(names)}; --figure compares them")
    if figure is not None and kb is None:
        raise ValueError("eval: --figure needs --kb, which knows the entities' popularity")
    starts = _edges(edges)
    entities = None if kb is None else KnowledgeBase(kb / "kb")
    results: dict[str, dict[str, Any]] = {}
    marked: dict[str, dict[str, Outcomes]] = {}
    lines: list[str] = []
    for number, model in enumerate(names):
        own = {
            split: (reference, predictions[number])
            for split, (reference, predictions) in files.items()
            if reference is not None
        }
        splits = read_splits(**own)
        results[model] = evaluate_splits(splits)
        marked[model] = {split: outcomes(*part) for split, part in splits.items()}
        lines += ([model] if len(names) > 1 else []) + report_lines(results[model])
        if entities is not None:
            lines += _kinds(results[model], marked[model], entities)
    if len(names) > 1:
        lines += model_table(results)
    if page is not None:
        write_page(page, marked[names[0]], results[names[0]], kb=entities, images=images, title=title)
        lines.append(f"{page}: written")
    if figure is not None and entities is not None:
        _write_figure(figure, marked, entities, starts)
        lines.append(f"{figure}: written")
    if as_json:
        lines = [json.dumps(results if len(names) > 1 else results[names[0]])]
    for line in lines:
        echo(line)


def _names(files: Mapping[str, tuple[Path | None, Sequence[Path]]], names: Sequence[str]) -> list[str]:
    """The models' names, one for each file of predictions of a split."""
    for split, (reference, predictions) in files.items():
        if (reference is None) != (not predictions):
            raise ValueError(f"eval: expected both --{split}-reference and --{split}-predictions, got one of them")
    counts = {split: len(predictions) for split, (_, predictions) in files.items() if predictions}
    if not counts:
        raise ValueError("query, entity, human: expected the files of at least one split, got none")
    if len(set(counts.values())) > 1:
        given = ", ".join(f"{count} of {split}" for split, count in counts.items())
        raise ValueError(f"eval: expected one file of predictions of each model for each split, got {given}")
    first = next(predictions for _, predictions in files.values() if predictions)
    chosen = list(names) or [path.stem for path in first]
    if len(chosen) != len(first):
        raise ValueError(f"eval: expected a --name for each of {len(first)} models, got {len(chosen)}")
    doubled = [model for model in chosen if chosen.count(model) > 1]
    if doubled:
        raise ValueError(f"eval: two models are called {doubled[0]!r}; expected --name for each")
    return chosen


def _edges(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"eval: --edges: expected numbers with commas between them, got {text!r}") from None


def _kinds(result: dict[str, Any], marked: Mapping[str, Outcomes], entities: KnowledgeBase) -> list[str]:
    """Lines of the kinds of errors, which the result gets, too."""
    from oven_retrieval.evaluation import error_kinds, kind_shares

    shares = {split: kind_shares(error_kinds(outcome, entities)) for split, outcome in marked.items()}
    result["kinds"] = {split: {entry.kind: entry.questions for entry in of_split} for split, of_split in shares.items()}
    return [
        f"{split:7} {entry.kind:20} {entry.share.value:5.1f} %  {entry.questions:,}"
        for split, of_split in shares.items()
        for entry in of_split
    ]


def _write_figure(
    path: Path, marked: Mapping[str, Mapping[str, Outcomes]], entities: KnowledgeBase, edges: Sequence[float]
) -> None:
    """Accuracy by popularity of the entity: the paper's figure 6, all splits together."""
    import numpy as np

    from oven_retrieval.evaluation import accuracy_by_popularity, bar_figure
    from wary_files.durable import replace_file

    bins = {}
    for model, by_split in marked.items():
        references = [reference for outcome in by_split.values() for reference in outcome.references]
        correct = np.concatenate([outcome.correct for outcome in by_split.values()])
        ids = [reference.entity_id for reference in references]
        rows = entities.rows(ids)
        known = np.flatnonzero(rows >= 0)
        popularity = entities.popularity[rows[known]]
        if not len(known) or not np.any(popularity > 0):
            raise ValueError(f"eval: --figure: {entities.path} knows the popularity of no entity that is asked for")
        bins[model] = accuracy_by_popularity(correct[known], popularity, [ids[i] for i in known.tolist()], edges)
    labels = [f"{low:g}" for low in edges]
    series = {
        model: [next((each.accuracy for each in of_model if each.low == low), None) for low in edges]
        for model, of_model in bins.items()
    }
    replace_file(path, bar_figure(labels, series, "popularity of the entity, from"))
