"""The forms that a run can be exported to, and the one call that writes them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from gate_runner.errors import DataError, UsageError, printable, unknown
from gate_runner.exporting import every_eval_ever, model_card, mteb, tables
from gate_runner.exporting.model import Exported, Files, ModelName, model_name
from gate_runner.files import held, write
from gate_runner.runs.stored import StoredRun, as_written


class Form(NamedTuple):
    """A form of results.

    Args:
        summary: what it is, in words.
        make: from a run, its model's name and who ran it, to texts by path.
    """

    summary: str
    make: Callable[[StoredRun, ModelName, str], Files]


FORMS = {
    "every-eval-ever": Form("the Every Eval Ever schema 0.3, with a line per test sample", every_eval_ever.files),
    "model-card": Form("a README with Hugging Face's model-index, and .eval_results YAML", model_card.files),
    "mteb": Form("a folder of MTEB's result files", mteb.files),
    "csv": Form("one row per benchmark, seed and metric", tables.files),
}
"""Forms by the name that ``--to`` takes."""


def export(
    run: StoredRun, form: str, output: Path, *, model: str | None = None, organization: str = "independent"
) -> Exported:
    """Write a run's results for other tools.

    Args:
        run: as `gate_runner.runs.stored.read_run` gives it.
        form: one of `FORMS`.
        output: a folder; files of an earlier export are written again, with the same bytes for the same run.
        model: ``DEVELOPER/NAME``; derived from the encoder's spec by default.
        organization: who ran the evaluation, for forms that ask for it.

    Returns:
        The files, and what the form has no room for.

    Raises:
        UsageError: an unknown form (shows the nearest), no finished result, or a model id that is not one.
        BusyError: another process exports there; the message says which.
        StorageError: the folder cannot be written.

    Example:
        >>> sorted(FORMS)
        ['csv', 'every-eval-ever', 'model-card', 'mteb']
    """
    if form not in FORMS:
        raise unknown("export form", form, list(FORMS))
    failed = [f"{result.name} seed {result.seed}" for result in run.results if result.status != "ok"]
    if len(failed) == len(run.results):
        raise UsageError(f"{run.path} holds no finished result to export")
    name = model_name(run, model)
    with as_written([run]):
        files = FORMS[form].make(run, name, organization)
    inside = run.path if output.absolute().is_relative_to(run.path.absolute()) else output
    for path in files.contents:
        if not (output / path).resolve().is_relative_to(inside.resolve()):
            raise DataError(
                f"{output / path} is a link that leads out of {inside}: remove it, or choose another --output"
            )
    written = []
    with held(output / ".export.lock"):
        for path, text in files.contents.items():
            write(output / path, printable(text, "\n\t").encode())
            written.append(output / path)
    left_out = [*files.left_out, *([f"without a score, since they failed: {', '.join(failed)}"] if failed else [])]
    return Exported(tuple(written), tuple(left_out))
