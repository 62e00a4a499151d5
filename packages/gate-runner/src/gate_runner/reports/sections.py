"""Sections of the page beside the scores: task types' tables, read-outs, confusions, trainings, costs, failures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gate_data.imports import named
from gate_runner.charts.markup import folded, joined, note, piece, table
from gate_runner.charts.plot import Dot, Line, lines_chart, plot
from gate_runner.comparison.contrasts import signed
from gate_runner.reports.contents import PHASES, Contents, Row, joules_of, overviews
from gate_runner.reports.scores import number
from gate_runner.runs.results import Result
from gate_runner.runs.stored import StoredRun
from gate_runner.tasks.registry import known_task_type
from gate_runner.tasks.task import Details
from vision_features.readouts import Readout

_CLASSES = 24
"""Of a confusion matrix, at most."""
_OPEN = 6
"""Confusion matrices or curves, at most, that show without being opened."""
_COLOURED = 6
"""Runs whose learning curves have a colour of their own."""


def over_sets(contents: Contents) -> str:
    """Tables over all results of a task type; empty where none has them."""
    parts: list[str] = []
    for shown in overviews(contents.runs):
        parts += [piece("headed", shown.title), shown.figure, *map(note, filter(None, (shown.warning, shown.note)))]
        parts.append(table(shown.heads, shown.rows, words=shown.words))
    return joined(parts)


def details(contents: Contents) -> str:
    """Tables that a task type has of its results, such as a suite's subsets; empty where there are none."""
    parts = []
    for row in contents.rows:
        detailed = known_task_type(row.task).details
        for run in contents.runs if detailed else ():
            for result in run.named(row.name):
                if result.status == "ok":
                    shown: Details = named(detailed)(result.training, run.encoder)
                    inside = [*map(note, shown.notes), table(shown.heads, shown.rows, words=shown.words)]
                    parts.append(folded(_titled(run, result), joined(inside)))
    return joined(parts)


def _titled(run: StoredRun, result: Result) -> str:
    seeded = f", seed {result.seed}" if len(run.named(result.name)) > 1 else ""
    return f"{result.name}, {run.label}{seeded}"


def readouts(contents: Contents) -> str:
    """What each read-out of an encoder was worth, and which one was chosen; empty where none was to be chosen."""
    worths = {
        _titled(run, result): _worths(result, about)
        for run in contents.runs
        for result in run.results
        if isinstance(about := result.training.get("readout"), Mapping) and len(about["worth"]) > 1
    }
    if not worths:
        return ""
    explained = (
        "How well each block does on training and validation samples, each left out once; a large point was chosen, "
        "its bar is the 95 % interval of its gain on the last output. Test labels choose nothing. The gain is of the "
        "samples that chose, and so a little too good."
    )
    return joined([note(explained), *_opened(worths)])


def _over_depth(result: Result, about: Mapping[str, Any]) -> str:
    """Worth over blocks, a line for each way to pool; empty for an encoder with fewer than two blocks to read."""
    worths = {Readout.parse(name): float(worth) for name, worth in about["worth"].items()}
    blocks = sorted({readout.block for readout in worths if readout.pooling})
    lines: dict[str, list[Dot]] = {}
    for readout, worth in worths.items():
        if readout.pooling:
            line = readout.place.rpartition("block:")[0] + "/".join(filter(None, readout[1:]))
            lines.setdefault(line, []).append(Dot(float(readout.block), worth, f"{readout.name}: {worth:.3f}", 2.0))
    chosen, last = Readout.parse(str(about["chosen"])), worths[Readout("last")]
    ends = tuple(last + float(end) for end in about.get("against_last", ())[1:])
    place = float(chosen.block or max(blocks, default=0))  # several blocks at once stand at the last
    dot = Dot(place, worths[chosen], f"{chosen.name}: {worths[chosen]:.3f}", 5.0, ends=ends, style="other")
    return lines_chart(
        f"{result.name}: worth of read-outs over depth",
        [(name, sorted(dots)) for name, dots in sorted(lines.items())],
        "block",
        "validation score",
        across=[(float(block), str(block)) for block in blocks],
        level=("last output", last),
        dots=[dot],
    )


def _worths(result: Result, about: Mapping[str, Any]) -> str:
    """Worth of each read-out, and its score on the test split where all were asked for."""
    metric = result.scores[0].metric if result.scores else ""
    tested = {str(row["readout"]): row for row in about.get("tested", ())}
    rows = []
    for name, value in about["worth"].items():
        row = tested.get(name)
        score = [f"{row[metric]:.3f}", f"{row['low']:.3f}–{row['high']:.3f}"] if row else []
        rows.append([f"{name}{' (chosen)' if name == about['chosen'] else ''}", f"{value:.3f}", *score])
    heads = ["Read-out", "worth without test labels", *([f"test {metric}", "95 % CI"] if tested else [])]
    shown = joined([_over_depth(result, about), folded("Figures", table(heads, rows))])
    if "against_last" not in about:
        return shown
    gain, low, high = (100 * float(value) for value in about["against_last"])
    gained = f"{about['chosen']}: {gain:+.1f} points on the last output ({low:+.1f} to {high:+.1f})".replace("-", "−")
    return joined([note(gained), shown])


def confusions(contents: Contents) -> str:
    """A matrix for each classification and run, the first seed's; empty where there are none."""
    matrices = {}
    for row in contents.rows:
        for run in contents.runs:
            about = next((result.training.get("by_class") for result in run.named(row.name)), None)
            if about and about["rows"]:
                matrices[f"{row.name}, {run.label}"] = _matrix(about)
    if not matrices:
        return ""
    explained = (
        "Rows are what samples are, columns what they were taken for; a cell's shade is its share of the row, and a "
        "pointer over it reads the counts. Classes with the most wrong samples come first."
    )
    return joined([note(explained), *_opened(matrices)])


def _opened(drawings: Mapping[str, str]) -> list[str]:
    """Each under its heading where there are few, else to be opened."""
    few = len(drawings) <= _OPEN
    return [joined([piece("headed", name), drawn]) if few else folded(name, drawn) for name, drawn in drawings.items()]


def _matrix(about: Mapping[str, Any]) -> str:
    """Counts, shaded by their share of the class; what is left out; and all confusions as a list."""
    support = {str(row["class"]): int(row["support"]) for row in about["rows"]}
    cells = {(str(true), str(guessed)): int(count) for true, guessed, count in about["confused"]}
    wrong = {}
    for row in about["rows"]:
        hits = round((row["recall"][0] if row["recall"] else 0.0) * row["support"])
        label = str(row["class"])
        wrong[label], cells[label, label] = support[label] - hits, hits
    order = sorted(support, key=lambda label: -wrong[label])
    classes = order[:_CLASSES]
    rows = []
    for true in classes:
        counts = [(guessed, cells.get((true, guessed), 0)) for guessed in classes]
        drawn = [
            (
                count,
                round(100 * count / max(1, support[true])),
                f"{true} taken for {guessed}: {count} of {support[true]}",
            )
            for guessed, count in counts
        ]
        rows.append((true, drawn))
    parts = [piece("scroll", piece("matrix", classes, rows), "Confusion matrix")]
    if len(order) > len(classes):
        missing = len(order) - len(classes)
        parts.append(note(f"{missing} of {len(order)} classes with fewer wrong samples are not drawn."))
    listed = [
        [true, guessed, str(count), f"{count / max(1, support[true]):.0%}"]
        for (true, guessed), count in sorted(cells.items(), key=lambda cell: -cell[1])
        if true != guessed and count
    ]
    figures = table(["Class", "taken for", "samples", "of the class"], listed, words=[1])
    return joined([*parts, folded("The confusions, the most frequent first", figures) if listed else ""])


def curves(contents: Contents) -> str:
    """A panel per benchmark with a line per run and seed; empty where nothing was trained."""
    panels = []
    for row in contents.rows:
        lines = {label: [line for line in cell.curve if len(line) > 1] for label, cell in row.cells.items()}
        if any(lines.values()):
            panels.append((row.name, row.shown_metric, _panel(row, lines, contents.labels)))
    if not panels:
        return ""
    entries = [(label, f"k{at}") for at, label in enumerate(contents.labels[:_COLOURED])]
    if len(contents.labels) > _COLOURED:
        entries.append(("all others", "ko"))
    explained = (
        "The headline metric on validation data while the head is trained; one line per seed. The weights that "
        "validate best are the ones tested."
    )
    watched = [
        [run.label, f"{row['step']:g}", *(f"{row[name]:.3f}" for name in ("rank", "alignment", "uniformity"))]
        for run in contents.runs
        for row in next((result.training["geometry"] for result in run.results if result.training.get("monitored")), ())
    ]
    if watched:
        explained += " Of a monitored training, the points are scores on test samples, of heads on the encoder then."
    parts = [note(explained), piece("key", entries), piece("panels", panels)]
    geometry = table(["Run", "step", "effective rank", "alignment ↓", "uniformity ↓"], watched)
    return joined([*parts, folded("Features without labels", geometry) if watched else ""])


def _panel(row: Row, lines: Mapping[str, Sequence[Sequence[tuple[float, float]]]], labels: Sequence[str]) -> str:
    every = [point for drawn in lines.values() for line in drawn for point in line]
    low, high = min(value for _, value in every), max(value for _, value in every)
    margin = (high - low) * 0.06 or abs(high) * 0.06 or 0.05
    low, high = low - margin, high + margin
    drawn = [
        Line(label, line, f"c{at}" if at < _COLOURED else "other")
        for at, label in reversed(list(enumerate(labels)))  # grey ones lie below
        for line in lines.get(label, ())
    ]
    ends = ", ".join(f"{label} ends at {seeds[0][-1][1]:.3f}" for label, seeds in lines.items() if seeds)
    most = max(step for step, _ in every)
    up = [(value, number(value).replace("-", "−")) for value in (low, (low + high) / 2, high)]
    title = f"{row.name}: {row.metric} on validation while training"
    across = [(0.0, "0"), (most, f"{most:g}")]
    return plot(title, ends, drawn, across=across, up=up, below="optimiser step", above=row.metric)


def gain_and_loss(contents: Contents) -> str:
    """Zero-shot scores before and after each training, and mixes with its start; empty where none were asked for."""
    rows, mixes, lines = [], [], []
    for run in contents.runs:
        for result in run.results:
            trained = f"{result.name} seed {result.seed}"
            if gained := result.training.get("gained"):
                rows.append([run.label, trained, f"{result.name} (itself)", *_change(gained)])
            for forgotten in result.training.get("zero_shot", ()):
                rows.append([run.label, trained, str(forgotten["benchmark"]), *_change(forgotten)])
            mixed, dots = result.training.get("wise_ft", {"curve": ()}), []
            for row in mixed["curve"]:
                if scores := row.get("zero_shot"):
                    share, others = float(row["share"]), sum(scores.values()) / len(scores)
                    tested = "tested" if share == float(mixed["share"]) else ""
                    figures = [f"{share:g}", f"{row['validation']:.3f}", f"{others:.3f}"]
                    mixes.append([run.label, trained, *figures, tested])
                    hint = f"share {share:g}: {row['validation']:.3f}, others {others:.3f}"
                    dots.append(Dot(others, float(row["validation"]), hint, 5.0 if tested else 3.0, bool(tested)))
            lines.append((f"{run.label}: {trained}", dots))
    if not rows:
        return ""
    explained = (
        "Class prompts before a training, and after it: of the trained benchmark itself against the trained encoder "
        "with its head, of the others against their prompts again. The change is paired, with its 95 % interval."
    )
    heads = ["Run", "Trained on", "Scored on", "before", "after", "change", "95 % CI"]
    parts = [note(explained), table(heads, rows, words=[0, 1, 2])]
    if mixes:
        explained = "Mixes of the weights before (0) and after (1) the training (WiSE-FT); the large point was tested:"
        below = "class prompts on the others"
        parts += [
            note(explained),
            lines_chart("Validation, by share of the trained weights", lines, below, "validation"),
        ]
        heads = ["Run", "Trained on", "share", "validation", "class prompts on the others", ""]
        parts.append(table(heads, mixes, words=[0, 1, 5]))
    return joined(parts)


def _change(row: Mapping[str, Any]) -> list[str]:
    between = f"{signed(row['low'])} to {signed(row['high'])}"
    return [f"{row['before']:.3f}", f"{row['after']:.3f}", signed(row["change"]), between]


def costs(contents: Contents) -> str:
    """Seconds by phase, memory and energy of each run."""
    phases = (*PHASES, "total")
    rows = []
    for run in contents.runs:
        seconds = [sum(result.seconds.get(phase, 0.0) for result in run.results) for phase in phases]
        rows.append([run.label, *map(_duration, seconds), _memory(run), _energy(run), _used(run)])
    explained = "Seconds by phase, summed over benchmarks and seeds; runs on different machines are not comparable."
    heads = ["Run", *phases, "peak memory", "Energy", "Busy"]
    return joined([note(explained), table(heads, rows, words=[len(phases) + 2])])


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


def _used(run: StoredRun) -> str:
    """Percent in which processor and GPU were busy, a mean over the seconds of the phases that know it."""
    shown = []
    for device in ("cpu", "gpu"):
        weighed = [
            (result.seconds.get(phase, 0.0), percent)
            for result in run.results
            for phase, percent in result.energy.get("used", {}).get(device, {}).items()
        ]
        seconds = sum(second for second, _ in weighed)
        if seconds > 0:
            shown.append(f"{device} {sum(second * percent for second, percent in weighed) / seconds:.0f} %")
    return ", ".join(shown) or "unknown"


def _duration(seconds: float) -> str:
    """Seconds in the largest unit that keeps them readable."""
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def failures(contents: Contents) -> str:
    """What failed and why; empty where nothing did."""
    cells = [(row, label, cell) for row in contents.rows for label, cell in row.cells.items() if cell.reason]
    rows = [[row.name, label, cell.reason] for row, label, cell in cells]
    return table(["Benchmark", "Run", "Reason"], rows, words=[1, 2]) if rows else ""
