"""Which encoder to take for some pictures: runs, paired tests and costs in one answer.

Every round is a run of each encoder that is still in question, on few pictures first; the judge is the paired test of
`gate_runner.comparison`, its error shared by the rounds.
"""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gate_runner.comparison import compare_runs
from gate_runner.encoders.spec import parse_spec
from gate_runner.errors import DataError, UsageError
from gate_runner.executors import run as execute
from gate_runner.readouts import Readout
from gate_runner.runs.naming import folder_name
from gate_runner.runs.observers import Observer
from gate_runner.runs.request import make_request
from gate_runner.runs.stored import StoredRun, read_runs

if TYPE_CHECKING:
    from gate_runner.benchmarks import Benchmark
    from gate_runner.encoders.encoder import Encoder
    from gate_runner.runs.results import Result
    from gate_runner.settings import Settings

MANY = 4
"""Encoders from which a round on few pictures comes first."""
_GROWTH = 3
_CODES = ("float16", "int8", "binary", "pca64", "dims64")


@dataclass(frozen=True)
class Costs:
    """What an encoder takes on this machine.

    Args:
        images_per_second: in batches.
        milliseconds: for one picture alone, the median.
        parameters: weights, or None where they cannot be seen.
        weight_bytes: memory of weights and buffers.
        dollars: for a million pictures, or None without a price.

    Example:
        >>> Costs(100.0, 12.0, 5, 20, None).images_per_second
        100.0
    """

    images_per_second: float
    milliseconds: float
    parameters: int | None
    weight_bytes: int
    dollars: float | None


@dataclass(frozen=True)
class Candidate:
    """One encoder in a choice.

    Args:
        encoder: its spec.
        verdict: ``"best"``, ``"tied"``, ``"beaten"`` or ``"failed"``.
        value: of the headline metric, on as many pictures as it was judged by; None where it failed.
        low: lower end of its 95 % interval.
        high: upper end.
        p: of the paired test against the best of its last round, after Holm's correction; None for the best.
        readout: where it was read out.
        row_bytes: of one picture's features.
        pictures: of all splits, by which it was judged.
        costs: see `Costs`; None where it failed.
        reason: why it failed, or what a reader must know.

    Example:
        >>> Candidate("lite:0", "failed", reason="no weights").verdict
        'failed'
    """

    encoder: str
    verdict: str
    value: float | None = None
    low: float = 0.0
    high: float = 0.0
    p: float | None = None
    readout: str = "last"
    row_bytes: int = 0
    pictures: int = 0
    costs: Costs | None = None
    reason: str = ""


@dataclass(frozen=True)
class Choice:
    """What `choose` found.

    Args:
        benchmark: its name.
        metric: the headline.
        direction: ``"higher"`` or ``"lower"`` is better.
        candidates: the best first, then the tied, the beaten and the failed.
        runs: folders of those that went to the end, the best first.
        pictures: encoded in all, and as many as whole runs of all would have encoded.
        codes: of the best encoder's features in fewer bytes: code, bytes of a row, value, and its interval.
        sentences: which to take and how sure that is; what the rounds saved.

    Example:
        >>> Choice("digits", "acc@1", "higher", (), (), (300, 900), (), ("Take none.",)).pictures[0] / 900
        0.3333333333333333
    """

    benchmark: str
    metric: str
    direction: str
    candidates: tuple[Candidate, ...]
    runs: tuple[Path, ...]
    pictures: tuple[int, int]
    codes: tuple[dict[str, Any], ...]
    sentences: tuple[str, ...]

    def pareto(self) -> tuple[str, ...]:
        """Encoders that no other one beats both in score and in speed."""
        scored = [one for one in self.candidates if one.value is not None and one.costs is not None]
        sign = 1 if self.direction == "higher" else -1

        def beats(one: Candidate, other: Candidate) -> bool:
            mine, theirs = _place(one, sign), _place(other, sign)
            return all(a >= b for a, b in zip(mine, theirs, strict=True)) and mine != theirs

        return tuple(one.encoder for one in scored if not any(beats(other, one) for other in scored))


def encoders_in(said: str) -> tuple[str, ...]:
    """Specs of a text with commas between, or of a file with one in each line (``#`` begins a comment).

    Example:
        >>> encoders_in("micro-clip, lite:0")
        ('micro-clip', 'lite:0')
    """
    path = Path(said)
    try:
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: {error}") from error
    listed = [line.partition("#")[0] for line in text.splitlines()] if text else said.split(",")
    specs = tuple(dict.fromkeys(spec.strip() for spec in listed if spec.strip()))
    if len(specs) < 2:
        raise UsageError(f"--encoders {said!r} names {len(specs)} encoder; expected at least two, with commas between")
    for spec in specs:
        parse_spec(spec)
    return specs


def choose(
    benchmark: str | Benchmark,
    encoders: Sequence[str],
    output: Path,
    settings: Settings,
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
        settings: of the runs; its ``readout`` is where each encoder is read, such as ``("auto",)``.
        first: samples of each split in the first round, where there are many encoders; each next one has three times
            as many, until the pictures are all there.
        alpha: family-wise error over all rounds.
        price: dollars for an hour of this machine.
        observer: told of every run.
    """
    if len(settings.readout) > 1 or "all" in settings.readout:
        raise UsageError(f"--readout {','.join(settings.readout)}: a choice reads each encoder at one, such as auto")
    notes: dict[str, str] = {}
    dropped: dict[str, tuple[StoredRun, float]] = {}
    left, limits = list(encoders), _limits(len(encoders), first, settings.limit)
    done: list[StoredRun] = []
    for number, limit in enumerate(limits):
        done, whole = _round(benchmark, left, output, settings.changed(limit=limit), notes, observer)
        if not done:
            raise UsageError(
                "no encoder could be scored: " + "; ".join(f"{name}: {why}" for name, why in notes.items())
            )
        last = whole or number == len(limits) - 1
        worse = _beaten(done, alpha / len(limits))
        if last:
            break
        dropped |= {run.encoder: (run, worse[run.encoder]) for run in done if worse[run.encoder] <= alpha / len(limits)}
        left = [run.encoder for run in done if run.encoder not in dropped]
        if len(left) == 1 and limit != settings.limit:
            continue  # it is still scored on all pictures
    best, *others = done
    costs = {name: _costs(name, settings, price, notes) for name in encoders if name not in notes}
    candidates = [_candidate(best, "best", None, costs)]
    candidates += [
        _candidate(run, "beaten" if worse[run.encoder] <= alpha / len(limits) else "tied", worse[run.encoder], costs)
        for run in others
    ]
    candidates += [_candidate(run, "beaten", p, costs) for run, p in dropped.values()]
    candidates.sort(key=lambda one: ("best", "tied", "beaten").index(one.verdict))
    failed = [Candidate(name, "failed", reason=why) for name, why in notes.items()]
    whole_size = candidates[0].pictures
    encoded = sum(one.pictures for one in candidates), whole_size * len(candidates)
    score = best.results[0].scores[0]
    found = Choice(
        benchmark=_unit(best).name,
        metric=score.metric,
        direction=score.direction,
        candidates=(*_same_features(candidates, done), *failed),
        runs=tuple(run.path for run in done),
        pictures=encoded,
        codes=tuple(_compressed(benchmark, best, settings, candidates[0], observer)),
        sentences=(),
    )
    return replace(found, sentences=tuple(_sentences(found, len(limits))))


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
    notes: dict[str, str],
    observer: Observer | None,
) -> tuple[list[StoredRun], bool]:
    """Runs of one round, the best first, and whether they saw all pictures; what fails goes to ``notes``."""
    paths, whole = [], True
    for spec in encoders:
        folder = output / folder_name(spec, settings.limit)
        try:
            request = make_request([benchmark], spec, output=folder, settings=settings)
            results = execute(request, observer or Observer())
        except UsageError as error:
            notes[spec] = str(error)
            continue
        bad = next((one for one in results if one.status != "ok"), None)
        if bad is not None:
            notes[spec] = bad.reason
            continue
        paths.append(folder)
        most = max(int(results[0].data[name]) for name in ("train", "validation", "test"))
        whole &= settings.limit is None or most < settings.limit
    runs = read_runs(paths) if paths else []
    return sorted(runs, key=_signed, reverse=True), whole


def _signed(run: StoredRun) -> float:
    scores = [result.scores[0] for result in _units(run)]
    value = statistics.fmean(score.value for score in scores)
    return value if scores[0].direction == "higher" else -value


def _units(run: StoredRun) -> list[Result]:
    """The results of the choice itself, not those of its codes."""
    return [one for one in run.results if not re.search(r"/(float16|int8|binary|dims\d+|pca\d+)$", one.name)]


def _unit(run: StoredRun) -> Result:
    return _units(run)[0]


def _beaten(runs: Sequence[StoredRun], alpha: float) -> dict[str, float]:
    """Of each run but the first, Holm's p that the first is not better; 1 where there is nothing to compare."""
    if len(runs) < 2:
        return {run.encoder: 1.0 for run in runs}
    found = compare_runs(runs, only=[_unit(runs[0]).name], alpha=alpha)
    by_label = {one.second: one.p_adjusted for one in found.contrasts}
    return {run.encoder: by_label.get(run.label, 1.0) for run in runs}


def _candidate(
    run: StoredRun, verdict: str, p: float | None, costs: dict[str, tuple[Costs, dict[str, int]]]
) -> Candidate:
    result = _unit(run)
    score = result.scores[0]
    chosen = str(result.training.get("readout", {}).get("chosen", "last"))
    measured, widths = costs[run.encoder]
    return Candidate(
        encoder=run.encoder,
        verdict=verdict,
        value=statistics.fmean(one.scores[0].value for one in _units(run)),
        low=score.low,
        high=score.high,
        p=p,
        readout=chosen,
        row_bytes=4 * sum(widths[part] for part in Readout.parse(chosen).parts(widths)),
        pictures=sum(int(result.data[name]) for name in ("train", "validation", "test")),
        costs=measured,
        reason=str(result.training.get("readout", {}).get("note", "")),
    )


def _costs(spec: str, settings: Settings, price: float | None, notes: dict[str, str]) -> tuple[Costs, dict[str, int]]:
    """Speed and size of an encoder on this machine, and the widths of its read-outs."""
    from gate_runner.encoders.device import device_for
    from gate_runner.encoders.loading import load_encoder

    encoder = load_encoder(spec, device=device_for(settings.device))
    rate = _rate(encoder, min(32, settings.batch_size))
    weights = 0
    if encoder.module is not None:
        weights = sum(one.nbytes for one in (*encoder.module.parameters(), *encoder.module.buffers()))
    dollars = None if price is None else price / 3600 / rate * 1e6
    return Costs(rate, 1000 / _rate(encoder, 1), encoder.parameters(), weights, dollars), encoder.readouts()


def _rate(encoder: Encoder, batch: int, seconds: float = 2.0) -> float:
    """Pictures a second, by the median of as many calls as fit into the time, at least three, after one unmeasured."""
    import torch

    size = encoder.image_size
    pictures = torch.randint(0, 256, (batch, 3, size, size), dtype=torch.uint8)
    times: list[float] = []
    encoder.encode_image(pictures).cpu()
    begun = time.perf_counter()
    while len(times) < 3 or time.perf_counter() - begun < seconds:
        start = time.perf_counter()
        encoder.encode_image(pictures).cpu()
        times.append(time.perf_counter() - start)
    return batch / statistics.median(times)


def _same_features(candidates: Sequence[Candidate], runs: Sequence[StoredRun]) -> list[Candidate]:
    """The candidates, where two have the same weights with a word about it."""
    prints: dict[str, str] = {}
    twins: dict[str, str] = {}
    for run in runs:
        mark = str(run.manifest["identity"]["encoder"].get("fingerprint") or run.encoder)
        if mark in prints:
            twins[run.encoder] = prints[mark]
        prints.setdefault(mark, run.encoder)
    return [
        replace(one, reason="; ".join(filter(None, [one.reason, f"the same weights as {twins[one.encoder]}"])))
        if one.encoder in twins
        else one
        for one in candidates
    ]


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


def _place(one: Candidate, sign: int) -> tuple[float, float]:
    assert one.value is not None
    assert one.costs is not None
    return sign * one.value, one.costs.images_per_second


def _sentences(found: Choice, rounds: int) -> list[str]:
    best, *others = found.candidates
    assert best.value is not None
    tied = [one for one in others if one.verdict == "tied"]
    interval = f"{best.low:.3f}–{best.high:.3f}"
    said = f"Take {best.encoder}, read out at {best.readout}: {found.metric} {best.value:.3f} ({interval})"
    beaten = sum(one.verdict == "beaten" for one in others)
    if not tied:
        said += f"; a paired test tells it from all {beaten} others (Holm)." if beaten else "."
        lines = [said]
    else:
        names = ", ".join(one.encoder for one in tied)
        lines = [f"{said}; a paired test does not tell it from {names} (Holm), and tells it from {beaten} others."]
        fastest = max((best, *tied), key=lambda one: one.costs.images_per_second if one.costs else 0.0)
        if fastest is not best and fastest.costs and best.costs:
            times = fastest.costs.images_per_second / best.costs.images_per_second
            lines.append(f"Of these, {fastest.encoder} is the fastest, {times:.1f} times {best.encoder}.")
    done, whole = found.pictures
    if rounds > 1:
        lines.append(
            f"{done:,} pictures were encoded and judged of {whole:,} that whole runs of all take ({done / whole:.0%})."
        )
    return lines
