"""``gate-runner prompts``: class prompts with external knowledge."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from knowledge_prompts import LanguageModel, WordNet

app = typer.Typer(
    help="Class prompts with external knowledge: look at them, build them, count and embed them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Classes = Annotated[
    str, typer.Argument(help="A built-in set such as oxford-flower-102, a .txt file of class names, or a .json file.")
]
WordNetFolder = Annotated[
    Path | None, typer.Option(help="Folder with WordNet's database files; by default the usual places.")
]
NoWordNet = Annotated[bool, typer.Option("--no-wordnet", help="Do without WordNet.")]
Wiktionary = Annotated[Path | None, typer.Option(help="Wiktextract's dump, .jsonl or .jsonl.gz.")]
HeadWords = Annotated[bool, typer.Option(help="Where Wiktionary lacks a name, take its longest ending that it has.")]
Knowledge = Annotated[
    Path | None, typer.Option(help="Folder of ELEVATER's files, with external/ and gpt3/ in it.", show_default=False)
]

Sources = Annotated[
    list[str] | None,
    typer.Option("--source", help="NAME=PATH of a source, such as cupl=prompts.json; repeat it for several."),
]


@app.command()
def show(
    class_name: Annotated[str, typer.Argument(help="Any class name, such as sunflower.")],
    templates: Annotated[str, typer.Option(help="Built-in template set, or the path of your own.")] = "generic",
    wordnet_folder: WordNetFolder = None,
    knowledge: Knowledge = None,
    source: Sources = None,
    style: Annotated[str, typer.Option(help="Form of a prompt with knowledge: paper or toolkit.")] = "paper",
    limit: Annotated[int, typer.Option(help="Prompts to show per source.", min=1)] = 5,
) -> None:
    """Show a class's prompts with and without knowledge."""
    from knowledge_prompts import check_style, gather_sources, load_class_prompts, show_prompts

    class_prompts = load_class_prompts(templates)
    named = knowledge is not None or source
    sources = gather_sources(class_prompts, knowledge=knowledge, sources=source or ()) if named else None
    lines = show_prompts(
        class_name,
        class_prompts=class_prompts,
        sources=sources,
        wordnet_folder=wordnet_folder,
        style=check_style(style),
        max_prompts=limit,
    )
    for line in lines:
        typer.echo(line)


@app.command()
def build(
    classes: Classes,
    output: Annotated[Path, typer.Option(help="Folder to write external/ and gpt3/ into.")],
    wordnet_folder: WordNetFolder = None,
    no_wordnet: NoWordNet = False,
    wiktionary: Wiktionary = None,
    head_words: HeadWords = False,
    endpoint: Annotated[str | None, typer.Option(help="Address of an endpoint that speaks OpenAI's protocol.")] = None,
    model: Annotated[str | None, typer.Option(help="Name of the endpoint's model.")] = None,
    completion: Annotated[bool, typer.Option(help="Use the endpoint's completions, not its chat.")] = False,
    key_variable: Annotated[str, typer.Option(help="Environment variable with the key.")] = "OPENAI_API_KEY",
    local_model: Annotated[Path | None, typer.Option(help="Folder with a language model of transformers.")] = None,
    items: Annotated[int, typer.Option(help="Answers per class.", min=1)] = 5,
    shots: Annotated[int, typer.Option(help="Example pairs per question.", min=1)] = 3,
    max_calls: Annotated[int | None, typer.Option(help="The most calls of the language model.", min=0)] = None,
    timeout: Annotated[float, typer.Option(help="Seconds per call.")] = 30.0,
    seed: Annotated[int, typer.Option(help="Seed of the draw of examples.")] = 0,
) -> None:
    """Make knowledge for your own classes, in ELEVATER's format. The same command again asks only what is missing."""
    from knowledge_prompts import Wiktextract, build_files, load_class_prompts

    asked = _language_model(endpoint, model, completion, key_variable, local_model, timeout)
    class_prompts = load_class_prompts(classes)
    found = build_files(
        class_prompts,
        output,
        wordnet=_wordnet(wordnet_folder, no_wordnet),
        wiktionary=Wiktextract(wiktionary, class_prompts.classes, head_words=head_words) if wiktionary else None,
        model=asked,
        items_per_class=items,
        shots=shots,
        max_calls=max_calls,
        seed=seed,
        progress=lambda phase, done, of: typer.echo(f"\r{phase}: {done} of {of} classes", nl=done == of, err=True),
    )
    for line in found.lines():
        typer.echo(line)
    if found.failed:
        raise typer.Exit(1)


@app.command()
def coverage(
    classes: Classes,
    knowledge: Knowledge = None,
    wordnet_folder: WordNetFolder = None,
    no_wordnet: NoWordNet = False,
    wiktionary: Wiktionary = None,
    head_words: HeadWords = False,
    cupl: Annotated[Path | None, typer.Option(help="CuPL's JSON.")] = None,
    descriptors: Annotated[Path | None, typer.Option(help="Visual descriptors' JSON.")] = None,
    source: Sources = None,
    table: Annotated[Path | None, typer.Option(help="Also write items per class and source, tab-separated.")] = None,
) -> None:
    """Count the classes that each source knows."""
    from gate_runner.runs.folder import write
    from knowledge_prompts import coverage as count
    from knowledge_prompts import gather_sources, load_class_prompts

    class_prompts = load_class_prompts(classes)
    sources = gather_sources(
        class_prompts,
        knowledge=knowledge,
        wordnet=_wordnet(wordnet_folder, no_wordnet),
        wiktionary=wiktionary,
        cupl_file=cupl,
        descriptors=descriptors,
        head_words=head_words,
        sources=source or (),
    )
    found = count(class_prompts.classes, sources, repeated=class_prompts.repeated)
    for line in found.lines():
        typer.echo(line)
    if table is not None:
        write(table, found.table().encode())
        typer.echo(f"wrote {table}")


@app.command()
def diversity(
    classes: Annotated[list[str], typer.Argument(help="One or several sets: built-in, .txt or .json.")],
    encoder: Annotated[str, typer.Option(help="Encoder with a text side.")] = "micro-clip",
    device: Annotated[str, typer.Option(help="torch device.")] = "cpu",
    output: Annotated[Path | None, typer.Option(help="Also write the picture, as SVG.")] = None,
) -> None:
    """Measure how far the concepts of data sets lie apart for an encoder, and draw them side by side."""
    from gate_runner.encoders import load_encoder
    from gate_runner.runs.folder import write
    from knowledge_prompts import concept_features, concept_map, load_class_prompts, map_svg

    sets = [load_class_prompts(name) for name in classes]
    for one in sets:
        if not one.classes:
            raise ValueError(f"template set {one.name!r} has no classes; expected at least one class name")
        if [other.name for other in sets].count(one.name) > 1:
            raise ValueError(f"two sets are called {one.name!r}; give one of them another name")
    made = load_encoder(encoder, device=device)
    found = concept_map({one.name: concept_features(made.encode_text, one.classes) for one in sets})
    for name, spread in found.spread.items():
        typer.echo(f"{name}: {len(found.points[name])} concepts, spread {spread:.3f}")
    if output is not None:
        write(output, map_svg(found).encode())
        typer.echo(f"wrote {output}")


def _wordnet(folder: Path | None, without: bool) -> WordNet | None:
    from knowledge_prompts import WordNet

    return None if without else WordNet(folder)


def _language_model(
    endpoint: str | None, model: str | None, completion: bool, key_variable: str, folder: Path | None, timeout: float
) -> LanguageModel | None:
    from knowledge_prompts import Endpoint, LocalModel

    if endpoint and folder:
        raise ValueError("both --endpoint and --local-model were given; expected one of them")
    if (endpoint is None) != (model is None):
        given, lacking = ("--endpoint", "--model") if endpoint else ("--model", "--endpoint")
        raise ValueError(f"{given} was given without {lacking}; expected both")
    if folder is not None:
        sys.stderr.write(f"loading {folder}\n")
        return LocalModel.from_folder(folder)
    if endpoint is None or model is None:
        return None
    return Endpoint(
        endpoint, model, kind="completion" if completion else "chat", key_variable=key_variable, timeout=timeout
    )
