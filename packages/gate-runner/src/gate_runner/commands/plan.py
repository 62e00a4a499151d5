"""``gate-runner plan``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from gate_runner.planning import Plan


def plan(
    names: Annotated[
        list[str], typer.Argument(metavar="PACK|BENCHMARK...", help="What to plan; see 'gate-runner ls packs'.")
    ],
    encoder: Annotated[str, typer.Option(help="Spec of the encoder; see 'gate-runner ls encoders'.")] = "micro-clip",
    data_root: Annotated[Path | None, typer.Option(help="Folder with data sets' original files.")] = None,
    source: Annotated[str | None, typer.Option(help="local, built-in or micro; by default the first possible.")] = None,
    output: Annotated[Path | None, typer.Option(help="Run folder; runs/ENCODER by default.")] = None,
    limit: Annotated[int | None, typer.Option(help="At most so many samples in each split.")] = None,
    batch_size: Annotated[int, typer.Option(help="Images per call of the encoder.")] = 128,
    device: Annotated[
        str, typer.Option(help="A torch device; 'auto' takes the first GPU where there is one.")
    ] = "auto",
    seed: Annotated[
        list[int] | None, typer.Option(help="Seed of heads and batches; may be given several times.")
    ] = None,
    workers: Annotated[int, typer.Option(help="Benchmarks at the same time.")] = 1,
    budget: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Keep what fits, e.g., 90m, and tells the most about GATE.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, with a command for each part.")] = False,
) -> None:
    """Say what a run will take, from a short probe of this encoder on this machine; nothing is scored."""
    from gate_runner.commands.run import seconds_in
    from gate_runner.runs.naming import folder_name
    from gate_runner.runs.request import RunRequest, resolve_for_run

    request = RunRequest(
        benchmarks=resolve_for_run(names, encoder),
        encoder=encoder,
        output=output or Path("runs") / folder_name(encoder, limit),
        source=source,
        data_root=data_root,
        limit=limit,
        batch_size=batch_size,
        device=device,
        seeds=tuple(dict.fromkeys(seed or [0])),
        isolate="worker",
        workers=workers,
    )
    from gate_runner.planning import plan as make

    found = make(request, budget=None if budget is None else seconds_in(budget))
    if json:
        import json as standard

        typer.echo(standard.dumps(found.to_mapping(), indent=2))
        return
    show(found, request.output)


def show(found: Plan, output: Path) -> None:
    """Print a plan as lines."""
    from gate_runner.runs.display import clock

    width = max(len(part.name) for part in found.parts)
    typer.echo(f"{'benchmark':<{width}}  seed       time  memory  longest phase")
    for part in found.parts:
        start = f"{part.name:<{width}}  {part.seed:>4}"
        if part.reason:
            typer.echo(f"{start}  would fail: {part.reason}")
            continue
        phase = max(part.phases, key=lambda name: part.phases[name])
        when = "done" if part.done else clock(part.seconds)
        typer.echo(f"{start}  {when:>9}  {part.peak_bytes / 1e9:.1f} GB  {phase} {clock(part.phases[phase])}")
    typer.echo(
        f"about {clock(found.seconds)} in all with {found.workers} at a time, {clock(found.startup_seconds)} of it to "
        f"start; measured in {clock(found.probe_seconds)}, kept in {output / 'plan.json'}"
    )
    choice = found.choice
    if choice is not None and choice.left_out:
        typer.echo(f"left out for the budget: {', '.join(choice.left_out)}")
        typer.echo(f"run: gate-runner run {' '.join(choice.benchmarks)} --output {output} (and the options given here)")
        typer.echo(
            f"the chosen predict GATE's table with an error of {choice.error:.3f}; random subsets that fit, with "
            f"{choice.random_error:.3f}"
        )
