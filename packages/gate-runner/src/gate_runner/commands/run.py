"""``gate-runner run``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from json import dumps as json_text
from json import loads as json_value
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gate_runner.commands.options import AsJson, Config, EncoderSpec, RunFolder, Setting, SomeNames, requested
from gate_runner.errors import UsageError
from gate_runner.signatures import as_command
from gate_runner.terminal import echo

if TYPE_CHECKING:
    from gate_runner.runs.results import Result


@as_command
def run(
    context: typer.Context,
    names: SomeNames = None,
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
        typer.Option(
            help="tensorboard or wandb (extras); may be given several times.", rich_help_panel="Settings, output"
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
    names = [*(names or []), *([own_folder(data)] if data is not None else [])]
    if not names and config is None:
        raise UsageError("name a pack or a benchmark (gate-runner ls packs), or a folder of your own with --data")
    request = requested(context, config, names, encoder, output, options, setting or ())
    from gate_runner.trackers import make_trackers

    trackers = make_trackers(tracker or [])
    from rich.markup import escape

    from gate_runner.executors import run as execute
    from gate_runner.executors.threads import workers_for
    from gate_runner.runs.display import Terminal, watching

    console = Terminal(highlight=False, soft_wrap=True, stderr=json)
    settings = request.settings
    if settings.tune != "frozen" and settings.axes() is None:
        from gate_runner.tasks.recipes import announced

        by_recipe: dict[str, list[str]] = {}
        for benchmark in request.benchmarks:
            by_recipe.setdefault(announced(settings, benchmark.task), []).append(benchmark.id)
        for recipe, members in by_recipe.items():
            console.print(escape(f"{settings.tune}: {', '.join(members)}: {recipe}"))
    workers = workers_for(settings, len(request.benchmarks) * len(settings.seeds))
    with watching(console, workers) as display:
        results = execute(request, display, trackers)
    if json:
        echo(as_json(request.output, results))
    else:
        if any("variant" in result.training for result in results):
            from gate_runner.tasks.elevater.tables import averages, records_of

            echo(averages(records_of(results)).as_markdown(), nl=False)
        for line in next_steps(request.output, results):
            console.print(escape(line))
    if any(result.status == "failed" for result in results):
        raise typer.Exit(1)


def own_folder(folder: Path) -> str:
    """The benchmark's file in a folder of one's own, written first where there is none."""
    from gate_runner.benchmarks.own import looked_at, write_own

    path = folder / "benchmark.toml"
    if not path.is_file():
        values, sentences = looked_at(folder, path)
        for sentence in sentences:
            echo(sentence, err=True)
        write_own(values, path)
        echo(f"wrote {path}", err=True)
    return str(path)


def as_json(output: Path, results: Sequence[Result]) -> str:
    """The run folder and all results, each as its file has it."""
    return json_text({"output": str(output), "results": [json_value(result.to_json()) for result in results]}, indent=2)


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
