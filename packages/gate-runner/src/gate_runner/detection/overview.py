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
        mode: what was trained.
        shots: ``"0"``, a number or ``"full"``.
        seed: of draw and training.
        value: mean average precision in percent.
        trained: parameters that learned.
        odinw: the set's id in ODinW; empty for one of one's own.
        split: ``"test"`` or ``"valid"``.
    """

    dataset: str
    model: str
    mode: str
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

    Source:
        ELEVATER, table 4 (means by shots and tuning) and figure 8 (trained parameters against the mean).
    """
    cells = [cell for run in runs for cell in _cells(run)]
    if not cells:
        return Overview((), ())
    return Overview((_by_shots(cells), _each_set(cells)), tuple(filter(None, _figures(cells))))


def _cells(run: ScoredRun) -> Iterator[Scored]:
    for result in run.results:
        if result.status != "ok" or result.task != "detection":
            continue
        training = result.training
        shots, split, kind = str(training.get("shots", "full")), str(training.get("split", "test")), _prompts(training)
        model = run.encoder + (f", {kind}" if kind else "") + (" (valid)" if split == "valid" else "")
        mode = _mode(training, str(result.settings.get("tune", "frozen")))
        yield Scored(
            result.name.partition("@")[0], model, mode, shots, result.seed,
            100 * result.scores[0].value, int(training.get("trained_parameters", training.get("head_parameters", 0))),
            str(training.get("odinw", "")), split,
        )  # fmt: skip


def _prompts(training: Mapping[str, Any]) -> str:
    kind = str((training.get("prompts") or {}).get("kind", ""))
    return "" if kind in ("", "overrides") or not training["prompts"].get("read") else f"prompts {kind}"


def _mode(training: Mapping[str, Any], tune: str) -> str:
    if "head" in training:
        return f"{training['head']} head" + ("" if tune == "frozen" else f", {tune}")
    return "zero-shot" if tune == "frozen" or str(training.get("shots")) == "0" else tune


def _shots(cells: Sequence[Scored]) -> list[str]:
    return sorted({cell.shots for cell in cells}, key=lambda cell: math.inf if cell == "full" else int(cell))


def _rows(cells: Sequence[Scored]) -> list[Row]:
    """Modes of each model; zero-shot has a row of its own only where nothing of the model was trained."""
    rows = list(dict.fromkeys((cell.model, cell.mode) for cell in cells))
    trained = {model for model, mode in rows if mode != "zero-shot"}
    return [(model, mode) for model, mode in rows if mode != "zero-shot" or model not in trained]


def _of(cells: Sequence[Scored], row: Row, shots: str) -> list[Scored]:
    """What counts in a row: its mode, and at 0 shots the same model's zero-shot."""
    modes = (row[1], "zero-shot") if shots == "0" else (row[1],)
    return [cell for cell in cells if cell.model == row[0] and cell.mode in modes and cell.shots == shots]


def _mean(cells: Sequence[Scored]) -> Mean | None:
    """Mean over data sets, its deviation over seeds (0 for one), and how many data sets; every seed has the same."""
    seeds: dict[int, dict[str, float]] = {}
    for cell in cells:
        seeds.setdefault(cell.seed, {})[cell.dataset] = cell.value
    if not seeds:
        return None
    sets = set.intersection(*(set(datasets) for datasets in seeds.values()))
    if not sets:
        return None
    means = [fmean(datasets[name] for name in sets) for datasets in seeds.values()]
    return fmean(means), stdev(means) if len(means) > 1 else 0.0, len(sets)


def _by_shots(cells: Sequence[Scored]) -> Table:
    sets, shots, rows = {cell.dataset for cell in cells}, _shots(cells), []
    for row in _rows(cells):
        mine = [_mean(_of(cells, row, number)) for number in shots]
        trained = {cell.trained for cell in cells if (cell.model, cell.mode) == row}
        learned = f"{min(trained):,}" + (f" to {max(trained):,}" if len(trained) > 1 else "")
        rows.append((row[0], row[1], learned, *(_said(mean, len(sets)) for mean in mine)))
    numbers = {cell.odinw for cell in cells if cell.odinw}
    for count, name in _SUITES.items():
        if len(numbers) == len(sets) == count:
            for published in read_table("odinw_published")["by_shots"]:
                if published["sets"] == count:
                    values = (f"{published[number]:.1f}" if number in published else "–" for number in shots)
                    rows.append((f"{published['model']}, published on {name}", published["tune"], "–", *values))
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


def _said(mean: Mean | None, sets: int) -> str:
    if mean is None:
        return "–"
    value, gap, count = mean
    return f"{value:.1f}" + (f" ± {gap:.1f}" if gap else "") + (f" ({count} of {sets})" if count < sets else "")


def _each_set(cells: Sequence[Scored]) -> Table:
    sets = list(dict.fromkeys(cell.dataset for cell in cells))
    numbers = {cell.dataset: cell.odinw for cell in cells}
    splits = {cell.split for cell in cells}
    columns: list[tuple[str, dict[str, float]]] = []
    for row in _rows(cells):
        for number in _shots(cells):
            mine = _of(cells, row, number)
            if mine:
                named = "zero-shot" if number == "0" else f"{row[1]}, {'all' if number == 'full' else f'{number}-shot'}"
                values = {
                    name: fmean(v) for name in sets if (v := [cell.value for cell in mine if cell.dataset == name])
                }
                columns.append((f"{row[0]}: {named}", values))
    columns = list({head: (head, values) for head, values in columns}.values())
    for model in read_table("odinw_published")["models"]:
        values = {name: model["map"][numbers[name]] for name in sets if numbers[name] in model["map"]}
        if values:
            remark = "" if {model["split"]} == splits else ", other split"
            columns.append((f"{model['name']} ({model['training']}, {model['split']}{remark})", values))
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
    caption = f"mean of {len({cell.dataset for cell in cells})} data sets"
    several = len({model for model, _ in rows}) > 1
    by_shots = []
    for row in rows:
        means = [(float(at), _mean(_of(cells, row, number))) for at, number in enumerate(shots)]
        name = f"{row[1]} {row[0]}" if several else row[1]
        by_shots.append(Line(name[:40], [(at, mean[0], mean[1]) for at, mean in means if mean is not None]))
    ticks = [(float(at), "all" if number == "full" else number) for at, number in enumerate(shots)]
    yield lines_chart(f"mAP by pictures of each class: {caption}", by_shots, ticks, "pictures of each class")
    by_size = []
    models = list(dict.fromkeys(model for model, _ in rows))
    for number, model in itertools.product(shots, models):  # one model's modes of tuning: a line of trade-offs
        points: list[tuple[float, float, float]] = []
        for row in (row for row in rows if row[0] == model):
            mine = [cell for cell in _of(cells, row, number) if cell.trained]
            mean = _mean(mine)
            if mean is not None:
                points.append((math.log10(fmean(cell.trained for cell in mine)), mean[0], mean[1]))
        named = "all pictures" if number == "full" else f"{number}-shot"
        by_size.append(Line(f"{named} {model}"[:40] if several else named, sorted(points)))
    every = [at for line in by_size for at, *_ in line.points]
    if every:
        powers = range(math.floor(min(every)), math.ceil(max(every)) + 1)
        yield lines_chart(
            f"mAP by trained parameters: {caption}", by_size, [(float(at), f"10^{at}") for at in powers],
            "trained parameters, mean over data sets",
        )  # fmt: skip
