"""What an encoder gained and lost between two runs, by what is asked of it, and the mixes of the two between them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gate_runner.comparison.contrasts import Contrast, compare, refuse_other_conditions
from gate_runner.errors import UsageError
from gate_runner.runs.stored import StoredRun
from gate_runner.tasks.registry import known_task_type

_NORMAL = 1.959964
EVIDENCE = 30
"""Test samples below which a difference says nothing."""


@dataclass(frozen=True)
class Side:
    """The mean gain over the benchmarks of one kind; one in a unit of its own (years, say) stands alone."""

    kind: str  # "recognition", "composition", "retrieval", "own data", "other tasks", or as "mae of ages"
    gain: float  # mean over benchmarks in the headline metric, above 0 where the second run is better
    low: float  # end of its 95 % interval, from those of the benchmarks, whose samples are taken as independent
    high: float
    contrasts: tuple[Contrast, ...]  # the benchmarks, the largest gain first

    @property
    def verdict(self) -> str:
        """``"gained"`` or ``"lost"`` where the interval excludes 0, or ``"undecided"``."""
        return "gained" if self.low > 0 else "lost" if self.high < 0 else "undecided"


@dataclass(frozen=True)
class Trade:
    """What was gained and lost between two runs."""

    before: str  # label of the first run
    after: str
    sides: tuple[Side, ...]  # one for each kind that both runs have
    front: tuple[tuple[str, Mapping[str, float]], ...]  # of each mix, and both ends, its label and mean gain by kind
    sentence: str  # all of it in words
    left_out: tuple[tuple[str, str, str], ...]  # run, benchmark and reason of what could not be compared


def trade_between(
    before: StoredRun, after: StoredRun, mixes: Sequence[StoredRun] = (), *, permutations: int = 999
) -> Trade:
    """Compare two runs item by item, and say what was gained and lost by kind of task, and by mixes between the two."""
    compared = compare(before, after, permutations=permutations)
    tasks = {result.name: result.task for result in (*before.results, *after.results)}
    by_kind: dict[str, list[Contrast]] = {}
    for contrast in compared.contrasts:
        own = contrast.source == "file"
        kind = "own data" if own else known_task_type(tasks[contrast.name]).side or "other tasks"
        kind = f"{contrast.unit} of {contrast.name}" if contrast.unit else kind
        by_kind.setdefault(kind, []).append(contrast)
    sides = tuple(_side(kind, contrasts) for kind, contrasts in by_kind.items())
    names = {contrast.name: side.kind for side in sides for contrast in side.contrasts}
    ends = [(before.label, dict.fromkeys((side.kind for side in sides), 0.0))]
    inner = [(run.label, _gains(before, run, names)) for run in mixes]
    ends += [*inner, (after.label, {side.kind: side.gain for side in sides})]
    front = tuple(ends) if mixes else ()
    sentence = _sentence(before.label, after.label, sides) + _no_evidence(sides)
    return Trade(before.label, after.label, sides, front, sentence, compared.left_out)


def _no_evidence(sides: Sequence[Side]) -> str:
    """Name the benchmarks that have too few test samples to say anything."""
    few = {row.name: row.test.samples for side in sides for row in side.contrasts if row.test.samples < EVIDENCE}
    if not few:
        return ""
    named = ", ".join(f"{name} ({count})" for name, count in few.items())
    return f" Fewer than {EVIDENCE} test samples are no evidence: {named}."


def _side(kind: str, contrasts: Sequence[Contrast]) -> Side:
    ordered = tuple(sorted(contrasts, key=lambda contrast: -contrast.gain))
    gain = math.fsum(contrast.gain for contrast in ordered) / len(ordered)
    half = math.sqrt(
        math.fsum(((contrast.test.high - contrast.test.low) / 2 / _NORMAL) ** 2 for contrast in ordered)
    ) / len(ordered)
    if len(ordered) == 1:
        ends = sorted((ordered[0].test.low, ordered[0].test.high))
        low, high = ends if ordered[0].direction == "higher" else (-ends[1], -ends[0])
        return Side(kind, gain, low, high, ordered)
    return Side(kind, gain, gain - _NORMAL * half, gain + _NORMAL * half, ordered)


def _gains(before: StoredRun, mix: StoredRun, kinds: Mapping[str, str]) -> dict[str, float]:
    """Mean gain of a mix by kind."""
    gains: dict[str, list[float]] = {}
    for name, kind in kinds.items():
        if mix.named(name) and before.named(name):
            refuse_other_conditions(name, before, mix)
        means = []
        for run in (before, mix):
            scores = [result.headline for result in run.named(name)]
            values = [score.value for score in scores if score is not None]
            if not values:
                raise UsageError(
                    f"{mix.path} has no score on {name}, which {before.label} has: run the mix on the same"
                )
            means.append(sum(values) / len(values))
        higher = before.named(name)[0].scores[0].direction == "higher"
        gains.setdefault(kind, []).append(means[1] - means[0] if higher else means[0] - means[1])
    return {kind: sum(values) / len(values) for kind, values in gains.items()}


def _sentence(before: str, after: str, sides: Sequence[Side]) -> str:
    parts = []
    for verdict in ("gained", "lost"):
        mine = [side for side in sides if side.verdict == verdict]
        if mine:
            parts.append(f"{verdict} {' and '.join(f'{_figures(side)} in {side.kind}' for side in mine)}")
    undecided = [side for side in sides if side.verdict == "undecided"]
    sentence = f"{after} {' and '.join(parts)} against {before}" if parts else f"{after} is not told from {before}"
    if parts and undecided:
        sentence += f"; nothing holds in {', '.join(f'{side.kind} ({_figures(side)})' for side in undecided)}"
    elif undecided:
        sentence += f" in {', '.join(f'{side.kind} ({_figures(side)})' for side in undecided)}"
    return f"{sentence}."


def _figures(side: Side) -> str:
    return f"{side.gain:+.3f} [{side.low:+.3f}, {side.high:+.3f}]".replace("-", "−")
