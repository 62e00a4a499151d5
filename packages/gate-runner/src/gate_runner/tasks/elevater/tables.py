"""ELEVATER's tables of a run that holds a sweep: its units as records, and the papers' means, gains and efficiency.

One file of more than 400 lines: all tables are made of the same records.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import fmean, stdev
from typing import Any, NamedTuple

from gate_runner.charts.markup import folded, joined, piece
from gate_runner.charts.table import Table
from gate_runner.errors import DataError
from gate_runner.settings.axes import CONTROLS, FULL, Variant, in_order_of_sources, is_real, shots_in_words
from gate_runner.tasks.elevater.taxonomy import taxonomy_of
from knowledge_prompts.class_words import plainly_read

_ADAPTED = {"frozen": "LP", "full": "FT"}
Mean = tuple[float, float | None, int]


class Cell(NamedTuple):
    """Where a number stands in the tables: a data set, a `Variant`'s five fields, and a seed."""

    dataset: str
    shots: int
    tune: str
    init: str
    projection: str
    knowledge: str
    seed: int

    @property
    def variant(self) -> Variant:
        """The point of the sweep."""
        return Variant(*self[1:6])


class Record(NamedTuple):
    """What the tables show of a unit: trained numbers, classes with few images, with knowledge, and without."""

    cell: Cell
    status: str
    reason: str = ""
    value: float | None = None
    trained: int = 0
    short: int = 0
    known: int = 0
    unknown: tuple[str, ...] = ()


def records_of(results: Iterable[Any]) -> list[Record]:
    """The units of sweeps among results."""
    return [_record(result) for result in results if result.task == "elevater"]


def _record(result: Any) -> Record:
    dataset, _, name = result.benchmark.partition("@")
    cell, score, training = Cell(dataset, *Variant.parse(name), result.seed), result.headline, result.training
    if score is None:
        return Record(cell, result.status, result.reason)
    try:
        trained, short = int(training["trained_parameters"]), int(training["short_classes"])
        known, unknown = int(training.get("known", 0)), tuple(map(str, training.get("unknown", ())))
        return Record(cell, "ok", "", score.value, trained, short, known, unknown)
    except (KeyError, TypeError, ValueError) as error:
        where = f"result of {result.name} seed {result.seed}"
        raise DataError(f"{where}: its training is not a sweep's: {type(error).__name__}: {error}") from error


def overview(runs: Sequence[Any]) -> list[Table]:
    """Every table of each run that holds units of a sweep, under the run's name where there are several."""
    swept = [(run.label, records) for run in runs if (records := records_of(run.results))]
    tables = []
    for label, records in swept:
        for table in all_tables(records):
            title = f"{label}: {table.title}" if len(swept) > 1 else table.title
            tables.append(replace(table, title=title, id=f"{label}-{table.id}" if len(swept) > 1 else table.id))
    return [*tables, tracks(runs)] if swept else tables


def tracks(runs: Sequence[Any]) -> Table:
    """Return each swept encoder's taxonomy, data and track with its zero-shot mean (ELEVATER's tables 2 and 15)."""
    rows = []
    for run in runs:
        records = records_of(run.results)
        if records:
            place = taxonomy_of(run.manifest["identity"]["encoder"])
            zero = mean_text(mean_over_sets(having(records, knowledge="none", shots=0)))
            rows.append((run.label, place.language, place.knowledge, place.data, place.track, zero))
    return Table(
        "tracks",
        "Encoders by ELEVATER's taxonomy and track (tables 2 and 15)",
        ("Encoder", "Language-augmented", "Knowledge-augmented", "Pre-training data", "Track", "Zero-shot"),
        tuple(rows),
        "The academic track has ImageNet, GCC and YFCC15M alone. An encoder's field taxonomy names what is unknown.",
        (1, 2, 3, 4),
    )


def all_tables(records: Sequence[Record]) -> list[Table]:
    """Every table for which there are cells, in the papers' order."""
    tables = [
        averages(records),
        per_set(records),
        *gains(records),
        controls(records),
        efficiency(records),
        troubles(records),
    ]
    return [table for table in tables if table.rows]


def ok(records: Iterable[Record]) -> list[Record]:
    """Those with a value."""
    return [record for record in records if record.status == "ok" and record.value is not None]


def having(records: Iterable[Record], **fields: Any) -> list[Record]:
    """Those whose cells have these values in these fields."""
    return [record for record in records if all(getattr(record.cell, name) == fields[name] for name in fields)]


def grouped(records: Iterable[Record], *names: str) -> dict[tuple[Any, ...], list[Record]]:
    """Records by some fields of their cells, in the order in which they first come."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        groups.setdefault(tuple(getattr(record.cell, name) for name in names), []).append(record)
    return groups


def mean_over_sets(records: Iterable[Record], sets: Sequence[str] | None = None) -> Mean | None:
    """Mean over data sets of cells, at most one for each data set and seed, in percent; its deviation over seeds.

    A seed counts where all of ``sets`` are there, by default those of which any has a value.
    """
    values: dict[int, dict[str, float]] = {}
    for record in ok(records):
        values.setdefault(record.cell.seed, {})[record.cell.dataset] = 100 * float(record.value or 0.0)
    every = set(sets) if sets is not None else {name for by_set in values.values() for name in by_set}
    complete = [by_set for _, by_set in sorted(values.items()) if every and every <= set(by_set)]
    if not complete:
        return None
    means = [fmean(by_set[name] for name in every) for by_set in complete]
    return fmean(means), (stdev(means) if len(means) > 1 else None), len(every)


def mean_text(mean: Mean | None) -> str:
    """A mean and its deviation."""
    if mean is None:
        return "–"
    return f"{mean[0]:.2f}" + ("" if mean[1] is None else f" ± {mean[1]:.2f}")


def _each(records: Sequence[Record], sets: Sequence[str]) -> list[float | None]:
    """The mean over seeds on each data set."""
    means = [mean_over_sets(having(records, dataset=name), [name]) for name in sets]
    return [None if mean is None else mean[0] for mean in means]


def _figures(values: Iterable[float | None]) -> list[str]:
    return ["–" if value is None else f"{value:.1f}" for value in values]


def _adapted(shots: int, tune: str, projection: str = "") -> str:
    return "Zero-shot" if shots == 0 else " ".join(filter(None, (_ADAPTED[tune], projection.upper(),
                                                                 shots_in_words(shots))))  # fmt: skip


def _start(shots: int, init: str, projection: str) -> str:
    return "" if shots == 0 else f"{init.capitalize()}-{projection.upper()}"


def _sets(records: Sequence[Record]) -> list[str]:
    return list(dict.fromkeys(record.cell.dataset for record in records))


def averages(records: Sequence[Record]) -> Table:
    """ELEVATER's table 3: means over data sets by shots, what is tuned, and how the head starts.

    Means are over the data sets that have a value in every cell of a row; deviations are over seeds.
    """
    plain, rows = having(records, knowledge="none"), []
    shots = sorted({record.cell.shots for record in records} - {0}, key=in_order)
    zero = mean_over_sets(having(plain, shots=0))
    if zero is not None:
        rows.append(("Zero-shot", "", mean_text(zero), *[""] * len(shots), str(zero[2])))
    for tune in ("frozen", "full"):
        for init, projection in (("random", "1p"), ("random", "2p"), ("language", "1p"), ("language", "2p")):
            row = having(plain, tune=tune, init=init, projection=projection)
            by_shots = grouped((record for record in ok(row) if record.cell.shots), "shots")
            if not by_shots:
                continue
            sets = sorted(set.intersection(*(set(_sets(cells)) for cells in by_shots.values())))
            if sets:
                means = [mean_text(mean_over_sets(having(row, shots=number), sets)) for number in shots]
                rows.append((_ADAPTED[tune], _start(1, init, projection), "", *means, str(len(sets))))
    short = {(record.cell.dataset, record.cell.shots): record.short for record in ok(records) if record.short}
    counted = ", ".join(f"{count} of {name} ({shots_in_words(shots)})" for (name, shots), count in short.items())
    return Table(
        "averages",
        "Averages over data sets, in percent (ELEVATER's table 3)",
        ("Adaptation", "Start", "Zero-shot", *map(shots_in_words, shots), "Data sets"),
        tuple(rows),
        "LP trains a head on fixed features, FT the encoder, too. ± is the standard deviation over seeds of the mean "
        "over data sets. 1P: one linear layer on the backbone's features; 2P: on the projected ones."
        + (f" Classes with fewer images than shots give all that they have: {counted}." if counted else ""),
        (1,),
        figure=over_shots(plain),
    )


def over_shots(records: Sequence[Record]) -> str:
    """The mean score over images per class, a line for each way to adapt (figures 6 and 7), as SVG."""
    from gate_runner.charts.plot import Dot, lines_chart

    sets, shots = sorted(_sets(ok(records))), sorted({record.cell.shots for record in ok(records)}, key=in_order)
    lines = []
    for (tune, init, projection), cells in grouped(ok(records), "tune", "init", "projection").items():
        dots = []
        for at, number in enumerate(shots):
            # texts alone are where heads that start at them begin
            mean = mean_over_sets(having(records if number == 0 and init == "language" else cells, shots=number), sets)
            if mean is not None:
                dots.append(_dot(float(at), mean, shots_in_words(number), Dot))
        lines.append((f"{_ADAPTED[tune]} {_start(1, init, projection)}", dots))
    across = [(float(at), shots_in_words(number).removesuffix("-shot")) for at, number in enumerate(shots)]
    title = f"Mean of {len(sets)} data sets" if len(sets) > 1 else " ".join(sets)
    return lines_chart(f"{title} by images per class", lines, "images per class", "mean score", across=across)


def over_parameters(records: Sequence[Record]) -> str:
    """The mean score over trained parameters, a line for each number of images per class, as SVG."""
    from gate_runner.charts.plot import Dot, lines_chart, powers_of_ten

    adapted, sets = [record for record in ok(records) if record.cell.shots != 0], sorted(_sets(ok(records)))
    lines = []
    for (number,), cells in sorted(grouped(adapted, "shots").items(), key=lambda group: in_order(group[0][0])):
        dots = []
        for group in grouped(cells, "tune", "init", "projection").values():
            mean, trained = mean_over_sets(group, sets), _trained(group)
            if mean is not None and trained:
                dots.append(_dot(math.log10(trained), mean, f"{trained:,} parameters", Dot))
        lines.append((shots_in_words(number), sorted(dots)))
    below = "trained parameters of all data sets"
    return lines_chart("Mean score by trained parameters", lines, below, "mean score", across=powers_of_ten(lines))


def _dot(x: float, mean: Mean, where: str, form: Any) -> Any:
    gap = mean[1] or 0.0
    return form(x, mean[0], f"{where}: {mean_text(mean)}", 2.0, ends=(mean[0] - gap, mean[0] + gap) if gap else ())


def _trained(records: Iterable[Record]) -> int:
    """Parameters of all data sets together, each once."""
    return sum({record.cell.dataset: record.trained for record in records}.values())


def in_order(shots: int) -> float:
    """Numbers of shots from few to all, as a key to sort by."""
    return math.inf if shots == FULL else shots


def per_set(records: Sequence[Record]) -> Table:
    """ELEVATER's tables 12 and 13: every data set, without knowledge."""
    sets, rows, plain = _sets(records), [], having(records, knowledge="none")
    groups = grouped(ok(plain), "tune", "shots", "init", "projection")
    for key in sorted(groups, key=lambda key: (key[0] == "full", key[1] % 10**6, key[2:])):
        tune, shots, init, projection = key
        mean = mean_text(mean_over_sets(groups[key], sets)) if len(_sets(groups[key])) == len(sets) else "–"
        values = _figures(_each(groups[key], sets))
        rows.append((_adapted(shots, tune), _start(shots, init, projection), mean, *values))
    drawn = {name: curve for name in sets if (curve := over_shots(having(plain, dataset=name)))}
    curves = joined(joined([piece("headed", name), curve]) for name, curve in drawn.items())
    return Table(
        "per-data-set",
        "Each data set, in percent, means over seeds (ELEVATER's tables 12 and 13)",
        ("Adaptation", "Start", "Mean", *sets),
        tuple(rows),
        "Each data set by its own metric. The mean is left out where a data set has no value.",
        (1,),
        figure=folded("Each data set by images per class", curves) if drawn else "",
    )


def gains(records: Sequence[Record]) -> list[Table]:
    """ELEVATER's tables 16 and 17: what knowledge adds, chosen by validation, and source by source."""
    sets, spoken = _sets(records), having(records, init="language")
    columns = list(grouped(ok(having(records, knowledge="auto")), "tune", "projection", "shots"))
    columns.sort(key=lambda column: (column[0] == "full", column[1], in_order(column[2])))
    lines: dict[str, list[str]] = {
        name: [] for name in ("Knowledge-free", "Chosen by validation", "Gain", "Win / tie / loss")
    }
    for tune, projection, shots in columns:
        cells = having(spoken, tune=tune, projection=projection, shots=shots)
        free, chosen = (mean_over_sets(having(cells, knowledge=name), sets) for name in ("none", "auto"))
        lines["Knowledge-free"].append(mean_text(free))
        lines["Chosen by validation"].append(mean_text(chosen))
        lines["Gain"].append("–" if free is None or chosen is None else f"{chosen[0] - free[0]:+.2f}")
        lines["Win / tie / loss"].append(" / ".join(map(str, wins(cells, "auto"))))
    heads = tuple(
        f"{_ADAPTED[tune]} {projection.upper()} {shots_in_words(shots)}" for tune, projection, shots in columns
    )
    first = Table(
        "knowledge",
        "What knowledge adds, chosen by validation (ELEVATER's table 16)",
        ("Class texts", *heads),
        tuple((name, *cells) for name, cells in lines.items()) if columns else (),
        "Wins, ties and losses are data sets, by their means over seeds; a tie is a difference below 0.05 points.",
    )
    every = {record.cell.knowledge for record in records} - set(CONTROLS)
    sources = sorted(every, key=in_order_of_sources)
    rows = [
        (_adapted(shots, tune, projection), knowledge, mean_text(mean_over_sets(cells, sets)),
         "" if knowledge == "none" else " / ".join(map(str, wins(group, knowledge))), *_figures(_each(cells, sets)))
        for (shots, tune, projection), group in grouped(spoken, "shots", "tune", "projection").items()
        for knowledge in sources
        if ok(cells := having(group, knowledge=knowledge))
    ]  # fmt: skip
    second = Table(
        "knowledge-per-data-set",
        "Each source of knowledge on each data set, in percent, language-initialised (ELEVATER's table 17)",
        ("Adaptation", "Knowledge", "Mean", "Win / tie / loss", *sets),
        tuple(rows if len(sources) > 1 else ()),
        "Where a source knows none of a data set's classes, the texts are those without knowledge. gpt3-N is the "
        "first N of its texts, A+B both sources. Wins, ties and losses are data sets, against no knowledge."
        + _plainly_read(spoken),
        (1,),
    )
    return [first, second]


def _plainly_read(records: Sequence[Record]) -> str:
    """Name the classes that a source has nothing on, of each data set that it knows in part."""
    silent = {
        (cell.knowledge, cell.dataset): plainly_read(cell.knowledge, record.unknown, record.known + len(record.unknown))
        for record in ok(records)
        if record.known and is_real((cell := record.cell).knowledge)
    }
    return "".join(f" {dataset}: {text}." for (_, dataset), text in sorted(silent.items()) if text)


def wins(records: Sequence[Record], knowledge: str) -> tuple[int, int, int]:
    """On how many data sets knowledge is better than none, equal, and worse."""
    tally, sets = [0, 0, 0], _sets(records)
    for value, plain in zip(
        *(_each(having(records, knowledge=name), sets) for name in (knowledge, "none")), strict=True
    ):
        if value is not None and plain is not None:
            gap = value - plain
            tally[1 if abs(gap) < 0.05 else 0 if gap > 0 else 2] += 1
    return tally[0], tally[1], tally[2]


def controls(records: Sequence[Record]) -> Table:
    """Whether real knowledge beats as many random words, and what is known of other classes."""
    rows = []
    controlled = [record for record in ok(records) if record.cell.knowledge in CONTROLS]
    for shots, tune, projection in grouped(controlled, "shots", "tune", "projection"):
        for name, cells in grouped(records, "dataset").items():
            known = {record.cell.knowledge for record in cells if record.known}
            single = sorted((source for source in known if "+" not in source), key=in_order_of_sources, reverse=True)
            real = next((source for source in single if is_real(source)), None)
            if real is None:
                continue
            row = having(cells, shots=shots, tune=tune, projection=projection, init="language")
            values = [_each(having(row, knowledge=source), list(name))[0] for source in ("none", real, *CONTROLS)]
            if values[2] is None and values[3] is None:
                continue
            best = max((value for value in values[2:] if value is not None), default=math.inf)
            verdict = "–" if values[1] is None else "yes" if values[1] > best + 0.05 else "no"
            rows.append((*name, _adapted(shots, tune, projection), real, *_figures(values), verdict))
    return Table(
        "controls",
        "Does knowledge help? Scores with it, with as many random words, and with what is known of other classes, in %",
        ("Data set", "Adaptation", "Source", "None", "Real", "Random words", "Other classes", "Beats both"),
        tuple(rows),
        "The controls have as many items and words as the source named; random words are drawn from its own words.",
        (1, 2, 7),
    )


def efficiency(records: Sequence[Record]) -> Table:
    """Trained parameters against accuracy, and ELEVATER's performance-efficiency with the sign that it needs."""
    from vision_adapters.efficiency import performance_efficiency

    sets, rows = _sets(records), []
    groups = grouped(ok(having(records, knowledge="none")), "shots", "tune", "init", "projection")
    for (shots, tune, init, projection), cells in groups.items():
        mean = mean_over_sets(cells, sets)
        if mean is not None:
            trained = _trained(cells)
            pe = performance_efficiency(mean[0] / 100, trained)
            figures = (f"{trained:,}", f"{mean[0]:.2f}", f"{pe:.4f}")
            rows.append((_adapted(shots, tune), _start(shots, init, projection), *figures))
    return Table(
        "efficiency",
        "Trained parameters and performance-efficiency",
        ("Adaptation", "Start", "Trained", "Mean", "PE"),
        tuple(rows),
        "Trained parameters of all data sets together. PE = score · exp(−log10(parameters / 10⁸ + 1)): as printed, the "
        "paper's formula lacks the minus sign.",
        (1,),
        figure=over_parameters(having(records, knowledge="none")),
    )


def troubles(records: Sequence[Record]) -> Table:
    """Cells without a value, by their reason."""
    counted: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        if record.status != "ok":
            counted.setdefault((record.status, record.cell.dataset, record.reason), []).append(record)
    rows = [
        (status, name, str(len(listed)), f"{listed[0].cell.variant.name}, seed {listed[0].cell.seed}", reason)
        for (status, name, reason), listed in sorted(counted.items())
    ]
    return Table(
        "without-value",
        "Cells without a value",
        ("State", "Data set", "Cells", "For example", "Reason"),
        tuple(rows),
        "Skipped cells do not apply; failed ones are tried again by the same command.",
        (1, 3, 4),
    )
