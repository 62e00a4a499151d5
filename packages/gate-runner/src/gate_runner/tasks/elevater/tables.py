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
    made = [
        averages(records),
        short_classes(records),
        per_set(records),
        *gains(records),
        controls(records),
        efficiency(records),
        troubles(records),
    ]
    return [one for one in made if one.rows]


def ok(records: Iterable[Record]) -> list[Record]:
    """Those with a value."""
    return [one for one in records if one.status == "ok" and one.value is not None]


def mean_over_sets(
    records: Sequence[Record], which: Callable[[Cell], bool], sets: Sequence[str] | None = None
) -> tuple[float, float | None, int] | None:
    """Mean over data sets of some cells, in percent, and its standard deviation over seeds.

    Args:
        records: of a grid.
        which: the cells that count: at most one for each data set and seed.
        sets: data sets that must all be there; by default those of which any counts.
    """
    values: dict[int, dict[str, float]] = {}
    for one in ok(records):
        if which(one.cell):
            values.setdefault(one.cell.seed, {})[one.cell.dataset] = 100 * float(one.value or 0.0)
    every = set(sets) if sets is not None else {name for found in values.values() for name in found}
    whole = [found for _, found in sorted(values.items()) if every and every <= set(found)]
    if not whole:
        return None
    means = [fmean(found[name] for name in every) for found in whole]
    return fmean(means), (stdev(means) if len(means) > 1 else None), len(every)


def said(found: tuple[float, float | None, int] | None) -> str:
    """A mean and its deviation.

    Example:
        >>> said((65.354, 1.24, 20)), said(None)
        ('65.35 ± 1.24', '–')
    """
    if found is None:
        return "–"
    return f"{found[0]:.2f}" + ("" if found[1] is None else f" ± {found[1]:.2f}")


def _sets(records: Sequence[Record]) -> list[str]:
    return list(dict.fromkeys(one.cell.dataset for one in records))


def _shots(records: Sequence[Record]) -> list[int]:
    found = {one.cell.shots for one in records}
    return [*sorted(shots for shots in found if shots != FULL), *([FULL] if FULL in found else [])]


def _starts(records: Sequence[Record]) -> list[tuple[str, str]]:
    return [(i, p) for i in ("random", "language") for p in ("1p", "2p")
            if any(one.cell.init == i and one.cell.projection == p and one.cell.shots for one in records)]  # fmt: skip


def averages(records: Sequence[Record]) -> Table:
    """ELEVATER's table 3: means over data sets by shots, what is tuned, and how the head starts.

    Means are over the data sets that have a value in every cell of a row; deviations are over seeds.
    """
    shots = [one for one in _shots(records) if one != 0]
    rows = []
    zero = mean_over_sets(records, lambda c: c.shots == 0 and c.knowledge == "none")
    if zero is not None:
        rows.append(("Zero-shot", "", said(zero), *[""] * len(shots), str(zero[2])))
    for tune in ("frozen", "full"):
        for init, projection in _starts(records):

            def mine(c: Cell, t: str = tune, i: str = init, p: str = projection) -> bool:
                return (c.tune, c.init, c.projection, c.knowledge) == (t, i, p, "none") and c.shots != 0

            sets = _common(records, mine, shots)
            if not sets:
                continue
            cells = [mean_over_sets(records, lambda c, n=n: mine(c) and c.shots == n, sets) for n in shots]  # type: ignore[misc]
            rows.append(
                (_ADAPTED[tune], f"{init.capitalize()}-{projection.upper()}", "", *map(said, cells), str(len(sets)))
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
    counted = {(one.cell.dataset, one.cell.shots): one.short for one in ok(records) if one.short}
    return Table(
        "short-classes",
        "Classes with fewer images than shots",
        ("Data set", "Shots", "Classes"),
        tuple((name, shots_in_words(shots), str(count)) for (name, shots), count in counted.items()),
        "All of their images were taken, as ELEVATER's toolkit does; `--short-classes skip` leaves such cells out.",
    )


def _common(records: Sequence[Record], which: Callable[[Cell], bool], shots: Sequence[int]) -> list[str]:
    """Data sets with a value at every number of shots at which any has one."""
    there: dict[int, set[str]] = {}
    for one in ok(records):
        if which(one.cell):
            there.setdefault(one.cell.shots, set()).add(one.cell.dataset)
    return sorted(set.intersection(*there.values())) if there else []


def per_set(records: Sequence[Record]) -> Table:
    """ELEVATER's tables 12 and 13: every data set, without knowledge."""
    sets, rows = _sets(records), []
    combinations = dict.fromkeys(
        (one.cell.shots, one.cell.tune, one.cell.init, one.cell.projection)
        for one in records
        if one.cell.knowledge == "none"
    )
    for key in sorted(combinations, key=lambda one: (one[1] == "full", one[0] % 10**6, one[2:])):
        shots, tune, init, projection = key

        def mine(c: Cell, k: tuple[int, str, str, str] = key) -> bool:
            return (c.shots, c.tune, c.init, c.projection) == k and c.knowledge == "none"

        each = [mean_over_sets(records, lambda c, n=n: mine(c) and c.dataset == n, [n]) for n in sets]  # type: ignore[misc]
        there = [one[0] for one in each if one is not None]
        if not there:
            continue
        mean = said(mean_over_sets(records, mine, sets)) if len(there) == len(sets) else "–"
        adapted = "Zero-shot" if shots == 0 else f"{_ADAPTED[tune]} {shots_in_words(shots)}"
        start = "" if shots == 0 else f"{init.capitalize()}-{projection.upper()}"
        rows.append((adapted, start, mean, *("–" if one is None else f"{one[0]:.1f}" for one in each)))
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
    with_auto = [one for one in records if one.cell.knowledge == "auto" and one.status == "ok"]
    columns = list(dict.fromkeys((one.cell.tune, one.cell.projection, one.cell.shots) for one in with_auto))
    columns.sort(key=lambda one: (one[0] == "full", one[1], one[2] if one[2] != FULL else 10**9))
    lines: dict[str, list[str]] = {
        name: [] for name in ("Knowledge-free", "Chosen by validation", "Gain", "Win / tie / loss")
    }
    for tune, projection, shots in columns:

        def mine(c: Cell, k: tuple[str, str, int] = (tune, projection, shots)) -> bool:
            return (c.tune, c.projection, c.shots) == k and c.init == "language"

        free = mean_over_sets(records, lambda c: mine(c) and c.knowledge == "none", sets)
        chosen = mean_over_sets(records, lambda c: mine(c) and c.knowledge == "auto", sets)
        lines["Knowledge-free"].append(said(free))
        lines["Chosen by validation"].append(said(chosen))
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
    known = [one for one in ("none", *SOURCES, "auto") if any(r.cell.knowledge == one for r in records)]
    combinations = dict.fromkeys(
        (r.cell.shots, r.cell.tune, r.cell.projection) for r in records if r.cell.init == "language"
    )
    for shots, tune, projection in combinations if len(known) > 1 else ():
        for knowledge in known:

            def here(c: Cell, k: tuple[int, str, str, str] = (shots, tune, projection, knowledge)) -> bool:
                return (c.shots, c.tune, c.projection, c.knowledge) == k and c.init == "language"

            each = [mean_over_sets(records, lambda c, n=n: here(c) and c.dataset == n, [n]) for n in sets]  # type: ignore[misc]
            if not any(each):
                continue
            adapted = "Zero-shot" if shots == 0 else f"{_ADAPTED[tune]} {projection.upper()} {shots_in_words(shots)}"
            rows.append(
                (adapted, knowledge, said(mean_over_sets(records, here, sets)),
                 *("–" if one is None else f"{one[0]:.1f}" for one in each))
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


def wins(records: Sequence[Record], which: Callable[[Cell], bool], knowledge: str) -> tuple[int, int, int]:
    """On how many data sets knowledge is better than none, equal, and worse."""
    found = [0, 0, 0]
    for name in _sets(records):
        both = [
            mean_over_sets(records, lambda c, n=name, k=one: which(c) and c.dataset == n and c.knowledge == k, [name])  # type: ignore[misc]
            for one in (knowledge, "none")
        ]
        if both[0] is not None and both[1] is not None:
            gap = both[0][0] - both[1][0]
            found[1 if abs(gap) < 0.05 else 0 if gap > 0 else 2] += 1
    return found[0], found[1], found[2]


def controls(records: Sequence[Record]) -> Table:
    """Whether real knowledge beats as many random words, and what is known of other classes."""
    sets, rows = _sets(records), []
    like = {
        name: next((k for k in ("gpt3", "wiktionary", "wordnet") if _knows(records, name, k)), None) for name in sets
    }
    combinations = dict.fromkeys(
        (one.cell.shots, one.cell.tune, one.cell.projection) for one in ok(records) if one.cell.knowledge in CONTROLS
    )
    for shots, tune, projection in combinations:
        for name in sets:
            real = like[name]
            if real is None:
                continue

            def value(knowledge: str, k: tuple[int, str, str, str] = (shots, tune, projection, name)) -> float | None:
                found = mean_over_sets(
                    records,
                    lambda c: (c.shots, c.tune, c.projection, c.dataset) == k
                    and c.init == "language" and c.knowledge == knowledge,
                    [k[3]],
                )  # fmt: skip
                return None if found is None else found[0]

            values = [value(one) for one in ("none", real, *CONTROLS)]
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
    return any(one.cell.dataset == dataset and one.cell.knowledge == knowledge and one.known for one in records)


def efficiency(records: Sequence[Record]) -> Table:
    """Trained parameters against accuracy, and ELEVATER's performance-efficiency with the sign that it needs."""
    from vision_adapters.efficiency import performance_efficiency

    rows = []
    combinations = dict.fromkeys(
        (one.cell.shots, one.cell.tune, one.cell.init, one.cell.projection)
        for one in ok(records)
        if one.cell.knowledge == "none"
    )
    sets = _sets(records)
    for key in combinations:
        mine = [one for one in ok(records) if one.cell.knowledge == "none" and
                (one.cell.shots, one.cell.tune, one.cell.init, one.cell.projection) == key]  # fmt: skip
        found = mean_over_sets(mine, lambda c: True, sets)
        if found is None:
            continue
        trained = sum({one.cell.dataset: one.trained for one in mine}.values())
        shots, tune, init, projection = key
        adapted = "Zero-shot" if shots == 0 else f"{_ADAPTED[tune]} {shots_in_words(shots)}"
        start = "" if shots == 0 else f"{init.capitalize()}-{projection.upper()}"
        pe = performance_efficiency(found[0] / 100, trained)
        rows.append((adapted, start, f"{trained:,}", f"{found[0]:.2f}", f"{pe:.4f}"))
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
    for one in records:
        if one.status != "ok":
            counted.setdefault((one.status, one.cell.dataset, one.reason), []).append(one)
    rows = [
        (status, name, str(len(found)), f"{found[0].cell.variant.name}, seed {found[0].cell.seed}", reason)
        for (status, name, reason), found in sorted(counted.items())
    ]
    return Table(
        "without-value",
        "Cells without a value",
        ("State", "Data set", "Cells", "For example", "Reason"),
        tuple(rows),
        "Skipped cells do not apply; failed ones are tried again by the same command.",
        (1, 3, 4),
    )
