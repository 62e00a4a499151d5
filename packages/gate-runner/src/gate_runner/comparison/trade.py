"""What an encoder gained and lost between two runs, by what is asked of it, and the mixes of the two between them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gate_runner.comparison.contrasts import Contrast, compare
from gate_runner.errors import UsageError
from gate_runner.runs.stored import StoredRun
from gate_runner.tasks.registry import known_task_type

_NORMAL = 1.959964


@dataclass(frozen=True)
class Side:
    """The mean gain over the benchmarks of one kind.

    Args:
        kind: ``"recognition"``, ``"composition"``, ``"retrieval"``, ``"own data"`` or ``"other tasks"``.
        gain: mean over benchmarks of the gain in the headline metric, above 0 where the second run is better.
        low: end of its 95 % interval, from those of the benchmarks, whose samples are taken as independent.
        high: the other end.
        contrasts: the benchmarks, the largest gain first.

    Example:
        >>> Side("retrieval", -0.02, -0.03, -0.01, ()).verdict
        'lost'
    """

    kind: str
    gain: float
    low: float
    high: float
    contrasts: tuple[Contrast, ...]

    @property
    def verdict(self) -> str:
        """``"gained"`` or ``"lost"`` where the interval excludes 0, or ``"undecided"``."""
        return "gained" if self.low > 0 else "lost" if self.high < 0 else "undecided"


@dataclass(frozen=True)
class Trade:
    """What was gained and lost between two runs.

    Args:
        before: label of the first run.
        after: label of the second.
        sides: one for each kind that both runs have.
        front: for each mix, and both ends, its label and mean gain by kind.
        sentence: all of it in words.
        left_out: run, benchmark and reason of what could not be compared.

    Example:
        >>> Trade("a", "b", (), (), "nothing", ()).sides
        ()
    """

    before: str
    after: str
    sides: tuple[Side, ...]
    front: tuple[tuple[str, Mapping[str, float]], ...]
    sentence: str
    left_out: tuple[tuple[str, str, str], ...]


def trade_between(
    before: StoredRun,
    after: StoredRun,
    mixes: Sequence[StoredRun] = (),
    *,
    resamples: int = 2000,
    permutations: int = 999,
) -> Trade:
    """Compare two runs item by item, and say what was gained and what was lost.

    Args:
        before: the run of the encoder as it was.
        after: that of the encoder as it is now.
        mixes: runs of mixes between the two, in their order from before to after.
        resamples: of each bootstrap.
        permutations: of each permutation test, at first.

    Returns:
        A mean gain with its interval for each kind of task, the front over the mixes, and one sentence.

    Raises:
        UsageError: as `compare`; or a mix lacks a benchmark that both ends have.

    Example:
        >>> from gate_runner.runs.stored import read_runs
        >>> trade = trade_between(*read_runs([Path("runs/old"), Path("runs/new")]))  # doctest: +SKIP
        >>> trade.sentence  # doctest: +SKIP
        'new gained +0.041 (0.022 to 0.060) in composition and lost …'
    """
    compared = compare(before, after, resamples=resamples, permutations=permutations)
    tasks = {result.name: result.task for result in (*before.results, *after.results)}
    by_kind: dict[str, list[Contrast]] = {}
    for contrast in compared.contrasts:
        own = contrast.source == "file"
        kind = "own data" if own else known_task_type(tasks[contrast.name]).side or "other tasks"
        by_kind.setdefault(kind, []).append(contrast)
    sides = tuple(_side(kind, contrasts) for kind, contrasts in by_kind.items())
    names = {contrast.name: side.kind for side in sides for contrast in side.contrasts}
    ends = [(before.label, dict.fromkeys((side.kind for side in sides), 0.0))]
    inner = [(run.label, _gains(before, run, names)) for run in mixes]
    ends += [*inner, (after.label, {side.kind: side.gain for side in sides})]
    front = tuple(ends) if mixes else ()
    sentence = _sentence(before.label, after.label, sides)
    return Trade(before.label, after.label, sides, front, sentence, compared.left_out)


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
