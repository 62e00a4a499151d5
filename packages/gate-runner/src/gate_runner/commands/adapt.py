"""``gate-runner adapt``: zero-shot, probing and fine-tuning on your own labelled images."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from torch import Tensor

    from gate_runner.encoders.encoder import Encoder
    from vision_adapters.folder import Labelled
    from vision_adapters.metrics import Score

app = typer.Typer(
    help="Adapt an encoder to your own labelled images: a folder of class folders, or a .csv of paths and labels.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Source = Annotated[
    Path, typer.Argument(help="CLASS/IMAGE, train/CLASS/IMAGE with test/…, or a .csv: path,label[,split].")
]
EncoderOption = Annotated[str, typer.Option("--encoder", help="Encoder spec.")]
Template = Annotated[str, typer.Option(help="Prompt of a class; {} stands for its name.")]
Metric = Annotated[str, typer.Option(help="accuracy, mean_per_class, roc_auc, …")]
Seed = Annotated[int, typer.Option(help="Seed of splits, draws and training.", min=0)]
BatchSize = Annotated[int, typer.Option(help="Images at a time.", min=1)]
Device = Annotated[str, typer.Option(help="Torch device.")]
Skip = Annotated[bool, typer.Option("--skip-unreadable", help="Leave out images that cannot be read, and list them.")]
Output = Annotated[Path | None, typer.Option(help="JSON file for the result.")]
TEMPLATE = "a photo of a {}"


@app.command()
def zeroshot(
    source: Source,
    encoder: EncoderOption = "micro-clip",
    template: Template = TEMPLATE,
    metric: Metric = "accuracy",
    seed: Seed = 0,
    batch_size: BatchSize = 64,
    device: Device = "cpu",
    skip_unreadable: Skip = False,
    output: Output = None,
) -> None:
    """Score an encoder by its class texts alone."""
    from vision_adapters.tuning import HeldOut, tune, tuning_data

    made, train, test = _load(source, encoder, device, seed, skip_unreadable, output)
    texts = _class_embeddings(made, train.names, template)
    scale = made.logit_scale or 100.0
    features = _features(made, train, batch_size)
    data = tuning_data(
        features, train.labels, class_embeddings=texts, logit_scale=scale, metric=metric, validation="folds"
    )
    score = HeldOut(_features(made, test, batch_size), test.labels).score(tune(data, "zero_shot"), seed=seed)
    _report("zero_shot", score, train, test, {}, output)


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
    template: Template = TEMPLATE,
    metric: Metric = "accuracy",
    seed: Seed = 0,
    batch_size: BatchSize = 64,
    device: Device = "cpu",
    skip_unreadable: Skip = False,
    output: Output = None,
) -> None:
    """Fit a head on the frozen encoder's features; choices are made by validation, the test images are scored once."""
    import torch

    from gate_runner.errors import UsageError
    from vision_adapters.fewshot import elevater_indices
    from vision_adapters.tuning import HeldOut, tune, tuning_data

    if features not in ("projected", "backbone"):
        raise UsageError(f"features must be projected or backbone, got {features!r}")
    made, train, test = _load(source, encoder, device, seed, skip_unreadable, output)
    before = features == "backbone"
    texts = None if made.text is None or before else _class_embeddings(made, train.names, template)
    chosen = torch.arange(len(train.labels))
    if shots is not None:
        chosen = torch.from_numpy(elevater_indices(train.labels, shots, seed).indices)
    data = tuning_data(
        _features(made, train._replace(images=train.images[chosen]), batch_size, before=before),
        train.labels[chosen],
        class_embeddings=texts,
        logit_scale=made.logit_scale or 100.0,
        metric=metric,
        seed=seed,
    )
    tuned = tune(data, method)
    score = HeldOut(_features(made, test, batch_size, before=before), test.labels).score(tuned, seed=seed)
    details = {"features": features, "chosen": tuned.chosen, "validation": tuned.validation, "images": len(chosen)}
    _report(method, score, train, test, details, output)


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
    template: Template = TEMPLATE,
    metric: Metric = "accuracy",
    seed: Seed = 0,
    batch_size: BatchSize = 32,
    device: Device = "cpu",
    checkpoint: Annotated[Path | None, typer.Option(help="File to continue an interrupted training from.")] = None,
    skip_unreadable: Skip = False,
    output: Output = None,
) -> None:
    """Fine-tune the encoder with a head that starts at the class texts; the best validated step is kept."""
    import torch
    from torch import nn

    from gate_runner.errors import UsageError
    from vision_adapters.efficiency import parameter_counts
    from vision_adapters.finetune import add_lora, interpolate, train_only
    from vision_adapters.heads import LinearHead, language_head, seeded
    from vision_adapters.losses import cross_entropy
    from vision_adapters.metrics import evaluate, metric_named
    from vision_adapters.training import Recipe, fit
    from vision_adapters.tuning import make_folds

    made, train, test = _load(source, encoder, device, seed, skip_unreadable, output)
    if made.module is None:
        raise UsageError(f"encoder {encoder!r} shows no module to fine-tune")
    classes = len(train.names)
    fold = make_folds(train.labels, "shuffled", seed)[0]
    if made.text is not None:
        texts = _class_embeddings(made, train.names, template)
        head: LinearHead = language_head(texts, made.logit_scale or 100.0)
    else:
        width = made.encode_image(train.images[:1]).shape[1]
        head = seeded(lambda: LinearHead(width, classes, features="l2", logit_scale=10.0), seed).to(device)

    class Whole(nn.Module):
        """The encoder's image side and the head."""

        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.head = made.module, head

        def forward(self, images: Tensor) -> Tensor:
            scores: Tensor = self.head(made.image(made.prepare(images)))
            return scores

    names = add_lora(made.module) if part == "lora" else train_only(made.module, part)  # type: ignore[arg-type]  # checked there
    model = Whole()

    def predict(module: nn.Module, images: Tensor) -> Tensor:
        with torch.no_grad():
            return torch.cat([module(batch).cpu() for batch in torch.split(images, batch_size)])

    held, truth = train.images[fold.validation], train.labels[fold.validation]
    start = {name: value.clone() for name, value in model.state_dict().items()}
    recipe = Recipe(
        lr=lr,
        steps=steps,
        batch_size=batch_size,
        validate_every=max(1, steps // 10),
        schedule="cosine",
        head_lr_scale=10.0,
        precision=precision,  # type: ignore[arg-type]  # checked there
    )
    try:
        fitted = fit(
            model,
            (train.images[fold.train],),
            train.labels[fold.train],
            loss=cross_entropy,
            recipe=recipe,
            validate=lambda module: evaluate(metric, predict(module, held), truth, resamples=0).value,
            direction=metric_named(metric).direction,
            seed=seed,
            checkpoint=checkpoint,
            device=device,
        )
    except FloatingPointError as error:
        raise UsageError(f"{error}; try a lower --lr than {lr}") from error
    if wise != 1.0:
        model.load_state_dict(interpolate(start, model.state_dict(), wise))
    score = evaluate(metric, predict(model.eval(), test.images), test.labels, seed=seed)
    details = {
        "best_step": fitted.best_step,
        "validation": fitted.best_score,
        "trainable": parameter_counts(model).trainable,
        "trained_names": len(names),
        "precision": fitted.precision,
        "seconds": round(fitted.seconds, 2),
    }
    _report(f"finetune {part}", score, train, test, details, output)


def _load(
    source: Path, spec: str, device: str, seed: int, skip: bool, output: Path | None
) -> tuple[Encoder, Labelled, Labelled]:
    """The encoder, and both splits at its size; a result that could not be written is an error before any work."""
    from gate_runner.encoders import load_encoder
    from gate_runner.errors import UsageError
    from vision_adapters.folder import list_images, load_split

    if output is not None and (output.is_dir() or not output.parent.is_dir()):
        raise UsageError(f"--output {output} must be a file in a folder that exists")
    listing = list_images(source, seed=seed)
    made = load_encoder(spec, device=device)
    train, test = (load_split(listing, split, made.image_size, skip_unreadable=skip) for split in ("train", "test"))
    for path in (*train.skipped, *test.skipped):
        typer.echo(f"skipped {path}", err=True)
    return made, train, test


def _class_embeddings(encoder: Encoder, names: list[str], template: str) -> Tensor:
    """One text embedding per class."""
    from gate_runner.errors import UsageError

    if "{}" not in template:
        raise UsageError(f"template {template!r} has no {{}} for the class name")
    return encoder.encode_text([template.format(name.replace("_", " ")) for name in names]).clone()


def _features(encoder: Encoder, split: Labelled, batch_size: int, *, before: bool = False) -> Tensor:
    """Pooled features, encoded once, in the texts' space or before the projection into it."""
    import torch

    encode = encoder.encode_backbone if before else encoder.encode_image
    return torch.cat([encode(batch).cpu() for batch in torch.split(split.images, batch_size)]).clone()


def _report(
    name: str, score: Score, train: Labelled, test: Labelled, details: dict[str, Any], output: Path | None
) -> None:
    """One line for people, one file for programs."""
    typer.echo(
        f"{name}: test {score.metric} {score.value:.4f} [{score.low:.4f}, {score.high:.4f}] "
        f"on {len(test.labels)} images of {len(train.names)} classes"
    )
    for key, value in details.items():
        typer.echo(f"  {key}: {value}")
    if output is not None:
        found = {"method": name, "metric": score.metric, "value": score.value, "low": score.low, "high": score.high}
        skipped = [str(path) for path in (*train.skipped, *test.skipped)]
        output.write_text(json.dumps({**found, **details, "classes": train.names, "skipped": skipped}, indent=1) + "\n")
