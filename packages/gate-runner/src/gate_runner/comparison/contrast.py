"""What a comparison finds: two runs on one benchmark, and all of it together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vision_adapters.paired import PairedTest


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
        chance: what answers without the pictures score.

    Example:
        >>> from gate_runner.comparison import PairedTest
        >>> test = PairedTest(0.7, 0.8, 0.1, 0.05, 0.15, 0.3, 0.1, 0.5, 0.001, 0.001, None, 500, (0.1,))
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
    def gain(self) -> float:
        """The difference, counted so that a positive one favours the second run."""
        return self.test.difference if self.direction == "higher" else -self.test.difference


@dataclass(frozen=True)
class Comparison:
    """Everything that two or more runs have in common.

    Args:
        contrasts: one per benchmark and pair of runs.
        left_out: what could not be compared: run, benchmark and reason.
        alpha: family-wise error that verdicts allow.
        sentences: which differences hold, in words.

    Example:
        >>> Comparison(contrasts=(), left_out=(("b", "digits", "not run"),), alpha=0.05, sentences=()).left_out[0][1]
        'digits'
    """

    contrasts: tuple[Contrast, ...]
    left_out: tuple[tuple[str, str, str], ...]
    alpha: float
    sentences: tuple[str, ...]
