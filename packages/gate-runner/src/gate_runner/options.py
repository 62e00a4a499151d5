"""How each of `Settings`' fields is said: as a keyword in Python, and as an option of the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import typer

Isolation = Literal["none", "worker", "benchmark"]
Tune = Literal["frozen", "bias", "norm", "last-block", "lora", "full", "linear", "prompt"]
Head = Literal["dense", "detr"]
SplitScored = Literal["test", "valid"]
Prompts = Literal["overrides", "names", "path", "definition", "wiktionary", "gpt3"]
Protocol = Literal["ours", "gate"]
Transform = Literal["model", "square"]
Precision = Literal["auto", "float32", "bfloat16"]

COMMON = frozenset({
    "source", "data_root", "limit", "items", "batch_size", "device", "seeds", "isolate", "workers", "recompute", "tune",
    "recipe", "recipe_fields", "shots", "readout", "init", "knowledge", "executor",
})  # fmt: skip
"""Settings that `run` and `plan` have options for; the others are said by ``--setting``, or in a file."""


PANELS: Mapping[str, str] = {
    **dict.fromkeys(("source", "data_root", "items", "readout"), "Data and read-outs"),
    **dict.fromkeys(("recipe", "recipe_fields", "shots", "init", "knowledge"), "Training and sweeps"),
    **dict.fromkeys(("batch_size", "device", "isolate", "workers", "recompute", "executor"), "The machine"),
}
"""Under what ``run --help`` shows the settings that not everybody needs."""


class Options(TypedDict, total=False):
    """Keywords by the names of `Settings`' fields, where their meaning is described.

    Each has its type in Python, its option on the command line and, where that differs, its type there.
    """

    source: Annotated[
        str | None, typer.Option(help="local, hub, built-in or micro; by default the first without a network.")
    ]
    data_root: Annotated[
        str | PathLike[str] | None, typer.Option(help="Folder with data sets' original files."), Path | None
    ]
    limit: Annotated[int | None, typer.Option(help="At most so many samples in each split.")]
    items: Annotated[
        str | PathLike[str] | None,
        typer.Option(metavar="FILE", help="Of 'eevee items', or adaptive: score chosen samples, estimate the whole."),
        Path | None,
    ]
    until: Annotated[
        float | None,
        typer.Option(metavar="POINTS", help="With adaptive items: stop when the interval is this narrow (half of it)."),
    ]
    skip_unreadable: Annotated[
        bool, typer.Option("--skip-unreadable", help="Leave out pictures that cannot be read, and list them.")
    ]
    batch_size: Annotated[int, typer.Option(help="Images per call of the encoder.")]
    transform: Annotated[
        Transform,
        typer.Option(metavar="model|square", help="Pictures in files: as the model's own library has them, or cut."),
        str,
    ]
    precision: Annotated[
        Precision,
        typer.Option(
            metavar="auto|float32|bfloat16", help="Of frozen encoders: auto is bfloat16 on GPUs, if it agrees."
        ),
        str,
    ]
    micro_batches: Annotated[int, typer.Option(help="Parts into which a training batch is cut, for little memory.")]
    device: Annotated[str, typer.Option(help="A torch device; 'auto' takes the first GPU where there is one.")]
    seeds: Annotated[
        Sequence[int], typer.Option("--seed", help="Seed of heads and batches; may be given several times."), list[int]
    ]
    isolate: Annotated[
        Isolation,
        typer.Option(help="none: this process; worker: one that is replaced when it dies; benchmark: a new one each."),
        str,
    ]
    time_limit: Annotated[
        float | str | None,
        typer.Option(metavar="DURATION", help="Stop a benchmark after, e.g., 20m; it counts as failed."),
        str | None,
    ]
    retries: Annotated[int, typer.Option(help="How often to try again what failed, from where it stopped.")]
    workers: Annotated[int, typer.Option(help="Benchmarks at the same time on CPUs; on GPUs, one for each.")]
    recompute: Annotated[bool, typer.Option("--recompute", help="Compute damaged or edited results again.")]
    tune: Annotated[
        str | Sequence[str],
        typer.Option(
            help="Weights that learn with the head: frozen, bias, norm, last-block, lora or full; "
            "of a detector linear, prompt or full."
        ),
        str,
    ]
    recipe: Annotated[str, typer.Option(help="By which they learn: quick, gate (the paper's) or a .toml file.")]
    recipe_fields: Annotated[
        Mapping[str, Any] | Sequence[str],
        typer.Option("--set", metavar="FIELD=VALUE", help="A field of the recipe; may be given several times."),
        list[str],
    ]
    head: Annotated[Head, typer.Option(help="For detection on a frozen encoder: dense or detr."), str]
    shots: Annotated[
        str | int | Sequence[str | int],
        typer.Option(metavar="LIST", help="Training pictures of each class, e.g. 0,1,5,full; one result for each."),
        list[str],
    ]
    readout: Annotated[
        str | Sequence[str],
        typer.Option(metavar="LIST", help="Where to read the encoder: auto, all, last, or e.g. block:9/mean."),
        list[str],
    ]
    init: Annotated[
        str | Sequence[str],
        typer.Option(metavar="LIST", help="Of a sweep: how heads start, random,language."),
        list[str],
    ]
    projection: Annotated[
        str | Sequence[str],
        typer.Option(metavar="LIST", help="Of a sweep: 1p, a head on the backbone's features; 2p, on the projected."),
        list[str],
    ]
    knowledge: Annotated[
        str | Sequence[str],
        typer.Option(
            metavar="LIST", help="Of a sweep: none, wiktionary, wordnet, gpt3, and auto, which chooses on validation."
        ),
        list[str],
    ]
    controls: Annotated[
        bool, typer.Option(help="Of a sweep: compare knowledge with random words and with that of other classes.")
    ]
    probe: Annotated[str, typer.Option(help="Of a sweep: how heads on fixed features are fitted, e.g. elevater.")]
    knowledge_folder: Annotated[
        str | PathLike[str] | None,
        typer.Option(help="ELEVATER's knowledge files, a folder with external/ and gpt3/."),
        Path | None,
    ]
    keep_predictions: Annotated[
        bool, typer.Option("--predictions", help="Of a sweep: keep probabilities, for submissions.")
    ]
    short_classes: Annotated[
        str,
        typer.Option(metavar="take|skip", help="Of a sweep, where a class has fewer images than shots: take all."),
    ]
    class_weight: Annotated[
        str,
        typer.Option(
            metavar="none|balanced|sampled", help="Of classes: weigh the loss, or draw pictures equally often."
        ),
    ]
    folds: Annotated[
        int | None, typer.Option(help="Of classes: test every picture of all splits once, by cross-validation.")
    ]
    protocol: Annotated[
        Protocol, typer.Option(help="Of few-shot episodes: ours, 5 ways and 1 shot, or gate, many ways and shots."), str
    ]
    split: Annotated[SplitScored, typer.Option(help="Which split of a detection set is scored: test or valid."), str]
    prompts: Annotated[
        Prompts,
        typer.Option(
            help="What a detector reads: overrides (a set's own captions), names, or names with knowledge: path, "
            "definition, wiktionary or gpt3."
        ),
        str,
    ]
    knowledge_from: Annotated[
        str | None,
        typer.Option(metavar="NAME=PATH", help="Where it comes from: glip=FILE, wordnet=FOLDER, wiktionary=DUMP, …"),
    ]
    language_model: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FUNCTION", help="Suites: returns a model of captions alone, which becomes a blind line."
        ),
    ]
    decode_workers: Annotated[int, typer.Option(help="Processes that read and augment training images.")]
    save_encoders: Annotated[bool, typer.Option("--save-encoders", help="Keep trained encoders, for tuned:FOLDER.")]
    save_heads: Annotated[bool, typer.Option("--save-heads", help="Keep heads of image classification, for predict.")]
    keep_zero_shot: Annotated[
        Sequence[str],
        typer.Option(metavar="BENCHMARK", help="Score class prompts on it before and after; several times."),
        list[str],
    ]
    wise_ft: Annotated[
        float | str | None,
        typer.Option(metavar="SHARE", help="Mix trained weights with the start: 0 to 1, or best on validation."),
        str | None,
    ]
    num_processes: Annotated[int, typer.Option(help="Processes that train one encoder together, a GPU for each.")]
    checkpoint_blocks: Annotated[
        bool, typer.Option("--checkpoint-blocks", help="Train with less memory: blocks are computed twice.")
    ]
    feature_cache: Annotated[
        int | str,
        typer.Option(
            metavar="BYTES", help="Features in the user's cache folder, at most, e.g. 20GB; old ones make room."
        ),
        str,
    ]
    encode_again: Annotated[
        bool,
        typer.Option("--encode-again", help="Where the disk has no room for features, make them again each epoch."),
    ]
    executor: Annotated[str, typer.Option(help="local, ray, slurm or a plug-in.")]
    executor_options: Annotated[
        Mapping[str, str] | Sequence[str],
        typer.Option("--executor-option", metavar="KEY=VALUE", help="For the executor; may be given several times."),
        list[str],
    ]
