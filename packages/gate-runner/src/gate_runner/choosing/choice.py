"""Which encoder to take for some images: runs, paired tests and costs in one answer.

A run of each encoder that is still in question, on few images first. The judge is
`paired_scores.worse_than_another`, whose error covers the choice of the best; the rounds share it.

One file of more than 400 lines: rounds, judge and costs are one procedure, and its answer is read from all three.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from gate_runner.benchmarks import resolve
from gate_runner.benchmarks.own import refuse_among_classes
from gate_runner.choosing.costs import Costs, LoadedEncoders, Measured, measured, twins
from gate_runner.comparison.best import interval_among, worse_runs
from gate_runner.errors import DataError, UsageError
from gate_runner.executors import run as execute
from gate_runner.machine.resources import release
from gate_runner.runs.folder import RunFolder
from gate_runner.runs.observers import Observer
from gate_runner.runs.request import folder_name, make_request
from gate_runner.runs.results import Result
from gate_runner.runs.slicing import few_groups
from gate_runner.runs.stored import StoredRun, read_runs
from gate_runner.tasks.registry import find_task_type, known_task_type
from vision_features.encoders.spec import parse_spec
from vision_features.heads.saved import check_folder, copy_head
from vision_features.readouts import Readout

if TYPE_CHECKING:
    from gate_runner.benchmarks import Benchmark
    from gate_runner.settings import Settings

MANY = 4
"""Encoders from which a round on few images comes first."""
_GROWTH = 3
_SAME_SPEED = 1.1


@dataclass(frozen=True)
class Compressed:
    """The best encoder's score with its features in fewer bytes: the code, an image's bytes, value and interval."""

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
        value: of the headline metric, on as many images as it was judged by; None where it failed.
        low: lower end of its interval; the intervals of all encoders hold together with 95 %, so the best's does, too.
        high: upper end.
        p: that no other encoder of its last round is better, adjusted for all comparisons; None for the best.
        readout: where it was read out.
        row_bytes: of one image's features.
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
        """Encoders that no faster one replaces: each faster one is shown to be worse.

        A speed within 10 % is the same speed. Of those that the tests do not tell apart only the fastest is here; of
        those shown to be worse, the ones that are faster than these, and that none of the others beats in both.
        """
        sign = 1 if self.direction == "higher" else -1
        rows = [
            (row.encoder, row.verdict == "beaten", (sign * row.value, row.costs.images_per_second))
            for row in self.candidates
            if row.value is not None and row.costs is not None
        ]
        level = [speed for _, beaten, (_, speed) in rows if not beaten]
        worse = [point for _, beaten, point in rows if beaten]

        def is_replaced(beaten: bool, point: tuple[float, float]) -> bool:
            score, speed = point
            if not beaten:
                return any(other > _SAME_SPEED * speed for other in level)
            return any(_SAME_SPEED * other >= speed for other in level) or any(
                other[0] >= score and other[1] >= speed and other != point for other in worse
            )

        return tuple(encoder for encoder, beaten, point in rows if not is_replaced(beaten, point))


def encoders_in(text: str) -> tuple[str, ...]:
    """Specs of a text with commas between, or of a file with one in each line (``#`` begins a comment).

    Sizes of images with ``|`` between are an encoder each.
    """
    path = Path(text)
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n") if path.is_file() else text.split(",")
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
    """A spec for each size of images that one names."""
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
    save: str | PathLike[str] | None = None,
    observer: Observer | None = None,
    loaded: LoadedEncoders | None = None,
) -> Choice:
    """Find the encoder that does best on some images, and those that a paired test does not show to be worse.

    Args:
        benchmark: a benchmark, or a name of one.
        encoders: specs, at least two; one that fails, with whatever error, is a row with its reason.
        output: folder of all runs; the same call again continues.
        settings: of the runs; its ``readout`` is where each encoder is read. By default it is ``("auto",)``, in
            settings of one's own ``("last",)`` where they say nothing else.
        first: samples of each split in the first round, where there are many encoders; each next one has three times
            as many, until the images are all there.
        alpha: family-wise error over all rounds.
        price: dollars for an hour of this machine.
        save: folder for the head of the best encoder, at its read-out, for `vision_features.heads.load_head`.
        observer: told of every run.
        loaded: holds the encoders, so that who goes on with the best one need not load it again.

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
    if save is not None:
        check_folder(Path(save))
        settings = settings.changed(save_heads=True)
        for record in resolve([benchmark]) if isinstance(benchmark, str) else [benchmark]:
            if not find_task_type(record.task).keeps_heads:
                raise UsageError(f"--save keeps heads of image classification; {record.id!r} is {record.task}")
    for record in resolve([benchmark]) if isinstance(benchmark, str) else [benchmark]:
        if "file" in record.sources:
            refuse_among_classes(Path(record.sources["file"]), output, None if save is None else Path(save))
    loaded = loaded or LoadedEncoders(settings.device)
    work = _Work(benchmark, output, settings, price, observer or Observer(), loaded)
    reasons = work.reasons
    dropped: dict[str, tuple[StoredRun, float]] = {}
    runs: dict[str, list[StoredRun]] = {}
    remaining, limits = list(encoders), limits_of(len(encoders), first, settings.limit)
    ranked: list[StoredRun] = []
    for number, limit in enumerate(limits):
        ranked, complete = work.round(remaining, limit)
        if not ranked:
            of_images = len(reasons) > 1 and len(set(reasons.values())) == 1
            listed = "; ".join(
                dict.fromkeys(reason if of_images else f"{name}: {reason}" for name, reason in reasons.items())
            )
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
    same = twins({name: work.measured[name].features for name in work.measured if name not in reasons})
    candidates = [
        _candidate(run, verdict, p, work.of(run.encoder, runs), same, interval_among(run, len(verdicts), alpha))
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
    if save is not None:
        copy_head(RunFolder(best.path).head_folder(best.results[0].name, settings.seeds[0]), Path(save))
    compressed = work.compressed(best, candidates[0])
    groups = best.results[0].training.get("clusters", {}).get("groups")
    few = [] if groups is None else few_groups(groups, alpha, folds=known_task_type(best.results[0].task).weighs)
    return replace(choice, sentences=_sentences(choice, len(limits), groups, few), compressed=tuple(compressed))


def limits_of(encoders: int, first: int, limit: int | None) -> list[int | None]:
    """Samples of each split in each round; the last is what was asked for."""
    if encoders < MANY:
        return [limit]
    small: list[int | None] = [size for size in (first, first * _GROWTH) if limit is None or size < limit]
    return [*small, limit]


class _Work:
    """The runs and measurements of a choice; each encoder is loaded once while there is room for all."""

    def __init__(
        self,
        benchmark: str | Benchmark,
        output: Path,
        settings: Settings,
        price: float | None,
        observer: Observer,
        loaded: LoadedEncoders,
    ) -> None:
        self.benchmark, self.output, self.settings, self.price = benchmark, output, settings, price
        self.observer, self.loaded = observer, loaded
        self.measured: dict[str, Measured] = {}
        self.unmeasured: dict[str, str] = {}  # why an encoder that was scored has no costs
        self.reasons: dict[str, str] = {}  # why an encoder failed

    def round(self, encoders: Sequence[str], limit: int | None) -> tuple[list[StoredRun], bool]:
        """Return runs of one round, the best first, and whether they saw all images."""
        names: dict[Path, str] = {}
        complete = True
        for spec in encoders:
            try:
                folder, results = self._run(spec, self.output / folder_name(spec, limit), limit)
            except Exception as error:  # noqa: BLE001 - one encoder's error, of whatever kind, ends no choice
                self.reasons[spec] = _reason(error)
                release()
                continue
            failed = next((result for result in results if result.status != "ok"), None)
            if failed is not None:
                self.reasons[spec] = failed.reason
                continue
            self._measure(spec)
            names[folder] = results[0].name
            most = max(int(results[0].data[name]) for name in ("train", "validation", "test"))
            complete &= limit is None or most < limit
        seeds = self.settings.seeds
        runs = [run.only(names[run.path], seeds) for run in read_runs(list(names))] if names else []
        return sorted(runs, key=_signed, reverse=True), complete

    def _run(
        self, spec: str, folder: Path, limit: int | None, readout: Sequence[str] = ()
    ) -> tuple[Path, list[Result]]:
        settings = self.settings.changed(limit=limit, **({"readout": tuple(readout)} if readout else {}))
        encoder = self.loaded.get(spec)
        request = make_request([self.benchmark], encoder, output=folder, settings=settings)
        return folder, execute(request, self.observer)

    def _measure(self, spec: str) -> None:
        if spec in self.measured or spec in self.unmeasured:
            return
        try:
            self.measured[spec] = measured(self.loaded.get(spec), min(32, self.settings.batch_size), self.price)
        except Exception as error:  # noqa: BLE001 - it was scored, and stays in the choice
            self.unmeasured[spec] = f"costs not measured: {_reason(error)}"
            release()

    def of(self, spec: str, runs: Mapping[str, Sequence[StoredRun]]) -> Measured | str:
        """Return what was measured of an encoder, or why nothing was."""
        if spec not in self.measured:
            return self.unmeasured[spec]
        known = self.measured[spec]
        return known._replace(costs=replace(known.costs, read_per_second=_read_per_second(runs[spec])))

    def compressed(self, best: StoredRun, chosen: Candidate) -> list[Compressed]:
        """Return the best encoder's scores with its features in fewer bytes, where read-outs were encoded."""
        if self.settings.readout in ((), ("last",)) or not chosen.row_bytes:
            return []
        width = chosen.row_bytes // 4
        sizes = {"float16": 2 * width, "int8": width, "binary": -(-width // 8)}
        if width > 64:
            sizes["dims64"] = 256
            if best.results[0].data["train"] >= 64:  # so many components need as many samples
                sizes["pca64"] = 256
        limit = best.manifest["identity"].get("limit")
        folder = best.path.with_name(f"{best.path.name}-compressed")
        codes = [f"{chosen.readout}/{code}" for code in sizes]
        _, results = self._run(best.encoder, folder, limit, codes)
        first = [result for result in results if result.seed == self.settings.seeds[0]]
        rows = []
        for (code, row_bytes), result in zip(sizes.items(), first, strict=True):
            if result.status == "ok":
                score = result.scores[0]
                rows.append(Compressed(code, row_bytes, score.value, score.low, score.high))
        return rows


def _reason(error: Exception) -> str:
    """Return an error in one line."""
    text = next(iter(str(error).splitlines()), "")
    return text if isinstance(error, UsageError) else f"{type(error).__name__}: {text}"


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


def _candidate(
    run: StoredRun,
    verdict: str,
    p: float | None,
    measured: Measured | str,
    same: Mapping[str, str],
    interval: tuple[float, float],
) -> Candidate:
    result = run.results[0]
    about = result.training.get("readout", {})
    chosen = str(about.get("chosen", "last"))
    if isinstance(measured, str):
        width, costs, about_costs = 0, None, measured
    else:
        width = 4 * sum(measured.widths[part] for part in Readout.parse(chosen).parts(measured.widths))
        costs, about_costs = measured.costs, ""
    twin = f"the same features as {same[run.encoder]}" if run.encoder in same else ""
    return Candidate(
        encoder=run.encoder,
        verdict=verdict,
        value=_value(run),
        low=interval[0],
        high=interval[1],
        p=p,
        readout=chosen,
        row_bytes=width,
        pictures=sum(int(result.data[name]) for name in ("train", "validation", "test")),
        costs=costs,
        reason="; ".join(filter(None, [str(about.get("note", "")), twin, about_costs])),
    )


def _read_per_second(runs: Iterable[StoredRun]) -> float | None:
    """Images a second with reading and decoding, over an encoder's runs; None where all came from the cache."""
    results = [result for run in runs for result in run.results if result.memory.get("encoded")]
    seconds = sum(result.seconds.get("encode", 0.0) for result in results)
    return sum(int(result.memory["encoded"]) for result in results) / seconds if seconds else None


def _sentences(choice: Choice, rounds: int, groups: int | None = None, few: Sequence[str] = ()) -> tuple[str, ...]:
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
    costs = [candidate.costs for candidate in choice.candidates if candidate.costs is not None]
    if any(measurement.busy for measurement in costs):
        shares = sorted((c.clock_per_second or c.images_per_second) / c.images_per_second for c in costs if c.busy)
        lines.append(
            "The machine was busy with other work: speeds with * and their dollars are from CPU time; the clock "
            f"gave down to {shares[0]:.0%} of them. read/s is by wall-clock time."
        )
    scored = 1 + len(tied) + beaten
    if scored > 1:
        lines.append(f"The intervals hold for all {scored} encoders at once, so picking the best one is accounted for.")
    if groups is not None:
        lines.append(f"Tests exchange, and intervals draw, {groups:,} whole groups.")
        lines += [f"Few groups: {line}." for line in few]
    encoded, all_of_them = choice.pictures
    if rounds > 1:
        lines.append(
            f"{encoded:,} images were encoded and judged of {all_of_them:,} that whole runs of all take "
            f"({encoded / all_of_them:.0%})."
        )
    return tuple(lines)
