"""``gate-runner plan``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gate_runner.commands.options import AsJson, Config, EncoderSpec, RunFolder, Setting, SomeNames, requested
from gate_runner.errors import UsageError
from gate_runner.setting_values import seconds_in
from gate_runner.signatures import as_command
from gate_runner.terminal import echo, echo_json

if TYPE_CHECKING:
    from gate_runner.planning import Plan
    from gate_runner.runs import RunRequest


@as_command
def plan(
    context: typer.Context,
    names: SomeNames = None,
    config: Config = None,
    encoder: EncoderSpec = "micro-clip",
    output: RunFolder = None,
    budget: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Keep what fits, e.g., 90m, and tells the most about GATE.")
    ] = None,
    setting: Setting = None,
    price: Annotated[
        float | None, typer.Option(metavar="DOLLARS_AN_HOUR", help="Of this machine: say what the run costs.")
    ] = None,
    json: AsJson = False,
    **options: Any,
) -> None:
    """Say what a run will take, from a short probe of this encoder on this machine; nothing is scored."""
    seconds = seconds_in(budget)
    if price is not None and not (price >= 0 and math.isfinite(price)):
        raise UsageError(f"--price is in dollars an hour, at least 0, not {price}")
    if not names and config is None:
        raise UsageError("name a pack or a benchmark (gate-runner ls packs)")
    request = requested(context, config, names or [], encoder, output, options, setting or ())
    from gate_runner.planning.plan import plan as make

    total = make(request, budget=seconds)
    if json:
        cost = {} if price is None else {"dollars": total.seconds / 3600 * price}
        echo_json({**total.to_mapping(), **cost})
        return
    show(total, request)
    if price is not None:
        echo(f"about ${total.seconds / 3600 * price:.2f} at ${price:g} an hour")


def show(total: Plan, request: RunRequest) -> None:
    """Print a plan as lines."""
    from gate_runner.runs.display import clock
    from gate_runner.tasks.recipes import augmentation_of, in_words, start_in_words

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
            words = in_words(
                part.recipe, augment=augmentation_of(settings), start=start_in_words(settings, tasks[part.benchmark])
            )
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
