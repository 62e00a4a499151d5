"""The scores of a run that count in GATE's table, for eevee's forecast of the rest."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gate_runner.benchmarks.paper import paper_row
from gate_runner.errors import UsageError
from gate_runner.runs.stored import Stored, read_runs

if TYPE_CHECKING:
    from eevee.answers.forecasting import Forecast

_COLUMNS = {"acc@1": "acc1", "accuracy": "acc1", "dice": "dice-score", "mae": "mae-score", "roc_auc": "auc-macro"}
"""Our metrics whose columns of the table end otherwise."""
_WORST_COUNT = 3.0
"""The table's iWildCam score is 100 (1 - MAE / 3): so its two editions fit one another, for each of the 21 models."""


def forecast(run: Stored, *, accept_stand_ins: bool = False, level: float = 0.9) -> Forecast:
    """Expect the scores on all of GATE's table from those of a run, or its folder, on some of its benchmarks.

    Args:
        run: what ran.
        accept_stand_ins: forecast from synthetic stand-ins all the same, with a warning that it does not carry over.
        level: share of new models that intervals are meant to hold for.

    Raises:
        UsageError: stand-ins that were not accepted, or no finished benchmark of the table.

    Example:
        >>> forecast("runs/mine", level=0.9).expected.cells["imagenet1k/acc1"]  # doctest: +SKIP
        Cell(value=74.0, low=68.1, high=79.9, given=False)

    Source:
        EEVEE/GATE, table 2 (21 fine-tuned models), by `eevee.forecast`; the paper gives no intervals.
    """
    import eevee

    table = eevee.load_table("gate")
    (stored,) = read_runs([run])
    results = [result for result in stored.results if result.status == "ok"]
    rows = [(result, paper_row(result.benchmark, result.source)) for result in results]
    comparable = {row.benchmark for _, row in rows if row is not None and row.comparable}
    scores: dict[str, list[float]] = {}
    warnings: list[str] = []
    left_out: dict[str, list[str]] = {"own data": [], "synthetic stand-ins": []}
    for result, row in rows:
        score = result.scores[0]
        column = "" if row is None else f"{row.benchmark}/{_COLUMNS.get(score.metric, score.metric)}"
        if result.source == "file":
            left_out["own data"].append(result.name)
        elif row is None or column not in table.metric_ids or (not row.comparable and row.benchmark in comparable):
            continue
        elif result.source == "micro" and not accept_stand_ins:
            left_out["synthetic stand-ins"].append(result.name)
        else:
            share = max(0.0, 1 - score.value / _WORST_COUNT) if score.metric == "mae" else score.value
            if not 0 <= share <= 1:
                raise UsageError(f"{stored.path}: {score.metric} of {result.name} is {share:g}, expected 0 to 1")
            scores.setdefault(column, []).append(100 * share)
            if result.source == "micro":
                warnings.append("scores on synthetic stand-ins do not carry over: this says nothing about GATE")
            if not row.comparable:
                warnings.append(f"{result.benchmark} cannot stand next to the paper's rows: {row.reason}")
    named = [f"{kind} ({', '.join(dict.fromkeys(names))})" for kind, names in left_out.items() if names]
    if not scores:
        raise UsageError(
            f"{stored.path} holds no finished benchmark of the paper's table{', but ' if named else ''}"
            f"{' and '.join(named)}; expected some of {', '.join(table.benchmark_ids)}, with --data-root"
        )
    made = eevee.forecast(table, scores, stored.label, level=level)
    warnings += [*(f"left out: {names}" for names in named), *made.warnings]
    tune, recipe = (results[0].settings.get(name, usual) for name, usual in (("tune", "frozen"), ("recipe", "quick")))
    warnings.append(
        "the table's encoders were trained whole, by the paper's recipe at its resolutions, this one by "
        f"--tune {tune} --recipe {recipe}: the forecast is off by whatever that changes"
    )
    return replace(made, warnings=tuple(dict.fromkeys(warnings)))
