"""``gate-runner adapt``: zero-shot, probing and fine-tuning on your own labelled images."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gate_runner.commands.options import RunFolder
from gate_runner.settings.signatures import with_options
from gate_runner.terminal import echo
from wary_files.text import number_of

if TYPE_CHECKING:
    from gate_runner.runs.results import Result
    from gate_runner.settings import Settings

app = typer.Typer(
    help="Run an encoder on your own labelled images, and keep the head: a folder of class folders, or a table.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Source = Annotated[
    Path, typer.Argument(help="CLASS/IMAGE; train/CLASS/IMAGE with val/… or test/…; a benchmark.toml; or a table.")
]
EncoderOption = Annotated[
    str | None,
    typer.Option("--encoder", help="Encoder spec; lite:0 where it is installed, micro-clip where texts are compared."),
]
OwnEncoder = Annotated[
    str | None, typer.Option("--encoder", help="Spec of the head's encoder, where its card names code or a hub.")
]
Templates = Annotated[
    list[str] | None,
    typer.Option(
        help="Prompt of a class; {} stands for its name. Several are averaged. 'a photo of a {}' by default; imagenet "
        "stands for its 80 templates, with your own names, and FILE.json#NAME for a list in a file.",
    ),
]
Prompts = Annotated[
    str,
    typer.Option(help="Prompt set: imagenet, oxford-flower-102, … (its names and templates), a .json or a .txt."),
]
Words = Annotated[
    str,
    typer.Option(
        help="File of words for class folders: .json, FILE.json#NAME for a list in it, lines of ID and words, or a "
        "line per class."
    ),
]
Knowledge = Annotated[
    list[str] | None,
    typer.Option(
        help="wordnet, Wiktextract's .jsonl.gz, a .json of descriptors, or NAME=PATH; may be given several times.",
    ),
]
Metric = Annotated[str | None, typer.Option(help="accuracy, mean_per_class, roc_auc, …; acc@1 by default.")]
BatchSize = Annotated[int, typer.Option(help="Images at a time.", min=1)]
Device = Annotated[str, typer.Option(help="A torch device; 'auto' takes the first GPU where there is one.")]
Save = Annotated[Path | None, typer.Option(help="Folder for a copy of the head, which lies in the run folder.")]

_EVERY = ("seeds", "batch_size", "device", "skip_unreadable", "limit", "feature_cache")


def _adaptation(method: Literal["zeroshot", "probe", "finetune"], text: str, *settings: str, **defaults: Any) -> None:
    """Add one of the three commands, which differ in the settings that they have and in nothing else."""

    @with_options(*settings, *_EVERY, **defaults)
    def command(
        images: Source,
        encoder: EncoderOption = None,
        templates: Templates = None,
        prompts: Prompts = "",
        words: Words = "",
        knowledge: Knowledge = None,
        metric: Metric = None,
        output: RunFolder = None,
        save: Save = None,
        **options: Any,
    ) -> None:
        from gate_runner import api
        from gate_runner.adapting import asks_for_texts
        from gate_runner.errors import UsageError
        from gate_runner.runs.display import Terminal, watching
        from gate_runner.settings import Settings
        from knowledge_prompts import ClassWords
        from vision_features.heads.calibrating import after_calibration

        if method == "finetune" and options["tune"] == "frozen":
            raise UsageError("--tune frozen trains no encoder: that is adapt probe")
        given = (tuple(templates or ()), prompts, words, tuple(knowledge or ()))
        wording = ClassWords(*given) if any(given) else None
        if encoder is None:
            encoder = _usual(texts=wording is not None or asks_for_texts(method, Settings().changed(**options)))
        with watching(Terminal(highlight=False, soft_wrap=True)) as display:
            done = api.adapt(
                images,
                method,
                encoder=encoder,
                output=output,
                save=save,
                metric=metric,
                words=wording,
                observers=[display],
                **options,
            )
        (result,) = done.results
        echo(headline(method, result))
        if chosen := how_chosen(result):
            echo(chosen)
        if unlabelled := without_labels(result):
            echo(unlabelled)
        if probabilities := after_calibration(result.training):
            echo(probabilities)
        if method == "finetune":
            echo(beside_start(result, Settings().changed(**options)))
        if "named" in result.training:
            names, texts, described = (result.training[key] for key in ("named", "prompts_encoded", "known"))
            behind = f", {described} of {result.data['classes']} with knowledge" if described else ""
            echo(f"classes are called {', '.join(names)} in {texts} texts{behind}")
        echo(f"wrong test images by file: gate-runner report {done.folder} --format mistakes")
        head = save or done.heads[0]
        echo(f"kept in {head}: gate-runner adapt predict {head} IMAGES…")

    app.command(method, help=text)(command)


_adaptation(
    "zeroshot",
    """Score an encoder by its class texts alone.

    This is `run --shots 0`, with a head that is kept.

    With --unlabelled the training images are classified together, without their labels, and the head is theirs (StatA).
    """,
    "unlabelled",
)
_adaptation(
    "probe",
    """Fit a head on frozen features.

    This is `run`, with a head that is kept.

    With --shots, --init, --projection or --probe it is that unit of a sweep, which starts at the class texts where the
    encoder has a text side. With --readout the head takes a block, or all of them, as choose says it.
    """,
    "shots", "init", "projection", "probe", "readout", "unlabelled",
)  # fmt: skip
_adaptation(
    "finetune",
    """Train encoder and head, from the probe.

    This is `run --tune full`, which keeps both.
    """,
    "tune", "recipe", "recipe_fields", "wise_ft", "micro_batches", "decode_workers", "checkpoint_blocks",
    tune="full",
)  # fmt: skip


@app.command()
def predict(
    head: Annotated[Path, typer.Argument(metavar="HEAD", help="A folder that 'adapt … --save' wrote.")],
    images: Annotated[
        list[Path] | None, typer.Argument(metavar="IMAGES", help="Image files, or folders of them.")
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(help="A table of files and labels, or a folder of classes: say how many are right, too."),
    ] = None,
    target: Annotated[
        str, typer.Option(metavar="COLUMN", help="The column of --labels, if not called label or the like.")
    ] = "",
    top: Annotated[int, typer.Option(help="Classes to give for each image.", min=1)] = 1,
    coverage: Annotated[
        float | None, typer.Option(help="Share of images whose true class is to be in a set of classes, e.g. 0.9.")
    ] = None,
    known: Annotated[
        float | None,
        typer.Option(help="Share of images of the classes, e.g. 0.95, to keep while others are called none of these."),
    ] = None,
    output: Annotated[Path | None, typer.Option(help="A .csv or .jsonl file; printed as CSV by default.")] = None,
    encoder: OwnEncoder = None,
    batch_size: BatchSize = 64,
    device: Device = "auto",
) -> None:
    """Say which class each image has, with probabilities."""
    import sys

    from gate_runner.errors import UsageError
    from gate_runner.runs.folder import refuse_in_run
    from oven_retrieval.commands.progress_line import ProgressLine
    from vision_features.heads import load_head
    from vision_features.heads.calibrating import promise, rests_on, sets_of
    from vision_features.heads.predicting import (
        Prediction,
        image_files,
        labels_of,
        noted,
        refuse_unknown,
        scored_apart,
        true_labels,
        write_csv,
        write_json_lines,
    )
    from wary_files.durable import opened_whole
    from wary_files.folders import require_place

    if output is not None and output.suffix.lower() not in (".csv", ".jsonl"):
        raise UsageError(f"--output {output} must end in .csv or .jsonl")
    if output is not None:
        require_place("--output", output)
        refuse_in_run(output)
    true = true_labels(labels, target) if labels is not None else {}
    if target and labels is None:
        raise UsageError(f"--target {target} names a column of --labels, which is missing")
    if not images and not true:
        raise UsageError("name image files or folders, or a table of files and labels with --labels")
    files = image_files(images) if images else list(true)
    loaded = load_head(head, encoder=encoder, device=device)
    refuse_unknown(labels_of(files, true).values(), loaded.classes)
    if true and not labels_of(files, true):
        raise UsageError(
            f"none of the {len(files):,} images has a label in {labels}, whose first is of {next(iter(true))}"
        )
    sets_of(loaded.card, coverage, known)
    top = min(top, len(loaded.classes))
    further = [name for name, value in (("set", coverage), ("none_of_these", known)) if value is not None]
    with ProgressLine() as progress:
        predictions: list[Prediction] = []
        predicted = noted(
            loaded.predict(
                files,
                top=top,
                batch_size=batch_size,
                progress=progress,
                keep=True,
                coverage=coverage,
                known=known,
            ),
            predictions,
        )
        if output is None:
            failed = write_csv(predicted, top, sys.stdout, further)
        else:
            with opened_whole(output) as file:
                lines = output.suffix.lower() == ".jsonl"
                failed = write_json_lines(predicted, file) if lines else write_csv(predicted, top, file, further)
    if output is not None:
        echo(f"wrote {output}, {number_of(len(files), 'image')}")
    echo(rests_on(loaded.card), err=output is None)
    if coverage is not None:
        echo(promise(loaded.card, coverage), err=output is None)
    if true:
        for line in scored_apart(predictions, true, loaded.classes, loaded.card):
            echo(line, err=output is None)
    if failed:
        rows = "its row says why" if failed == 1 else "their rows say why"
        echo(f"{failed} of {number_of(len(files), 'image')} could not be read; {rows}", err=True)
        raise typer.Exit(1)


@app.command()
def embed(
    images: Source,
    output: Annotated[Path, typer.Option(help="A .npz or .parquet file: files, splits, labels and features.")],
    encoder: EncoderOption = None,
    limit: Annotated[int | None, typer.Option(help="Images of each split at most, spread over classes.", min=1)] = None,
    batch_size: BatchSize = 64,
    device: Device = "auto",
) -> None:
    """Write the features of your own images into a file."""
    from gate_runner.runs.folder import refuse_in_run
    from oven_retrieval.commands.progress_line import ProgressLine
    from vision_features.heads.embedding import embed as write

    refuse_in_run(output)
    with ProgressLine() as progress:
        count = write(
            images,
            output,
            encoder=encoder or _usual(),
            device=device,
            batch_size=batch_size,
            limit=limit,
            progress=lambda done, total: progress("encode", done, total),
        )
    echo(f"wrote {output}, {number_of(count, 'image')}")


@app.command()
def export(
    head: Annotated[Path, typer.Argument(metavar="HEAD", help="A folder that 'adapt … --save' wrote.")],
    output: Annotated[Path, typer.Argument(metavar="FILE.onnx", help="ONNX file to write.")],
    encoder: OwnEncoder = None,
) -> None:
    """Write encoder and head together as ONNX.

    Its answers are compared with torch's.
    """
    from vision_features.heads import load_head
    from vision_features.heads.onnx import export_onnx, steps_before
    from wary_files.folders import require_ending

    require_ending("FILE", output, ".onnx")
    loaded = load_head(head, encoder=encoder, device="cpu")
    worst = export_onnx(loaded, output)
    height, width = loaded.encoder.shape[1:]
    echo(f"wrote {output}: pixels [n, 3, {height}, {width}] in 0 to 1 to probabilities, within {worst:.1g} of torch")
    echo(f"images become pixels by {steps_before(loaded)}")


def _usual(*, texts: bool = False) -> str:
    """The encoder where none is named, which is said."""
    from vision_features.encoders.spec import usual_encoder

    encoder, reason = usual_encoder(texts=texts)
    echo(reason)
    return encoder


def headline(method: str, result: Result) -> str:
    """The score in one line."""
    score, counts = result.scores[0], result.data
    return (
        f"{method}: test {score.metric} {score.value:.4f} [{score.low:.4f}, {score.high:.4f}] on "
        f"{counts['test']} images of {counts['classes']} classes, {counts['train']} to train on"
    )


def how_chosen(result: Result) -> str:
    """What folds said of the head where they chose it, and what of images that the choice did not see."""
    chosen, tried = result.training.get("chosen_by", {}), result.training.get("tried", ())
    metric = result.scores[0].metric
    if chosen.get("unseen") is None or chosen.get(metric) is None:
        return ""
    return (
        f"head: the best of {len(tried)} by {chosen['folds']} folds of {chosen['samples']} labelled images, {metric} "
        f"{chosen[metric]:.4f}, which is optimistic: {chosen['unseen']:.4f} on folds that the choice did not see"
    )


def without_labels(result: Result) -> str:
    """What images without labels changed, or why nothing."""
    chosen = result.training.get("chosen", {})
    if "unlabelled" not in chosen:
        return ""
    count = f"{int(chosen['unlabelled']):,} images without labels"
    return chosen.get("fallback") or f"head: {chosen['method']}, from the class texts and {count}"


def beside_start(result: Result, settings: Settings) -> str:
    """What training gave on the validation split, beside the head where it started."""
    from gate_runner.tasks.recipes import starts_at_probe

    training = result.training
    rows = {row["step"]: next(value for name, value in row.items() if name != "step") for row in training["validation"]}
    start = "a probe of the encoder as it came" if starts_at_probe(settings) else "a head that nobody had trained"
    if training["chosen_step"] == 0:
        return f"no step validated above its start ({rows[0]:.4f}), {start}: the encoder is unchanged"
    chosen = rows[training["chosen_step"]]
    return f"validation: {chosen:.4f} at step {training['chosen_step']}, {rows[0]:.4f} at its start, {start}"
