"""``oven build``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oven_retrieval.commands.encoders import Encoders, encoder_name
from oven_retrieval.commands.options import FileFormat, LeaveOut
from oven_retrieval.commands.progress_line import ProgressLine
from oven_retrieval.commands.terminal import echo
from wary_files.text import number_of


def build(
    context: typer.Context,
    output: Annotated[Path, typer.Option(help="Folder to write.")],
    source: Annotated[
        Path | None,
        typer.Argument(help="Entities: Wiki6M jsonl, JSONL, CSV, WordNet nouns, a Wikidata dump; .gz and .bz2 too."),
    ] = None,
    wordnet: Annotated[
        bool, typer.Option("--wordnet", help="WordNet's nouns, from Debian's wordnet-base or NLTK's corpus.")
    ] = False,
    language: Annotated[
        list[str] | None,
        typer.Option(help="Languages of a Wikidata dump: en, de, zh-hans…, preferred ones first; repeatable."),
    ] = None,
    infobox: Annotated[
        Path | None,
        typer.Option(help="Wikipedia's dump of articles (XML, .bz2): images of infoboxes for entities without one."),
    ] = None,
    file_format: FileFormat = None,
    leave_out: LeaveOut = None,
    tokenizer: Annotated[
        str, typer.Option(help="words, bigrams (for scripts without spaces) or whitespace.")
    ] = "words",
    ngrams: Annotated[
        bool, typer.Option("--ngrams/--no-ngrams", help="Index trigrams: for names spelled alike, and `link --typos`.")
    ] = True,
    encoder: Annotated[
        str | None,
        typer.Option(
            help="Encoder of the entities' texts, for `search`: MODULE:FUNCTION; gate-runner takes all of its own."
        ),
    ] = None,
    template: Annotated[str, typer.Option(help="Text to encode: name, or description for both.")] = "name",
    memory: Annotated[float | None, typer.Option(help="Memory for the vector index in MB.")] = None,
    recall: Annotated[float, typer.Option(help="Wanted recall at 1 of the vector index.")] = 0.96,
    device: Annotated[str, typer.Option(help="Torch device of the encoder.")] = "cpu",
    overwrite: Annotated[bool, typer.Option(help="Replace a knowledge base that is there.")] = False,
) -> None:
    """Build a knowledge base and its indexes.

    The name index always, and with an encoder the vector index.
    """
    from oven_retrieval.encoding import check_template
    from oven_retrieval.vectors.plan import plan_index
    from oven_retrieval.wordnet import find_wordnet
    from oven_retrieval.workspace import build_workspace, continued_build

    if (source is None) != wordnet:
        raise ValueError("build: expected a file of entities or --wordnet, one of them")
    if source is None:
        source = find_wordnet()
    model = None
    if encoder is not None:  # what cannot be used is refused before anything is built or replaced
        plan_index(1, 1, memory_mb=memory, recall=recall)
        check_template(template)
        encoders: Encoders = context.obj
        model = encoders.load(encoder, device)
    settings = {
        "source": _known_by(source), "infobox": _known_by(infobox), "format": file_format, "leave-out": leave_out,
        "tokenizer": tokenizer, "ngrams": ngrams, "language": language, "encoder": encoder, "template": template,
        "memory": memory, "recall": recall,
    }  # fmt: skip
    with continued_build(output, settings, overwrite=overwrite) as replaces:
        with ProgressLine() as progress:
            linker = build_workspace(
                source,
                output,
                file_format=file_format,
                filters=leave_out or (),
                tokenizer=tokenizer,
                ngrams=ngrams,
                languages=language,
                infobox=infobox,
                overwrite=replaces,
                progress=progress,
            )
        left_out = ", ".join(f"{count:,} {reason}" for reason, count in linker.kb.meta["left_out"].items() if count)
        echo(
            f"{number_of(len(linker.kb), 'entity', 'entities')} in {output}"
            + (f"; left out: {left_out}" if left_out else "")
        )
        if "infobox_images" in linker.kb.meta:
            have = number_of(linker.kb.meta["infobox_images"], "entity has", "entities have")
            echo(f"{have} the image of the article's infobox")
        for tag, count in linker.kb.meta.get("languages", {}).items():
            echo(f"{number_of(count, 'label')} in {tag}" + ("" if count else ": is that a language's tag?"))
        if linker.kb.meta.get("cut"):
            echo(f"{linker.kb.meta['cut']}; what was read is kept", err=True)
        if model is not None:
            from oven_retrieval.encoding import add_vectors

            add_vectors(
                linker,
                output,
                model,
                encoder_name=encoder_name(model),
                template=template,
                memory_mb=memory,
                recall=recall,
                overwrite=replaces,
                say=echo,
                progress=ProgressLine(),
            )


def _known_by(path: Path | None) -> list[object] | None:
    """What tells a file's contents from others, without reading it."""
    if path is None:
        return None
    try:
        status = path.stat()
    except OSError:  # its reader says so
        return [str(path)]
    return [str(path.resolve()), status.st_size, status.st_mtime_ns]
