"""Commands that read runs: compare, trade, report, export, power, forecast."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gate_runner.commands.options import AsJson, Setting
from gate_runner.settings.signatures import as_command
from gate_runner.terminal import echo, echo_json, echo_table
from wary_files.text import number_of

if TYPE_CHECKING:
    from gate_runner.comparison import Contrast
    from gate_runner.comparison.by_slice import SliceContrast
    from gate_runner.comparison.contrasts import Untested
    from gate_runner.comparison.power import PowerReport
    from gate_runner.settings import Settings

Runs = Annotated[
    list[Path], typer.Argument(metavar="RUN", help="Run folders; the first is what others are compared with.")
]
_DEFAULT_NAMES = ("icinw", "compositional", "flickr30k")


def compare(
    runs: Runs,
    only: Annotated[list[str] | None, typer.Option(help="A benchmark to compare; may be given several times.")] = None,
    all_pairs: Annotated[bool, typer.Option("--all-pairs", help="Compare every run with every other.")] = False,
    alpha: Annotated[float, typer.Option(help="Family-wise error over all benchmarks and pairs.")] = 0.05,
    json: AsJson = False,
) -> None:
    """Say which differences between runs hold.

    By paired tests on the same samples, corrected for their number.
    """
    from gate_runner.comparison import compare as compared

    comparison = compared(*_runs_among(runs), only=only or (), all_pairs=all_pairs, alpha=alpha)
    if json:
        echo_json(comparison)
        return
    pairs: dict[tuple[str, str], list[Contrast]] = {}
    for contrast in comparison.contrasts:
        pairs.setdefault((contrast.first, contrast.second), []).append(contrast)
    for (first, second), contrasts in pairs.items():
        if len(pairs) > 1:
            echo(f"{second} against {first}")
        echo_table(_COLUMNS, map(_contrast_row, contrasts), words=("metric", "verdict"))
    if comparison.untested:
        heads = ("benchmark", "metric", "first", "second", "difference", "runs", "verdict")
        echo_table(heads, map(_untested_row, comparison.untested), words=("metric", "runs", "verdict"))
    if comparison.by_slice:
        echo("\nwithin slices, p after Holm over all of them")
        echo_table(_SLICES, map(_slice_row, comparison.by_slice), words=("slice",))
    for run, name, reason in comparison.left_out:
        echo(f"not compared: {name}, {reason} in {run}")
    echo("")
    for sentence in comparison.sentences:
        echo(sentence)


def _runs_among(paths: Sequence[Path]) -> list[Path]:
    """Name on standard error what is left out as no run folder."""
    from gate_runner.runs.stored import runs_among

    runs, lines = runs_among(paths)
    for line in lines:
        echo(line, err=True)
    return runs


_COLUMNS = ("benchmark", "metric", "first", "second", "difference", "95 % CI", "p Holm", "verdict")


_SLICES = ("benchmark", "slice", "samples", "first", "second", "difference", "95 % CI", "p Holm")


def _slice_row(contrast: SliceContrast) -> Sequence[str]:
    test, p = contrast.test, contrast.p_adjusted
    return (
        f"{contrast.name}, {contrast.second}",
        f"{contrast.by} {contrast.slice}",
        f"{test.samples:,}",
        f"{test.first:.3f}",
        f"{test.second:.3f}",
        f"{test.difference:+.3f}",
        f"{test.low:+.3f} to {test.high:+.3f}",
        "<0.001" if p < 0.001 else f"{p:.3f}",
    )


def _contrast_row(contrast: Contrast) -> Sequence[str]:
    test, p = contrast.test, contrast.p_adjusted
    return (
        contrast.name,
        f"{contrast.metric} {'↑' if contrast.direction == 'higher' else '↓'}",
        f"{test.first:.3f}",
        f"{test.second:.3f}",
        f"{test.difference:+.3f}",
        f"{test.low:+.3f} to {test.high:+.3f}",
        "<0.001" if p < 0.001 else f"{p:.3f}",
        contrast.verdict,
    )


def _untested_row(pair: Untested) -> Sequence[str]:
    first, second = pair.values
    return (
        pair.name,
        f"{pair.metric} {'↑' if pair.direction == 'higher' else '↓'}",
        f"{first:.3f}",
        f"{second:.3f}",
        f"{second - first:+.3f}",
        f"{pair.second} against {pair.first}",
        "imported: not tested",
    )


@as_command
def trade(
    before: Annotated[str, typer.Argument(help="A run folder, or the spec of an encoder to run.")],
    after: Annotated[str, typer.Argument(help="Likewise, of the encoder as it is now.")],
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="PACK|BENCHMARK...", help=f"Benchmarks; {' '.join(_DEFAULT_NAMES)} by default."),
    ] = None,
    mix: Annotated[
        list[str] | None,
        typer.Option(help="A run folder or spec of a mix of both, from before to after; may be given several times."),
    ] = None,
    share: Annotated[
        list[float] | None,
        typer.Option(help="A share of AFTER's weights to mix with BEFORE's (WiSE-FT), where AFTER is tuned:FOLDER."),
    ] = None,
    page: Annotated[Path, typer.Option(help="The page to write.")] = Path("trade.html"),
    runs: Annotated[Path, typer.Option(help="Where runs of encoders go, a folder each.")] = Path("runs"),
    setting: Setting = None,
    json: AsJson = False,
    **options: Any,
) -> None:
    """Say what training an encoder gained and lost.

    In recognition, composition, retrieval and on your own data, paired by item.

    A run folder is read as it is. An encoder is run first, zero-shot where --shots says nothing else; the same command
    again computes nothing twice.
    """
    from gate_runner.comparison import trade_between
    from gate_runner.reports.trade import trade_page
    from gate_runner.runs.folder import refuse_in_run
    from gate_runner.runs.stored import read_runs
    from gate_runner.settings import Settings
    from gate_runner.settings.configuration import settings_in
    from wary_files.folders import write

    refuse_in_run(page)
    after = _with_start(after, before)
    mixes = [*(mix or ()), *(_mixed(after, name) for name in sorted(share or ()))]
    settings = Settings().changed(**{**options, **settings_in(setting or ())})
    every = (before, after, *mixes)
    _check_names(names, every, settings)
    _check_encoders(every)
    places = [_run_of(name, names or _DEFAULT_NAMES, runs, settings) for name in every]
    first, second, *mixed = read_runs(places)
    change = trade_between(first, second, mixed)
    write(page, trade_page(change).encode(), follow=True)
    if json:
        echo_json(change)
        return
    echo(change.sentence)
    echo(f"wrote {page}")


def _with_start(after: str, before: str) -> str:
    """Name the start of a trained encoder, if it is the one that the user names as BEFORE; a run folder stays."""
    from vision_features.encoders.named import read_card, share_of

    folder, equals, _ = after.removeprefix("tuned:").partition("=")
    trained = Path(share_of(folder)[0])
    if equals or (trained / "manifest.json").is_file() or not (trained / "card.json").is_file():
        return after
    same = read_card(trained)["encoder"]["spec"] == before
    return f"tuned:{folder}={before}" if same else f"tuned:{folder}"


def _check_names(names: Sequence[str] | None, encoders: Sequence[str], settings: Settings) -> None:
    """Refuse the benchmarks by default without their files, before an encoder is loaded."""
    from gate_runner.errors import UsageError

    runs = all((Path(name) / "manifest.json").is_file() for name in encoders)
    if not (names or runs or settings.data_root or settings.source):
        raise UsageError(
            f"{', '.join(_DEFAULT_NAMES)}, the benchmarks by default, read original files: give --data-root, or name "
            "benchmarks, such as a benchmark.toml of yours, micro/cifar100 or micro/flickr30k"
        )


def _mixed(after: str, share: float) -> str:
    """The spec of a mix."""
    from gate_runner.errors import UsageError

    if not after.startswith("tuned:") or not 0 <= share <= 1:
        raise UsageError(f"--share {share:g} of {after}: expected 0 to 1, of an encoder tuned:FOLDER")
    folder, equals, start = after.partition("=")
    return f"{folder}@{share:g}{equals}{start}"


def _check_encoders(names: Sequence[str]) -> None:
    """Load every encoder that is to be run, before the first of them is: a wrong one would be noticed hours later."""
    from vision_features.encoders import load_encoder

    for name in dict.fromkeys(names):
        if not (Path(name) / "manifest.json").is_file():
            load_encoder(name, device="cpu")


def _run_of(name: str, names: Sequence[str], runs: Path, settings: Settings) -> Path:
    """A run folder as it is, or that of an encoder, which is run."""
    if (Path(name) / "manifest.json").is_file():
        return Path(name)
    from gate_runner.benchmarks.resolving import resolve
    from gate_runner.executors import run as execute
    from gate_runner.runs.display import Terminal, watching
    from gate_runner.runs.request import make_request
    from gate_runner.tasks.variants import zero_shot

    benchmarks = [benchmark if settings.shots else zero_shot(benchmark) for benchmark in resolve(names)]
    request = make_request(benchmarks, name, settings=settings)
    request = replace(request, output=runs / request.output.name)
    with watching(Terminal(highlight=False, soft_wrap=True, stderr=True), settings.workers or 1) as display:
        execute(request, display, [])
    return request.output


def report(
    runs: Runs,
    output: Annotated[Path | None, typer.Option(help="File to write; report.html, or the terminal for tables.")] = None,
    format_: Annotated[
        str,
        typer.Option(
            "--format",
            help="html, a table (md, csv, latex), or CSV: classes, confusions, slices, shifts, mistakes, suspects.",
        ),
    ] = "html",
    pictures: Annotated[int, typer.Option(help="Hardest test samples to show per benchmark, on the page.")] = 4,
    data_root: Annotated[
        list[Path] | None,
        typer.Option(help="Folder of original files or of your own data, for images; may be given several times."),
    ] = None,
    tests: Annotated[bool, typer.Option(help="Mark what a paired test does not show to be worse than another.")] = True,
    look: Annotated[
        bool, typer.Option("--look", help="On the page: neighbours, a map and places by the first run's encoder.")
    ] = False,
    encoder: Annotated[
        str | None, typer.Option(help="Encoder for --look, if it runs code or has to be downloaded.")
    ] = None,
    taxonomy: Annotated[
        Path | None, typer.Option(help="TOML with ELEVATER's columns of your own encoders, by spec.")
    ] = None,
) -> None:
    """Make a page of runs, or a table for a paper."""
    from gate_runner.reports import report as make

    form: Any = format_
    output = output or (Path("report.html") if format_ == "html" else None)
    output = None if str(output) == "-" else output
    how: dict[str, Any] = {"pictures": pictures, "data_root": data_root, "tests": tests, "taxonomy": taxonomy}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        text = make(*_runs_among(runs), output=output, form=form, look=look, encoder=encoder, **how)
    for warning in caught:
        echo(f"warning: {warning.message}", err=True)
    if output is None:
        echo(text, nl=False)
    else:
        echo(f"wrote {output} ({len(text.encode()) / 1e6:.2f} MB)")


def export(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders, each of which is written alone.")],
    to: Annotated[str, typer.Option("--to", help="every-eval-ever, model-card, csv or elevater.")],
    output: Annotated[
        Path | None, typer.Option(help="Folder, with one below it for each of several; RUN/export/FORM by default.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="DEVELOPER/NAME; from the encoder's spec by default.")] = None,
    organization: Annotated[str, typer.Option(help="Who ran the evaluation.")] = "independent",
) -> None:
    """Write results of runs in a form that other tools read.

    A run of several that cannot be written is named, and the others are written. What is no run folder among several is
    left out.
    """
    from gate_runner.errors import UsageError
    from gate_runner.exporting import export as write
    from gate_runner.exporting import folders_of
    from gate_runner.runs.stored import runs_among

    runs, others = runs_among(runs)
    for line in others:
        echo(line, err=True)
    refused = False
    for run, folder in folders_of(runs, to, output, model):
        try:
            paths = write(run, to, folder, model=model, organization=organization)
        except UsageError as error:
            if len(runs) == 1:
                raise
            echo(f"{run} is not exported: {error}", err=True)
            refused = True
            continue
        for path in paths.files:
            echo(path)
        for sentence in paths.left_out:
            echo(sentence if len(runs) == 1 else f"{run}: {sentence}", err=True)
    if refused:
        raise typer.Exit(1)


def upload(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A run folder, or one kept encoder or head.", show_default=False)
    ],
    to: Annotated[str, typer.Option("--to", metavar="OWNER/NAME", help="Repository on Hugging Face's hub.")],
    yes: Annotated[bool, typer.Option("--yes", help="Send it; without this, only list what would be sent.")] = False,
    public: Annotated[bool, typer.Option("--public", help="Make a new repository public; private otherwise.")] = False,
    json: AsJson = False,
) -> None:
    """Send results and checkpoints to a model hub."""
    from gate_runner.exporting.hub import prepared, send

    planned = prepared(folder, to)
    address = send(planned, private=not public) if yes else ""
    if json:
        listed = [{"path": file.path, "bytes": file.size} for file in planned.files]
        echo_json({"repository": to, "files": listed, "sent": yes, "address": address})
        return
    for file in planned.files:
        echo(f"{file.size:>14,}  {file.path}")
    total = f"{number_of(len(planned.files), 'file')}, {planned.size:,} bytes"
    if yes:
        echo(f"{total}: {address}")
    else:
        echo(f"{total} for {'public' if public else 'private'} {to}; nothing was sent. Send them: --yes")


def power(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN [RUN]", help="One run folder, or two on the same data.")],
    difference: Annotated[
        float, typer.Option(help="Difference to detect, in points: hundredths of the metric's unit.")
    ] = 1.0,
    alpha: Annotated[float, typer.Option(help="Level of the two-sided paired test.")] = 0.05,
    wanted: Annotated[float, typer.Option("--power", help="Probability to see it.")] = 0.8,
    json: AsJson = False,
) -> None:
    """Say how many samples show a difference.

    Test samples, seeds or benchmarks.
    """
    from gate_runner.comparison.power import power as power_of
    from gate_runner.errors import UsageError

    if len(runs) > 2:
        raise UsageError(f"{len(runs)} runs given; expected one, or two")
    report = power_of(*runs, difference=difference / 100, alpha=alpha, wanted=wanted)
    if json:
        echo_json(report)
        return
    for line in _power_lines(report):
        echo(line)


def _power_lines(report: PowerReport) -> list[str]:
    """A block of three lines per benchmark: readable at any width."""
    points, probability = 100 * report.difference, f"{report.wanted:.0%}"
    size = f"{points:g} point{'s' * (points != 1)}"
    lines = []
    for row in report.benchmarks:
        has = f"{row.samples} samples, {row.seeds} seed{'s' * (row.seeds > 1)}"
        has += "" if row.clusters is None else f", {row.clusters} whole groups"
        lines += [
            f"{row.name} ({row.metric}; {has}{'' if row.paired else '; against an unrelated model'})",
            f"  now: {row.power:.0%} to see {size}; {probability} to see {100 * row.smallest:.2g}",
            f"  {size} with {probability}: {row.samples_needed} samples{_seeds(row.seeds_needed)}",
        ]
    if report.benchmarks_needed is not None:
        lines.append(f"mean over benchmarks, {size} with {probability}: {report.benchmarks_needed} benchmarks")
    return lines + [f"left out: {reason}" for reason in report.left_out]


def _seeds(needed: int | None) -> str:
    if needed is None:
        return ""
    return "; with today's samples, no number of seeds" if needed == 0 else f"; or today's, with {needed} seeds"


def forecast(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    level: Annotated[float, typer.Option(help="Share of new models that intervals are meant to hold for.")] = 0.9,
    accept_stand_ins: Annotated[bool, typer.Option("--accept-stand-ins", help="Take synthetic ones, too.")] = False,
    json: AsJson = False,
) -> None:
    """Predict the rest of GATE's table from a run.

    From a run on some of its benchmarks, with intervals.
    """
    from gate_runner.comparison.forecasting import forecast as forecast_of

    made = forecast_of(run, accept_stand_ins=accept_stand_ins, level=level)
    if json:
        echo_json(made)
        return
    for warning in made.warnings:
        echo(f"warning: {warning}")
    expected = made.expected
    rows = [
        (metric, f"{cell.value:.1f}", "measured" if cell.given else f"{cell.low:.1f} to {cell.high:.1f}")
        for metric, cell in {**expected.cells, "the mean of all": expected.mean}.items()
        if cell is not None
    ]
    echo_table(("metric", "%", f"{level:.0%} interval"), rows)
    echo(f"{made.model} is expected on place {expected.rank} of {made.of}.")
