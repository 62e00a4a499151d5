"""The sections of the page below the table of scores."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path

from gate_data.imports import named
from gate_runner.charts.markup import folded, key, note, scroll, table
from gate_runner.reports.contents import PHASES, Contents, Row
from gate_runner.reports.costs import cost_bars, duration, joules, peak_bytes, phase_seconds
from gate_runner.reports.curves import COLOURED, coloured, curve_panels
from gate_runner.reports.overviews import overviews
from gate_runner.reports.pictures import hardest
from gate_runner.reports.radar import radars
from gate_runner.reports.ranks import heatmap
from gate_runner.reports.scores import shown_metric
from gate_runner.tasks.registry import known_task_type
from gate_runner.tasks.task import Details


def task_types(contents: Contents) -> str:
    """Radars, and the same figures as a table."""
    drawn = radars(contents)
    figures = table(
        ["Run", *contents.tasks],
        [[name, *(_percent(contents.shares[name].get(task)) for task in contents.tasks)] for name in contents.labels],
    )
    said = "How far from chance (0) to a perfect score (100 %), mean over the benchmarks of each type."
    if not drawn:
        return note(said) + figures
    if len(contents.runs) > 1:
        said += " The dashed outline is the best run on each axis."
    panels = "".join(
        f"<figure><figcaption>{escape(name)}</figcaption>{svg}</figure>"
        for name, svg in zip(contents.labels, drawn, strict=True)
    )
    return note(said) + f'<div class="grid">{panels}</div>' + folded("The same as a table", figures)


def ranks(contents: Contents) -> str:
    """The heatmap; empty for one run."""
    svg = heatmap(contents)
    if not svg:
        return ""
    figures = table(
        ["Benchmark", *contents.labels],
        [[row.name, *(_rank(row, name) for name in contents.labels)] for row in contents.rows],
    )
    near = any(cell.near_best for row in contents.rows for cell in row.cells.values())
    dotted = "; a dot marks what a paired test does not tell from it" if near else ""
    said = (
        f"1 is the best value of the row{dotted}. A rank hides how large a difference is: the table of scores shows it."
    )
    return note(said) + scroll(svg, "Heatmap of ranks") + folded("The same as a table", figures)


def curves(contents: Contents) -> str:
    """Panels, and the last validation of each run as a table; empty where nothing was trained."""
    panels = curve_panels(contents)
    if not panels:
        return ""
    colours = coloured(contents)
    entries = [(name, f"k{index}") for name, index in colours.items()]
    if len(colours) < len(contents.runs):
        entries.append((f"all others (colours: the {COLOURED} best mean ranks)", "ko"))
    figures = "".join(
        f'<figure><figcaption>{escape(row.name)}<span class="tag">{escape(shown_metric(row))}</span></figcaption>{svg}'
        "</figure>"
        for row, svg in panels
    )
    ends = table(
        ["Benchmark", *contents.labels],
        [[row.name, *(_last(row, name) for name in contents.labels)] for row, _ in panels],
    )
    said = (
        "The headline metric on validation data while the head is trained; one line per seed. The weights that "
        "validate best are the ones tested."
    )
    watched = [
        [run.label, f"{row['step']:g}", *(f"{row[name]:.3f}" for name in ("rank", "alignment", "uniformity"))]
        for run in contents.runs
        for row in next((one.training["geometry"] for one in run.results if one.training.get("monitored")), ())
    ]
    more = ""
    if watched:
        said += " Of a monitored training, the points are scores on test samples, of heads on the encoder as it was."
        names = ["Run", "step", "effective rank", "alignment ↓", "uniformity ↓"]
        more = folded("Features without labels, step by step", table(names, watched))
    return (
        note(said)
        + key(entries)
        + f'<div class="grid">{figures}</div>'
        + folded("The last points as a table", ends)
        + more
    )


def costs(contents: Contents) -> str:
    """Bars of seconds, and a table with memory and energy."""
    seconds, energy, memory = phase_seconds(contents), joules(contents), peak_bytes(contents)
    entries = [
        (name, f"phase-{name}") for name in (*PHASES, "other") if any(one[name] > 0.05 for one in seconds.values())
    ]
    figures = table(
        ["Run", *PHASES, "total", "peak memory", "Energy"],
        [
            [
                name,
                *(duration(one[phase]) for phase in (*PHASES, "total")),
                _memory(memory[name]),
                _energy(contents, name, energy[name]),
            ]
            for name, one in seconds.items()
        ],
        words=[len(PHASES) + 3],
    )
    said = "Seconds by phase, summed over benchmarks and seeds; runs on different machines are not comparable."
    return note(said) + scroll(cost_bars(contents), "Bars of seconds by phase") + key(entries) + figures


def details(contents: Contents) -> str:
    """Tables that a task type has of its results, such as a suite's subsets; empty where there are none."""
    parts = []
    for row in contents.rows:
        made = known_task_type(row.task).details
        for run in contents.runs if made else ():
            for result in run.named(row.name):
                if result.status == "ok":
                    found: Details = named(made)(result.training, run.encoder)
                    shown = "".join(map(note, found.notes)) + table(found.heads, found.rows, words=found.words)
                    seed = f", seed {result.seed}" if len(run.named(row.name)) > 1 else ""
                    parts.append(folded(f"{row.name}, {run.label}{seed}", shown))
    return "".join(parts)


def over_sets(contents: Contents) -> str:
    """Tables and figures over all results of a task type; empty where none has them."""
    parts = []
    for one in overviews(contents.runs):
        parts += list(one.figures)
        for shown in one.tables:
            parts.append(f"<h3>{escape(shown.title)}</h3>" + (note(shown.note) if shown.note else ""))
            parts.append(table(shown.heads, shown.rows, words=shown.words))
    return "".join(parts)


def examples(contents: Contents, count: int, data_root: Path | None) -> str:
    """Pictures of the hardest test samples of each benchmark; empty where none are wanted."""
    if count < 1:
        return ""
    parts = [
        note(
            "The worst test samples over runs and seeds, and boxes' best. They were made again from their "
            "source and are shown only where they are the same data, by digest, as the runs saw."
        )
    ]
    for row in contents.rows:
        found, why_not = hardest(contents, row, count, data_root)
        parts.append(f"<h3>{escape(row.name)}</h3>")
        if why_not:
            parts.append(note(f"No pictures: {why_not}."))
        figures = "".join(
            f'<figure><img src="{one.address}" width="{one.width}" height="{one.height}" alt="{escape(one.caption)}">'
            f"<figcaption>{escape(one.caption)}</figcaption></figure>"
            for one in found
        )
        parts.append(f'<div class="pictures">{figures}</div>' if figures else "")
    return "".join(parts)


def failures(contents: Contents) -> str:
    """What failed and why; empty where nothing did."""
    rows = [[name, label, reason] for label, name, reason in contents.failures]
    return table(["Benchmark", "Run", "Reason"], rows, words=[1, 2]) if rows else ""


def _rank(row: Row, label: str) -> str:
    cell = row.cells.get(label)
    return str(cell.rank) if cell and cell.rank else "–"


def _energy(contents: Contents, name: str, total: float | None) -> str:
    reasons: dict[str, str] = {}
    run = next(run for run in contents.runs if run.label == name)
    for result in run.results:
        reasons |= {device: str(why) for device, why in result.energy.get("unmeasured", {}).items()}
    missing = "; ".join(f"{device} unmeasured: {why}" for device, why in reasons.items())
    if total is None:
        return missing or "unmeasured"
    shown = f"{total / 1000:.1f} kJ" if total >= 1000 else f"{total:.0f} J"
    return f"{shown} ({missing})" if missing else shown


def _memory(peaks: Mapping[str, int]) -> str:
    if set(peaks) == {"process"}:
        return f"{peaks['process'] / 1e9:.2f} GB"
    return ", ".join(f"{name} {peak / 1e9:.2f} GB" for name, peak in peaks.items()) or "unknown"


def _last(row: Row, label: str) -> str:
    cell = row.cells.get(label)
    lines = [line for line in cell.curve if line] if cell else []
    return f"{sum(line[-1][1] for line in lines) / len(lines):.3f}" if lines else "–"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.0%}".replace("-", "−")
