"""``gate-runner adapt``: zero-shot, probing and fine-tuning on your own labelled images."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from gate_runner.adaptation import Adapted, Method
    from gate_runner.class_words import ClassWords

app = typer.Typer(
    help="Adapt an encoder to your own labelled images: a folder of class folders, or a table of paths and labels.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Source = Annotated[
    Path, typer.Argument(help="CLASS/IMAGE; train/CLASS/IMAGE with val/… or test/…; or a table: path,label[,split].")
]
EncoderOption = Annotated[str, typer.Option("--encoder", help="Encoder spec.")]
OwnEncoder = Annotated[
    str | None, typer.Option("--encoder", help="Spec of the head's encoder, where its card names code or a hub.")
]
Template = Annotated[
    list[str] | None,
    typer.Option(help="Prompt of a class; {} stands for its name. Several are averaged. 'a photo of a {}' by default."),
]
Prompts = Annotated[
    str, typer.Option(help="Prompt set: imagenet, oxford-flower-102, … (its names and templates), a .json or a .txt.")
]
ClassNames = Annotated[
    str, typer.Option(help="File of words for class folders: .json, lines of ID and words, or a line per class.")
]
Knowledge = Annotated[
    list[str] | None,
    typer.Option(
        help="wordnet, Wiktextract's .jsonl.gz, a .json of descriptors, or NAME=PATH; may be given several times."
    ),
]
Metric = Annotated[str, typer.Option(help="accuracy, mean_per_class, roc_auc, …")]
Seed = Annotated[int, typer.Option(help="Seed of splits, draws and training.", min=0)]
BatchSize = Annotated[int, typer.Option(help="Images at a time.", min=1)]
Device = Annotated[str, typer.Option(help="A torch device; 'auto' takes the first GPU where there is one.")]
Skip = Annotated[bool, typer.Option("--skip-unreadable", help="Leave out images that cannot be read, and list them.")]
Output = Annotated[Path | None, typer.Option(help="JSON file for the result.")]
Cache = Annotated[
    Path | None,
    typer.Option(help="Folder of features, which methods, shots, seeds and runs share; the user's cache by default."),
]
Save = Annotated[Path | None, typer.Option(help="Folder to keep the head in, for 'adapt predict'.")]


@app.command()
def zeroshot(
    source: Source,
    encoder: EncoderOption = "micro-clip",
    template: Template = None,
    prompts: Prompts = "",
    class_names: ClassNames = "",
    knowledge: Knowledge = None,
    metric: Metric = "accuracy",
    seed: Seed = 0,
    batch_size: BatchSize = 64,
    device: Device = "auto",
    skip_unreadable: Skip = False,
    output: Output = None,
    save: Save = None,
    cache: Cache = None,
) -> None:
    """Score an encoder by its class texts alone."""
    from gate_runner.adaptation import ZeroShot

    words = _words(template, prompts, class_names, knowledge)
    _adapt(source, ZeroShot(words), output, encoder, metric, seed, batch_size, device, skip_unreadable, save, cache)


@app.command()
def probe(
    source: Source,
    encoder: EncoderOption = "micro-clip",
    method: Annotated[
        str, typer.Option(help="anchored, elevater, logistic, gda, lp++, clap, tip_adapter or zero_shot.")
    ] = "anchored",
    shots: Annotated[
        int | None, typer.Option(help="Images per class, drawn by ELEVATER's rule; all by default.", min=1)
    ] = None,
    features: Annotated[
        str, typer.Option(help="projected, in the texts' space, or backbone, before the projection and without texts.")
    ] = "projected",
    template: Template = None,
    prompts: Prompts = "",
    class_names: ClassNames = "",
    knowledge: Knowledge = None,
    metric: Metric = "accuracy",
    seed: Seed = 0,
    batch_size: BatchSize = 64,
    device: Device = "auto",
    skip_unreadable: Skip = False,
    output: Output = None,
    save: Save = None,
    cache: Cache = None,
) -> None:
    """Fit a head on the frozen encoder's features; choices are made by validation, the test images are scored once."""
    from gate_runner.adaptation import Probe

    words = _words(template, prompts, class_names, knowledge)
    way = Probe(method, shots, features, words)  # type: ignore[arg-type]  # it says which there are
    _adapt(source, way, output, encoder, metric, seed, batch_size, device, skip_unreadable, save, cache)


@app.command()
def finetune(
    source: Source,
    encoder: EncoderOption = "micro-clip",
    part: Annotated[str, typer.Option(help="all, last_block, norm, bias, none, or lora.")] = "all",
    steps: Annotated[int, typer.Option(help="Optimiser steps.", min=0)] = 200,
    lr: Annotated[float, typer.Option(help="Learning rate; the head's is ten times it.")] = 1e-4,
    wise: Annotated[
        float, typer.Option(help="Part of the tuned weights in the mix with the start (WiSE-FT).", min=0.0, max=1.0)
    ] = 1.0,
    precision: Annotated[
        str, typer.Option(help="Of the forward passes: float32, bfloat16, or auto (bfloat16 where the GPU has it).")
    ] = "auto",
    template: Template = None,
    prompts: Prompts = "",
    class_names: ClassNames = "",
    knowledge: Knowledge = None,
    metric: Metric = "accuracy",
    seed: Seed = 0,
    batch_size: BatchSize = 32,
    device: Device = "auto",
    checkpoint: Annotated[Path | None, typer.Option(help="File to continue an interrupted training from.")] = None,
    skip_unreadable: Skip = False,
    output: Output = None,
    save: Save = None,
) -> None:
    """Fine-tune the encoder with a head that starts at the class texts; the best validated step is kept."""
    from gate_runner.adaptation import Finetune

    words = _words(template, prompts, class_names, knowledge)
    way = Finetune(part, steps, lr, wise, precision, words, checkpoint)
    _adapt(source, way, output, encoder, metric, seed, batch_size, device, skip_unreadable, save)


@app.command()
def predict(
    head: Annotated[Path, typer.Argument(metavar="HEAD", help="A folder that 'adapt … --save' wrote.")],
    images: Annotated[list[Path], typer.Argument(metavar="IMAGES", help="Image files, or folders of them.")],
    top: Annotated[int, typer.Option(help="Classes to give for each image.", min=1)] = 1,
    output: Annotated[Path | None, typer.Option(help="A .csv or .jsonl file; printed as CSV by default.")] = None,
    encoder: OwnEncoder = None,
    batch_size: BatchSize = 64,
    device: Device = "auto",
) -> None:
    """Say which class each image has, with probabilities."""
    import sys

    from gate_runner.adaptation import load_head
    from gate_runner.adaptation.predicting import image_files, write_csv, write_json_lines
    from gate_runner.errors import UsageError
    from oven_retrieval.commands.progress_line import ProgressLine

    if output is not None and output.suffix.lower() not in (".csv", ".jsonl"):
        raise UsageError(f"--output {output} must end in .csv or .jsonl")
    files = image_files(images)
    loaded = load_head(head, encoder=encoder, device=device)
    top = min(top, len(loaded.classes))
    with ProgressLine() as progress:
        predicted = loaded.predict(files, top=top, batch_size=batch_size, progress=progress)
        if output is None:
            failed = write_csv(predicted, top, sys.stdout)
        else:
            with output.open("w", encoding="utf-8", newline="") as file:
                lines = output.suffix.lower() == ".jsonl"
                failed = write_json_lines(predicted, file) if lines else write_csv(predicted, top, file)
    if failed:
        typer.echo(f"{failed} of {len(files)} images could not be read; their rows say why", err=True)
        raise typer.Exit(1)


@app.command()
def export(
    head: Annotated[Path, typer.Argument(metavar="HEAD", help="A folder that 'adapt … --save' wrote.")],
    output: Annotated[Path, typer.Argument(metavar="FILE.onnx", help="To be written.")],
    encoder: OwnEncoder = None,
) -> None:
    """Write encoder and head together as ONNX, and compare it with torch."""
    from gate_runner.adaptation import load_head
    from gate_runner.adaptation.onnx_export import export_onnx

    worst = export_onnx(load_head(head, encoder=encoder, device="cpu"), output)
    typer.echo(f"wrote {output}: pixels [n, 3, s, s] in 0 to 1 to probabilities, within {worst:.1g} of torch")


def _words(template: list[str] | None, prompts: str, class_names: str, knowledge: list[str] | None) -> str | ClassWords:
    """One template as it is, and everything else together."""
    from gate_runner.class_words import TEMPLATE, ClassWords

    if not (prompts or class_names or knowledge) and len(template or ()) < 2:
        return template[0] if template else TEMPLATE
    return ClassWords(tuple(template or ()), prompts, class_names, tuple(knowledge or ()))


def _adapt(
    source: Path,
    method: Method,
    output: Path | None,
    encoder: str,
    metric: str,
    seed: int,
    batch_size: int,
    device: str,
    skip_unreadable: bool,
    save: Path | None,
    cache: Path | None = None,
) -> None:
    from gate_runner import api
    from gate_runner.errors import UsageError
    from gate_runner.files import write
    from oven_retrieval.commands.progress_line import ProgressLine

    if output is not None and (output.is_dir() or not output.parent.is_dir()):
        raise UsageError(f"--output {output} must be a file in a folder that exists")
    with ProgressLine() as progress:
        found = api.adapt(
            source,
            method,
            encoder=encoder,
            metric=metric,
            seed=seed,
            batch_size=batch_size,
            device=device,
            skip_unreadable=skip_unreadable,
            save=save,
            cache=cache,
            progress=progress,
        )
    for path in found.skipped:
        typer.echo(f"skipped {path}", err=True)
    for test, train in found.shared[:5]:
        typer.echo(f"in the test and the training images: {test} is {train}", err=True)
    if len(found.shared) > 5:
        typer.echo(f"{len(found.shared)} test images are training images, too: the score is too good", err=True)
    show(found)
    if save is not None:
        typer.echo(f"kept in {save}: gate-runner adapt predict {save} IMAGES…")
    if output is not None:
        write(output, (json.dumps(found.to_mapping(), indent=1) + "\n").encode())


def show(found: Adapted) -> None:
    """Print what was found, the headline first."""
    typer.echo(
        f"{found.method}: test {found.metric} {found.value:.4f} [{found.low:.4f}, {found.high:.4f}] "
        f"on {found.test} images of {len(found.classes)} classes"
    )
    details: dict[str, Any] = dict(found.details)
    for key, value in details.items():
        typer.echo(f"  {key}: {value}")
