"""``oven annotate`` and ``oven agree``: the human set."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oven_retrieval.commands.options import Folder
from oven_retrieval.commands.terminal import echo
from wary_files.text import number_of

Questions = Annotated[Path, typer.Argument(help="OVEN's reference jsonl: data_id, image_id, question, entity_id.")]


def annotate(
    questions: Questions,
    kb: Folder,
    output: Annotated[Path, typer.Option(help="HTML file to write.")],
    images: Annotated[Path | None, typer.Option(help="Folder of the questions' images.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="The first so many questions.")] = None,
) -> None:
    """Write a page on which people correct questions."""
    from oven_retrieval import KnowledgeBase
    from oven_retrieval.construction.annotation import write_annotation_page
    from oven_retrieval.evaluation.files import read_references
    from oven_retrieval.models import ImageFolder

    references = read_references(questions)[:limit]
    folder = None if images is None else ImageFolder(images)
    write_annotation_page(output, references, KnowledgeBase(kb / "kb"), folder)
    echo(f"{output}: {number_of(len(references), 'question')}")


def agree(
    questions: Questions,
    annotations: Annotated[list[Path], typer.Argument(help="Files that the page saved, one an annotator.")],
    kb: Folder,
    output: Annotated[Path, typer.Option(help="Reference jsonl of the human set to write.")],
    annotators: Annotated[int, typer.Option(min=1, help="People a question.")] = 3,
) -> None:
    """Write the questions that annotators agree on."""
    from oven_retrieval import KnowledgeBase
    from oven_retrieval.construction.annotation import agreed, read_annotations, write_references
    from oven_retrieval.evaluation.files import read_references

    if output.exists():
        raise ValueError(f"agree: {output} exists; expected a new file")
    remaining, report = agreed(
        read_references(questions), read_annotations(annotations), KnowledgeBase(kb / "kb"), annotators=annotators
    )
    if not remaining:
        raise ValueError(f"agree: no question is left: {', '.join(f'{count} {why}' for why, count in report.items())}")
    write_references(output, remaining)
    for why, count in report.items():
        echo(f"{count:,} {why}")
    echo(f"wrote {output}")
