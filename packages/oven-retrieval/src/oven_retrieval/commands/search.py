"""``oven search``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from oven_retrieval.commands.encoders import Encoders, encoder_name
from oven_retrieval.commands.options import AsJson, Best, Folder, check_best
from oven_retrieval.commands.terminal import echo


def search(
    context: typer.Context,
    kb: Folder,
    encoder: Annotated[str | None, typer.Option(help="The encoder that `build` or `train` was given.")] = None,
    model: Annotated[Path | None, typer.Option(help="Folder written by `train`; asks --text about --image.")] = None,
    image: Annotated[list[Path] | None, typer.Option(help="Image to look for. Repeatable.")] = None,
    text: Annotated[list[str] | None, typer.Option(help="Text to look for. Repeatable.")] = None,
    k: Best = 5,
    template: Annotated[str, typer.Option(help="As in `build`.")] = "name",
    device: Annotated[str, typer.Option(help="Torch device of the encoder.")] = "cpu",
    as_json: AsJson = False,
) -> None:
    """Find the entities nearest to images or texts.

    By CLIP zero-shot over the entities' texts, or by a trained model's answers.
    """
    encoders: Encoders = context.obj
    if model is not None:
        records = _ask(encoders, kb, model, encoder, image or [], text or [], k, device)
    else:
        records = _nearest(encoders, kb, encoder, image, text, k, template, device)
    for record in records:
        if as_json:
            echo(json.dumps(record, ensure_ascii=False))
            continue
        for entity in record["entities"]:
            echo("\t".join([record["query"], entity["id"], entity["name"], f"{entity['score']:.4f}"]))
        if not record["entities"]:
            echo("\t".join([record["query"], "", "", "none"]))


def _ask(
    encoders: Encoders,
    kb: Path,
    model: Path,
    encoder: str | None,
    images: list[Path],
    texts: list[str],
    k: int,
    device: str,
) -> list[dict[str, Any]]:
    from oven_retrieval.commands.train import open_trained
    from oven_retrieval.ranking import describe

    if not images or len(texts) not in (1, len(images)):
        raise ValueError(
            "search --model: expected --image, and one --text for all or one for each, "
            f"got {len(images)} and {len(texts)}"
        )
    questions = texts * len(images) if len(texts) == 1 else texts
    opened, size = open_trained(encoders, model, kb, device, encoder)
    check_best(k, len(opened.kb))
    neighbours = opened.search(encoders.read(images, size), questions, k)
    labels = [f"{image}: {text}" for image, text in zip(images, questions, strict=True)]
    return describe(opened.kb.label, labels, neighbours)


def _nearest(
    encoders: Encoders,
    kb: Path,
    encoder: str | None,
    image: list[Path] | None,
    text: list[str] | None,
    k: int,
    template: str,
    device: str,
) -> list[dict[str, Any]]:
    from oven_retrieval import KnowledgeBase
    from oven_retrieval.encoding import open_vectors, search_features
    from oven_retrieval.ranking import describe

    if encoder is None:
        raise ValueError("search: expected --encoder or --model, got neither")
    if not image and not text:
        raise ValueError("search: expected --image or --text, got neither")
    entities = KnowledgeBase(kb / "kb")
    check_best(k, len(entities))
    model = encoders.load(encoder, device)
    index = open_vectors(kb, entities, encoder_name=encoder_name(model), template=template)
    records = []
    if image:
        records += describe(
            entities.label,
            [str(path) for path in image],
            search_features(index, model.encode_image(encoders.read(image, model.image_size)), k),
        )
    if text:
        records += describe(entities.label, text, search_features(index, model.encode_text(text), k))
    return records
