"""The papers' tables from a grid's cells, each as rows of text that HTML, Markdown, CSV and LaTeX are made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean, stdev

from gate_runner.axes import CONTROLS, FULL, SOURCES, shots_in_words
from gate_runner.charts.table import Table
from gate_runner.tasks.elevater.record import Cell, Record

_ADAPTED = {"frozen": "LP", "full": "FT"}


def all_tables(records: Sequence[Record]) -> list[Table]:
    """Every table for which there are cells, in the papers' order."""
    tables = [
        averages(records),
        short_classes(records),
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


def mean_over_sets(
    records: Sequence[Record], counts: Callable[[Cell], bool], sets: Sequence[str] | None = None
) -> tuple[float, float | None, int] | None:
    """Mean over data sets of some cells, in percent, and its standard deviation over seeds.

    Args:
        records: of a grid.
        counts: the cells that count: at most one for each data set and seed.
        sets: data sets that must all be there; by default those of which any counts.
    """
    values: dict[int, dict[str, float]] = {}
    for record in ok(records):
        if counts(record.cell):
            values.setdefault(record.cell.seed, {})[record.cell.dataset] = 100 * float(record.value or 0.0)
    every = set(sets) if sets is not None else {name for by_set in values.values() for name in by_set}
    complete = [by_set for _, by_set in sorted(values.items()) if every and every <= set(by_set)]
    if not complete:
        return None
    means = [fmean(by_set[name] for name in every) for by_set in complete]
    return fmean(means), (stdev(means) if len(means) > 1 else None), len(every)


def mean_text(mean: tuple[float, float | None, int] | None) -> str:
    """A mean and its deviation.

    Example:
        >>> mean_text((65.354, 1.24, 20)), mean_text(None)
        ('65.35 ± 1.24', '–')
    """
    if mean is None:
        return "–"
    return f"{mean[0]:.2f}" + ("" if mean[1] is None else f" ± {mean[1]:.2f}")


def _cells(records: Iterable[Record]) -> list[Cell]:
    return [record.cell for record in records]


def _sets(records: Sequence[Record]) -> list[str]:
    return list(dict.fromkeys(cell.dataset for cell in _cells(records)))


def _shots(records: Sequence[Record]) -> list[int]:
    numbers = {record.cell.shots for record in records}
    return [*sorted(shots for shots in numbers if shots != FULL), *([FULL] if FULL in numbers else [])]


def _starts(records: Sequence[Record]) -> list[tuple[str, str]]:
    return [(i, p) for i in ("random", "language") for p in ("1p", "2p")
            if any((cell.init, cell.projection) == (i, p) and cell.shots for cell in _cells(records))]  # fmt: skip


def averages(records: Sequence[Record]) -> Table:
    """ELEVATER's table 3: means over data sets by shots, what is tuned, and how the head starts.

    Means are over the data sets that have a value in every cell of a row; deviations are over seeds.
    """
    shots = [number for number in _shots(records) if number != 0]
    rows = []
    zero = mean_over_sets(records, lambda c: c.shots == 0 and c.knowledge == "none")
    if zero is not None:
        rows.append(("Zero-shot", "", mean_text(zero), *[""] * len(shots), str(zero[2])))
    for tune in ("frozen", "full"):
        for init, projection in _starts(records):

            def mine(c: Cell, t: str = tune, i: str = init, p: str = projection) -> bool:
                return (c.tune, c.init, c.projection, c.knowledge) == (t, i, p, "none") and c.shots != 0

            sets = _common(records, mine, shots)
            if not sets:
                continue
            cells = [mean_over_sets(records, lambda c, n=n: mine(c) and c.shots == n, sets) for n in shots]  # type: ignore[misc]
            rows.append(
                (
                    _ADAPTED[tune],
                    f"{init.capitalize()}-{projection.upper()}",
                    "",
                    *map(mean_text, cells),
                    str(len(sets)),
                )
            )
    return Table(
        "averages",
        "Averages over data sets, in percent (ELEVATER's table 3)",
        ("Adaptation", "Start", "Zero-shot", *map(shots_in_words, shots), "Data sets"),
        tuple(rows),
        "LP trains a head on fixed features, FT the encoder, too. ± is the standard deviation over seeds of the mean "
        "over data sets. 1P: one linear layer on the backbone's features; 2P: on the projected ones.",
        (1,),
    )


def short_classes(records: Sequence[Record]) -> Table:
    """The data sets in which some classes have fewer images than shots, of which all were taken."""
    counted = {(record.cell.dataset, record.cell.shots): record.short for record in ok(records) if record.short}
    return Table(
        "short-classes",
        "Classes with fewer images than shots",
        ("Data set", "Shots", "Classes"),
        tuple((name, shots_in_words(shots), str(count)) for (name, shots), count in counted.items()),
        "All of their images were taken, as ELEVATER's toolkit does; `--short-classes skip` leaves such cells out.",
    )


def _common(records: Sequence[Record], counts: Callable[[Cell], bool], shots: Sequence[int]) -> list[str]:
    """Data sets with a value at every number of shots at which any has one."""
    sets_at: dict[int, set[str]] = {}
    for record in ok(records):
        if counts(record.cell):
            sets_at.setdefault(record.cell.shots, set()).add(record.cell.dataset)
    return sorted(set.intersection(*sets_at.values())) if sets_at else []


def per_set(records: Sequence[Record]) -> Table:
    """ELEVATER's tables 12 and 13: every data set, without knowledge."""
    sets, rows = _sets(records), []
    combinations = dict.fromkeys(
        (record.cell.shots, record.cell.tune, record.cell.init, record.cell.projection)
        for record in records
        if record.cell.knowledge == "none"
    )
    for key in sorted(combinations, key=lambda record: (record[1] == "full", record[0] % 10**6, record[2:])):
        shots, tune, init, projection = key

        def mine(c: Cell, k: tuple[int, str, str, str] = key) -> bool:
            return (c.shots, c.tune, c.init, c.projection) == k and c.knowledge == "none"

        means = [mean_over_sets(records, lambda c, n=n: mine(c) and c.dataset == n, [n]) for n in sets]  # type: ignore[misc]
        values = [record[0] for record in means if record is not None]
        if not values:
            continue
        mean = mean_text(mean_over_sets(records, mine, sets)) if len(values) == len(sets) else "–"
        adapted = "Zero-shot" if shots == 0 else f"{_ADAPTED[tune]} {shots_in_words(shots)}"
        start = "" if shots == 0 else f"{init.capitalize()}-{projection.upper()}"
        rows.append((adapted, start, mean, *("–" if record is None else f"{record[0]:.1f}" for record in means)))
    return Table(
        "per-data-set",
        "Each data set, in percent, means over seeds (ELEVATER's tables 12 and 13)",
        ("Adaptation", "Start", "Mean", *sets),
        tuple(rows),
        "Each data set by its own metric. The mean is left out where a data set has no value.",
        (1,),
    )


def gains(records: Sequence[Record]) -> list[Table]:
    """ELEVATER's tables 16 and 17: what knowledge adds, chosen by validation, and source by source."""
    sets = _sets(records)
    with_auto = [record for record in records if record.cell.knowledge == "auto" and record.status == "ok"]
    columns = list(dict.fromkeys((record.cell.tune, record.cell.projection, record.cell.shots) for record in with_auto))
    columns.sort(key=lambda record: (record[0] == "full", record[1], record[2] if record[2] != FULL else 10**9))
    lines: dict[str, list[str]] = {
        name: [] for name in ("Knowledge-free", "Chosen by validation", "Gain", "Win / tie / loss")
    }
    for tune, projection, shots in columns:

        def mine(c: Cell, k: tuple[str, str, int] = (tune, projection, shots)) -> bool:
            return (c.tune, c.projection, c.shots) == k and c.init == "language"

        free = mean_over_sets(records, lambda c: mine(c) and c.knowledge == "none", sets)
        chosen = mean_over_sets(records, lambda c: mine(c) and c.knowledge == "auto", sets)
        lines["Knowledge-free"].append(mean_text(free))
        lines["Chosen by validation"].append(mean_text(chosen))
        lines["Gain"].append("–" if free is None or chosen is None else f"{chosen[0] - free[0]:+.2f}")
        lines["Win / tie / loss"].append(" / ".join(map(str, wins(records, mine, "auto"))))
    heads = tuple(f"{_ADAPTED[t]} {p.upper()} {shots_in_words(s)}" for t, p, s in columns)
    first = Table(
        "knowledge",
        "What knowledge adds, chosen by validation (ELEVATER's table 16)",
        ("Class texts", *heads),
        tuple((name, *cells) for name, cells in lines.items()) if columns else (),
        "Wins, ties and losses are data sets, by their means over seeds; a tie is a difference below .05 points.",
    )
    rows = []
    sources = [record for record in ("none", *SOURCES, "auto") if any(r.cell.knowledge == record for r in records)]
    combinations = dict.fromkeys(
        (r.cell.shots, r.cell.tune, r.cell.projection) for r in records if r.cell.init == "language"
    )
    for shots, tune, projection in combinations if len(sources) > 1 else ():
        for knowledge in sources:

            def in_row(c: Cell, k: tuple[int, str, str, str] = (shots, tune, projection, knowledge)) -> bool:
                return (c.shots, c.tune, c.projection, c.knowledge) == k and c.init == "language"

            means = [mean_over_sets(records, lambda c, n=n: in_row(c) and c.dataset == n, [n]) for n in sets]  # type: ignore[misc]
            if not any(means):
                continue
            adapted = "Zero-shot" if shots == 0 else f"{_ADAPTED[tune]} {projection.upper()} {shots_in_words(shots)}"
            rows.append(
                (adapted, knowledge, mean_text(mean_over_sets(records, in_row, sets)),
                 *("–" if record is None else f"{record[0]:.1f}" for record in means))
            )  # fmt: skip
    second = Table(
        "knowledge-per-data-set",
        "Each source of knowledge on each data set, in percent, language-initialised (ELEVATER's table 17)",
        ("Adaptation", "Knowledge", "Mean", *sets),
        tuple(rows),
        "Where a source knows none of a data set's classes, the texts are those without knowledge.",
        (1,),
    )
    return [first, second]


def wins(records: Sequence[Record], counts: Callable[[Cell], bool], knowledge: str) -> tuple[int, int, int]:
    """On how many data sets knowledge is better than none, equal, and worse."""
    tally = [0, 0, 0]
    for name in _sets(records):
        mine = [record for record in records if record.cell.dataset == name]
        chosen, none = (
            mean_over_sets([record for record in mine if record.cell.knowledge == source], counts, [name])
            for source in (knowledge, "none")
        )
        if chosen is not None and none is not None:
            gap = chosen[0] - none[0]
            tally[1 if abs(gap) < 0.05 else 0 if gap > 0 else 2] += 1
    return tally[0], tally[1], tally[2]


def controls(records: Sequence[Record]) -> Table:
    """Whether real knowledge beats as many random words, and what is known of other classes."""
    sets, rows = _sets(records), []
    like = {
        name: next((k for k in ("gpt3", "wiktionary", "wordnet") if _knows(records, name, k)), None) for name in sets
    }
    combinations = dict.fromkeys(
        (cell.shots, cell.tune, cell.projection) for cell in _cells(ok(records)) if cell.knowledge in CONTROLS
    )
    for shots, tune, projection in combinations:
        for name in sets:
            real = like[name]
            if real is None:
                continue

            def value(knowledge: str, k: tuple[int, str, str, str] = (shots, tune, projection, name)) -> float | None:
                mean = mean_over_sets(
                    records,
                    lambda c: (c.shots, c.tune, c.projection, c.dataset) == k
                    and c.init == "language" and c.knowledge == knowledge,
                    [k[3]],
                )  # fmt: skip
                return None if mean is None else mean[0]

            values = [value(record) for record in ("none", real, *CONTROLS)]
            if values[2] is None and values[3] is None:
                continue
            best = max((v for v in values[2:] if v is not None), default=math.inf)
            verdict = "–" if values[1] is None else "yes" if values[1] > best + 0.05 else "no"
            adapted = "Zero-shot" if shots == 0 else f"{_ADAPTED[tune]} {projection.upper()} {shots_in_words(shots)}"
            rows.append((name, adapted, real, *("–" if v is None else f"{v:.1f}" for v in values), verdict))
    return Table(
        "controls",
        "Does knowledge say something? Beside as many random words, and what is known of other classes, in percent",
        ("Data set", "Adaptation", "Source", "None", "Real", "Random words", "Other classes", "Beats both"),
        tuple(rows),
        "The controls have as many items and words as the source named; random words are drawn from its own words.",
        (1, 2, 7),
    )


def _knows(records: Sequence[Record], dataset: str, knowledge: str) -> bool:
    mine = [record for record in records if (record.cell.dataset, record.cell.knowledge) == (dataset, knowledge)]
    return any(record.known for record in mine)


def efficiency(records: Sequence[Record]) -> Table:
    """Trained parameters against accuracy, and ELEVATER's performance-efficiency with the sign that it needs."""
    from vision_adapters.efficiency import performance_efficiency

    rows = []
    combinations = dict.fromkeys(
        (record.cell.shots, record.cell.tune, record.cell.init, record.cell.projection)
        for record in ok(records)
        if record.cell.knowledge == "none"
    )
    sets = _sets(records)
    for key in combinations:
        mine = [record for record in ok(records) if record.cell.knowledge == "none" and
                (record.cell.shots, record.cell.tune, record.cell.init, record.cell.projection) == key]  # fmt: skip
        mean = mean_over_sets(mine, lambda c: True, sets)
        if mean is None:
            continue
        trained = sum({record.cell.dataset: record.trained for record in mine}.values())
        shots, tune, init, projection = key
        adapted = "Zero-shot" if shots == 0 else f"{_ADAPTED[tune]} {shots_in_words(shots)}"
        start = "" if shots == 0 else f"{init.capitalize()}-{projection.upper()}"
        pe = performance_efficiency(mean[0] / 100, trained)
        rows.append((adapted, start, f"{trained:,}", f"{mean[0]:.2f}", f"{pe:.4f}"))
    return Table(
        "efficiency",
        "Trained parameters and performance-efficiency",
        ("Adaptation", "Start", "Trained", "Mean", "PE"),
        tuple(rows),
        "Trained parameters of all data sets together. PE = score · exp(−log10(parameters / 10⁸ + 1)): as printed, the "
        "paper's formula lacks the minus sign.",
        (1,),
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
