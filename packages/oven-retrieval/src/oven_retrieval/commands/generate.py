"""``oven generate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oven_retrieval.commands.options import Folder
from oven_retrieval.commands.progress_line import ProgressLine
from oven_retrieval.commands.terminal import echo


def generate(
    questions: Annotated[Path, typer.Argument(help="OVEN's jsonl: data_id, question; image_id with --images.")],
    kb: Folder,
    model: Annotated[str, typer.Option(help="Folder of a generative transformers model, or its name on the hub.")],
    output: Annotated[Path, typer.Option(help="OVEN's prediction jsonl to write, for `eval`.")],
    images: Annotated[Path | None, typer.Option(help="Folder of the questions' images; none for text models.")] = None,
    free: Annotated[bool, typer.Option("--free", help="Write freely, then map to the nearest name.")] = False,
    aliases: Annotated[bool, typer.Option("--aliases", help="Aliases may be written too.")] = False,
    beams: Annotated[int, typer.Option(min=1, help="Of the search.")] = 4,
    template: Annotated[str | None, typer.Option(help="Prompt with {question}; the model's own by default.")] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Questions at once.")] = 8,
    device: Annotated[str, typer.Option(help="Torch device.")] = "cpu",
) -> None:
    """Answer questions with a generative model that can only write names that exist; continues after a kill."""
    from oven_retrieval.generation import load_generator, write_answers
    from oven_retrieval.models import ImageFolder, read_questions
    from oven_retrieval.workspace import open_workspace

    question_list, _ = read_questions(questions, None if images is None else ImageFolder(images), answered=False)
    generator = load_generator(model, open_workspace(kb), device=device, aliases=aliases, batch=batch_size)
    write_answers(
        generator,
        question_list,
        output,
        constrained=not free,
        beams=beams,
        template=template,
        progress=ProgressLine(),
    )
    if generator.unwritable:
        echo(f"{generator.unwritable:,} names hold characters that the model's tokenizer does not know", err=True)
    echo(f"wrote {len(question_list):,} predictions to {output}")
