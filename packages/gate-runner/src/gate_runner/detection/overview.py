"""Detection over data sets: means by shots and by what was tuned, trained parameters, and published scores."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from gate_data.tables import read_table
from gate_runner.charts.plot import Line, lines_chart
from gate_runner.charts.table import Table
from gate_runner.tasks.task import Overview, ScoredRun

_SUITES = {35: "the 35", 13: "the 13"}


@dataclass(frozen=True)
class Scored:
    """A result as a cell of the tables.

    Args:
        dataset: its name, without shots and split.
        model: the encoder's spec, and what else tells detectors apart.
        way: what was trained.
        shots: ``"0"``, a number or ``"full"``.
        seed: of draw and training.
        value: mean average precision in percent.
        trained: parameters that learned.
        odinw: the set's id in ODinW; empty for one of one's own.
        split: ``"test"`` or ``"valid"``.
    """

    dataset: str
    model: str
    way: str
    shots: str
    seed: int
    value: float
    trained: int
    odinw: str
    split: str


Row = tuple[str, str]
Mean = tuple[float, float, int]


def overview(runs: Sequence[ScoredRun]) -> Overview:
    """ELEVATER's table 4 and figure 8 of any runs, and every data set beside published scores.

    Args:
        runs: read from their folders; those of one encoder, say with different ``--tune``, are taken together.

    Example:
        >>> overview([]).tables
        ()

    Source:
        ELEVATER, table 4 (means by shots and tuning) and figure 8 (trained parameters against the mean).
    """
    cells = [cell for run in runs for cell in _cells(run)]
    if not cells:
        return Overview((), ())
    return Overview((_by_shots(cells), _each_set(cells)), tuple(filter(None, _figures(cells))))


def _cells(run: ScoredRun) -> Iterator[Scored]:
    for one in run.results:
        if one.status != "ok" or one.task != "detection":
            continue
        said = one.training
        shots, split, kind = str(said.get("shots", "full")), str(said.get("split", "test")), _prompts(said)
        model = run.encoder + (f", {kind}" if kind else "") + (" (valid)" if split == "valid" else "")
        yield Scored(
            one.name.partition("@")[0], model, _way(said, str(one.settings.get("tune", "frozen"))), shots, one.seed,
            100 * one.scores[0].value, int(said.get("trained_parameters", said.get("head_parameters", 0))),
            str(said.get("odinw", "")), split,
        )  # fmt: skip


def _prompts(said: Mapping[str, Any]) -> str:
    kind = str((said.get("prompts") or {}).get("kind", ""))
    return "" if kind in ("", "overrides") or not said["prompts"].get("read") else f"prompts {kind}"


def _way(said: Mapping[str, Any], tune: str) -> str:
    if "head" in said:
        return f"{said['head']} head" + ("" if tune == "frozen" else f", {tune}")
    return "zero-shot" if tune == "frozen" or str(said.get("shots")) == "0" else tune


def _shots(cells: Sequence[Scored]) -> list[str]:
    return sorted({one.shots for one in cells}, key=lambda one: math.inf if one == "full" else int(one))


def _rows(cells: Sequence[Scored]) -> list[Row]:
    """Ways of each model; zero-shot has a row of its own only where nothing of the model was trained."""
    found = list(dict.fromkeys((one.model, one.way) for one in cells))
    trained = {model for model, way in found if way != "zero-shot"}
    return [(model, way) for model, way in found if way != "zero-shot" or model not in trained]


def _of(cells: Sequence[Scored], row: Row, shots: str) -> list[Scored]:
    """What counts in a row: its way, and at 0 shots the same model's zero-shot."""
    ways = (row[1], "zero-shot") if shots == "0" else (row[1],)
    return [one for one in cells if one.model == row[0] and one.way in ways and one.shots == shots]


def _mean(cells: Sequence[Scored]) -> Mean | None:
    """Mean over data sets, its deviation over seeds (0 for one), and how many data sets; every seed has the same."""
    seeds: dict[int, dict[str, float]] = {}
    for one in cells:
        seeds.setdefault(one.seed, {})[one.dataset] = one.value
    if not seeds:
        return None
    sets = set.intersection(*(set(found) for found in seeds.values()))
    if not sets:
        return None
    means = [fmean(found[name] for name in sets) for found in seeds.values()]
    return fmean(means), stdev(means) if len(means) > 1 else 0.0, len(sets)


def _by_shots(cells: Sequence[Scored]) -> Table:
    sets, shots, rows = {one.dataset for one in cells}, _shots(cells), []
    for row in _rows(cells):
        mine = [_mean(_of(cells, row, number)) for number in shots]
        trained = {one.trained for one in cells if (one.model, one.way) == row}
        learned = f"{min(trained):,}" + (f" to {max(trained):,}" if len(trained) > 1 else "")
        rows.append((row[0], row[1], learned, *(_said(found, len(sets)) for found in mine)))
    known = {one.odinw for one in cells if one.odinw}
    for count, name in _SUITES.items():
        if len(known) == len(sets) == count:
            for said in read_table("odinw_published")["by_shots"]:
                if said["sets"] == count:
                    values = (f"{said[number]:.1f}" if number in said else "–" for number in shots)
                    rows.append((f"{said['model']}, published on {name}", said["tune"], "–", *values))
    heads = (f"{number}-shot" if number.isdecimal() else "all" for number in shots)
    return Table(
        "detection-by-shots",
        f"mAP by shots and what was tuned, in percent, mean over {len(sets)} detection sets (ELEVATER's table 4)",
        ("Model", "Tuned", "Trained parameters", *heads),
        tuple(rows),
        "± is the deviation over seeds. In brackets: the data sets of a mean that lacks some. Parameters differ where "
        "classes do.",
        (1,),
    )


def _said(found: Mean | None, sets: int) -> str:
    if found is None:
        return "–"
    value, gap, count = found
    return f"{value:.1f}" + (f" ± {gap:.1f}" if gap else "") + (f" ({count} of {sets})" if count < sets else "")


def _each_set(cells: Sequence[Scored]) -> Table:
    sets = list(dict.fromkeys(one.dataset for one in cells))
    known = {one.dataset: one.odinw for one in cells}
    splits = {one.split for one in cells}
    columns: list[tuple[str, dict[str, float]]] = []
    for row in _rows(cells):
        for number in _shots(cells):
            mine = _of(cells, row, number)
            if mine:
                named = "zero-shot" if number == "0" else f"{row[1]}, {'all' if number == 'full' else f'{number}-shot'}"
                values = {name: fmean(v) for name in sets if (v := [one.value for one in mine if one.dataset == name])}
                columns.append((f"{row[0]}: {named}", values))
    columns = list({head: (head, values) for head, values in columns}.values())
    for model in read_table("odinw_published")["models"]:
        values = {name: model["map"][known[name]] for name in sets if known[name] in model["map"]}
        if values:
            other = "" if {model["split"]} == splits else ", other split"
            columns.append((f"{model['name']} ({model['training']}, {model['split']}{other})", values))
    rows = [(name, *(f"{values[name]:.1f}" if name in values else "–" for _, values in columns)) for name in sets]
    means = (f"{fmean(values.values()):.1f}" + ("" if len(values) == len(sets) else f" ({len(values)})")
             for _, values in columns)  # fmt: skip
    return Table(
        "detection-sets",
        "mAP of each detection set, in percent, beside published scores",
        ("Data set", *(head for head, _ in columns)),
        (*rows, ("mean", *means)),
        "Means of published scores are computed again over the same sets. Published models read prompts of their own: "
        "the details of each result name them.",
    )


def _figures(cells: Sequence[Scored]) -> Iterator[str]:
    shots, rows = _shots(cells), _rows(cells)
    what = f"mean of {len({one.dataset for one in cells})} data sets"
    several = len({model for model, _ in rows}) > 1
    by_shots = []
    for row in rows:
        found = [(float(at), _mean(_of(cells, row, number))) for at, number in enumerate(shots)]
        name = f"{row[1]} {row[0]}" if several else row[1]
        by_shots.append(Line(name[:40], [(at, mean[0], mean[1]) for at, mean in found if mean is not None]))
    ticks = [(float(at), "all" if number == "full" else number) for at, number in enumerate(shots)]
    yield lines_chart(f"mAP by pictures of each class: {what}", by_shots, ticks, "pictures of each class")
    by_size = []
    models = list(dict.fromkeys(model for model, _ in rows))
    for number, model in itertools.product(shots, models):  # one model's ways of tuning: a line of trade-offs
        points: list[tuple[float, float, float]] = []
        for row in (row for row in rows if row[0] == model):
            mine = [one for one in _of(cells, row, number) if one.trained]
            mean = _mean(mine)
            if mean is not None:
                points.append((math.log10(fmean(one.trained for one in mine)), mean[0], mean[1]))
        named = "all pictures" if number == "full" else f"{number}-shot"
        by_size.append(Line(f"{named} {model}"[:40] if several else named, sorted(points)))
    every = [at for line in by_size for at, *_ in line.points]
    if every:
        powers = range(math.floor(min(every)), math.ceil(max(every)) + 1)
        yield lines_chart(
            f"mAP by trained parameters: {what}", by_size, [(float(at), f"10^{at}") for at in powers],
            "trained parameters, mean over data sets",
        )  # fmt: skip
