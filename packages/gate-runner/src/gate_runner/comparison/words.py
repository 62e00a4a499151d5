"""A comparison in plain sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gate_runner.benchmarks.paper import paper_row
from gate_runner.comparison.contrast import Contrast
from gate_runner.runs.estimated import ESTIMATED


def sentences(contrasts: Sequence[Contrast], alpha: float) -> Iterator[str]:
    """One sentence per pair of runs, then what the words rest on."""
    pairs = dict.fromkeys((one.first, one.second) for one in contrasts)
    for first, second in pairs:
        mine = [one for one in contrasts if (one.first, one.second) == (first, second)]
        yield _pair(first, second, mine)
    count = len(contrasts)
    family = "one test" if count == 1 else f"all {count} tests together (Holm)"
    seeds = len(contrasts[0].seeds)
    student = f", and Student's test over {seeds} seeds and the samples," if seeds > 1 else ""
    yield f"A difference holds where the paired permutation test{student} rejects at {alpha:.0%} over {family}."
    if any(ESTIMATED in one.note for one in contrasts):
        yield "Where scores are estimated from chosen items, values and tests are of those items, not of all samples."
    if any("synthetic stand-in" in one.note for one in contrasts):
        every = all("synthetic stand-in" in one.note for one in contrasts)
        yield (
            f"{'These are' if every else 'Names with micro/ are'} synthetic stand-ins: what holds on them says nothing "
            "certain about the real data sets."
        )
    rows = {one.name: row for one in contrasts if (row := paper_row(one.name, one.source)) is not None}
    for able in (True, False):
        said = ", ".join(f"{name} ({row.reason})" for name, row in rows.items() if row.comparable is able)
        if said:
            yield f"Scores that can{'' if able else 'not'} stand beside the paper's rows: {said}."


def _pair(first: str, second: str, contrasts: Sequence[Contrast]) -> str:
    count = len(contrasts)
    parts = []
    for verdict in ("better", "worse"):
        found = [one for one in contrasts if one.verdict == verdict]
        if found:
            found.sort(key=lambda one: -abs(one.test.effect or 0.0))
            named = ", ".join(f"{one.name} {_signed(one.test.difference)} {one.metric}" for one in found)
            parts.append(f"{verdict} on {len(found)} of {count} ({named})")
    undecided = [one for one in contrasts if one.verdict == "undecided"]
    if not parts:
        return f"No difference between {second} and {first} holds on any of {count} benchmark{'s' * (count > 1)}."
    said = f"{second} is {' and '.join(parts)} than {first}"
    if undecided:
        said += f"; on {len(undecided)} no difference holds ({', '.join(one.name for one in undecided)})"
    return said + "."


def _signed(value: float) -> str:
    return f"{value:+.3f}".replace("-", "−")
