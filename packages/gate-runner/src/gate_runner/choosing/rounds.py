"""Rounds of a choice: a run of each encoder that is still in question, on few pictures first.

The judge is the paired test of `gate_runner.comparison`, its error shared by the rounds.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gate_runner.choosing.choice import Candidate, Choice, sentences
from gate_runner.choosing.costs import Measured, measured, twins
from gate_runner.comparison import compare
from gate_runner.errors import UsageError
from gate_runner.executors import run as execute
from gate_runner.readouts import Readout
from gate_runner.runs.observers import Observer
from gate_runner.runs.request import folder_name, make_request
from gate_runner.runs.stored import StoredRun, read_runs

if TYPE_CHECKING:
    from gate_runner.benchmarks import Benchmark
    from gate_runner.runs.results import Result
    from gate_runner.settings import Settings

MANY = 4
"""Encoders from which a round on few pictures comes first."""
_GROWTH = 3
_CODES = ("float16", "int8", "binary", "pca64", "dims64")
_CODED = re.compile(r"/(float16|int8|binary|dims\d+|pca\d+)$")


def choose(
    benchmark: str | Benchmark,
    encoders: Sequence[str],
    output: str | PathLike[str],
    settings: Settings | None = None,
    *,
    first: int = 300,
    alpha: float = 0.05,
    price: float | None = None,
    observer: Observer | None = None,
) -> Choice:
    """Find the encoder that does best on some pictures, and those that a paired test does not tell from it.

    Args:
        benchmark: a benchmark, or a name of one.
        encoders: specs, at least two; one that fails is said, and the others go on.
        output: folder of all runs; the same call again continues.
        settings: of the runs; its ``readout`` is where each encoder is read, by default ``("auto",)``.
        first: samples of each split in the first round, where there are many encoders; each next one has three times
            as many, until the pictures are all there.
        alpha: family-wise error over all rounds.
        price: dollars for an hour of this machine.
        observer: told of every run.

    Returns:
        See `Choice`; its sentences say which encoder to take and how sure that is.

    Raises:
        UsageError: no encoder could be scored, or more than one read-out.

    Example:
        >>> import tempfile
        >>> from gate_runner.settings import Settings
        >>> how = Settings(limit=40, readout=("last",))
        >>> choice = choose("digits@knn", ("micro-clip", "micro-clip/random"), tempfile.mkdtemp(), how)
        >>> sorted(candidate.encoder for candidate in choice.candidates)
        ['micro-clip', 'micro-clip/random']
    """
    from gate_runner.settings import Settings

    settings, output = settings or Settings().changed(readout="auto"), Path(output)
    if len(settings.readout) > 1 or "all" in settings.readout:
        raise UsageError(f"--readout {','.join(settings.readout)}: a choice reads each encoder at one, such as auto")
    reasons: dict[str, str] = {}
    dropped: dict[str, tuple[StoredRun, float]] = {}
    runs: dict[str, list[StoredRun]] = {}
    remaining, limits = list(encoders), _limits(len(encoders), first, settings.limit)
    ranked: list[StoredRun] = []
    share = alpha / len(limits)
    for number, limit in enumerate(limits):
        ranked, complete = _round(benchmark, remaining, output, settings.changed(limit=limit), reasons, observer)
        if not ranked:
            listed = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
            raise UsageError(f"no encoder could be scored: {listed}")
        for run in ranked:
            runs.setdefault(run.encoder, []).append(run)
        is_last = complete or number == len(limits) - 1
        level = alpha - number * share if is_last else share  # the last round has what the others did not spend
        worse = _beaten(ranked, level)
        if is_last:
            break
        dropped |= {run.encoder: (run, worse[run.encoder]) for run in ranked if worse[run.encoder] <= level}
        remaining = [run.encoder for run in ranked if run.encoder not in dropped]
    best, *followers = ranked
    costs = {name: measured(name, settings, price, runs[name]) for name in encoders if name not in reasons}
    same = twins({name: measurement.features for name, measurement in costs.items()})
    verdicts: list[tuple[StoredRun, str, float | None]] = [(best, "best", None)]
    for run in followers:
        beaten = worse[run.encoder] <= level
        verdicts.append((run, "beaten" if beaten else "tied", worse[run.encoder]))
    verdicts += [(run, "beaten", p) for run, p in dropped.values()]
    candidates = [_candidate(run, verdict, p, costs[run.encoder], same) for run, verdict, p in verdicts]
    candidates.sort(key=lambda candidate: ("best", "tied", "beaten").index(candidate.verdict))
    failed = [Candidate(name, "failed", reason=reason) for name, reason in reasons.items()]
    score = best.results[0].scores[0]
    choice = Choice(
        benchmark=_unit(best).name,
        metric=score.metric,
        direction=score.direction,
        candidates=(*candidates, *failed),
        runs=tuple(run.path for run in ranked),
        pictures=(sum(candidate.pictures for candidate in candidates), candidates[0].pictures * len(candidates)),
        codes=tuple(_compressed(benchmark, best, settings, candidates[0], observer)),
        sentences=(),
    )
    return replace(choice, sentences=sentences(choice, len(limits)))


def _limits(encoders: int, first: int, limit: int | None) -> list[int | None]:
    """Samples of each split in each round; the last is what was asked for."""
    if encoders < MANY:
        return [limit]
    small: list[int | None] = [size for size in (first, first * _GROWTH) if limit is None or size < limit]
    return [*small, limit]


def _round(
    benchmark: str | Benchmark,
    encoders: Sequence[str],
    output: Path,
    settings: Settings,
    reasons: dict[str, str],
    observer: Observer | None,
) -> tuple[list[StoredRun], bool]:
    """Runs of one round, the best first, and whether they saw all pictures; what fails goes to ``reasons``."""
    paths, complete = [], True
    for spec in encoders:
        folder = output / folder_name(spec, settings.limit)
        try:
            request = make_request([benchmark], spec, output=folder, settings=settings)
            results = execute(request, observer or Observer())
        except UsageError as error:
            reasons[spec] = str(error)
            continue
        failed = next((result for result in results if result.status != "ok"), None)
        if failed is not None:
            reasons[spec] = failed.reason
            continue
        paths.append(folder)
        most = max(int(results[0].data[name]) for name in ("train", "validation", "test"))
        complete &= settings.limit is None or most < settings.limit
    runs = read_runs(paths) if paths else []
    return sorted(runs, key=_signed, reverse=True), complete


def _signed(run: StoredRun) -> float:
    scores = [result.scores[0] for result in _units(run)]
    value = statistics.fmean(score.value for score in scores)
    return value if scores[0].direction == "higher" else -value


def _units(run: StoredRun) -> list[Result]:
    """The results of the choice itself, not those of its codes."""
    return [result for result in run.results if not _CODED.search(result.name)]


def _unit(run: StoredRun) -> Result:
    return _units(run)[0]


def _beaten(runs: Sequence[StoredRun], alpha: float) -> dict[str, float]:
    """Of each run but the first, Holm's p that the first is not better; 1 where there is nothing to compare."""
    if len(runs) < 2:
        return {run.encoder: 1.0 for run in runs}
    compared = compare(*runs, only=[_unit(runs[0]).name], alpha=alpha)
    by_label = {contrast.second: contrast.p_adjusted for contrast in compared.contrasts}
    return {run.encoder: by_label.get(run.label, 1.0) for run in runs}


def _candidate(
    run: StoredRun, verdict: str, p: float | None, measurement: Measured, same: Mapping[str, str]
) -> Candidate:
    result = _unit(run)
    score, about = result.scores[0], result.training.get("readout", {})
    chosen = str(about.get("chosen", "last"))
    twin = f"the same features as {same[run.encoder]}" if run.encoder in same else ""
    return Candidate(
        encoder=run.encoder,
        verdict=verdict,
        value=statistics.fmean(unit.scores[0].value for unit in _units(run)),
        low=score.low,
        high=score.high,
        p=p,
        readout=chosen,
        row_bytes=4 * sum(measurement.widths[part] for part in Readout.parse(chosen).parts(measurement.widths)),
        pictures=sum(int(result.data[name]) for name in ("train", "validation", "test")),
        costs=measurement.costs,
        reason="; ".join(filter(None, [str(about.get("note", "")), twin])),
    )


def _compressed(
    benchmark: str | Benchmark, best: StoredRun, settings: Settings, chosen: Candidate, observer: Observer | None
) -> list[dict[str, Any]]:
    """The best encoder's score with its features in fewer bytes."""
    if not settings.readout or settings.readout == ("last",):
        return []
    width = chosen.row_bytes // 4
    samples = min((result.data["train"] for result in best.results if result.status == "ok"), default=0)
    codes = [code for code in _CODES if not code.endswith("64") or width > 64]
    codes = [code for code in codes if code != "pca64" or samples >= 64]  # so many components need as many samples
    names = [f"{chosen.readout}/{code}" for code in codes]
    how = settings.changed(readout=tuple(names), limit=best.manifest["identity"].get("limit"))
    results = execute(make_request([benchmark], best.encoder, output=best.path, settings=how), observer or Observer())
    sizes = {"float16": 2 * width, "int8": width, "binary": -(-width // 8), "pca64": 256, "dims64": 256}
    rows = []
    for code, result in zip((code for code in codes for _ in settings.seeds), results, strict=True):
        if result.status == "ok" and result.seed == settings.seeds[0]:
            score = result.scores[0]
            rows.append(
                {"code": code, "bytes": sizes[code], "value": score.value, "low": score.low, "high": score.high}
            )
    return rows
