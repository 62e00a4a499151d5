"""``gate-runner trade``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gate_runner.commands.options import AsJson
from gate_runner.signatures import as_command
from gate_runner.terminal import echo, echo_json

if TYPE_CHECKING:
    from gate_runner.settings import Settings

DEFAULT_NAMES = ("icinw", "compositional", "flickr30k")


@as_command
def trade(
    before: Annotated[str, typer.Argument(help="A run folder, or the spec of an encoder to run.")],
    after: Annotated[str, typer.Argument(help="Likewise, of the encoder as it is now.")],
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PACK|BENCHMARK...", help=f"What encoders are run on; {' '.join(DEFAULT_NAMES)} by default."
        ),
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
    json: AsJson = False,
    **options: Any,
) -> None:
    """Say what an encoder gained and lost: recognition, composition, retrieval, own data, paired by item.

    A run folder is read as it is. An encoder is run first, zero-shot where --shots says nothing else; the same command
    again computes nothing twice.
    """
    from gate_runner.comparison import trade_between
    from gate_runner.files import write
    from gate_runner.reports.trade import trade_page
    from gate_runner.runs.stored import read_runs
    from gate_runner.settings import Settings

    mixes = [*(mix or ()), *(_mixed(after, name) for name in sorted(share or ()))]
    settings = Settings().changed(**options)
    places = [_run_of(name, names or DEFAULT_NAMES, runs, settings) for name in (before, after, *mixes)]
    first, second, *mixed = read_runs(places)
    change = trade_between(first, second, mixed)
    write(page, trade_page(change).encode())
    if json:
        echo_json(change)
        return
    echo(change.sentence)
    echo(f"wrote {page}")


def _mixed(after: str, share: float) -> str:
    """The spec of a mix."""
    from gate_runner.errors import UsageError

    if not after.startswith("tuned:") or not 0 <= share <= 1:
        raise UsageError(f"--share {share:g} of {after}: expected 0 to 1, of an encoder tuned:FOLDER")
    folder, equals, start = after.partition("=")
    return f"{folder}@{share:g}{equals}{start}"


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
    named = make_request(benchmarks, name, output=None, settings=settings).output.name
    request = make_request(benchmarks, name, output=runs / named, settings=settings)
    with watching(Terminal(highlight=False, soft_wrap=True, stderr=True), settings.workers or 1) as display:
        execute(request, display, [])
    return request.output
