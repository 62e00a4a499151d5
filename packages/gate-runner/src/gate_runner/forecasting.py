"""From scores on some benchmarks to the expected mean over all of GATE's, by eevee's model of the paper's table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gate_data.imports import named
from gate_runner.benchmarks.paper import paper_row
from gate_runner.errors import UsageError
from gate_runner.runs.stored import Stored, StoredRun, folder_of, read_run
from gate_runner.tasks.registry import known_task_type

if TYPE_CHECKING:
    from eevee import ResultTable
    from gate_runner.runs.results import Result

_SUFFIX = {
    "acc@1": "acc1",
    "accuracy": "acc1",
    "miou": "miou",
    "dice": "dice-score",
    "mae": "mae-score",
    "roc_auc": "auc-macro",
}
_WORST_COUNT = 3.0
"""The table's iWildCam score is 100 (1 - MAE / 3): so its two editions fit one another, for each of the 21 models."""

_NOT_CARRIED = (
    "these scores are on synthetic stand-ins: the prediction does not carry over to the real data sets and says "
    "nothing about GATE"
)
_PAPERS = "the encoders of the paper's table were trained whole, by its recipe and at its resolutions"
_OFF = "the prediction is off by whatever that changes"


@dataclass(frozen=True)
class Expected:
    """One benchmark of the table.

    Args:
        benchmark: its id in the table.
        metric: likewise.
        value: measured or predicted, in the table's unit (percent; higher is better).
        low: lower end of the interval; the value itself where it was measured.
        high: its upper end.
        measured: the value was given.
        beside_ours: whether the table's scores of it can stand beside our benchmark's of the same name, and why or why
            not; empty where we have none.
    """

    benchmark: str
    metric: str
    value: float
    low: float
    high: float
    measured: bool
    beside_ours: str = ""


@dataclass(frozen=True)
class Forecast:
    """What a model may be expected to score on every benchmark of the paper's table.

    Args:
        model: its name.
        mean: expected mean of all headline metrics of the table, in percent.
        low: lower end of its interval.
        high: its upper end.
        level: share of new models that the intervals are meant to hold for.
        rank: expected place among the table's models and this one, by the table's standardised scores.
        of: number of models in that ranking.
        benchmarks: in the table's order.
        warnings: what limits the prediction; never empty for a run.

    Example:
        >>> (expected,) = forecast({"cifar100": 75.0, "ade20k": 40.0, "mini": 93.0, "acdc": 50.0})
        >>> expected.low < expected.mean < expected.high, len(expected.benchmarks)
        (True, 30)
    """

    model: str
    mean: float
    low: float
    high: float
    level: float
    rank: int
    of: int
    benchmarks: tuple[Expected, ...]
    warnings: tuple[str, ...]


def forecast(
    source: Stored | Mapping[str, float], *, accept_stand_ins: bool = False, level: float = 0.9
) -> list[Forecast]:
    """Expected mean over all benchmarks of GATE's table, with an interval.

    Args:
        source: a run; a CSV file of scores in percent with a row per model; or one model's scores by benchmark.
        accept_stand_ins: predict from synthetic stand-ins all the same, with a warning that it does not carry over.
        level: share of new models that intervals are meant to hold for.

    Returns:
        A forecast for each model.

    Raises:
        UsageError: stand-ins that were not accepted, or scores that cannot be used; the message shows which.

    Example:
        >>> forecast({"cifar100": 75.0, "ade20k": 40.0, "mini": 93.0, "acdc": 50.0})[0].of
        22

    Source:
        EEVEE/GATE, table 2 (21 fine-tuned models). The paper predicts all metrics from a subset with an MLP, without
        intervals.
    """
    if isinstance(source, Mapping):
        return [forecast_scores(source, level=level)]
    path = folder_of(source)
    if path.is_dir():
        return [forecast_run(read_run(path), accept_stand_ins=accept_stand_ins, level=level)]
    return forecast_file(path, level=level)


def forecast_scores(
    scores: Mapping[str, float], *, model: str = "new", level: float = 0.9, warnings: Iterable[str] = ()
) -> Forecast:
    """Expected scores on all 30 benchmarks of the paper's table by ``eevee.predict``, from those on some of them."""
    import eevee

    table = eevee.load_table("gate")
    _check(scores, table, level)
    owners = {metric.id: metric.benchmark for metric in table.metrics} | {
        benchmark: benchmark for benchmark in table.benchmark_ids
    }
    chosen = list(dict.fromkeys(owners[name] for name in scores))
    if model in table.models:
        model = f"{model} (new)"
    prediction = eevee.predict(table, chosen, {model: dict(scores)}, level=level, mean=True).models[model]
    assert prediction.mean is not None
    cautions = list(warnings)
    if prediction.outside:
        cautions.append(f"outside of what the table's models reach: {', '.join(prediction.outside)}")
    if prediction.extrapolates:
        cautions.append("this combination of scores is unlike every model of the table: the prediction extrapolates")
    if len(chosen) < 4:
        cautions.append(
            f"only {len(chosen)} of the table's {len(table.benchmark_ids)} benchmarks given: a rough prediction"
        )
    return Forecast(
        model=model,
        mean=prediction.mean.value,
        low=prediction.mean.low,
        high=prediction.mean.high,
        level=level,
        rank=prediction.rank,
        of=len(table.models) + 1,
        benchmarks=tuple(
            Expected(
                metric.benchmark, metric.id, cell.value, cell.low, cell.high, cell.given, _beside(metric.benchmark)
            )
            for metric in table.metrics
            for cell in [prediction.cells[metric.id]]
        ),
        warnings=tuple(cautions),
    )


def forecast_run(run: StoredRun, *, accept_stand_ins: bool = False, level: float = 0.9) -> Forecast:
    """Expected scores on all benchmarks of the paper's table, from a finished run."""
    import eevee

    metrics = set(eevee.load_table("gate").metric_ids)
    better = {
        row.benchmark
        for result in run.results
        if result.status == "ok" and (row := paper_row(result.benchmark, result.source)) and row.comparable
    }
    values: dict[str, list[float]] = {}
    trainings: dict[str, None] = {}
    warnings: list[str] = []
    refused: list[str] = []
    own: list[str] = []
    for result in run.results:
        if result.status != "ok":
            continue
        score = result.scores[0]
        if result.source == "file":
            own.append(result.name)
            continue
        row = paper_row(result.benchmark, result.source)
        metric = f"{row.benchmark}/{_SUFFIX.get(score.metric, score.metric)}" if row is not None else ""
        if row is None or metric not in metrics or (not row.comparable and row.benchmark in better):
            continue
        if result.source == "micro" and not accept_stand_ins:
            refused.append(result.name)
            continue
        if score.metric != "mae" and not 0 <= score.value <= 1:
            raise UsageError(f"{run.path}: {score.metric} of {result.name} is {score.value:g}, expected 0 to 1")
        trainings[_way(result)] = None
        values.setdefault(metric, []).append(
            100 * (1 - score.value / _WORST_COUNT) if score.metric == "mae" else 100 * score.value
        )
        if result.source == "micro" and _NOT_CARRIED not in warnings:
            warnings.insert(0, _NOT_CARRIED)
        caution = known_task_type(result.task).caution
        caution_text = named(caution)(result.training) if caution else ""
        apart = "" if row.comparable else f"{result.benchmark} cannot stand beside the paper's rows: {row.reason}"
        for sentence in (caution_text, apart):
            if sentence and sentence not in warnings:
                warnings.append(sentence)
    if not values:
        if refused:
            names = ", ".join(dict.fromkeys(refused))
            raise UsageError(
                f"{run.path} holds synthetic stand-ins ({names}), and scores on stand-ins do not carry over to the "
                "real data sets; give a CSV of real scores ('model,cifar100,mini,...', percent), or --accept-stand-ins"
            )
        mine = f", but own data ({', '.join(dict.fromkeys(own))})" if own else ""
        raise UsageError(
            f"{run.path} holds no finished benchmark of the paper's table ({', '.join(sorted(metrics))}){mine}"
        )
    if own:
        warnings.append(f"left out, as own data: {', '.join(dict.fromkeys(own))}")
    if refused:
        warnings.append(f"left out, as synthetic stand-ins: {', '.join(dict.fromkeys(refused))}")
    means = {metric: min(100.0, max(0.0, math.fsum(scores) / len(scores))) for metric, scores in values.items()}
    apart = f"this run {' and '.join(trainings)}; {_PAPERS}: {_OFF}"
    return forecast_scores(means, model=run.label, level=level, warnings=[*warnings, apart])


def _way(result: Result) -> str:
    """What a result's run did to its encoder."""
    tune, recipe = result.settings.get("tune", "frozen"), result.settings.get("recipe", "quick")
    if tune == "frozen":
        return "froze its encoder"
    if (tune, recipe) == ("full", "gate"):
        return "trained its encoder by that recipe on images of its own size"
    return f"trained its encoder by --tune {tune} --recipe {recipe}"


def _beside(benchmark: str) -> str:
    row = paper_row(benchmark, "local")
    return "" if row is None else row.words


def forecast_file(path: Path, *, level: float = 0.9) -> list[Forecast]:
    """Expected scores of every model of a CSV file."""
    import eevee

    try:
        rows = eevee.read_scores(path)
    except eevee.EeveeError as error:
        raise UsageError(str(error)) from error
    forecasts = []
    for model, scores in rows.items():
        try:
            forecasts.append(forecast_scores(scores, model=model, level=level))
        except UsageError as error:
            raise UsageError(f"{path}, model {model!r}: {error}") from error
    return forecasts


def _check(scores: Mapping[str, float], table: ResultTable, level: float) -> None:
    names = {*table.metric_ids, *table.benchmark_ids}
    count = len(table.models)
    if not 0 < level <= count / (count + 1):
        raise UsageError(
            f"level must lie between 0 and {count}/{count + 1} with {count} models in the table, not {level}"
        )
    if not scores:
        raise UsageError("no score given; expected at least one, e.g. cifar100")
    for name, value in scores.items():
        if name not in names:
            from gate_runner.errors import unknown

            raise unknown("benchmark of the paper's table", name, sorted(table.benchmark_ids))
        if not (math.isfinite(value) and 0 <= value <= 100):
            raise UsageError(f"{name} is {value}; expected a score in percent, 0 to 100, higher being better")
    if len(scores) > 1 and all(value <= 1 for value in scores.values()):
        raise UsageError(f"all scores are at most 1 ({dict(scores)}): the table is in percent, not in shares")
