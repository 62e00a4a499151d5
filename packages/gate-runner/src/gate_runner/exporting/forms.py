"""The forms that a run can be exported to, and the one call that writes them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path

from gate_runner.errors import DataError, UsageError, printable, unknown
from gate_runner.exporting import elevater, every_eval_ever, model_card
from gate_runner.exporting.model import Exported, Files, ModelName, model_name, published
from gate_runner.files import csv_text
from gate_runner.reports.contents import overviews
from gate_runner.runs.stored import Stored, StoredRun, explain_malformed, read_runs
from wary_files.folders import write
from wary_files.locks import held

_COLUMNS = (
    "model", "encoder", "benchmark", "task", "source", "seed", "metric", "direction", "value", "low", "high", "chance",
    "test_samples", "limit", "note", "status", "reason", "data_sha256",
)  # fmt: skip


def _tables(run: StoredRun, model: ModelName, organization: str) -> Files:
    """A row per benchmark, seed and metric, unrounded, also of what failed; and task types' tables over all results."""
    rows: list[list[object]] = []
    for result in run.results:
        about = [model.id, run.encoder, published(result.name, result.source), result.task, result.source, result.seed]
        ending = [result.data.get("test"), result.settings.get("limit"), result.note, result.status, result.reason]
        ending.append(result.data.get("sha256"))
        scores = [
            [s.metric, s.direction, s.value, *(None if math.isnan(end) else end for end in (s.low, s.high, s.chance))]
            for s in result.scores
        ] or [[None] * 6]
        rows += [[*about, *score, *ending] for score in scores]
    over = {f"{table.id}.csv": table.as_csv() for table in overviews([run])}
    return Files({"results.csv": csv_text(_COLUMNS, rows), **over})


FORMS: dict[str, Callable[[StoredRun, ModelName, str], Files]] = {
    "every-eval-ever": every_eval_ever.files,
    "model-card": model_card.files,
    "csv": _tables,
    "elevater": elevater.files,
}
"""By the name that ``--to`` takes: from a run, its model's name and who ran it, to texts by path."""


def folders_of(
    runs: Sequence[Path], form: str, output: Path | None = None, model: str | None = None
) -> list[tuple[Path, Path | None]]:
    """Give each of one or several runs the folder that `export` writes; None is its default.

    Several runs have a folder below ``output`` each, called like the run's own.

    Args:
        runs: run folders; one that is named twice is written once.
        form: one of `FORMS`.
        output: as ``--output`` gives it.
        model: as ``--model`` gives it, for one run alone.

    Raises:
        UsageError: an unknown form, a model for several runs, or two runs of one name with an output.

    Example:
        >>> [folder.as_posix() for _, folder in folders_of([Path("runs/a"), Path("runs/b")], "csv", Path("out"))]
        ['out/a', 'out/b']
    """
    if form not in FORMS:
        raise unknown("export form", form, list(FORMS))
    by_place: dict[Path, Path] = {}
    for run in runs:
        by_place.setdefault(run.resolve(), run)
    different = list(by_place.values())
    if len(different) == 1:
        return [(different[0], output)]
    if model is not None:
        raise UsageError(f"--model {model} names one model, and there are {len(different)} runs: export each alone")
    if output is None:
        return [(run, None) for run in different]
    by_name: dict[str, Path] = {}
    for run in different:
        first = by_name.setdefault(run.resolve().name, run)
        if first is not run:
            raise UsageError(
                f"{first} and {run} would both be written to {output / run.resolve().name}: leave out --output, or "
                "export each alone"
            )
    return [(run, output / name) for name, run in by_name.items()]


def export(
    source: Stored,
    form: str,
    output: str | PathLike[str] | None = None,
    *,
    model: str | None = None,
    organization: str = "independent",
) -> Exported:
    """Write a run's results for other tools.

    Args:
        source: a run, or its folder.
        form: one of `FORMS`.
        output: a folder, ``export/FORM`` in the run folder by default; files of an earlier export are written again,
            with the same bytes for the same run.
        model: ``DEVELOPER/NAME``; derived from the encoder's spec by default.
        organization: who ran the evaluation, for forms that ask for it.

    Returns:
        The files, and what the form has no room for.

    Raises:
        UsageError: an unknown form (shows the nearest), no finished result, or a model id that is not one.
        BusyError: another process exports there; the message says which.
        StorageError: the folder cannot be written.

    Example:
        >>> import tempfile
        >>> import gate_runner
        >>> folder = tempfile.mkdtemp()
        >>> done = gate_runner.run("digits", encoder="micro-clip/random", output=folder, limit=40, show=False)
        >>> [path.name for path in export(done, "csv").files]
        ['results.csv']
    """
    if form not in FORMS:
        raise unknown("export form", form, list(FORMS))
    (run,) = read_runs([source])
    folder = run.path / "export" / form if output is None else Path(output)
    failed = [f"{result.name} seed {result.seed}" for result in run.results if result.status != "ok"]
    if len(failed) == len(run.results):
        raise UsageError(f"{run.path} holds no finished result to export")
    if form != "csv" and any(result.imported for result in run.results):
        raise UsageError(f"{run.path} was imported from another tool: it is exported as csv alone, not as {form}")
    name = model_name(run, model)
    with explain_malformed([run]):
        files = FORMS[form](run, name, organization)
    inside = run.path if folder.absolute().is_relative_to(run.path.absolute()) else folder
    for path in files.contents:
        if not (folder / path).resolve().is_relative_to(inside.resolve()):
            raise DataError(
                f"{folder / path} is a link that leads out of {inside}: remove it, or choose another --output"
            )
    card = folder / "README.md"
    if "README.md" in files.contents and card.is_file() and "- gate-runner\n" not in card.read_text("utf-8", "replace"):
        raise UsageError(f"{card} is no model card of gate-runner's and would be lost: choose another --output")
    written = []
    with held(folder / ".export.lock"):
        for path, text in files.contents.items():
            write(folder / path, text if isinstance(text, bytes) else printable(text, "\n\t").encode())
            written.append(folder / path)
    left_out = [*files.left_out, *([f"without a score, since they failed: {', '.join(failed)}"] if failed else [])]
    return Exported(tuple(written), tuple(left_out))
