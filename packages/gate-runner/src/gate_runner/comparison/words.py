"""A comparison in plain sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gate_runner.benchmarks.paper import paper_row
from gate_runner.comparison.contrast import Contrast
from gate_runner.runs.estimated import ESTIMATED


def sentences(contrasts: Sequence[Contrast], alpha: float) -> Iterator[str]:
    """One sentence per pair of runs, then what the words rest on."""
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
            yield f"Scores that can{'' if able else 'not'} stand beside the paper's rows: {names}."


def _pair(first: str, second: str, contrasts: Sequence[Contrast]) -> str:
    count = len(contrasts)
    parts = []
    for verdict in ("better", "worse"):
        decided = [contrast for contrast in contrasts if contrast.verdict == verdict]
        if decided:
            decided.sort(key=lambda contrast: -abs(contrast.test.effect or 0.0))
            named = ", ".join(
                f"{contrast.name} {_signed(contrast.test.difference)} {contrast.metric}" for contrast in decided
            )
            parts.append(f"{verdict} on {len(decided)} of {count} ({named})")
    undecided = [contrast for contrast in contrasts if contrast.verdict == "undecided"]
    if not parts:
        return f"No difference between {second} and {first} holds on any of {count} benchmark{'s' * (count > 1)}."
    sentence = f"{second} is {' and '.join(parts)} than {first}"
    if undecided:
        sentence += f"; on {len(undecided)} no difference holds ({', '.join(contrast.name for contrast in undecided)})"
    return sentence + "."


def _signed(value: float) -> str:
    return f"{value:+.3f}".replace("-", "−")
