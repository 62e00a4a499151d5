"""`gate-runner prompts`: class prompts with external knowledge."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Class prompts with external knowledge: look at them, build them, count and embed them.")

Templates = Annotated[str, typer.Option(help="Built-in template set, or the path of a JSON file of your own.")]
WordNetFolder = Annotated[
    Path | None, typer.Option("--wordnet", help="Folder with WordNet's database files; else the usual places.")
]
Form = Annotated[str, typer.Option("--style", help="Form of a prompt with knowledge: paper or toolkit.")]


@app.command()
def show(
    class_name: Annotated[str, typer.Argument(help="Any class name, such as sunflower.")],
    templates: Templates = "generic",
    wordnet: WordNetFolder = None,
    style: Form = "paper",
    limit: Annotated[int, typer.Option(help="Show so many prompts per source.", min=1)] = 5,
) -> None:
    """Show a class's prompts with and without knowledge."""
    from knowledge_prompts import check_style, show_prompts

    lines = show_prompts(
        class_name, class_prompts=templates, wordnet_folder=wordnet, style=check_style(style), max_prompts=limit
    )
    for line in lines:
        typer.echo(line)
