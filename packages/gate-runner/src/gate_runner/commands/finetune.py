"""``gate-runner finetune``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from gate_runner.settings.values import share_in
from gate_runner.terminal import echo


def finetune(
    pairs: Annotated[
        list[str],
        typer.Argument(
            metavar="PAIRS...",
            help="Images with captions: a folder, a table, COCO's captions, webdataset shards, pairs of eqben build, "
            "or a benchmark such as flickr30k; of several, each gives samples to every epoch.",
        ),
    ],
    encoder: Annotated[str, typer.Option(help="Spec of the encoder where it starts.")] = "micro-clip",
    loss: Annotated[str, typer.Option(help="clip or siglip.")] = "clip",
    add: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TERM=WEIGHT",
            help="A term that is added, in the same pass: eqsim:v1, eqsim:v2, eqsim:hybrid or eqsim:relative, pair, "
            "hard, keep, keep:squares; may be given several times.",
        ),
    ] = None,
    teacher: Annotated[
        str | None, typer.Option(help="Spec of the frozen encoder that keep holds on to; the start by default.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Folder to be made; runs/tuned-PAIRS by default.")] = None,
    tune: Annotated[str, typer.Option(help="Parameters that learn: full, lora, last-block, bias or norm.")] = "full",
    wise_ft: Annotated[
        str | None, typer.Option(help="Share of the trained weights in a mix with the start, or best.")
    ] = None,
    epochs: Annotated[float, typer.Option(help="Passes over the samples.")] = 5.0,
    steps: Annotated[int | None, typer.Option(min=0, help="Optimiser steps, in place of --epochs.")] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate; 1e-5, or 1e-4 where few weights learn.")] = None,
    batch_size: Annotated[int, typer.Option(min=2, help="Samples of a step, over all processes.")] = 128,
    validate_every: Annotated[
        int | None, typer.Option(min=1, help="Steps between validations, which are checkpoints; a tenth by default.")
    ] = None,
    warmup: Annotated[float, typer.Option(help="Share of the steps in which the rate rises.")] = 0.05,
    weight_decay: Annotated[float, typer.Option(min=0, help="Weight decay of matrices.")] = 0.1,
    augment: Annotated[
        str, typer.Option(help="Augmentation: none, crop, flip, crop-flip, randaugment, or timm's rand-m9-n2.")
    ] = "none",
    precision: Annotated[str, typer.Option(help="Precision of forward passes: auto, float32 or bfloat16.")] = "auto",
    checkpoint_blocks: Annotated[
        bool, typer.Option("--checkpoint-blocks", help="Less memory: compute blocks again in the backward pass.")
    ] = False,
    num_processes: Annotated[int, typer.Option(min=1, help="Processes that share every batch, a GPU for each.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the order, drawn captions and held-out pairs.")] = 0,
    device: Annotated[
        str, typer.Option(help="A torch device; 'auto' takes the first GPU where there is one.")
    ] = "auto",
    table: Annotated[Path | None, typer.Option(help="The table that counts, where a folder holds several.")] = None,
    data_root: Annotated[Path | None, typer.Option(help="Folder of a benchmark's original files.")] = None,
    limit: Annotated[int | None, typer.Option(min=2, help="At most so many samples of each split.")] = None,
    skip_unreadable: Annotated[
        bool, typer.Option("--skip-unreadable", help="Leave out images that cannot be read.")
    ] = False,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="EqSim's margin, close (5% or 4), score, sides, …; hard_negatives; decode_workers; several times.",
        ),
    ] = None,
) -> None:
    """Train an image-text encoder on captions.

    With open_clip's loss, EqSim's terms, and what keeps the encoder at its start.

    What comes out is a folder that every command takes as tuned:FOLDER. Interrupted, the same command goes on from its
    last validation, to the same bits.
    """
    from gate_runner.finetuning.request import FinetuneRequest
    from gate_runner.finetuning.training import finetune as train

    share = None if wise_ft is None else share_in(wise_ft)
    folder = output or Path("runs") / f"tuned-{Path(pairs[0]).stem}"
    request = FinetuneRequest(
        pairs=pairs[0], also=tuple(pairs[1:]), encoder=encoder, output=folder, loss=loss, add=tuple(add or ()),
        teacher=teacher, tune=tune,
        wise_ft=share, epochs=epochs, steps=steps, lr=lr, batch_size=batch_size,
        validate_every=validate_every, warmup=warmup, weight_decay=weight_decay, augment=augment, precision=precision,
        checkpoint_blocks=checkpoint_blocks, num_processes=num_processes, seed=seed, device=device, table=table,
        data_root=data_root, limit=limit, skip_unreadable=skip_unreadable, settings=tuple(setting or ()),
    )  # fmt: skip
    train(request, lambda line: echo(line, err=True))
    scored = _scored_by(pairs[0], data_root)
    tuned = _spec_of(folder, encoder)
    echo(f"kept in {folder}: gate-runner trade {encoder} {tuned} {scored} --share 0.25 --share 0.5 --share 0.75")


def _spec_of(folder: Path, encoder: str) -> str:
    """Spec of what was trained; a start that runs code or is fetched is named, since the folder must not choose it."""
    from vision_features.encoders.named import is_at_hand
    from vision_features.encoders.spec import parse_spec

    return f"tuned:{folder}" if is_at_hand(parse_spec(encoder)) else f"tuned:{folder}={encoder}"


def _scored_by(pairs: str, data_root: Path | None) -> str:
    """The benchmark whose test samples the training did not see, as a command takes it."""
    path = Path(pairs)
    if not path.exists():
        return pairs if data_root is None else f"{pairs} --data-root {shlex.quote(str(data_root))}"
    file = path if path.suffix == ".toml" else (path if path.is_dir() else path.parent) / "benchmark.toml"
    return shlex.quote(str(file)) if file.is_file() else "BENCHMARK..."
