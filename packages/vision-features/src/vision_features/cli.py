"""The command ``vision-features``: features of images in a file, classes of images by a saved head, a head as ONNX."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from vision_features.__about__ import __version__
from wary_files.errors import line_of
from wary_files.folders import refuse_empty_paths, refuse_over_inputs, require_ending
from wary_files.stopping import stoppable
from wary_files.text import escape_output, number_of, printable


def _embed(options: argparse.Namespace) -> int:
    from vision_features.encoders.spec import usual_encoder
    from vision_features.heads import embed

    encoder, reason = (options.encoder, "") if options.encoder else usual_encoder()
    count = embed(
        options.images,
        options.output,
        encoder=encoder,
        device=options.device,
        batch_size=options.batch_size,
        limit=options.limit,
    )
    sys.stdout.write(f"wrote {options.output}, {number_of(count, 'image')}\n")
    if reason:
        sys.stderr.write(f"{reason}\n")
    return 0


def _predict(options: argparse.Namespace) -> int:
    from vision_features.heads import load_head
    from vision_features.heads.predicting import image_files, write_csv
    from wary_files.durable import opened_whole
    from wary_files.errors import UsageError

    if options.output is not None and options.output.suffix.lower() != ".csv":
        raise UsageError(f"--output {options.output} must end in .csv")
    files = image_files(options.images)
    head = load_head(options.head, encoder=options.encoder, device=options.device)
    top = min(options.top, len(head.classes))
    predictions = head.predict(files, top=top, batch_size=options.batch_size)
    if options.output is None:
        failed = write_csv(predictions, top, sys.stdout)
    else:
        with opened_whole(options.output) as file:
            failed = write_csv(predictions, top, file)
    if failed:
        rows = "its row has the reason" if failed == 1 else "their rows have the reason"
        sys.stderr.write(f"{failed} of {number_of(len(files), 'image')} could not be read; {rows}\n")
    return int(failed > 0)


def _export(options: argparse.Namespace) -> int:
    from vision_features.heads import load_head
    from vision_features.heads.onnx import export_onnx, steps_before

    require_ending("output", options.output, ".onnx")
    head = load_head(options.head, encoder=options.encoder, device="cpu")
    worst = export_onnx(head, options.output)
    sys.stdout.write(f"wrote {options.output}: probabilities within {worst:.1g} of torch\n")
    sys.stdout.write(f"images become pixels by {steps_before(head)}\n")
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    top = argparse.ArgumentParser(
        prog="vision-features", description="Features of any vision encoder, and heads on them."
    )
    top.add_argument("--version", action="version", version=f"vision-features {__version__}")
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    embed = commands.add_parser("embed", help="write features of images to .npz or .parquet")
    embed.add_argument("images", type=Path, help="folder of images or of class folders, a table or a benchmark.toml")
    embed.add_argument("--output", type=Path, required=True, help=".npz or .parquet file")
    embed.add_argument("--limit", type=int, help="images of each split at most, spread over classes")
    embed.set_defaults(run=_embed)
    predict = commands.add_parser("predict", help="classify images with a saved head, as CSV")
    predict.add_argument("head", type=Path, help="folder of a saved head")
    predict.add_argument("images", type=Path, nargs="+", help="image files, or folders of them")
    predict.add_argument("--top", type=int, default=1, help="classes of each image (default: 1)")
    predict.add_argument("--output", type=Path, help=".csv file; standard output by default")
    predict.set_defaults(run=_predict)
    export = commands.add_parser("export", help="write encoder and head as ONNX")
    export.add_argument("head", type=Path, help="folder of a saved head")
    export.add_argument("output", type=Path, help=".onnx file")
    export.set_defaults(run=_export)
    for command in (embed, predict, export):
        command.add_argument("--encoder", help="encoder spec, such as open_clip:ViT-B-32/laion2b_s34b_b79k")
    for command in (embed, predict):
        command.add_argument("--device", default="auto", help="torch device (default: the first GPU, else the CPU)")
        command.add_argument("--batch-size", type=int, default=64, help="images at a time, at most (default: 64)")
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; an error that the user can fix is one line, and the exit status 2."""
    escape_output()
    try:
        refuse_empty_paths(arguments)
        options = parser().parse_args(arguments)
        refuse_over_inputs(vars(options))
        with stoppable("vision-features"):
            status: int = options.run(options)
    except (ValueError, OSError, ImportError) as error:
        sys.stderr.write(f"vision-features: {printable(line_of(error))}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("vision-features: interrupted; the same command continues\n")
        return 130
    return status


def console() -> None:
    """Entry point of the console script."""
    sys.exit(main())
