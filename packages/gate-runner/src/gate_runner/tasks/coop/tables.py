"""Tables over a run's units of CoOp's protocol, beside published rows; without torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import fmean, stdev
from typing import Any, NamedTuple

from gate_data.coop.cards import COOP, DOMAINS, ELEVEN
from gate_data.coop.lists import SYNTHETIC
from gate_data.coop.protocols import SOURCE
from gate_runner.charts.table import Table
from gate_runner.tasks.coop.points import METHODS, Point
from gate_runner.tasks.coop.published import SEEN, SHOTS, backbone_of, base_to_new_table, few_shot_table


class Unit(NamedTuple):
    """A finished unit: its set, point and seed, its metrics in percent, what chose, and what a row says of its run."""

    encoder: str
    name: str
    point: Point
    seed: int
    values: dict[str, float]
    chosen_with: str
    source: str = "this run"


def units_of(label: str, results: Iterable[Any]) -> list[Unit]:
    """Return the finished units among results."""
    listed = []
    for result in results:
        if result.task == "coop" and result.status == "ok":
            name, _, point = result.benchmark.partition("@")
            values = {score.metric: 100 * score.value for score in result.scores}
            chosen = str(result.training.get("chosen_with", "not known"))
            limit = result.settings.get("limit")
            of_run = ["this run"] + ([f"limit {limit}"] if limit is not None else [])
            views = int(result.training.get("views", 1))
            of_run += [f"{views} views"] if views > 1 else []
            of_run += ["synthetic stand-ins"] if SYNTHETIC in result.note else []
            listed.append(Unit(label, name, Point.parse(point), result.seed, values, chosen, ", ".join(of_run)))
    return listed


def overview(runs: Sequence[Any]) -> list[Table]:
    """Return a table for each protocol that any of the runs has."""
    units = [unit for run in runs for unit in units_of(run.label, run.results)]
    shown = tables(units, [run.encoder for run in runs])
    return [replace(table, note=f"{SEEN} {table.note}") if at == 0 else table for at, table in enumerate(shown)]


def tables(units: Sequence[Unit], encoders: Sequence[str] = ()) -> list[Table]:
    """Return a table for each protocol of some units, beside published rows of their encoders' backbone if it is known.

    Example:
        >>> tables([])
        []
    """
    named = {backbone_of(encoder) for encoder in encoders}
    backbone = next(iter(named)) if len(named) == 1 else ""
    by_protocol = {unit.point.protocol: [other for other in units if other.point.protocol == unit.point.protocol]
                   for unit in units}  # fmt: skip
    shown = []
    for protocol, listed in by_protocol.items():
        if protocol == "few-shot":
            shown += [few_shot_table(_few_shot(listed), backbone), *_each_set(listed)]
        elif protocol == "base-to-new":
            shown += [base_to_new_table(_base_to_new(listed), backbone), *_halves(listed)]
        else:
            shown.append(_by_tested(listed, protocol))
    return shown


def _grouped(units: Sequence[Unit]) -> dict[tuple[str, str], list[Unit]]:
    """Return units by encoder and method, methods in their order."""
    keys = dict.fromkeys((unit.encoder, unit.point.method) for unit in units)
    order = sorted(keys, key=lambda key: METHODS.index(key[1]))
    return {key: [unit for unit in units if (unit.encoder, unit.point.method) == key] for key in order}


def _mean(units: Sequence[Unit], metric: str, sets: Sequence[str]) -> tuple[float, float | None] | None:
    """Return the mean over sets and its deviation over the seeds with which all of them finished, or None."""
    by_seed: dict[int, dict[str, float]] = {}
    for unit in units:
        by_seed.setdefault(unit.seed, {})[unit.name] = unit.values[metric]
    means = [fmean(values[name] for name in sets) for values in by_seed.values() if set(sets) <= set(values)]
    return (fmean(means), stdev(means) if len(means) > 1 else None) if means else None


def _text(mean: tuple[float, float | None] | None) -> str:
    if mean is None:
        return "–"
    return f"{mean[0]:.2f}" + ("" if mean[1] is None else f" ± {mean[1]:.2f}")


def _sets(units: Sequence[Unit]) -> list[str]:
    present = {unit.name for unit in units}
    return [name for name in COOP if name in present]


def _labelled(method: str, sets: Sequence[str], every: Sequence[str]) -> str:
    """Return a method's name, with the number of sets where these are not all."""
    return method if len(sets) == len(every) else f"{method} ({len(sets)} of {len(every)} sets)"


def _chosen(units: Sequence[Unit]) -> str:
    return "; ".join(dict.fromkeys(unit.chosen_with for unit in units))


def _source(units: Sequence[Unit]) -> str:
    return "; ".join(dict.fromkeys(unit.source for unit in units))


def _few_shot(units: Sequence[Unit]) -> list[list[str]]:
    sets, rows = _sets(units), []
    for (encoder, method), mine in _grouped(units).items():
        cells = [_mean([unit for unit in mine if unit.point.shots == shots], "acc@1", sets) for shots in SHOTS]
        texts = ["" if cell is None else _text(cell) for cell in cells]
        rows.append([_labelled(method, sets, ELEVEN), encoder, *texts, _chosen(mine), _source(mine)])
    return rows


def _each_set(units: Sequence[Unit]) -> list[Table]:
    """Return each set's accuracy by method and shots, the mean over seeds."""
    sets, rows = _sets(units), []
    for (encoder, method), mine in _grouped(units).items():
        for shots in sorted({unit.point.shots for unit in mine}):
            here = [unit for unit in mine if unit.point.shots == shots]
            texts = [_text(_mean([unit for unit in here if unit.name == name], "acc@1", [name])) for name in sets]
            rows.append((method, encoder, str(shots), *texts))
    heads = ("Method", "Encoder", "Images per class", *(COOP[name].title for name in sets))
    title = "CoOp's few-shot table, each set: accuracy in percent, mean over seeds"
    return [Table("coop-each-set", title, heads, tuple(rows), "± is the standard deviation over seeds.", (1,))]


def _harmonic(base: float, new: float) -> float:
    return 2 * base * new / (base + new) if base + new else 0.0


def _base_to_new(units: Sequence[Unit]) -> list[list[str]]:
    """Return base, new and both harmonic means; each set has the mean over its seeds."""
    rows = []
    for (encoder, method), mine in _grouped(units).items():
        for shots in sorted({unit.point.shots for unit in mine}):
            here = [unit for unit in mine if unit.point.shots == shots]
            sets = _sets(here)
            base, new = (
                [fmean(unit.values[half] for unit in here if unit.name == name) for name in sets]
                for half in ("base", "new")
            )
            means = fmean(base), fmean(new)
            both = _harmonic(*means), fmean(map(_harmonic, base, new))
            named = f"{method}, {shots} images" if shots else method
            texts = [f"{value:.2f}" for value in (*means, *both)]
            rows.append([_labelled(named, sets, ELEVEN), encoder, *texts, _chosen(here), _source(here)])
    return rows


def _halves(units: Sequence[Unit]) -> list[Table]:
    """Return each set's base, new and harmonic accuracy by method, means over seeds."""
    rows = []
    for (encoder, method), mine in _grouped(units).items():
        for name in _sets(mine):
            for shots in sorted({unit.point.shots for unit in mine}):
                here = [unit for unit in mine if unit.name == name and unit.point.shots == shots]
                if here:
                    base, new = (fmean(unit.values[half] for unit in here) for half in ("base", "new"))
                    figures = [f"{value:.2f}" for value in (base, new, _harmonic(base, new))]
                    rows.append((method, encoder, COOP[name].title, str(shots), *figures))
    heads = ("Method", "Encoder", "Set", "Images per class", "Base", "New", "Harmonic")
    title = "CoOp's base-to-new table, each set: accuracy in percent, mean over seeds"
    note = "A method that knows its own classes alone scores new classes by their texts: new is then zero-shot's."
    return [Table("coop-halves", title, heads, tuple(rows), note, (1, 2))]


def _by_tested(units: Sequence[Unit], protocol: str) -> Table:
    """Return accuracy on ImageNet, on every tested set, and the mean over the tested ones."""
    every = [name for name in (ELEVEN if protocol == "cross" else DOMAINS) if name != SOURCE]
    sets = [name for name in _sets(units) if name != SOURCE]
    rows = []
    for (encoder, method), mine in _grouped(units).items():
        for shots in sorted({unit.point.shots for unit in mine}):
            here = [unit for unit in mine if unit.point.shots == shots]
            texts = [
                _text(_mean([unit for unit in here if unit.name == name], "acc@1", [name])) for name in (SOURCE, *sets)
            ]
            mean = _text(_mean([unit for unit in here if unit.name != SOURCE], "acc@1", sets)) if sets else "–"
            rows.append((_labelled(method, sets, every), encoder, str(shots), *texts, mean, _chosen(here)))
    titles = [COOP[name].title for name in sets]
    what = "ten other sets" if protocol == "cross" else "ImageNet's shifted test sets"
    return Table(
        f"coop-{protocol}",
        f"CoOp's protocol {protocol}: trained on ImageNet, tested on {what}, accuracy in percent",
        (
            "Method",
            "Encoder",
            "Images per class",
            "ImageNet",
            *titles,
            "Mean",
            "Chosen with",
        ),
        tuple(rows),
        "The mean leaves ImageNet out. ± is the standard deviation over seeds.",
        (1, len(sets) + 5),
    )
