"""A report in the form that was asked for: the page, or the table of scores for papers and spreadsheets."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from gate_runner.charts.table import Table
from gate_runner.errors import UsageError, printable, unknown
from gate_runner.files import csv_text
from gate_runner.reports.contents import Cell, Contents, gather, overviews
from gate_runner.reports.feature_views import feature_views
from gate_runner.reports.page import build_page
from gate_runner.reports.scores import number
from gate_runner.reports.shifts import shifts_as_csv
from gate_runner.reports.slices import slices_as_csv
from gate_runner.runs.folder import refuse_in_run
from gate_runner.runs.results import Result
from gate_runner.runs.stored import Stored, StoredRun, explain_malformed, read_runs
from gate_runner.runs.suspects import accuracy_range, suspects
from gate_runner.runs.tested import wrong
from gate_runner.tasks.elevater.taxonomy import read_taxonomy
from wary_files.folders import require_ending, write

Form = Literal["html", "md", "csv", "latex", "classes", "confusions", "mistakes", "slices", "suspects", "shifts"]
"""What a report is written as."""

_ENDINGS = {"html": (".html", ".htm"), "md": (".md", ".txt"), "latex": (".tex", ".txt")}
"""How the file is called that a report is written to, by form; all others are CSV."""


def report(
    *sources: Stored,
    output: str | PathLike[str] | None = None,
    form: Form = "html",
    pictures: int = 4,
    data_root: str | PathLike[str] | Sequence[str | PathLike[str]] | None = None,
    tests: bool = True,
    look: bool = False,
    encoder: str | None = None,
    taxonomy: str | PathLike[str] | None = None,
) -> str:
    """One page of one or more runs, or a table for a paper.

    Args:
        sources: runs or their folders, at least one.
        output: file to write the text into, if any.
        form: ``"html"`` for the page, or the table of scores as ``"md"``, ``"csv"`` or ``"latex"``; as CSV,
            ``"classes"`` has a row for each class of each classification, ``"confusions"`` one for each confusion,
            ``"slices"`` one for each slice, ``"mistakes"`` one for each test image of your own that was predicted
            wrongly, with its file, ``"suspects"`` one for each whose label may be wrong, ``"shifts"`` one for each
            shift, and for each slice under it.
        pictures: hardest test samples that the page shows for each benchmark.
        data_root: folder of original files, or of your own data, for these samples, or several: each benchmark takes
            the first that its data are in.
        tests: mark what a paired test does not show to be worse than another.
        look: load the first run's encoder, and show on the page the hardest images' neighbours in training, a map of
            the test split by its features, and what places show.
        encoder: that encoder's spec, where it runs code or is fetched: a run's folder does not decide on that.
        taxonomy: TOML file with ELEVATER's columns of your own encoders, by spec, for a sweep's table of tracks.

    Returns:
        The text.

    Raises:
        UsageError: no runs, a folder that holds none, a form that there is not, an encoder that has to be said, or
            an output that is a file of a run, or not called what the form is.
        StorageError: the file cannot be written; an old one is still there.

    Example:
        >>> import tempfile
        >>> import gate_runner
        >>> folder = tempfile.mkdtemp()
        >>> done = gate_runner.run("digits", encoder="micro-clip/random", output=folder, limit=40, show=False)
        >>> report(done, form="csv").splitlines()[0].split(",")[0]
        'run'
        >>> report(done, form="pdf")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        wary_files.errors.UsageError: --format must be one of html, md, csv, latex, ..., not 'pdf'
    """
    if form not in ("html", *_TABLES):
        raise UsageError(f"--format must be one of html, {', '.join(_TABLES)}, not {form!r}")
    if pictures < 0:
        raise UsageError(f"images must be at least 0, not {pictures}")
    if not sources:
        raise UsageError("no run to report; expected at least one")
    if output is not None:
        refuse_in_run(Path(output))
        require_ending("--output", Path(output), *_ENDINGS.get(form, (".csv", ".txt")))
    runs, given = read_runs(sources), [data_root] if isinstance(data_root, str | PathLike) else [*(data_root or ())]
    roots = [Path(root) for root in given]
    if taxonomy is not None:
        runs = _placed(runs, Path(taxonomy))
    look = look and form == "html"
    after = feature_views(runs[0], chosen=encoder, pictures=pictures, data_root=roots) if look else []
    with explain_malformed(runs):
        if form == "html":
            text = build_page(runs, pictures=pictures, data_root=roots, tests=tests, after=after)
        else:
            contents = gather(runs, tests=tests)
            for warning in dict.fromkeys(
                [contents.not_comparable, contents.other_versions, *(t.warning for t in overviews(runs))]
            ):
                if warning and form in ("md", "csv", "latex"):
                    warnings.warn(warning, UserWarning, stacklevel=2)
            text = printable(_TABLES[form](contents), "\n\t")
    if output is not None:
        write(Path(output), text.encode(), follow=True)
    return text


def _placed(runs: Sequence[StoredRun], path: Path) -> list[StoredRun]:
    """Runs whose encoders have the taxonomy that a file gives them."""
    places = read_taxonomy(path)
    specs = [run.encoder for run in runs]
    if not places.keys() & set(specs):
        raise unknown(f"encoder in {path}:", next(iter(places)), specs)
    placed = []
    for run in runs:
        identity = run.manifest["identity"]
        own = {**identity["encoder"].get("taxonomy", {}), **places.get(run.encoder, {})}
        encoder = {**identity["encoder"], "taxonomy": own}
        placed.append(replace(run, manifest={**run.manifest, "identity": {**identity, "encoder": encoder}}))
    return placed


def as_markdown(contents: Contents) -> str:
    """Value and interval in Markdown, the best of each row bold; then task types' tables over all their results."""
    text = "".join(table.as_markdown() for table in _tables(contents))
    return text + (f"\n{_STAND_INS}\n" if contents.stand_ins else "")


def as_latex(contents: Contents) -> str:
    """The same tables as ``tabular`` for the package booktabs."""
    texts = [table.as_latex() for table in _tables(contents)]
    return "\n".join(texts) + (f"% {_STAND_INS}\n" if contents.stand_ins else "")


def as_csv(contents: Contents) -> str:
    """A row per benchmark and run, every figure unrounded; of a sweep alone, its tables.

    A text that a spreadsheet would take for a formula gets a quote in front.
    """
    if contents.swept and not contents.rows:
        return "\n".join(table.as_csv() for table in _tables(contents))
    heads = (
        "run", "benchmark", "task", "source", "note", "metric", "direction", "value", "low", "high", "chance",
        "rank", "near_best", "seeds", "samples", "seconds", "joules", "failed", "not_comparable",
    )  # fmt: skip
    rows = [
        [
            label, row.name, row.task, row.source, row.note, row.metric, row.direction, cell.value, cell.low,
            cell.high, cell.chance, cell.rank, int(cell.near_best), len(cell.by_seed), row.samples,
            cell.seconds.get("total"), cell.joules, cell.reason, row.mixed.partition(": ")[2],
        ]
        for row in contents.rows
        for label, cell in row.cells.items()
    ]  # fmt: skip
    return csv_text(heads, rows)


def classes_as_csv(contents: Contents) -> str:
    """A row per class of each classification, run and seed, every figure unrounded."""
    names = ("precision", "recall", "f1")
    rows = [
        [
            *(label, result.name, result.seed, row["class"], row["support"], row["predicted"]),
            *(end for name in names for end in row[name] or ("", "", "")),
        ]
        for label, result, classes in _by_class(contents)
        for row in classes.get("rows", ())
    ]
    figures = [f"{name}{end}" for name in names for end in ("", "_low", "_high")]
    return csv_text(["run", "benchmark", "seed", "class", "support", "predicted", *figures], rows)


def confusions_as_csv(contents: Contents) -> str:
    """A row per class and class that it was taken for, the most frequent of each result first; no right answers."""
    rows = [
        [label, result.name, result.seed, *confused]
        for label, result, classes in _by_class(contents)
        for confused in classes.get("confused", ())
    ]
    return csv_text(["run", "benchmark", "seed", "class", "taken_for", "samples"], rows)


def mistakes_as_csv(contents: Contents) -> str:
    """A row per test image of one's own that was predicted wrongly, of each run and seed the surest first."""
    rows: list[list[object]] = []
    known = 0
    for run in contents.runs:
        for result in run.results:
            tested, predicted = run.tested(result), run.predicted(result)
            if "truth" in tested and predicted is not None:
                known += 1
                rows += [[run.label, result.name, result.seed, *mistake] for mistake in wrong(tested, predicted)]
    if not known:
        folders = ", ".join(str(run.path) for run in contents.runs)
        raise UsageError(
            f"--format mistakes lists your own images by file, of classifications; {folders} holds no such result"
        )
    return csv_text(["run", "benchmark", "seed", "file", "truth", "prediction", "confidence"], rows)


def suspects_as_csv(contents: Contents) -> str:
    """A row per test image of one's own whose label may be wrong, the surest first."""
    rows: list[list[object]] = []
    known = 0
    for run in contents.runs:
        for result in run.results:
            tested, predicted = run.tested(result), run.predicted(result)
            if "confidence" in tested and predicted is not None:
                known += 1
                listed = suspects(tested, predicted)
                bounds = accuracy_range(tested["truth"], predicted, len(listed))
                for suspect in listed:
                    start = [run.label, result.name, result.seed, *suspect[:4]]
                    second = "" if suspect.cleanlab is None else int(suspect.cleanlab)
                    of_label = "" if math.isnan(suspect.of_label) else suspect.of_label
                    rows.append([*start, of_label, suspect.threshold, second, *bounds])
    if not known:
        folders = ", ".join(str(run.path) for run in contents.runs)
        raise UsageError(f"--format suspects needs your own images with confidences; {folders} holds no such result")
    heads = ["run", "benchmark", "seed", "file", "label", "prediction", "confidence"]
    heads += ["probability_of_label", "threshold", "cleanlab"]
    return csv_text([*heads, "accuracy", "accuracy_if_all_are_wrong"], rows)


def _by_class(contents: Contents) -> list[tuple[str, Result, Mapping[str, Any]]]:
    results = [(run.label, result) for run in contents.runs for result in run.results]
    return [(label, result, classes) for label, result in results if (classes := result.training.get("by_class"))]


_TABLES = {
    "md": as_markdown,
    "csv": as_csv,
    "latex": as_latex,
    "classes": classes_as_csv,
    "confusions": confusions_as_csv,
    "mistakes": mistakes_as_csv,
    "slices": slices_as_csv,
    "suspects": suspects_as_csv,
    "shifts": shifts_as_csv,
}
_STAND_INS = "micro/: synthetic stand-ins, not scores on the real data sets"


def _tables(contents: Contents) -> list[Table]:
    """The table of scores, where there are any, and those of task types over all results."""
    rows, best = [], set()
    for at, row in enumerate(contents.rows):
        cells = [row.cells.get(label) for label in contents.labels]
        chance = "" if row.chance is None else number(row.chance)
        rows.append((f"{row.name} †" if row.mixed else row.name, row.shown_metric, chance, *map(_text, cells)))
        best |= {(at, 3 + column) for column, cell in enumerate(cells) if cell is not None and cell.rank == 1}
    heads = ("benchmark", "metric", "chance", *contents.labels)
    marked = contents.not_comparable and f"† {contents.not_comparable}"
    warning = " ".join(part for part in (marked, contents.other_versions) if part)
    scores = Table("scores", "", heads, tuple(rows), words=(1,), best=frozenset(best), warning=warning)
    return [*([scores] if rows else []), *overviews(contents.runs)]


def _text(cell: Cell | None) -> str:
    if cell is None:
        return "not run"
    if cell.value is None:
        return "failed"
    if cell.low is None or cell.high is None:
        return number(cell.value)
    return f"{number(cell.value)} ({number(cell.low)}–{number(cell.high)}){' ≈' if cell.near_best else ''}"
