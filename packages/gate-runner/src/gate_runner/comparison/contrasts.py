"""Runs against runs: which benchmarks can be compared, what differs on them, and what of that holds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal

from gate_runner.benchmarks.paper import paper_row
from gate_runner.comparison.by_slice import SliceContrast, corrected, groups_in, slice_contrasts
from gate_runner.errors import UsageError, unknown
from gate_runner.runs.item_subsets import ESTIMATED, samples_asked
from gate_runner.runs.results import Result, other_versions
from gate_runner.runs.stored import Stored, StoredRun, at_readouts, read_runs
from gate_runner.settings import Settings
from gate_runner.tasks.job import Score
from gate_runner.tasks.registry import known_task_type
from paired_scores.paired import PairedTest, holm, paired_test


@dataclass(frozen=True)
class Contrast:
    """One benchmark, two runs.

    Args:
        first: label of the run that is compared with.
        second: label of the other.
        name: the benchmark's name in reports.
        metric: its headline metric.
        direction: ``"higher"`` or ``"lower"`` is better.
        seeds: with which both were run.
        test: values, difference (second less first), interval, effect size and p values.
        p_adjusted: ``test.p`` after Holm's correction over all contrasts of the comparison.
        verdict: ``"better"`` or ``"worse"`` for the second run, or ``"undecided"``.
        note: what a reader must know, e.g. "synthetic stand-in".
        source: of the data, ``"file"`` where they are one's own in either run.
        chance: what answers without the images score.

    Example:
        >>> from paired_scores.paired import PairedTest
        >>> test = PairedTest(0.7, 0.8, 0.1, 0.05, 0.15, 0.3, 0.001, 0.001, None, 500, (0.1,))
        >>> Contrast("a", "b", "digits", "acc@1", "higher", (0,), test, 0.001, "better", "").gain
        0.1
    """

    first: str
    second: str
    name: str
    metric: str
    direction: str
    seeds: tuple[int, ...]
    test: PairedTest
    p_adjusted: float
    verdict: Literal["better", "worse", "undecided"]
    note: str
    source: str = ""
    chance: float | None = None

    @property
    def unit(self) -> str:
        """The metric, or "" for all scores between 0 and 1 of which higher ones are better."""
        inside = self.direction == "higher" and max(self.test.first, self.test.second) <= 1
        return "" if inside else self.metric

    @property
    def gain(self) -> float:
        """The difference, counted so that a positive one favours the second run."""
        return self.test.difference if self.direction == "higher" else -self.test.difference


@dataclass(frozen=True)
class Untested:
    """Two scores on one benchmark that no test compares, for at least one of them was imported.

    Args:
        first: label of the run that is compared with.
        second: label of the other.
        name: the benchmark.
        metric: the first metric that both have.
        direction: ``"higher"`` or ``"lower"`` is better.
        values: both scores, means over seeds.
        intervals: the ends of both 95 % intervals, None where a score has none.
    """

    first: str
    second: str
    name: str
    metric: str
    direction: str
    values: tuple[float, float]
    intervals: tuple[tuple[float, float] | None, tuple[float, float] | None]


@dataclass(frozen=True)
class Comparison:
    """Everything that two or more runs have in common.

    Args:
        contrasts: one per benchmark and pair of runs.
        left_out: what could not be compared: run, benchmark and reason.
        alpha: family-wise error that verdicts allow.
        sentences: which differences hold, in words.
        untested: pairs of which at least one score was imported, without outcomes to test.
        by_slice: the same tests within each slice of the test samples, corrected over all slices.

    Example:
        >>> Comparison(contrasts=(), left_out=(("b", "digits", "not run"),), alpha=0.05, sentences=()).left_out[0][1]
        'digits'
    """

    contrasts: tuple[Contrast, ...]
    left_out: tuple[tuple[str, str, str], ...]
    alpha: float
    sentences: tuple[str, ...]
    untested: tuple[Untested, ...] = ()
    by_slice: tuple[SliceContrast, ...] = ()


def sentences(contrasts: Sequence[Contrast], alpha: float) -> Iterator[str]:
    """One sentence per pair of runs, then what the words rest on."""
    if not contrasts:
        return
    pairs = dict.fromkeys((contrast.first, contrast.second) for contrast in contrasts)
    for first, second in pairs:
        mine = [contrast for contrast in contrasts if (contrast.first, contrast.second) == (first, second)]
        yield _pair(first, second, mine)
    count = len(contrasts)
    family = "one test" if count == 1 else f"all {count} tests together (Holm)"
    seeds = len(contrasts[0].seeds)
    student = f", and Student's test over {seeds} seeds and the samples," if seeds > 1 else ""
    yield f"A difference holds where the paired permutation test{student} rejects at {alpha:.0%} over {family}."
    if any(ESTIMATED in contrast.note for contrast in contrasts):
        yield "Where scores are estimated from chosen items, values and tests are of those items, not of all samples."
    if any("synthetic stand-in" in contrast.note for contrast in contrasts):
        every = all("synthetic stand-in" in contrast.note for contrast in contrasts)
        yield (
            f"{'These are' if every else 'Names with micro/ are'} synthetic stand-ins: what holds on them says nothing "
            "certain about the real data sets."
        )
    rows = {
        contrast.name: row for contrast in contrasts if (row := paper_row(contrast.name, contrast.source)) is not None
    }
    for able in (True, False):
        names = ", ".join(f"{name} ({row.reason})" for name, row in rows.items() if row.comparable is able)
        if names:
            yield f"Scores that can{'' if able else 'not'} stand next to the paper's rows: {names}."


def _pair(first: str, second: str, contrasts: Sequence[Contrast]) -> str:
    count = len(contrasts)
    parts = []
    for verdict in ("better", "worse"):
        decided = [contrast for contrast in contrasts if contrast.verdict == verdict]
        if decided:
            decided.sort(key=lambda contrast: -abs(contrast.test.effect or 0.0))
            named = ", ".join(
                f"{contrast.name} {signed(contrast.test.difference)} {contrast.metric}" for contrast in decided
            )
            parts.append(f"{verdict} on {len(decided)} of {count} ({named})")
    undecided = [contrast for contrast in contrasts if contrast.verdict == "undecided"]
    if not parts:
        return f"No difference between {second} and {first} holds on any of {count} benchmark{'s' * (count > 1)}."
    sentence = f"{second} is {' and '.join(parts)} than {first}"
    if undecided:
        sentence += f"; on {len(undecided)} no difference holds ({', '.join(contrast.name for contrast in undecided)})"
    return sentence + "."


_IMPORTED = (
    "Imported scores have no outcomes: their differences are shown and not tested, and whether the data and the "
    "protocol are the same is not known."
)
_EPISODES = ("ways", "shots", "queries", "test_episodes")
_MOST_PERMUTATIONS = 200_000


def signed(value: float) -> str:
    """A change, with its sign and three figures behind the point."""
    return f"{value:+.3f}".replace("-", "−")


def compare(
    *sources: Stored,
    only: Sequence[str] = (),
    all_pairs: bool = False,
    alpha: float = 0.05,
    resamples: int = 2000,
    permutations: int = 9_999,
    seed: int = 0,
) -> Comparison:
    """Which differences between runs hold: paired tests on the same samples, corrected for their number.

    Args:
        sources: runs or their folders, at least two; the others are compared with the first. One run of several
            read-outs, or runs that share a benchmark at different read-outs alone (a probe, a choice): each read-out
            is compared as a run of its own.
        only: names of benchmarks (``cifar100`` or ``micro/cifar100``); all by default.
        all_pairs: compare every run with every other.
        alpha: family-wise error over all benchmarks and pairs together.
        resamples: of each bootstrap.
        permutations: of each permutation test; where none of them reaches the observed difference, as many more as
            Holm's correction can need, up to 200,000.
        seed: of the resampling.

    Returns:
        One contrast per shared benchmark and pair, with a verdict and sentences. Imported scores, which have no
        outcomes, are shown beside the others, untested.

    Raises:
        UsageError: fewer than two runs, a benchmark that none has, nothing in common, or a benchmark that was run on
            other data, with another limit, other seeds or other episodes; the message says what differs.

    Example:
        >>> import tempfile
        >>> import gate_runner
        >>> runs = [
        ...     gate_runner.run(
        ...         "digits", encoder=f"micro-clip{weights}", output=tempfile.mkdtemp(), limit=40, show=False
        ...     )
        ...     for weights in ("", "/random")
        ... ]
        >>> compare(*runs, permutations=99).contrasts[0].name
        'digits'
    """
    runs = _comparable(read_runs(sources))
    if len(runs) < 2:
        raise UsageError(f"{len(runs)} run given; expected at least two to compare, or one of several read-outs")
    if not 0 < alpha < 1:
        raise UsageError(f"--alpha must be between 0 and 1, not {alpha}")
    pairs = list(itertools.combinations(runs, 2)) if all_pairs else [(runs[0], run) for run in runs[1:]]
    names = _names(runs, only)
    left_out: dict[tuple[str, str, str], None] = {}
    able, shown = [], []
    for first, second in pairs:
        for name in names:
            sides = [(run, run.named(name)) for run in (first, second)]
            missing = [(run.label, name, reason) for run, results in sides if (reason := _unusable(results))]
            left_out.update(dict.fromkeys(missing))
            if missing:
                continue
            if any(result.imported for _, results in sides for result in results):
                beside = untested(first, second, name)
                if beside is None:
                    ours, theirs = (", ".join(s.metric for s in results[0].scores) for _, results in sides)
                    reason = f"no metric in common: {theirs}, and {ours} in {first.label}"
                    left_out[second.label, name, reason] = None
                else:
                    shown.append(beside)
            else:
                refuse_other_conditions(name, first, second)
                able.append((first, second, name))
    if not able and not shown:
        reasons = "; ".join(f"{run} {name}: {reason}" for run, name, reason in left_out)
        raise UsageError(f"the runs share no benchmark that both finished ({reasons})")
    most = min(_MOST_PERMUTATIONS, max(permutations, round(4 * max(1, len(able)) / alpha)))
    drafts = [_contrast(first, second, name, resamples, permutations, most, seed) for first, second, name in able]
    adjusted = holm([draft.test.p for draft in drafts])
    contrasts = tuple(
        replace(draft, p_adjusted=p, verdict=_verdict(draft, p, alpha))
        for draft, p in zip(drafts, adjusted, strict=True)
    )
    sliced = [
        contrast
        for first, second, name in able
        for contrast in slice_contrasts(first, second, name, resamples=resamples, permutations=permutations, seed=seed)
    ]
    words = [*sentences(contrasts, alpha), *([_IMPORTED] if shown else [])]
    return Comparison(contrasts, tuple(left_out), alpha, tuple(words), tuple(shown), corrected(sliced))


def untested(first: StoredRun, second: StoredRun, name: str) -> Untested | None:
    """Return both runs' values of the first metric that they share; None where they share none."""
    ours, theirs = first.named(name), second.named(name)
    for score in ours[0].scores:
        sides = [
            [row for result in side for row in result.scores if row.metric == score.metric] for side in (ours, theirs)
        ]
        if all(sides):
            (value, between), (other, beside) = map(_mean_score, sides)
            return Untested(
                first.label, second.label, name, score.metric, score.direction, (value, other), (between, beside)
            )
    return None


def _mean_score(rows: Sequence[Score]) -> tuple[float, tuple[float, float] | None]:
    value, low, high = (fmean(getattr(row, end) for row in rows) for end in ("value", "low", "high"))
    return value, None if math.isnan(low) or math.isnan(high) else (low, high)


def _comparable(runs: Sequence[StoredRun]) -> list[StoredRun]:
    """The runs, or one for each of their read-outs where no benchmark is of one name in two of them."""
    names = [{result.name for result in run.results} for run in runs]
    if any(first & second for first, second in itertools.combinations(names, 2)):
        return list(runs)
    parts = [part for run in runs for part in at_readouts(run)]
    return parts if len(parts) > len(runs) or len({*_readouts(parts)}) > 1 else list(runs)


def _readouts(parts: Sequence[StoredRun]) -> list[str]:
    return [part.label.rpartition(" at ")[2] for part in parts]


def _names(runs: Sequence[StoredRun], only: Sequence[str]) -> list[str]:
    """Names of benchmarks, in order; ``only`` may name them by id."""
    ids = {result.name: result.benchmark for run in runs for result in run.results}
    for wish in only:
        if wish not in ids and wish not in ids.values():
            raise unknown("benchmark in these runs", wish, ids)
    return [name for name in sorted(ids) if not only or name in only or ids[name] in only]


def _unusable(results: Sequence[Result]) -> str:
    """Why a run's results on a benchmark cannot be compared; empty where they can."""
    if not results:
        return "not run"
    failed = [result for result in results if result.status != "ok"]
    return f"failed: {failed[0].reason}" if failed else ""


def refuse_other_conditions(name: str, first: StoredRun, second: StoredRun) -> None:
    """Raise a UsageError where two runs of a benchmark differ in settings, seeds, data or test samples."""
    ours, theirs = first.named(name), second.named(name)
    mine, yours, modes = ours[0], theirs[0], Settings.modes()
    conditions: list[tuple[str, object, object]] = [
        *(
            (key, mine.settings.get(key), yours.settings.get(key))
            for key in sorted({*mine.settings, *yours.settings} - modes)
        ),
        ("seeds", [result.seed for result in ours], [result.seed for result in theirs]),
        ("metric", mine.scores[0].metric, yours.scores[0].metric),
        *((key, mine.training.get(key), yours.training.get(key)) for key in _EPISODES),
        ("data sha256", str(mine.data.get("sha256"))[:12], str(yours.data.get("sha256"))[:12]),
        ("test samples", samples_asked(mine), samples_asked(yours)),
    ]
    for condition, expected, value in conditions:
        if expected != value:
            raise UsageError(
                f"{name} cannot be compared: {condition} is {expected} in {first.path} and {value} in {second.path}; "
                "run both alike, or name other benchmarks with --only"
            )


def _contrast(
    first: StoredRun, second: StoredRun, name: str, resamples: int, permutations: int, most: int, seed: int
) -> Contrast:
    ours, theirs = first.named(name), second.named(name)
    score = ours[0].scores[0]
    try:
        test = paired_test(
            score.metric,
            [first.outcomes(result) for result in ours],
            [second.outcomes(result) for result in theirs],
            seed=seed,
            resamples=resamples,
            permutations=permutations,
            most=most,
            statistic=known_task_type(ours[0].task).statistic(score.metric),
            clusters=groups_in([(first, ours[0]), (second, theirs[0])]),
        )
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from error
    notes = [ours[0].note] if ours[0].note else []
    notes += [f"whole groups are exchanged, {test.clusters:,}"] if test.clusters is not None else []
    notes += [f"results of {package}, whose code may differ" for package in other_versions([*ours, *theirs])]
    steps = [run[0].training.get("steps") for run in (ours, theirs)]
    if steps[0] != steps[1]:
        notes.append(f"heads trained for {steps[0]} and {steps[1]} steps")
    return Contrast(
        first=first.label,
        second=second.label,
        name=name,
        metric=score.metric,
        direction=score.direction,
        seeds=tuple(result.seed for result in ours),
        test=test,
        p_adjusted=1.0,
        verdict="undecided",
        note="; ".join(notes),
        source=next((run.source for run in (*ours, *theirs) if run.source == "file"), ours[0].source),
        chance=score.chance,
    )


def _verdict(contrast: Contrast, p: float, alpha: float) -> Literal["better", "worse", "undecided"]:
    if p > alpha:
        return "undecided"
    return "better" if contrast.gain > 0 else "worse"
