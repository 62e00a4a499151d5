"""Which encoder to take for some pictures: runs, paired tests and costs in one answer.

A run of each encoder that is still in question, on few pictures first. The judge is
`vision_adapters.worse_than_another`, whose error covers the choice of the best; the rounds share it.

One file of more than 400 lines: rounds, judge and costs are one procedure, and its answer is read from all three.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gate_runner.comparison.best import interval_among, worse_runs
from gate_runner.encoders.spec import parse_spec
from gate_runner.errors import DataError, UsageError
from gate_runner.executors import run as execute
from gate_runner.readouts import Readout
from gate_runner.runs.observers import Observer
from gate_runner.runs.request import folder_name, make_request
from gate_runner.runs.stored import StoredRun, read_runs

if TYPE_CHECKING:
    from torch import Tensor

    from gate_runner.benchmarks import Benchmark
    from gate_runner.settings import Settings

MANY = 4
"""Encoders from which a round on few pictures comes first."""
_GROWTH = 3
_SAME = 1e-4
"""Of features' size, up to which two encoders' are the same."""


@dataclass(frozen=True)
class Costs:
    """What an encoder takes on this machine.

    Args:
        images_per_second: in batches, of pictures that are decoded already.
        milliseconds: for one picture alone, the median, likewise.
        parameters: weights, or None where they cannot be seen.
        weight_bytes: memory of weights and buffers.
        read_per_second: pictures a second with reading and decoding, over the choice's own runs; None where these took
            all features from the cache.
        dollars: for a million pictures, or None without a price.
    """

    images_per_second: float
    milliseconds: float
    parameters: int | None
    weight_bytes: int
    read_per_second: float | None = None
    dollars: float | None = None


@dataclass(frozen=True)
class Compressed:
    """The best encoder's score with its features in fewer bytes: the code, a picture's bytes, value and interval."""

    code: str
    row_bytes: int
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Candidate:
    """One encoder in a choice.

    Args:
        encoder: its spec.
        verdict: ``"best"``, ``"tied"``, ``"beaten"`` or ``"failed"``.
        value: of the headline metric, on as many pictures as it was judged by; None where it failed.
        low: lower end of its interval; the intervals of all encoders hold together with 95 %, so the best's does, too.
        high: upper end.
        p: that no other encoder of its last round is better, adjusted for all comparisons; None for the best.
        readout: where it was read out.
        row_bytes: of one picture's features.
        pictures: of all splits, by which it was judged.
        costs: see `Costs`; None where it failed.
        reason: why it failed, or what a reader must know.
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
        sentences: which to take and how sure that is; what the rounds saved.
        compressed: what fewer bytes for the best encoder's features cost.
    """

    benchmark: str
    metric: str
    direction: str
    candidates: tuple[Candidate, ...]
    runs: tuple[Path, ...]
    pictures: tuple[int, int]
    sentences: tuple[str, ...] = ()
    compressed: tuple[Compressed, ...] = ()

    def pareto(self) -> tuple[str, ...]:
        """Encoders that no other one beats both in score and in speed."""
        sign = 1 if self.direction == "higher" else -1
        places = {
            candidate.encoder: (sign * candidate.value, candidate.costs.images_per_second)
            for candidate in self.candidates
            if candidate.value is not None and candidate.costs is not None
        }
        return tuple(
            encoder
            for encoder, (value, speed) in places.items()
            if not any(v >= value and s >= speed and (v, s) != (value, speed) for v, s in places.values())
        )


def encoders_in(text: str) -> tuple[str, ...]:
    """Specs of a text with commas between, or of a file with one in each line (``#`` begins a comment).

    Sizes of pictures with ``|`` between are an encoder each.
    """
    path = Path(text)
    try:
        lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else text.split(",")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: {error}") from error
    named = (spec for line in lines if (spec := line.partition("#")[0].strip()))
    specs = tuple(dict.fromkeys(spec for text in named for spec in _of_sizes(text)))
    if len(specs) < 2:
        raise UsageError(f"--encoders {text!r} names {len(specs)} encoder; expected at least two, with commas between")
    for spec in specs:
        parse_spec(spec)
    return specs


def _of_sizes(text: str) -> list[str]:
    """A spec for each size of pictures that one names."""
    sizes = re.search(r"@(\d+(?:x\d+)?(?:\|\d+(?:x\d+)?)+)", text)
    return [text] if sizes is None else [text.replace(sizes[0], f"@{size}") for size in sizes[1].split("|")]


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
    remaining, limits = list(encoders), limits_of(len(encoders), first, settings.limit)
    ranked: list[StoredRun] = []
    for number, limit in enumerate(limits):
        ranked, complete = _round(benchmark, remaining, output, settings.changed(limit=limit), reasons, observer)
        if not ranked:
            listed = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
            raise UsageError(f"no encoder could be scored: {listed}")
        for run in ranked:
            runs.setdefault(run.encoder, []).append(run)
        is_last = complete or number == len(limits) - 1
        level = level_of(number, len(limits), alpha, is_last=is_last)
        worse = _worse(ranked)
        if is_last:
            break
        dropped |= {run.encoder: (run, worse[run.encoder]) for run in ranked if worse[run.encoder] <= level}
        remaining = [run.encoder for run in ranked if run.encoder not in dropped]
    best, *followers = ranked
    verdicts: list[tuple[StoredRun, str, float | None]] = [(best, "best", None)]
    for run in followers:
        p = worse[run.encoder]
        verdicts.append((run, "beaten" if p <= level else "tied", p))
    verdicts += [(run, "beaten", p) for run, p in dropped.values()]
    measured = {run.encoder: _measured(run.encoder, settings, price, runs[run.encoder]) for run, *_ in verdicts}
    same = twins({encoder: measurement.features for encoder, measurement in measured.items()})
    candidates = [
        _candidate(run, verdict, p, measured[run.encoder], same, interval_among(run, len(verdicts), alpha))
        for run, verdict, p in verdicts
    ]
    candidates.sort(key=lambda candidate: ("best", "tied", "beaten").index(candidate.verdict))
    failed = [Candidate(name, "failed", reason=reason) for name, reason in reasons.items()]
    score = best.results[0].scores[0]
    choice = Choice(
        benchmark=best.results[0].name,
        metric=score.metric,
        direction=score.direction,
        candidates=(*candidates, *failed),
        runs=tuple(run.path for run in ranked),
        pictures=(sum(candidate.pictures for candidate in candidates), candidates[0].pictures * len(candidates)),
    )
    compressed = _compressed(benchmark, best, settings, candidates[0], observer)
    return replace(choice, sentences=_sentences(choice, len(limits)), compressed=tuple(compressed))


def limits_of(encoders: int, first: int, limit: int | None) -> list[int | None]:
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


def _value(run: StoredRun) -> float:
    return statistics.fmean(result.scores[0].value for result in run.results)


def _signed(run: StoredRun) -> float:
    return _value(run) if run.results[0].scores[0].direction == "higher" else -_value(run)


def level_of(number: int, rounds: int, alpha: float, *, is_last: bool) -> float:
    """Return the error of one round: an equal share, and in the last one all that the others did not spend."""
    return alpha - number * alpha / rounds if is_last else alpha / rounds


def _worse(runs: Sequence[StoredRun]) -> dict[str, float]:
    """By encoder, the adjusted p that no other one is better."""
    by_label = worse_runs(runs)
    return {run.encoder: by_label[run.label] for run in runs}


class _Measured(NamedTuple):
    """An encoder's costs, the widths of its read-outs, and its features of a few pictures of noise."""

    costs: Costs
    widths: Mapping[str, int]
    features: Tensor


def _candidate(
    run: StoredRun,
    verdict: str,
    p: float | None,
    measured: _Measured,
    same: Mapping[str, str],
    interval: tuple[float, float],
) -> Candidate:
    result = run.results[0]
    about = result.training.get("readout", {})
    chosen = str(about.get("chosen", "last"))
    twin = f"the same features as {same[run.encoder]}" if run.encoder in same else ""
    return Candidate(
        encoder=run.encoder,
        verdict=verdict,
        value=_value(run),
        low=interval[0],
        high=interval[1],
        p=p,
        readout=chosen,
        row_bytes=4 * sum(measured.widths[part] for part in Readout.parse(chosen).parts(measured.widths)),
        pictures=sum(int(result.data[name]) for name in ("train", "validation", "test")),
        costs=measured.costs,
        reason="; ".join(filter(None, [str(about.get("note", "")), twin])),
    )


def _measured(spec: str, settings: Settings, price: float | None, runs: Iterable[StoredRun]) -> _Measured:
    """Load an encoder and measure it; ``runs`` are its own of the choice."""
    import torch

    from gate_runner.encoders.loading import device_for, load_encoder
    from gate_runner.encoders.probe import rate

    encoder = load_encoder(spec, device=device_for(settings.device))
    weights = 0
    if encoder.module is not None:
        weights = sum(tensor.nbytes for tensor in (*encoder.module.parameters(), *encoder.module.buffers()))
    results = [result for run in runs for result in run.results if result.memory.get("encoded")]
    seconds = sum(result.seconds.get("encode", 0.0) for result in results)
    read = sum(int(result.memory["encoded"]) for result in results) / seconds if seconds else None
    per_second = rate(encoder, min(32, settings.batch_size))
    dollars = None if price is None else price / 3600 / per_second * 1e6
    costs = Costs(per_second, 1000 / rate(encoder, 1), encoder.parameters(), weights, read, dollars)
    noise = torch.randint(0, 256, (4, *encoder.shape), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    return _Measured(costs, encoder.readouts(), encoder.encode_image(noise).float().cpu())


def twins(features: Mapping[str, Tensor]) -> dict[str, str]:
    """Encoders whose features of the same pictures are those of one before them, and of which."""
    same: dict[str, str] = {}
    for spec, rows in features.items():
        for earlier, others in features.items():
            if earlier == spec:
                break
            if others.shape == rows.shape and float((rows - others).abs().max()) <= _SAME * float(others.abs().max()):
                same[spec] = earlier
                break
    return same


def _compressed(
    benchmark: str | Benchmark, best: StoredRun, settings: Settings, chosen: Candidate, observer: Observer | None
) -> list[Compressed]:
    """What the best encoder scores with its features in fewer bytes; the last output alone has no read-outs encoded."""
    if settings.readout in ((), ("last",)):
        return []
    width = chosen.row_bytes // 4
    sizes = {"float16": 2 * width, "int8": width, "binary": -(-width // 8)}
    if width > 64:
        sizes["dims64"] = 256
        if best.results[0].data["train"] >= 64:  # so many components need as many samples
            sizes["pca64"] = 256
    limit = best.manifest["identity"].get("limit")
    how = settings.changed(readout=tuple(f"{chosen.readout}/{code}" for code in sizes), limit=limit)
    folder = best.path.with_name(f"{best.path.name}-compressed")
    results = execute(make_request([benchmark], best.encoder, output=folder, settings=how), observer or Observer())
    first = [result for result in results if result.seed == settings.seeds[0]]
    rows = []
    for (code, row_bytes), result in zip(sizes.items(), first, strict=True):
        if result.status == "ok":
            score = result.scores[0]
            rows.append(Compressed(code, row_bytes, score.value, score.low, score.high))
    return rows


def _sentences(choice: Choice, rounds: int) -> tuple[str, ...]:
    """Which encoder to take and how sure that is; what the rounds saved."""
    best, *others = choice.candidates
    assert best.value is not None
    tied = [candidate for candidate in others if candidate.verdict == "tied"]
    beaten = sum(candidate.verdict == "beaten" for candidate in others)
    interval = f"{best.low:.3f}–{best.high:.3f}"
    advice = f"Take {best.encoder}, read out at {best.readout}: {choice.metric} {best.value:.3f} ({interval})"
    if not tied:
        others_are = "The other one is" if beaten == 1 else f"All {beaten} others are"
        lines = [f"{advice}.", *([f"{others_are} significantly worse (paired test)."] if beaten else [])]
    else:
        names = ", ".join(candidate.encoder for candidate in tied)
        lines = [
            f"{advice}.",
            f"Not shown to be worse (paired test): {names}."
            + (f" {beaten} are significantly worse." if beaten else ""),
        ]
        fastest = max(
            (best, *tied), key=lambda candidate: candidate.costs.images_per_second if candidate.costs else 0.0
        )
        if fastest is not best and fastest.costs and best.costs:
            times = fastest.costs.images_per_second / best.costs.images_per_second
            lines.append(f"Of these, {fastest.encoder} is the fastest, {times:.1f} times {best.encoder}.")
    scored = 1 + len(tied) + beaten
    if scored > 1:
        lines.append(f"The intervals hold for all {scored} encoders at once, so picking the best one is accounted for.")
    encoded, all_of_them = choice.pictures
    if rounds > 1:
        lines.append(
            f"{encoded:,} pictures were encoded and judged of {all_of_them:,} that whole runs of all take "
            f"({encoded / all_of_them:.0%})."
        )
    return tuple(lines)
