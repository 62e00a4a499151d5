"""``oven train``, ``oven answer`` and ``oven generate``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oven_retrieval.commands.encoders import Encoders, encoder_name
from oven_retrieval.commands.options import Folder, NamedEncoder
from oven_retrieval.commands.progress_line import ProgressLine
from oven_retrieval.commands.terminal import echo
from wary_files.text import number_of

if TYPE_CHECKING:
    from oven_retrieval.kb import KnowledgeBase
    from oven_retrieval.models import Question
    from oven_retrieval.models.trained import TrainedModel
    from oven_retrieval.pictures import Size

QuestionFile = Annotated[
    Path, typer.Argument(help="OVEN's jsonl: data_id, image_id, question, entity_id, data_split; .gz too.")
]
Images = Annotated[Path, typer.Option(help="Folder with the questions' images, named by image_id; folders below too.")]
Device = Annotated[str, typer.Option(help="Torch device.")]
SkipMissing = Annotated[
    bool, typer.Option("--skip-missing", help="Leave out questions whose image or entity is missing.")
]
Batch = Annotated[int, typer.Option(min=1, help="Images per call of the encoder.")]


def train(
    context: typer.Context,
    questions: QuestionFile,
    kb: Folder,
    encoder: Annotated[
        str, typer.Option(help="Encoder to start from: MODULE:FUNCTION; gate-runner takes all of its own.")
    ],
    images: Images,
    output: Annotated[Path, typer.Option(help="Folder to write, for `search --model` and `answer`.")],
    validation: Annotated[
        Path | None,
        typer.Option(help="Questions of seen and unseen entities, for early stopping; a tenth is held out by default."),
    ] = None,
    entity_images: Annotated[
        Path | None, typer.Option(help="Folder with the entities' images, named by id or as in the knowledge base.")
    ] = None,
    model: Annotated[str, typer.Option(help="clip2clip or fusion.")] = "clip2clip",
    fine_tune: Annotated[
        str | None,
        typer.Option(help="Encoder weights to train, as a regular expression over their names, or `all`."),
    ] = None,
    template: Annotated[str, typer.Option(help="Text of an entity: name, or description for both.")] = "name",
    steps: Annotated[int | None, typer.Option(help="Most steps; the paper's 2,000 or 10,000 by default.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Questions per step; the paper's 4,096 by default.")] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate; the paper's by default.")] = None,
    optimiser: Annotated[str | None, typer.Option(help="adafactor, the paper's and the default, or adamw.")] = None,
    validate_every: Annotated[int | None, typer.Option(help="Steps between two looks at the validation.")] = None,
    patience: Annotated[int | None, typer.Option(help="Looks without a better harmonic mean before it stops.")] = None,
    encode_batch: Batch = 64,
    seed: Annotated[int, typer.Option(help="Seed of the order, the held-out questions and the candidates.")] = 0,
    device: Device = "cpu",
    skip_missing: SkipMissing = False,
) -> None:
    """Train CLIP2CLIP or CLIP Fusion on questions.

    Features that were encoded before a kill are used again.
    """
    from oven_retrieval import KnowledgeBase
    from oven_retrieval.models import ImageFolder, TrainingOptions, hold_out, train_model
    from oven_retrieval.models import entity_images as images_of_entities
    from oven_retrieval.models.run import paper_recipe

    if output.exists():
        raise ValueError(f"train: {output} exists; expected a new folder")
    changes = {
        "steps": steps, "batch_size": batch_size, "lr": lr, "validate_every": validate_every, "patience": patience,
        "seed": seed, "optimiser": optimiser,
    }  # fmt: skip
    own: dict[str, Any] = {name: value for name, value in changes.items() if value is not None}
    recipe = replace(paper_recipe(model, fine_tune=fine_tune is not None), **own)
    entities = KnowledgeBase(kb / "kb")
    train_questions = _read(questions, images, entities, skip_missing)
    if validation is None:
        train_questions, validation_questions = hold_out(train_questions, seed=seed)
    else:
        validation_questions = _read(validation, images, entities, skip_missing)
    encoders: Encoders = context.obj
    loaded = encoders.load(encoder, device)
    pictures = images_of_entities(entities, None if entity_images is None else ImageFolder(entity_images))
    echo(
        f"{len(train_questions):,} questions to train on, {len(validation_questions):,} to validate, "
        f"{len(pictures):,} entities with an image"
    )
    train_model(
        entities,
        train_questions,
        validation_questions,
        output,
        encoders.towers(encoder, device),
        encoder_name=encoder_name(loaded),
        read=lambda paths: encoders.read(paths, loaded.image_size),
        image_size=loaded.image_size,
        pictures=pictures,
        options=TrainingOptions(
            kind=model, recipe=recipe, fine_tune=fine_tune, template=template, batch=encode_batch
        ),
        device=device,
        say=echo,
        progress=ProgressLine(),
    )  # fmt: skip
    echo(f"wrote {output}")


def answer(
    context: typer.Context,
    questions: QuestionFile,
    kb: Folder,
    model: Annotated[Path, typer.Option(help="Folder written by `train`.")],
    images: Images,
    output: Annotated[Path, typer.Option(help="OVEN's prediction jsonl to write, for `eval`.")],
    encoder: NamedEncoder = None,
    batch_size: Batch = 64,
    device: Device = "cpu",
    skip_missing: SkipMissing = False,
) -> None:
    """Answer questions with a trained model.

    It writes predictions that `eval` scores.
    """
    from oven_retrieval.models import ImageFolder, read_questions, write_predictions

    encoders: Encoders = context.obj
    question_list, left_out = read_questions(questions, ImageFolder(images), answered=False, skip_missing=skip_missing)
    opened, size = open_trained(encoders, model, kb, device, encoder)
    write_predictions(opened, question_list, output, lambda paths: encoders.read(paths, size), batch=batch_size)
    echo(f"wrote {len(question_list):,} predictions to {output}" + (f"; left out {left_out:,}" if left_out else ""))


def open_trained(
    encoders: Encoders, folder: Path, kb: Path, device: str, encoder: str | None = None
) -> tuple[TrainedModel, Size]:
    """Open a model with the encoder that it names, where a file may choose it, or with the one that is given."""
    from oven_retrieval import KnowledgeBase
    from oven_retrieval.models import open_model
    from oven_retrieval.models.trained import read_config

    spec = encoder or encoders.of_file(read_config(folder)[0].encoder.rpartition("@")[0], folder / "model.json")
    loaded = encoders.load(spec, device)
    opened = open_model(
        folder, KnowledgeBase(kb / "kb"), encoders.towers(spec, device), encoder_name=encoder_name(loaded)
    )
    opened.dual.module.to(device)
    return opened, loaded.image_size


def _read(path: Path, images: Path, entities: KnowledgeBase, skip_missing: bool) -> list[Question]:
    """Questions with their images and entities."""
    from oven_retrieval.models import ImageFolder, known_questions, read_questions

    questions, left_out = read_questions(path, ImageFolder(images), skip_missing=skip_missing)
    if not skip_missing:
        return questions
    answerable = known_questions(entities, questions)
    if left_out or len(answerable) < len(questions):
        echo(
            f"{path}: left out {number_of(left_out, 'question')} without an image, "
            f"{len(questions) - len(answerable):,} without an entity"
        )
    return answerable


def generate(
    questions: Annotated[Path, typer.Argument(help="OVEN's jsonl: data_id, question; image_id with --images.")],
    kb: Folder,
    model: Annotated[str, typer.Option(help="Folder of a generative transformers model, or its name on the hub.")],
    output: Annotated[Path, typer.Option(help="OVEN's prediction jsonl to write, for `eval`.")],
    images: Annotated[Path | None, typer.Option(help="Folder of the questions' images; none for text models.")] = None,
    free: Annotated[bool, typer.Option("--free", help="Write freely, then map to the nearest name.")] = False,
    bm25_only: Annotated[
        bool, typer.Option("--bm25-only", help="With --free: map texts by BM25 alone, as the paper does.")
    ] = False,
    aliases: Annotated[bool, typer.Option("--aliases", help="Aliases may be written too.")] = False,
    beams: Annotated[int, typer.Option(min=1, help="Beams of the search.")] = 4,
    template: Annotated[str | None, typer.Option(help="Prompt with {question}; the model's own by default.")] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Questions at once.")] = 8,
    device: Annotated[str, typer.Option(help="Torch device.")] = "cpu",
) -> None:
    """Answer by a model that generates names.

    It can only write names that exist. The same command continues after a kill.
    """
    from oven_retrieval.generation.answers import load_generator, unanswered, write_answers
    from oven_retrieval.models import ImageFolder, read_questions
    from oven_retrieval.workspace import open_workspace

    if bm25_only and not free:
        raise ValueError("generate: --bm25-only maps free texts; expected --free with it")
    question_list, _ = read_questions(questions, None if images is None else ImageFolder(images), answered=False)
    generator = load_generator(model, open_workspace(kb), device=device, aliases=aliases, batch=batch_size)
    write_answers(
        generator,
        question_list,
        output,
        constrained=not free,
        beams=beams,
        template=template,
        exact_first=not bm25_only,
        progress=ProgressLine(),
    )
    if generator.unwritable:
        echo(f"{generator.unwritable:,} names hold characters that the model's tokenizer does not know", err=True)
    if empty := unanswered(output):
        echo(empty, err=True)
    echo(f"wrote {len(question_list):,} predictions to {output}")


def train_generator(
    questions: Annotated[
        Path, typer.Argument(help="OVEN's jsonl: data_id, question, entity_id, data_split; image_id with --images.")
    ],
    kb: Folder,
    model: Annotated[str, typer.Option(help="Folder of a generative transformers model, or its name on the hub.")],
    output: Annotated[Path, typer.Option(help="Folder to write, for `generate --model`.")],
    images: Annotated[Path | None, typer.Option(help="Folder of the questions' images; none for text models.")] = None,
    validation: Annotated[
        Path | None, typer.Option(help="Questions of seen and unseen entities; a tenth is held out by default.")
    ] = None,
    template: Annotated[str, typer.Option(help="Prompt with {question}.")] = "Answer in en: {question}",
    free: Annotated[bool, typer.Option("--free", help="Validate by free texts that BM25 maps, as the paper.")] = False,
    steps: Annotated[int | None, typer.Option(help="Most steps; 2,000 by default.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Questions per step; 128 by default.")] = None,
    lr: Annotated[float | None, typer.Option(help="Greatest learning rate; 0.001 by default.")] = None,
    warmup: Annotated[int | None, typer.Option(help="Steps of warm-up; 1,000 by default.")] = None,
    optimiser: Annotated[str | None, typer.Option(help="adafactor, the default, or adamw.")] = None,
    validate_every: Annotated[int | None, typer.Option(help="Steps between two looks at the validation.")] = None,
    patience: Annotated[int | None, typer.Option(help="Looks without a better harmonic mean before it stops.")] = None,
    at_once: Annotated[int, typer.Option(min=1, help="Questions that the model sees at once.")] = 8,
    seed: Annotated[int, typer.Option(help="Seed of the order and the held-out questions.")] = 0,
    device: Device = "cpu",
) -> None:
    """Fine-tune a generative model on entities' names.

    Stops early by the harmonic mean of seen and unseen entities, and keeps the best.
    """
    from oven_retrieval.generation.answers import load_generator
    from oven_retrieval.generation.training import GeneratorRecipe
    from oven_retrieval.generation.training import train_generator as run
    from oven_retrieval.models import ImageFolder, hold_out, read_questions
    from oven_retrieval.workspace import open_workspace

    if output.exists():
        raise ValueError(f"train-generator: {output} exists; expected a new folder")
    changes = {
        "steps": steps, "batch_size": batch_size, "lr": lr, "warmup": warmup, "optimiser": optimiser,
        "validate_every": validate_every, "patience": patience,
    }  # fmt: skip
    own: dict[str, Any] = {name: value for name, value in changes.items() if value is not None}
    recipe = GeneratorRecipe(template=template, seed=seed, constrained=not free, **own)
    pictures = None if images is None else ImageFolder(images)
    train_questions, _ = read_questions(questions, pictures)
    if validation is None:
        train_questions, held_out = hold_out(train_questions, seed=seed)
    else:
        held_out, _ = read_questions(validation, pictures)
    generator = load_generator(model, open_workspace(kb), device=device, batch=at_once)
    echo(f"{len(train_questions):,} questions to train on, {len(held_out):,} to validate")
    looks = run(generator, train_questions, held_out, output, recipe=recipe, say=echo)
    step, seen, unseen, mean = max(looks, key=lambda look: look[3])
    echo(f"kept step {step:,}: seen {seen:.1f} %, unseen {unseen:.1f} %, harmonic mean {mean:.1f}")
    echo(f"wrote {output}")
