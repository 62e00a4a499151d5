"""A page of images whose labels may be wrong: keys accept or reject each, and a table of decisions is downloaded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gate_data.errors import DataError
from gate_data.own.corrections import cell
from gate_data.readers.decode import decode
from gate_runner.charts.markup import document, rendered
from gate_runner.errors import UsageError, unknown
from gate_runner.reports.contents import gather
from gate_runner.reports.pictures import Roots, encoded, reload_samples
from gate_runner.runs.suspects import Suspect, accuracy_range, suspects
from gate_runner.tasks.registry import known_task_type

if TYPE_CHECKING:
    from gate_data.readers.source import Source
    from gate_runner.runs.results import Result
    from gate_runner.runs.stored import StoredRun

_SIDE = 192
MOST = 300
"""Images of a page: some 3 MB."""


class Audit(NamedTuple):
    """A page of suspects.

    Args:
        text: the page.
        shown: suspects on it.
        total: suspects of the result.
        accuracy: as the labels are, and if all suspects' predictions are right.
        second: suspects that cleanlab names, too; None without cleanlab.
    """

    text: str
    shown: int
    total: int
    accuracy: tuple[float, float]
    second: int | None


def audited(run: StoredRun, benchmark: str | None = None) -> tuple[Result, list[Suspect]]:
    """Return the result of a run whose suspects are to be looked at, of the first seed, and these.

    Raises:
        UsageError: no such result, or several benchmarks and none named.
    """
    results: dict[str, Result] = {}
    for result in run.results:
        if "confidence" in run.tested(result) and run.predicted(result) is not None:
            results.setdefault(result.name, result)
    if not results:
        raise UsageError(
            f"{run.path} holds no classification of your own images with probabilities: run one of a folder, a table "
            "or a benchmark.toml, with a head that is fitted (zero-shot gives no probabilities)"
        )
    if benchmark is None and len(results) > 1:
        raise UsageError(f"{run.path} holds several such results: --benchmark one of {', '.join(results)}")
    name = benchmark or next(iter(results))
    if name not in results:
        raise unknown("benchmark", name, list(results))
    predicted = run.predicted(results[name])
    assert predicted is not None
    return results[name], suspects(run.tested(results[name]), predicted)


def audit_page(run: StoredRun, *, benchmark: str | None = None, data_root: Roots = None, most: int = MOST) -> Audit:
    """Return a page on which a person decides on each suspect.

    Args:
        run: with a classification of one's own images.
        benchmark: the result's name, if the run has several.
        data_root: the folder of the images, if it is outside of the run's.
        most: suspects on the page, the surest first.

    Raises:
        UsageError: no such result, or its images cannot be read again.
    """
    if most < 1:
        raise UsageError(f"--most must be at least 1, not {most}")
    result, listed = audited(run, benchmark)
    rows, predicted = run.tested(result), run.predicted(result)
    assert predicted is not None
    contents = gather([run], tests=False)
    row = next(row for row in contents.rows if row.name == result.name)
    again, reason = reload_samples(contents, row, data_root)
    if again is None:
        raise UsageError(f"{run.path}: no images of {result.name}: {reason}")
    images: Any = again.data.test.images  # of results whose rows are files
    shown = listed[:most]
    low, high = accuracy_range(rows["truth"], predicted, len(listed))
    body = rendered(
        "audit.html",
        benchmark=result.benchmark,
        sha256=str(result.data.get("sha256")),
        hits=int((rows["truth"] == predicted).sum()),
        images=len(predicted),
        save=f"labels-{result.benchmark.replace('/', '-')}.csv",
        classes=[cell(str(name)) for name in rows["classes"]],
        suspects=[_card(suspect, images.files[suspect.place]) for suspect in shown],
    )
    second = None if not listed or listed[0].cleanlab is None else sum(bool(suspect.cleanlab) for suspect in listed)
    lede = (
        f"{len(listed):,} of {len(predicted):,} labels of {result.name} may be wrong by the predictions of {run.label}"
        f"{'' if len(shown) == len(listed) else f', of which the first {len(shown):,} are shown'}."
    )
    findings = [
        f"Accuracy is {low:.3f} with the labels as they are, and {high:.3f} if each of these predictions is right.",
        "Wrong labels that the predictions agree with are not among them: the corrected accuracy can only rise.",
    ]
    if second is not None:
        findings.append(f"cleanlab names {second:,} of them, too.")
    if "cross_validation" not in result.training:
        more = "; a run with --setting folds=5 covers all images" if known_task_type(result.task).weighs else ""
        findings.append(f"Only test images are looked at{more}.")
    text = document(
        f"Label audit of {result.name}", lede, body, findings=findings, style="audit.css", script="audit.js"
    )
    return Audit(text, len(shown), len(listed), (low, high), second)


class _Card(NamedTuple):
    """A suspect as the page has it."""

    file: str
    label: str
    prediction: str
    of_label: str
    confidence: str
    second: str
    address: str
    width: int
    height: int


def _card(suspect: Suspect, sources: Sequence[Source]) -> _Card:
    address, width, height = "", 0, 0
    try:
        image = decode(sources[0], _SIDE)
    except DataError:
        pass
    else:
        image.thumbnail((_SIDE, _SIDE))
        address, width, height = encoded(np.asarray(image))
    of_label = "" if math.isnan(suspect.of_label) else f" ({suspect.of_label:.3f})"
    second = {None: "", True: "cleanlab names it, too", False: "cleanlab does not name it"}[suspect.cleanlab]
    names = [cell(text) for text in (suspect.file, suspect.label, suspect.prediction)]
    return _Card(names[0], names[1], names[2], of_label, f" ({suspect.confidence:.3f})", second, address, width, height)
