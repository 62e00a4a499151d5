"""What runs cost: a bar of seconds by phase for each encoder."""

from __future__ import annotations

from gate_runner.charts.svg import chart, element, label, shortened
from gate_runner.reports.contents import PHASES, Contents, joules_of

_LEFT, _WIDTH, _BAR = 170.0, 640.0, 26.0


def phase_seconds(contents: Contents) -> dict[str, dict[str, float]]:
    """For each label seconds by phase, summed over benchmarks and seeds; what no phase counted is ``other``."""
    seconds: dict[str, dict[str, float]] = {}
    for run in contents.runs:
        sums = {phase: sum(result.seconds.get(phase, 0.0) for result in run.results) for phase in PHASES}
        total = sum(result.seconds.get("total", 0.0) for result in run.results)
        seconds[run.label] = {**sums, "other": max(0.0, total - sum(sums.values())), "total": total}
    return seconds


def joules(contents: Contents) -> dict[str, float | None]:
    """For each label joules over all benchmarks; None where any of them was not measured."""
    totals: dict[str, float | None] = {}
    for run in contents.runs:
        values = [joules_of(result.energy) for result in run.results]
        known = [value for value in values if value is not None]
        totals[run.label] = sum(known) if known and len(known) == len(values) else None
    return totals


def peak_bytes(contents: Contents) -> dict[str, dict[str, int]]:
    """For each label the largest memory of any benchmark, of the ``process`` and on the ``GPU``, where known."""
    found: dict[str, dict[str, int]] = {}
    for run in contents.runs:
        peaks = found.setdefault(run.label, {})
        for result in run.results:
            for name, field in (("process", "peak_bytes"), ("GPU", "gpu_peak_bytes")):
                if field in result.memory:
                    peaks[name] = max(peaks.get(name, 0), int(result.memory[field]))
    return found


def cost_bars(contents: Contents) -> str:
    """Stacked bars, one per run, on one scale."""
    costs = phase_seconds(contents)
    longest = max(one["total"] for one in costs.values()) or 1.0
    room = _WIDTH - _LEFT - 72
    body = []
    for row, (name, one) in enumerate(costs.items()):
        y, x = row * _BAR, _LEFT
        body.append(label(shortened(name, 24), _LEFT - 8, y + 17, text_anchor="end", class_="axis"))
        for phase in (*PHASES, "other"):
            width = room * one[phase] / longest
            if width > 0.2:
                hint = element("title", f"{phase}: {one[phase]:.1f} s")
                body.append(element("rect", hint, x=x, y=y + 4, width=width, height=_BAR - 9, class_=f"phase-{phase}"))
            x += width
        body.append(label(duration(one["total"]), x + 6, y + 17, class_="axis"))
    said = "; ".join(f"{name} {one['total']:.0f} s" for name, one in costs.items())
    return chart("Seconds by phase", said, _WIDTH, len(costs) * _BAR + 2, body, class_="bars")


def duration(seconds: float) -> str:
    """Seconds in the largest unit that keeps them readable.

    Example:
        >>> duration(7.25), duration(150), duration(9000)
        ('7.2 s', '2.5 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
