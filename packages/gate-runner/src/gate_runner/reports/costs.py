"""What runs cost: a bar of seconds by phase for each encoder, memory and energy."""

from __future__ import annotations

from collections.abc import Mapping

from gate_runner.charts.markup import joined, note, piece, scroll, table
from gate_runner.charts.svg import chart, element, label, shortened
from gate_runner.reports.contents import PHASES, Contents, joules_of
from gate_runner.runs.stored import StoredRun

_LEFT, _WIDTH, _BAR = 170.0, 640.0, 26.0
_PARTS = (*PHASES, "other")


def costs(contents: Contents) -> str:
    """Bars of seconds, and a table with memory and energy."""
    seconds = {run.label: _phase_seconds(run) for run in contents.runs}
    entries = [(name, f"phase-{name}") for name in _PARTS if any(phases[name] > 0.05 for phases in seconds.values())]
    figures = table(
        ["Run", *PHASES, "total", "peak memory", "Energy"],
        [
            [
                run.label,
                *(duration(seconds[run.label][phase]) for phase in (*PHASES, "total")),
                _memory(run),
                _energy(run),
            ]
            for run in contents.runs
        ],
        words=[len(PHASES) + 3],
    )
    explained = "Seconds by phase, summed over benchmarks and seeds; runs on different machines are not comparable."
    return joined([note(explained), scroll(_bars(seconds), "Bars of seconds by phase"), piece("key", entries), figures])


def _phase_seconds(run: StoredRun) -> dict[str, float]:
    """Seconds by phase, summed over benchmarks and seeds; what no phase counted is ``other``."""
    sums = {phase: sum(result.seconds.get(phase, 0.0) for result in run.results) for phase in PHASES}
    total = sum(result.seconds.get("total", 0.0) for result in run.results)
    return {**sums, "other": max(0.0, total - sum(sums.values())), "total": total}


def _memory(run: StoredRun) -> str:
    """The largest memory of any benchmark, of the process and on the GPU, where known."""
    peaks: dict[str, int] = {}
    for result in run.results:
        for name, field in (("process", "peak_bytes"), ("GPU", "gpu_peak_bytes")):
            if field in result.memory:
                peaks[name] = max(peaks.get(name, 0), int(result.memory[field]))
    if set(peaks) == {"process"}:
        return f"{peaks['process'] / 1e9:.2f} GB"
    return ", ".join(f"{name} {peak / 1e9:.2f} GB" for name, peak in peaks.items()) or "unknown"


def _energy(run: StoredRun) -> str:
    """Joules over all benchmarks, where all were measured, and what was not and why."""
    values = [joules_of(result.energy) for result in run.results]
    reasons: dict[str, str] = {}
    for result in run.results:
        reasons |= {device: str(reason) for device, reason in result.energy.get("unmeasured", {}).items()}
    missing = "; ".join(f"{device} unmeasured: {reason}" for device, reason in reasons.items())
    measured = [value for value in values if value is not None]
    if not measured or len(measured) < len(values):
        return missing or "unmeasured"
    total = sum(measured)
    shown = f"{total / 1000:.1f} kJ" if total >= 1000 else f"{total:.0f} J"
    return f"{shown} ({missing})" if missing else shown


def _bars(seconds: Mapping[str, Mapping[str, float]]) -> str:
    """Stacked bars, one per run, on one scale."""
    longest = max(phases["total"] for phases in seconds.values()) or 1.0
    body = []
    for row, (name, phases) in enumerate(seconds.items()):
        y, x = row * _BAR, _LEFT
        body.append(label(shortened(name, 24), _LEFT - 8, y + 17, text_anchor="end", class_="axis"))
        for phase in _PARTS:
            width = (_WIDTH - _LEFT - 72) * phases[phase] / longest
            if width > 0.2:
                hint = element("title", f"{phase}: {phases[phase]:.1f} s")
                body.append(element("rect", hint, x=x, y=y + 4, width=width, height=_BAR - 9, class_=f"phase-{phase}"))
            x += width
        body.append(label(duration(phases["total"]), x + 6, y + 17, class_="axis"))
    description = "; ".join(f"{name} {phases['total']:.0f} s" for name, phases in seconds.items())
    return chart("Seconds by phase", description, _WIDTH, len(seconds) * _BAR + 2, body, class_="bars")


def duration(seconds: float) -> str:
    """Seconds in the largest unit that keeps them readable.

    Example:
        >>> duration(7.25), duration(150), duration(9000)
        ('7.2 s', '2.5 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
