"""``gate-runner choose``."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import Annotated, Any

import typer

from gate_runner.commands.options import AsJson
from gate_runner.settings.signatures import with_options
from gate_runner.terminal import echo, echo_json, echo_table

_OPTIONS = ("limit", "batch_size", "device", "seeds", "data_root", "skip_unreadable", "feature_cache")


@with_options(*_OPTIONS)
def choose(
    pictures: Annotated[str, typer.Argument(metavar="FOLDER|BENCHMARK", help="Your images, or a benchmark's name.")],
    encoders: Annotated[str, typer.Option(help="Specs with commas between, or a file with one in each line.")],
    task: Annotated[
        str, typer.Option(help="Task for a folder of classes: knn, image-retrieval or clustering in place of a probe.")
    ] = "",
    readout: Annotated[
        str, typer.Option(help="Where to read each encoder: auto, last, or e.g. block:9/mean.")
    ] = "auto",
    first: Annotated[int, typer.Option(min=30, help="Samples of a split in the first round of many encoders.")] = 300,
    alpha: Annotated[float, typer.Option(help="Family-wise error over all rounds.")] = 0.05,
    price: Annotated[float | None, typer.Option(help="Dollars for an hour of this machine.")] = None,
    output: Annotated[Path | None, typer.Option(help="Folder of all runs; runs/choose-NAME by default.")] = None,
    save: Annotated[Path | None, typer.Option(help="Folder for the best encoder's head, at its read-out.")] = None,
    json: AsJson = False,
    **options: Any,
) -> None:
    """Say which encoder to take for your images.

    With scores, paired tests, speed, size, and how sure that is.

    Where there are many encoders, few images come first, and those that a paired test calls worse are left out.
    """
    from gate_runner.choosing.choice import choose as chosen_of
    from gate_runner.choosing.choice import encoders_in
    from gate_runner.choosing.costs import LoadedEncoders
    from gate_runner.commands.run import own_folder
    from gate_runner.errors import UsageError
    from gate_runner.reports.choice import WORDS, choice_section, costs_of, scores_of
    from gate_runner.reports.feature_views import feature_views
    from gate_runner.reports.page import build_page
    from gate_runner.runs.display import Terminal, watching
    from gate_runner.runs.stored import read_runs
    from gate_runner.settings import Settings
    from wary_files.folders import write

    if not 0 < alpha < 1 or (price is not None and not 0 < price < inf):
        raise UsageError(f"expected --alpha between 0 and 1 and --price above 0, not {alpha} and {price}")
    specs = encoders_in(encoders)
    table = Path(pictures)
    if table.is_file() and table.suffix != ".toml":
        raise UsageError(
            f"{pictures} is a file; expected the folder that holds it, or its benchmark.toml: gate-runner choose "
            f"{table.absolute().parent} --encoders {encoders}"
        )
    name = own_folder(Path(pictures), output) if Path(pictures).is_dir() else pictures
    from gate_runner.benchmarks import resolve
    from gate_runner.tasks.registry import find_task_type

    benchmarks = resolve([name])
    if len(benchmarks) != 1:
        raise UsageError(f"{name!r} is {len(benchmarks)} benchmarks; choose for one of them, or for a folder")
    (plain,) = benchmarks
    benchmark = find_task_type(plain.task).varied(plain, task) if task else plain
    settings = Settings().changed(readout=readout, **options)
    folder = output or Path("runs") / f"choose-{plain.id}{f'-{task}' if task else ''}"
    console = Terminal(highlight=False, soft_wrap=True, stderr=True)
    loaded = LoadedEncoders(settings.device)
    how: dict[str, Any] = {"first": first, "alpha": alpha, "price": price, "save": save, "loaded": loaded}
    with watching(console) as display:
        choice = chosen_of(benchmark, specs, folder, settings, observer=display, **how)
    page = folder / "choice.html"
    runs = [run.only(choice.benchmark, settings.seeds) for run in read_runs(choice.runs)]
    root = Path(plain.sources["file"]).parent if "file" in plain.sources else settings.data_root
    encoder = loaded.get(runs[0].encoder)  # the user has just named both
    sections = feature_views(runs[0], encoder=encoder, data_root=root)
    text = build_page(
        runs,
        data_root=root,
        first=[choice_section(choice)],
        after=sections,
        title=f"Which encoder for {plain.id}",
        findings=choice.sentences,
    )
    write(page, text.encode(), follow=True)
    if json:
        shown = {**vars(choice), "runs": [str(path) for path in choice.runs], "pareto": choice.pareto()}
        echo_json(shown)
        return
    for heads, rows in (scores_of(choice), costs_of(choice)):
        if rows:
            echo_table(heads, rows, words=WORDS)
    for coded in choice.compressed:
        echo(f"as {coded.code}: {coded.row_bytes:,} bytes an image, {choice.metric} {coded.value:.3f}")
    for sentence in choice.sentences:
        echo(sentence)
    if save is not None:
        echo(f"kept in {save}: gate-runner adapt predict {save} IMAGES…")
    echo(f"The page with all of it: {page}")
