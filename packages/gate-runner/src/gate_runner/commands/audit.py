"""``gate-runner audit``: look at labels that may be wrong, and apply what was decided."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gate_runner.commands.options import AsJson
from gate_runner.terminal import echo, echo_json
from wary_files.text import number_of

if TYPE_CHECKING:
    from gate_data.own.reviewing import Review
    from gate_runner.runs.suspects import Corrected

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
_SHOWN = 20
WAIT = 30.0
"""Seconds for which another writer of the same decisions is waited for."""


@app.command("page")
def page(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    output: Annotated[Path, typer.Option(help="HTML file to write.")] = Path("audit.html"),
    benchmark: Annotated[str | None, typer.Option(help="The result's name, if the run has several.")] = None,
    data_root: Annotated[Path | None, typer.Option(help="Folder of your images, if outside of the run's.")] = None,
    most: Annotated[int, typer.Option(help="Images on the page, the surest first.")] = 300,
    json: AsJson = False,
) -> None:
    """Write a page of images with doubtful labels.

    Keys accept or reject each; the page downloads a table of decisions for `audit apply`.
    """
    from gate_runner.reports.audit import audit_page
    from gate_runner.runs.folder import refuse_in_run
    from gate_runner.runs.stored import explain_malformed, read_runs
    from wary_files.folders import require_ending, write

    require_ending("--output", output, ".html", ".htm")
    refuse_in_run(output)
    runs = read_runs([run])
    with explain_malformed(runs):
        made = audit_page(runs[0], benchmark=benchmark, data_root=data_root, most=most)
    write(output, made.text.encode(), follow=True)
    if json:
        echo_json({"page": str(output), **{name: value for name, value in made._asdict().items() if name != "text"}})
        return
    low, high = made.accuracy
    second = "" if made.second is None else f"; cleanlab names {made.second:,} of them, too"
    echo(f"{made.total:,} labels may be wrong{second}; accuracy is {low:.3f}, and {high:.3f} if all of these are")
    echo(f"wrote {output} with {made.shown:,} images; then: gate-runner audit apply TABLE FOLDER")


@app.command("apply")
def apply(
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="The table of decisions that the page downloaded.")],
    data: Annotated[Path, typer.Argument(metavar="FOLDER|benchmark.toml", help="The data set that it is about.")],
    run: Annotated[Path | None, typer.Option(help="Run folder whose accuracy is given with corrected labels.")] = None,
    benchmark: Annotated[
        str | None, typer.Option(help="With --run, the result's name, if the run has several of this data set.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--table", help="CSV, TSV or JSON-lines file: write a corrected table there instead.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would change, and write nothing.")] = False,
    json: AsJson = False,
) -> None:
    """Correct a data set's labels by decisions.

    The benchmark's file gets a table of corrections, [data] corrections; your own files stay as they are.
    """
    from gate_data.own.reviewing import apply_review, corrected_table, review
    from gate_runner.errors import UsageError
    from wary_files.folders import write
    from wary_files.locks import held

    file = data if data.suffix == ".toml" else data / "benchmark.toml"
    if not file.is_file():
        raise UsageError(f"{file} is not there: write it with gate-runner new {data}")
    if output is not None:
        _refuse_own(output, file)
    if benchmark is not None and run is None:
        raise UsageError("--benchmark names a result of a run: give --run, too")
    with ExitStack() as stack:
        if not dry_run and output is None:  # others' decisions would be lost between reading and writing
            stack.enter_context(held(file.with_name(f".{file.name}.lock"), wait=WAIT))
        made = review(file, table)
        accuracy = None if run is None else _accuracy(run, made, file, benchmark)
        written = None
        if made.changed and not dry_run:
            if output is None:
                written = apply_review(file, made)
            else:
                write(output, corrected_table(file, made).encode(), follow=True)
                written = output
    if json:
        record = {"changed": [list(row) for row in made.changed], "confirmed": made.confirmed,
                  "written": None if written is None else str(written)}  # fmt: skip
        echo_json(record if accuracy is None else {**record, "accuracy": accuracy._asdict()})
        return
    for name, before, after in made.changed[:_SHOWN]:
        echo(f"{name}: {before} -> {after or 'left out'}")
    if len(made.changed) > _SHOWN:
        echo(f"… {len(made.changed) - _SHOWN:,} more")
    dropped = sum(not after for _, _, after in made.changed)
    echo(
        f"{number_of(len(made.changed) - dropped, 'label')} corrected, {number_of(dropped, 'image')} left out, "
        f"{number_of(made.confirmed, 'label')} confirmed"
    )
    if accuracy is not None:
        echo(_sentence(accuracy))
    if written is None:
        echo("nothing was written")
    elif output is None:
        echo(f"wrote {written}, which {file} names: the next run takes the corrected labels, and needs a new --output")
    else:
        echo(f"wrote {written}")


def _refuse_own(output: Path, file: Path) -> None:
    """Refuse a corrected table over the data's own table or file, or over a file of a run."""
    from gate_data.own import read_benchmark
    from gate_runner.errors import UsageError
    from gate_runner.runs.folder import refuse_in_run

    refuse_in_run(output)
    table = file.parent / (read_benchmark(file).data.table or file.name)
    if output.resolve() in (file.resolve(), table.resolve()):
        raise UsageError(f"--table {output} is the data's own file: name another one, and it stays as it is")


def _accuracy(run: Path, made: Review, file: Path, benchmark: str | None) -> Corrected:
    """The accuracy of a run's result, of the first seed, before and after decisions on its images."""
    from gate_data.own import read_benchmark
    from gate_data.own.corrections import cell
    from gate_runner.errors import UsageError, unknown
    from gate_runner.reports.audit import audited
    from gate_runner.runs.stored import read_runs
    from gate_runner.runs.suspects import corrected_accuracy

    (stored,) = read_runs([run])
    name = read_benchmark(file).benchmark.id
    names = list(dict.fromkeys(result.name for result in stored.results if result.benchmark.partition("@")[0] == name))
    if not names:
        raise UsageError(f"{run} holds no result of {name}, whose labels were decided on")
    if benchmark is None and len(names) > 1:
        raise UsageError(f"{run} holds several results of {name}: --benchmark one of {', '.join(names)}")
    if benchmark is not None and benchmark not in names:
        raise unknown("benchmark", benchmark, names)
    result, _ = audited(stored, benchmark or names[0])
    rows, predicted = stored.tested(result), stored.predicted(result)
    assert predicted is not None
    number = {cell(str(name)): at for at, name in enumerate(rows["classes"])}
    corrections: dict[int, int | None] = {}
    for at, (image, truth) in enumerate(zip(rows["files"], rows["truth"], strict=True)):
        key = cell(str(image)), cell(str(rows["classes"][truth]))
        if key in made.decided:
            after = made.decided[key]
            corrections[at] = number.get(after, -1) if after else None
    return corrected_accuracy(rows["truth"], predicted, corrections)


def _sentence(accuracy: Corrected) -> str:
    first, second = (f"{value:.3f} ({low:.3f} to {high:.3f})" for value, low, high in accuracy[:2])
    return (
        f"accuracy {first} on {accuracy.images[0]:,} images, with these decisions {second} on {accuracy.images[1]:,}; "
        "only images that were predicted wrongly are reviewed, so it can only rise"
    )
