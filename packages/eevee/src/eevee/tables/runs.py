"""Run folders of gate-runner as a table, alone or below the rows of a table that is known."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, cast

import numpy as np

from eevee.errors import EeveeError
from eevee.tables.table import SMALLEST_POOL, Benchmark, Direction, Metric, ResultTable
from wary_files.json_files import read_json

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Score:
    """A run's headline on one benchmark, over seeds."""

    metric: str
    direction: str
    value: float
    data: frozenset[str]  # digests


def table_of_runs(folders: Sequence[str | Path], known: ResultTable | None = None) -> ResultTable:
    """Read run folders as a table with a row for each, and say in the log what is left out.

    Failed results are left out, and benchmarks that the runs saw on different data. Seeds count by their mean. Of
    several paths, files and folders that are not a run's are left out, too, as a shell's ``runs/*`` names them.

    Args:
        folders: run folders, one for each model.
        known: a table to which the runs' rows are added; they have its columns alone. A share is taken as per cent
            where the column holds per cent; an error (lower is better), where only its per cent are like the column's.

    Raises:
        EeveeError: no path is a run's folder, a path that is not there, runs of which none finished, nothing in common
            with ``known``, or fewer than five models in all.
    """
    models: dict[str, dict[str, _Score]] = {}
    for folder in run_folders([Path(folder) for folder in folders]):
        name, scores, failed = _read(folder)
        for benchmark, reason in failed.items():
            _LOG.warning("left out: %s of %s failed: %s", benchmark, folder, reason)
        label = name if name not in models and (known is None or name not in known.models) else f"{name} ({folder})"
        models[label] = scores
    if not any(models.values()):
        raise EeveeError(f"{', '.join(map(str, folders))}: no result of these runs finished; expected scores")
    models = _of_one_data(models)
    return _alone(models) if known is None else _below(models, known)


def run_folders(paths: Sequence[Path]) -> Sequence[Path]:
    """Leave out pages, logs and folders of runs; a path that is not there is an error later."""
    strange = [path for path in paths if path.exists() and not (path / "manifest.json").is_file()]
    if len(strange) == len(paths):
        return paths
    for path in strange:
        inside = f"; it holds some: {path}/*" if any(path.glob("*/manifest.json")) else ""
        _LOG.warning("left out: %s is not a run folder%s", path, inside)
    return [path for path in paths if path not in strange]


def read_results(folder: Path) -> tuple[str, list[tuple[Path, dict[str, Any]]]]:
    """Return an encoder's name and its results with their files, as far as they are what gate-runner wrote there.

    Raises:
        EeveeError: no run folder, a result that was changed or that another file holds, too, or one of another encoder.
    """
    if not (folder / "manifest.json").is_file():
        raise EeveeError(f"{folder}: holds no manifest.json; expected a folder that 'gate-runner run' wrote")
    owner = read_json(folder / "manifest.json")["identity"]["encoder"]
    results: list[tuple[Path, dict[str, Any]]] = []
    first: dict[tuple[str, object], Path] = {}
    for file in sorted((folder / "results").glob("*.json")):
        result = read_json(file)
        content = {key: value for key, value in result.items() if key != "digest"}
        digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
        if digest != result.get("digest", digest):
            raise EeveeError(f"{file} was changed after it was written: its digest does not fit")
        for field in ("spec", "fingerprint"):
            expected, given = owner.get(field), result.get("encoder", {}).get(field)
            if None not in (expected, given) and expected != given:
                raise EeveeError(
                    f"{file} is of another encoder than its folder: {field} {given!r:.80}, and {expected!r:.80} in "
                    "manifest.json; give each run a folder of its own"
                )
        unit = str(result["name"]), result.get("seed", file.stem)
        if (twin := first.setdefault(unit, file)) is not file:
            raise EeveeError(f"{file} and {twin.name} are of one benchmark and seed: remove the copy")
        results.append((file, result))
    return str(owner["spec"]), results


def _read(folder: Path) -> tuple[str, dict[str, _Score], dict[str, str]]:
    """An encoder's name, its scores by benchmark, and the reasons of those that failed."""
    if folder.is_file():
        raise EeveeError(f"{folder} is a file, expected the folder of a run: a table is given by --table")
    seeds: dict[str, list[dict[str, Any]]] = {}
    failed: dict[str, str] = {}
    try:
        name, results = read_results(folder)
        for _, result in results:
            if result["status"] == "ok" and result["scores"]:
                seeds.setdefault(str(result["name"]), []).append(result)
            else:
                failed[str(result["name"])] = str(result.get("reason") or "no reason given")
        scores = {key: _headline(results) for key, results in seeds.items() if key not in failed}
    except EeveeError:
        raise
    except Exception as error:  # what a run's files may lack
        raise EeveeError(f"{folder}: not a whole run folder ({type(error).__name__}: {error})") from error
    return name, scores, failed


def _headline(results: Sequence[dict[str, Any]]) -> _Score:
    first = results[0]["scores"][0]
    value = fmean(float(result["scores"][0]["value"]) for result in results)
    data = frozenset(str(result["data"].get("sha256", "")) for result in results)
    return _Score(str(first["metric"]), str(first["direction"]), value, data)


def _of_one_data(models: dict[str, dict[str, _Score]]) -> dict[str, dict[str, _Score]]:
    """Without the benchmarks that the runs saw on different data, or scored by different metrics."""
    unlike = []
    for benchmark in dict.fromkeys(key for scores in models.values() for key in scores):
        entries = [scores[benchmark] for scores in models.values() if benchmark in scores]
        known = [score.data for score in entries if score.data != {""}]
        if 0 < len(known) < len(entries):
            _LOG.warning("%s: some scores were imported, and whether they are of the same data is not known", benchmark)
        if len(set(known)) > 1:
            unlike.append(benchmark)
            _LOG.warning("left out: %s, which the runs saw on different data", benchmark)
        elif len({score.metric for score in entries}) > 1:
            unlike.append(benchmark)
            _LOG.warning("left out: %s, which the runs scored by different metrics", benchmark)
    return {
        model: {key: score for key, score in scores.items() if key not in unlike} for model, scores in models.items()
    }


def _alone(models: dict[str, dict[str, _Score]]) -> ResultTable:
    names = list(dict.fromkeys(key for scores in models.values() for key in scores))
    by_name = {key: score for scores in models.values() for key, score in scores.items()}
    metrics = tuple(Metric(key, key, cast(Direction, by_name[key].direction)) for key in names)
    with_scores = {model: scores for model, scores in models.items() if scores}
    if len(with_scores) < SMALLEST_POOL:
        raise EeveeError(
            f"the runs are of {len(with_scores)} encoders; expected at least {SMALLEST_POOL}, or a table to which they "
            "are added: --table gate (benchmarks that it has, under the same names)"
        )
    values = np.array(
        [[scores[key].value if key in scores else np.nan for key in names] for scores in with_scores.values()]
    )
    return ResultTable("own runs", tuple(with_scores), metrics, tuple(Benchmark(key) for key in names), values)


def _below(models: dict[str, dict[str, _Score]], known: ResultTable) -> ResultTable:
    """The known table, and under it the runs' rows in its columns."""
    rows, unknown = np.full((len(models), len(known.metrics)), np.nan), dict[str, None]()
    for row, scores in enumerate(models.values()):
        for benchmark, score in scores.items():
            column = _column(benchmark, score, known)
            if column is None:
                unknown[benchmark] = None
                continue
            rows[row, column] = score.value * (100 if _in_per_cent(score, known.values[:, column]) else 1)
    if unknown:
        _LOG.warning("left out: %s, which %s does not have as these runs score them", ", ".join(unknown), known.name)
    measured = ~np.isnan(rows).all(axis=1)
    if not measured.any():
        raise EeveeError(
            f"{', '.join(models)}: no benchmark of {known.name}; expected some of {', '.join(known.benchmark_ids)}"
        )
    names = [name for name, there_is in zip(models, measured, strict=True) if there_is]
    return ResultTable(
        f"{known.name} and {len(names)} own runs",
        (*known.models, *names),
        known.metrics,
        known.benchmarks,
        np.vstack([known.values, rows[measured]]),
        (*known.groups, *names),
        (*known.families, *[""] * len(names)) if known.families else (),
        (*known.dates, *[""] * len(names)) if known.dates else (),
    )


def _in_per_cent(score: _Score, column: np.ndarray) -> bool:
    """Whether a column holds per cent of what the score is a share of.

    An error of 1.2 years beside others of 2 to 4 is no share: an error is one where only its per cent are among the
    column's values, half as much again on either side.
    """
    low, high = float(np.nanmin(column)), float(np.nanmax(column))
    if not max(abs(low), abs(high)) > 1.5 >= abs(score.value):
        return False
    if score.direction == "higher":
        return True
    return not low / 1.5 <= score.value <= high * 1.5 and low / 1.5 <= 100 * score.value <= high * 1.5


def _column(benchmark: str, score: _Score, known: ResultTable) -> int | None:
    """The column of a benchmark by this metric; acc@1 is acc1 where a table writes it so."""
    plain = score.metric.replace("@", "").replace("_", "-")
    names = {benchmark, f"{benchmark}/{score.metric}", f"{benchmark}/{plain}"}
    for place, metric in enumerate(known.metrics):
        if metric.id in names and metric.benchmark == benchmark and metric.direction == score.direction:
            return place
    return None
