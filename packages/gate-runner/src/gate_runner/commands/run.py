"""Commands that run encoders, or say what that takes: run, plan."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from errno import EACCES, EPERM, EROFS
from json import loads as json_value
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gate_runner.commands.options import AsJson, RunFolder, Setting
from gate_runner.errors import DataError, UsageError
from gate_runner.settings.signatures import as_command
from gate_runner.settings.values import seconds_in
from gate_runner.terminal import echo, echo_json

if TYPE_CHECKING:
    from gate_runner.planning import Plan
    from gate_runner.runs.observers import Observer
    from gate_runner.runs.request import RunRequest
    from gate_runner.runs.results import Result


_FILES = "Settings, output"
Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="PACK|BENCHMARK...", help="Packs and benchmarks; see 'gate-runner ls packs'."),
]
EncoderSpec = Annotated[str, typer.Option("--encoder", help="Spec of the encoder; see 'gate-runner ls encoders'.")]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="A TOML file of all of this, or a run folder to do again; options said here go before it.",
        rich_help_panel=_FILES,
    ),
]


@as_command
def run(
    context: typer.Context,
    names: Names = None,
    config: Config = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="A folder of your own: run its benchmark.toml, which is guessed and written where there is none."
        ),
    ] = None,
    encoder: EncoderSpec = "micro-clip",
    output: RunFolder = None,
    tracker: Annotated[
        list[str] | None,
        typer.Option(help="tensorboard or wandb (extras); may be given several times.", rich_help_panel=_FILES),
    ] = None,
    models: Annotated[
        str | None,
        typer.Option(
            metavar="gate|NAME,NAME",
            help="GATE's models one after another, each into OUTPUT/NAME; see 'gate-runner ls models'.",
            rich_help_panel=_FILES,
        ),
    ] = None,
    setting: Setting = None,
    json: AsJson = False,
    **options: Any,
) -> None:
    """Score an encoder. The same command again continues, and computes nothing twice.

    Image classification can be swept: --shots, --tune, --init and --knowledge take several values with
    commas between, as the packs icinw and micro/icinw do where nothing is said.
    """
    if not names and config is None and data is None:
        raise UsageError("name a pack or a benchmark (gate-runner ls packs), or a folder of your own with --data")
    source = context.get_parameter_source("encoder")
    if models is not None and (output is None or (source is not None and source.name != "DEFAULT")):
        raise UsageError("--models brings encoders of its own: give --output FOLDER, and leave --encoder out")
    listed, made = list(names or []), None
    if data is not None:
        if models is None:  # what is misspelt is refused before a file is written
            requested(context, config, listed, encoder, output, options, setting or ())
        made = None if (data / "benchmark.toml").is_file() else data / "benchmark.toml"
        listed.append(own_folder(data, output))
    if models is None:
        request = requested(context, config, listed, encoder, output, options, setting or ())
        try:
            carried = [_carried_out(request, tracker or [], json=json)]
        except UsageError as error:
            is_of_data = isinstance(error, DataError)  # which the file may be corrected for
            if (
                made is not None
                and made.is_file()
                and not is_of_data
                and not (request.output / "manifest.json").exists()
            ):
                made.unlink()
                echo(f"removed {made} again: nothing was run", err=True)
            raise
    else:
        assert output is not None  # see above
        carried = _each_model(context, models, config, listed, output, options, setting or (), tracker or [], json)
    if json:
        echo_json(carried[0] if models is None else carried)
    if any(result["status"] == "failed" for row in carried for result in row["results"]) or any(
        "reason" in row for row in carried
    ):
        raise typer.Exit(1)


def _carried_out(request: RunRequest, tracker: Sequence[str], *, json: bool) -> dict[str, Any]:
    """Run a request, show what it does and what comes next, and return its folder and results."""
    trackers: list[Observer] = []
    if tracker:
        from gate_runner.trackers import make_trackers

        trackers = make_trackers(tracker)
    from rich.markup import escape

    from gate_runner.executors import run as execute
    from gate_runner.executors.threads import workers_for
    from gate_runner.runs.display import Terminal, watching

    console = Terminal(highlight=False, soft_wrap=True, stderr=json)
    settings = request.settings
    if settings.tune not in ("frozen", "linear", "prompt") and settings.axes() is None:
        from gate_runner.tasks.recipes import announced

        by_recipe: dict[str, list[str]] = {}
        for benchmark in request.benchmarks:
            by_recipe.setdefault(announced(settings, benchmark.task), []).append(benchmark.id)
        for recipe, members in by_recipe.items():
            console.print(escape(f"{settings.tune}: {', '.join(members)}: {recipe}"))
    workers = workers_for(settings, len(request.benchmarks) * len(settings.seeds))
    with watching(console, workers) as display:
        results = execute(request, display, trackers)
    if not json:
        if any("variant" in result.training for result in results):
            from gate_runner.tasks.elevater.tables import averages, records_of

            echo(averages(records_of(results)).as_markdown(), nl=False)
        if any(result.task == "coop" for result in results):
            from gate_runner.tasks.coop.published import SEEN
            from gate_runner.tasks.coop.tables import tables, units_of

            echo(f"\n{SEEN}")
            for table in tables(units_of(request.spec, results), [request.spec]):
                echo(table.as_markdown(), nl=False)
        for line in dict.fromkeys(
            str(result.training["setting"]) for result in results if "setting" in result.training
        ):
            console.print(escape(line))
        for line in next_steps(request.output, results):
            console.print(escape(line))
    return {"output": str(request.output), "results": [json_value(result.to_json()) for result in results]}


def _each_model(
    context: typer.Context,
    models: str,
    config: Path | None,
    names: Sequence[str],
    output: Path,
    options: Mapping[str, Any],
    settings: Sequence[str],
    tracker: Sequence[str],
    json: bool,
) -> list[dict[str, Any]]:
    """Run each of several models; one that does not load is named with its reason, and the others are run."""
    from gate_runner.commands.paper_models import models_named
    from gate_runner.errors import EncoderError

    carried: list[dict[str, Any]] = []
    for name, model in models_named(models).items():
        request = requested(context, config, names, model.spec, output / name, options, settings)
        try:
            carried.append({"model": name, **_carried_out(request, tracker, json=json)})
        except EncoderError as error:
            echo(f"{name}: {error}", err=True)
            carried.append({"model": name, "output": str(request.output), "results": [], "reason": str(error)})
    without = [row["model"] for row in carried if "reason" in row]
    if without:
        echo(f"{len(without)} of {len(carried)} models did not load: {', '.join(without)}", err=True)
    return carried


def own_folder(folder: Path, output: Path | None = None) -> str:
    """The benchmark's file in a folder of one's own, written first where there is none.

    Where the folder cannot be written, it goes into the run folder, or into ``runs`` where that is not named.
    """
    from gate_data.own import benchmark_text, values_at
    from gate_runner.benchmarks.own import looked_at, write_own
    from wary_files.folders import write

    path = folder / "benchmark.toml"
    if path.is_file():
        return str(path)
    values, sentences = looked_at(folder, path)
    for sentence in sentences:
        echo(sentence, err=True)
    try:
        write_own(values, path)
    except DataError as error:
        if path.is_file() and path.read_text(encoding="utf-8") == benchmark_text(values):
            return str(path)  # of another process, which looked at the same time
        if not isinstance(error.__cause__, OSError) or error.__cause__.errno not in (EROFS, EACCES, EPERM):
            raise
        place = Path("runs") if output is None else output
        path = place / f"{values['benchmark']['id']}.toml"
        write(path, benchmark_text(values_at(values, folder, place)).encode())
    echo(f"wrote {path}", err=True)
    return str(path)


def next_steps(output: Path, results: Sequence[Result]) -> Iterator[str]:
    """What a newcomer may want to do next, in commands that can be copied."""
    from gate_runner.runs.folder import RunFolder

    failed = [result for result in results if result.status == "failed"]
    if failed:
        recorded = [
            failure for failure in failed if RunFolder(output).failure_file(failure.name, failure.seed).exists()
        ]
        where = f"; tracebacks are in {output / 'failures'}" if recorded else ""
        yield f"{len(failed)} of {len(results)} failed{where}. The same command tries them again."
    if len(failed) < len(results):
        yield f"A page with intervals, costs and the hardest samples: gate-runner report {output}"
        yield f"What differs from another run, and whether it holds: gate-runner compare {output} RUN"


@as_command
def plan(
    context: typer.Context,
    names: Names = None,
    config: Config = None,
    encoder: EncoderSpec = "micro-clip",
    output: RunFolder = None,
    budget: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Keep what fits, e.g., 90m, and tells the most about GATE.")
    ] = None,
    setting: Setting = None,
    price: Annotated[
        float | None,
        typer.Option(metavar="DOLLARS_AN_HOUR", help="Price of this machine, to print what the run costs."),
    ] = None,
    json: AsJson = False,
    **options: Any,
) -> None:
    """Say what a run will take, in time and memory.

    A short probe of this encoder on this machine measures it; nothing is scored.
    """
    seconds = seconds_in(budget)
    if price is not None and not (price >= 0 and math.isfinite(price)):
        raise UsageError(f"--price is in dollars an hour, at least 0, not {price}")
    if not names and config is None:
        raise UsageError("name a pack or a benchmark (gate-runner ls packs)")
    request = requested(context, config, names or [], encoder, output, options, setting or ())
    from gate_runner.planning.plan import plan as make

    total = make(request, budget=seconds)
    dollars = total.seconds / 3600 * (price or 0.0)
    if json:
        echo_json({**total.to_mapping(), **({} if price is None else {"dollars": dollars})})
        return
    _show(total, request)
    if price is not None:
        echo(f"about ${dollars:.2f} at ${price:g} an hour")


def _show(total: Plan, request: RunRequest) -> None:
    """Print a plan as lines."""
    from gate_runner.runs.display import clock
    from gate_runner.tasks.recipes import augmentation_for, augmentation_of, in_words, start_in_words

    width = max(len(part.name) for part in total.parts)
    echo(f"{'benchmark':<{width}}  seed       time  memory  longest phase")
    for part in total.parts:
        start = f"{part.name:<{width}}  {part.seed:>4}"
        if part.reason:
            echo(f"{start}  would fail: {part.reason}")
            continue
        phase = max(part.phases, key=lambda name: part.phases[name])
        when = "done" if part.done else clock(part.seconds)
        where = f"; {part.note}" if part.note else ""
        echo(f"{start}  {when:>9}  {part.peak_bytes / 1e9:.1f} GB  {phase} {clock(part.phases[phase])}{where}")
    echo(
        f"about {clock(total.seconds)} in all with {total.workers} at a time, {clock(total.startup_seconds)} of it to "
        f"start; measured in {clock(total.probe_seconds)}, kept in {request.output / 'plan.json'}"
    )
    settings, tasks = request.settings, {benchmark.id: benchmark.task for benchmark in request.benchmarks}
    recipes: dict[str, list[str]] = {}
    for part in total.parts:
        if part.recipe:
            task = tasks[part.benchmark]
            augment = augmentation_for(augmentation_of(settings), task)
            words = in_words(part.recipe, augment=augment, start=start_in_words(settings, task))
            recipes.setdefault(words, []).append(part.name)
    for recipe, names in recipes.items():
        echo(f"{', '.join(dict.fromkeys(names))}: {recipe}")
    choice = total.choice
    if choice is not None and choice.left_out:
        echo(f"left out for the budget: {', '.join(choice.left_out)}")
        echo(
            f"run: gate-runner run {' '.join(choice.benchmarks)} --output {request.output} (and the options given here)"
        )
        echo(
            f"the chosen predict GATE's table with an error of {choice.error:.3f}; random subsets that fit, with "
            f"{choice.random_error:.3f}"
        )


def requested(
    context: typer.Context,
    config: Path | None,
    names: Sequence[str],
    encoder: str,
    output: Path | None,
    options: Mapping[str, Any],
    settings: Sequence[str] = (),
) -> RunRequest:
    """The request of a command: what was said, before what ``--config`` holds, before the defaults.

    ``settings`` are those of ``--setting``.
    """
    from gate_runner.runs.request import make_request
    from gate_runner.settings import Settings
    from gate_runner.settings.configuration import read_configuration, settings_in
    from gate_runner.settings.signatures import COMMAND_LINE

    sources = {name: context.get_parameter_source(name) for name in context.params}
    given_options = {name for name, source in sources.items() if source is not None and source.name != "DEFAULT"}
    values = settings_in(settings)
    if config is None:
        changed = Settings().changed(**{**options, **values})
        request = make_request(list(names), encoder, output=output, settings=changed)
    else:
        chosen = encoder if "encoder" in given_options else None
        held = read_configuration(config, encoder=chosen, overridden=given_options | values.keys())
        own = {name: value for name, value in options.items() if name in given_options}
        changed = Settings().changed(**{**COMMAND_LINE, **held.options, **own, **values})
        listed = list(names) or list(held.names)
        request = make_request(listed, held.encoder or encoder, output=output or held.output, settings=changed)
    return request
