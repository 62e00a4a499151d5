"""Detection's tables: means over data sets by shots, and one result's classes, both beside ODinW's published scores."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean, stdev
from typing import Any, NamedTuple

from gate_data.tables import read_table
from gate_runner.charts.table import Table
from gate_runner.tasks.task import Details
from wary_files.text import number_of

_SUITES = {35: "the 35", 13: "the 13"}
_GLIP_A = {
    "overrides": "11.53", "names": "11.53", "wn_path": "12.43", "wn_def": "11.70", "wiki_def": "13.14",
    "gpt3": "11.98", "wiki_def&gpt3": "13.30",
}  # fmt: skip
"""ELEVATER's figure 8, its row of detection."""


class Scored(NamedTuple):
    """A result as a cell of the tables: its mean average precision in percent, and by what it was reached.

    ``model`` is the encoder's spec and what else tells detectors apart, ``odinw`` the set's id in ODinW.
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
    encoder: str = ""
    kind: str = ""


Row = tuple[str, str]
Mean = tuple[float, float, int]


def overview(runs: Sequence[Any]) -> list[Table]:
    """ELEVATER's table 4 of any runs, and every data set beside published scores."""
    cells = [cell for run in runs for cell in _cells(run)]
    knowledge = _by_knowledge(cells)
    return [_by_shots(cells), *([knowledge] if knowledge.rows else []), _each_set(cells)] if cells else []


def _cells(run: Any) -> Iterator[Scored]:
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
            str(training.get("odinw", "")), split, run.encoder + (" (valid)" if split == "valid" else ""),
            str((training.get("prompts") or {}).get("kind", "")),
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
        figure=_over_shots(cells) + _over_parameters(cells),
    )


def _by_knowledge(cells: Sequence[Scored]) -> Table:
    """ELEVATER's figure 8: each zero-shot detector with plain names, or captions, and with each kind of knowledge.

    A row's means are over the data sets that all its kinds have.
    """
    zero = [cell for cell in cells if cell.mode == "zero-shot" and cell.kind]
    present = {cell.kind for cell in zero}
    order = ["overrides", "names", "wn_path", "wn_def", "wiki_def", "gpt3"]
    kinds = sorted(present, key=lambda kind: (order.index(kind.partition("&")[0].partition(":")[0]), kind))
    rows = []
    for encoder in dict.fromkeys(cell.encoder for cell in zero):
        by_kind: dict[str, list[Scored]] = {}
        for cell in zero:
            if cell.encoder == encoder:
                by_kind.setdefault(cell.kind, []).append(cell)
        if not set(by_kind) - {"overrides", "names"}:
            continue
        sets = set.intersection(*({cell.dataset for cell in mine} for mine in by_kind.values()))
        shared = {kind: [cell for cell in mine if cell.dataset in sets] for kind, mine in by_kind.items()}
        means = [_said(_mean(shared.get(kind, ())), len(sets)) for kind in kinds]
        rows.append((encoder, *means, str(len(sets))))
    if rows and len({cell.odinw for cell in zero if cell.odinw}) == 35:
        values = [_GLIP_A.get(kind.removesuffix(":5"), "–") for kind in kinds]
        rows.append(("GLIP-A, published on the 35", *values, "35"))
    return Table(
        "detection-knowledge",
        "Zero-shot mAP with knowledge in prompts, in percent (ELEVATER's figure 8)",
        ("Model", *kinds, "Data sets"),
        tuple(rows),
        "overrides and names are without knowledge. Means are over the data sets that every kind of a row has.",
        (),
    )


def _over_shots(cells: Sequence[Scored]) -> str:
    """The mean over images of each class, a line for each way of tuning, as SVG."""
    from gate_runner.charts.plot import Dot, lines_chart

    shots, lines = _shots(cells), []
    for row in _rows(cells):
        means = [(float(at), _mean(_of(cells, row, number))) for at, number in enumerate(shots)]
        dots = [Dot(at, mean[0], f"{mean[0]:.1f}", 2.0) for at, mean in means if mean is not None]
        lines.append((f"{row[1]} {row[0]}", dots))
    across = [(float(at), "all" if number == "full" else number) for at, number in enumerate(shots)]
    return lines_chart("mAP by images of each class", lines, "images of each class", "mAP", across=across)


def _over_parameters(cells: Sequence[Scored]) -> str:
    """The mean over trained parameters, a line for each number of shots of a model (figure 7 d), as SVG."""
    from gate_runner.charts.plot import Dot, lines_chart, powers_of_ten

    rows, lines = _rows(cells), []
    for number, model in itertools.product(_shots(cells), dict.fromkeys(model for model, _ in rows)):
        dots = []
        for row in (row for row in rows if row[0] == model):
            mine = [cell for cell in _of(cells, row, number) if cell.trained]
            mean = _mean(mine)
            if mean is not None:
                size = fmean(cell.trained for cell in mine)
                dots.append(Dot(math.log10(size), mean[0], f"{row[1]}, {size:,.0f} parameters: {mean[0]:.1f}", 2.0))
        lines.append((f"{'all images' if number == 'full' else f'{number}-shot'} {model}", sorted(dots)))
    below = "trained parameters, mean over data sets"
    return lines_chart("mAP by trained parameters", lines, below, "mAP", across=powers_of_ten(lines))


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
        "mAP of each detection set, in percent, next to published scores",
        ("Data set", *(head for head, _ in columns)),
        (*rows, ("mean", *means)),
        "Means of published scores are computed again over the same sets. Published models read prompts of their own: "
        "the details of each result name them.",
    )


def details(training: Mapping[str, Any], encoder: str) -> Details:
    """Average precision of each class, and published scores of the same set, marked where split or prompts differ."""
    split = str(training.get("split", "test"))
    score = training.get("coco", {}).get("map")
    notes = [f"Scored on the {split} split; COCO's mean average precision, in percent."]
    absent = training.get("without_truth") or []
    if absent:
        notes.append(f"Without an object there, and counted nowhere: {', '.join(absent)}.")
    read = (training.get("prompts") or {}).get("read")
    unknown = (training.get("prompts") or {}).get("unknown")
    if unknown:
        classes = number_of(len(unknown), "class", "classes")
        notes.append(f"Without knowledge, read by their names alone: {classes}, {', '.join(unknown)}.")
    if read:
        notes.append(f"Read by the detector: {'; '.join(read)}.")
    rows = [["this run", _percent(score), split, _how(training), (training.get("prompts") or {}).get("kind", "none")]]
    for model in read_table("odinw_published")["models"]:
        value = model["map"].get(training.get("odinw"))
        if value is not None:
            note = "" if model["split"] == split else " (other)"
            rows.append([model["name"], f"{value:.1f}", model["split"] + note, model["training"], model["prompts"]])
    rows += [[f"class {name}", _percent(value), split, "", ""] for name, value in training.get("classes", {}).items()]
    return Details(notes, ("model or class", "mAP", "split", "training", "prompts"), rows, (2, 3, 4))


def _percent(value: float | None) -> str:
    return "no object" if value is None else f"{100 * value:.1f}"


def _how(training: Mapping[str, Any]) -> str:
    shots = str(training.get("shots", "full"))
    method = f"{training['head']} head" if "head" in training else "zero-shot" if shots == "0" else "tuned"
    return method if shots == "0" else f"{method}, {'all images' if shots == 'full' else f'{shots} shots'}"
