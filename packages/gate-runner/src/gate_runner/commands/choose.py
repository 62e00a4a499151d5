"""``gate-runner choose``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gate_runner.commands.options import AsJson
from gate_runner.signatures import with_options

if TYPE_CHECKING:
    from rich.table import Table

    from gate_runner.choosing import Candidate, Choice

_OPTIONS = ("limit", "batch_size", "device", "seeds", "data_root", "skip_unreadable", "feature_cache")


@with_options(*_OPTIONS)
def choose(
    pictures: Annotated[str, typer.Argument(metavar="FOLDER|BENCHMARK", help="Your pictures, or a benchmark's name.")],
    encoders: Annotated[str, typer.Option(help="Specs with commas between, or a file with one in each line.")],
    task: Annotated[
        str, typer.Option(help="Of a folder of classes: knn, image-retrieval or clustering in place of a probe.")
    ] = "",
    readout: Annotated[
        str, typer.Option(help="Where to read each encoder: auto, last, or e.g. block:9/mean.")
    ] = "auto",
    first: Annotated[int, typer.Option(min=30, help="Samples of a split in the first round of many encoders.")] = 300,
    alpha: Annotated[float, typer.Option(help="Family-wise error over all rounds.")] = 0.05,
    price: Annotated[float | None, typer.Option(help="Dollars for an hour of this machine.")] = None,
    output: Annotated[Path | None, typer.Option(help="Folder of all runs; runs/choose-NAME by default.")] = None,
    json: AsJson = False,
    **options: Any,
) -> None:
    """Say which encoder to take for some pictures: scores, paired tests, speed, size, and how sure that is.

    Where there are many encoders, few pictures come first, and those that a paired test calls worse are left out.
    """
    from rich.console import Console
    from rich.markup import escape

    from gate_runner.choosing import choose as chosen_of
    from gate_runner.choosing import encoders_in
    from gate_runner.commands.run import own_folder
    from gate_runner.errors import UsageError
    from gate_runner.files import write
    from gate_runner.reports.choice import choice_section
    from gate_runner.reports.page import build_page
    from gate_runner.runs.display import watching
    from gate_runner.runs.stored import read_runs
    from gate_runner.settings import Settings

    if not 0 < alpha < 1 or (price is not None and not price > 0):
        raise UsageError(f"expected --alpha between 0 and 1 and --price above 0, not {alpha} and {price}")
    specs = encoders_in(encoders)
    name = own_folder(Path(pictures)) if Path(pictures).is_dir() else pictures
    from gate_runner.benchmarks import resolve
    from gate_runner.tasks.registry import find_task_type

    found = resolve([name])
    if len(found) != 1:
        raise UsageError(f"{name!r} is {len(found)} benchmarks; choose for one of them, or for a folder")
    benchmark = find_task_type(found[0].task).varied(found[0], task) if task else found[0]
    settings = Settings().changed(readout=readout, **options)
    folder = output or Path("runs") / f"choose-{found[0].id}{f'-{task}' if task else ''}"
    console = Console(highlight=False, soft_wrap=True, stderr=True)
    with watching(console) as display:
        choice = chosen_of(benchmark, specs, folder, settings, first=first, alpha=alpha, price=price, observer=display)
    page = folder / "choice.html"
    text = build_page(read_runs(choice.runs), data_root=settings.data_root, first=[choice_section(choice)])
    write(page, text.encode())
    if json:
        import json as standard
        from dataclasses import asdict

        shown = {**asdict(choice), "runs": [str(path) for path in choice.runs], "pareto": choice.pareto()}
        typer.echo(standard.dumps(shown, indent=2))
        return
    out = Console(highlight=False, soft_wrap=True)
    table = choice_table(choice)
    out.width = max(out.width, Console(width=10_000).measure(table).maximum)
    out.print(table)
    for code in choice.codes:
        out.print(f"{code['code']}: {code['bytes']} bytes, {choice.metric} {code['value']:.3f}")
    for sentence in choice.sentences:
        out.print(escape(sentence))
    out.print(escape(f"The page with all of it: {page}"))


def choice_table(choice: Choice) -> Table:
    """A row for each encoder."""
    from rich.markup import escape
    from rich.table import Table

    heads = ("encoder", choice.metric, "95 % CI", "verdict", "p Holm", "images/s", "ms alone", "parameters", "weights")
    table = Table(box=None, pad_edge=False, padding=(0, 1), collapse_padding=True, header_style="bold")
    for head in (*heads, "bytes", "$/million", "read out", "Pareto", "judged by", ""):
        words = head in ("encoder", "verdict", "read out", "")
        table.add_column(head, justify="left" if words else "right", no_wrap=True)
    front = choice.pareto()
    for one in choice.candidates:
        table.add_row(*map(escape, _cells(one, one.encoder in front)))
    return table


def _cells(one: Candidate, front: bool) -> list[str]:
    if one.value is None or one.costs is None:
        return [one.encoder, "–", "", one.verdict, *[""] * 10, one.reason]
    costs = one.costs
    return [
        one.encoder,
        f"{one.value:.3f}",
        f"{one.low:.3f}–{one.high:.3f}",
        one.verdict,
        "–" if one.p is None else "<0.001" if one.p < 0.001 else f"{one.p:.3f}",
        f"{costs.images_per_second:.1f}",
        f"{costs.milliseconds:.1f}",
        "unseen" if costs.parameters is None else f"{costs.parameters / 1e6:.1f} M",
        f"{costs.weight_bytes / 1e6:.0f} MB",
        f"{one.row_bytes:,}",
        "–" if costs.dollars is None else f"{costs.dollars:.2f}",
        one.readout,
        "yes" if front else "",
        f"{one.pictures:,}",
        one.reason,
    ]
