"""Pictures of results, each a matplotlib figure that the caller may save in any format."""

from __future__ import annotations

import io
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from eevee.errors import EeveeError, MissingExtraError, plain
from eevee.tables.standard import overall_scores, standardise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from eevee.answers.front import Front
    from eevee.answers.leaderboard import Board
    from eevee.answers.nested import CurvePoint, Nested
    from eevee.answers.predicting import ModelPrediction
    from eevee.tables.table import ResultTable

    Figure = Any

INK, ACCENT, PALE, GRID = "#22303c", "#1f6f8b", "#c9d6df", "#e8edf0"
ROW = 0.19  # inches that a label of 8 points needs
LONGEST = 34
LINES = ("#1f6f8b", "#c8553d", "#588157", "#7d5ba6", "#b08900", "#3d405b", "#d1809b", "#5c7f92")


def new_figure(width: float, height: float) -> tuple[Figure, Any]:
    """A figure and its axes in the house style, without matplotlib's global state."""
    try:
        from matplotlib.figure import Figure as Made
    except ModuleNotFoundError:
        raise MissingExtraError("matplotlib", "plot") from None
    figure = Made(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    _style(axes)
    return figure, axes


def shortened(name: str) -> str:
    """A name that fits beside a picture: its beginning and its end."""
    name, half = plain(name), (LONGEST - 1) // 2
    return name if len(name) <= LONGEST else f"{name[:half]}…{name[-half:]}"


def render(figure: Figure, kind: str) -> bytes:
    """A figure as `png` or `svg` bytes, the same for the same figure."""
    import matplotlib.text

    if kind not in ("png", "svg"):
        raise EeveeError(f"format {kind!r}; expected png or svg")
    out = io.BytesIO()
    for text in figure.findobj(matplotlib.text.Text):
        text.set_parse_math(False)  # a name with dollar signs is no formula
    with matplotlib.rc_context({"svg.hashsalt": "eevee", "svg.fonttype": "path", "text.parse_math": False}):
        figure.savefig(out, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else {"Software": None})
    return out.getvalue()


def draw_bars(values: Mapping[str, float], label: str, *, digits: int = 3) -> Figure:
    """Horizontal bars, first entry on top: single predictiveness (figure 3), importance (figure 4)."""
    names, numbers = list(values), list(values.values())
    figure, axes = new_figure(7, 0.9 + max(ROW, 0.24 - 0.001 * len(names)) * len(names))
    places = np.arange(len(names))[::-1]
    axes.barh(places, numbers, color=[ACCENT if number >= 0 else LINES[1] for number in numbers], height=0.7)
    axes.set_yticks(places, [shortened(name) for name in names])
    axes.set_ylim(-0.7, len(names) - 0.3)
    span = max(map(abs, numbers)) or 1.0
    for y, number in zip(places, numbers, strict=True):
        axes.text(max(number, 0) + 0.01 * span, y, f"{number:.{digits}f}", va="center", fontsize=8, color=INK)
    axes.set_xlim(min(0, *numbers) * 1.05, max(0, *numbers) + 0.12 * span)
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_xlabel(label)
    axes.grid(axis="x", color=GRID)
    return figure


def draw_error_against_k(errors: Mapping[int, Sequence[float]]) -> Figure:
    """Boxes of the best candidates' errors at each size (figure 5)."""
    figure, axes = new_figure(7, 3.6)
    sizes = sorted(errors)
    parts = axes.boxplot(
        [list(errors[k]) for k in sizes],
        positions=sizes,
        widths=0.6,
        showfliers=False,
        patch_artist=True,
        manage_ticks=False,
    )
    for box in parts["boxes"]:
        box.set(facecolor=PALE, edgecolor=ACCENT)
    for name in ("medians", "whiskers", "caps"):
        for line in parts[name]:
            line.set_color(ACCENT)
    axes.plot(sizes, [min(errors[k]) for k in sizes], color=LINES[1], linewidth=1, marker=".", label="lowest")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("k, number of benchmarks")
    axes.set_ylabel("error of the best candidates")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    axes.grid(axis="y", color=GRID)
    return figure


def draw_front(front: Front) -> Figure:
    """The Pareto front of error against cost."""
    figure, axes = new_figure(7, 3.6)
    costs = [point.cost for point in front.points]
    errors = [point.error for point in front.points]
    axes.step(costs, errors, where="post", color=PALE, linewidth=2)
    axes.errorbar(
        costs, errors, [point.stderr for point in front.points], fmt="o", color=ACCENT, markersize=5, capsize=2
    )
    axes.set_xlabel(front.unit)
    axes.set_ylabel("error ± standard error")
    axes.set_ylim(bottom=0)
    axes.grid(color=GRID)
    return figure


def draw_nested(nested: Nested) -> Figure:
    """For each held-out model the selected subset's error beside the mean random subset's."""
    rows = sorted(nested.per_model.items(), key=lambda item: item[1][1])
    figure, axes = new_figure(7, 1.3 + ROW * len(rows))
    for y, (_, (ours, chance)) in enumerate(rows):
        axes.plot([ours, chance], [y, y], color=PALE, linewidth=2, zorder=1)
    axes.scatter([pair[0] for _, pair in rows], range(len(rows)), color=ACCENT, s=24, label="selected", zorder=2)
    axes.scatter(
        [pair[1] for _, pair in rows],
        range(len(rows)),
        facecolors="white",
        edgecolors=LINES[1],
        s=24,
        label="random",
        zorder=2,
    )
    axes.set_yticks(range(len(rows)), [shortened(model) for model, _ in rows], fontsize=8)
    axes.set_ylim(-0.8, len(rows) - 0.2)
    axes.set_xlabel("error on unmeasured cells of the model when it was held out")
    axes.set_xlim(left=0)
    figure.legend(*axes.get_legend_handles_labels(), frameon=False, loc="outside upper center", ncols=2, fontsize=8)
    axes.grid(axis="x", color=GRID)
    return figure


def draw_places(board: Board) -> Figure:
    """The ranks that each model may have, and its rank by score."""
    figure, axes = new_figure(7, 1.2 + ROW * len(board.places))
    for rank, place in enumerate(board.places, start=1):
        axes.plot([place.first, place.last], [rank, rank], color=PALE, linewidth=3, zorder=1)
        axes.plot(rank, rank, "o", color=ACCENT, markersize=5, zorder=2)
    axes.set_yticks(range(1, len(board.places) + 1), [shortened(place.model) for place in board.places], fontsize=8)
    axes.set_ylim(len(board.places) + 0.8, 0.2)
    axes.set_xlim(0.5, len(board.places) + 0.5)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("rank: by score (dot), and from the best to the worst that the results allow")
    axes.grid(axis="x", color=GRID)
    return figure


def draw_learning(curve: Sequence[CurvePoint]) -> Figure:
    """Reported and held-out error against the number of models."""
    figure, axes = new_figure(7, 3.4)
    models = [point.models for point in curve]
    axes.plot(models, [point.outer for point in curve], marker="o", color=LINES[1], label="held out")
    axes.plot(models, [point.inner for point in curve], marker="o", color=ACCENT, label="reported by the search")
    axes.set_xlabel("models to learn from")
    axes.set_ylabel("error")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    axes.grid(color=GRID)
    return figure


def draw_ranking(table: ResultTable, benchmarks: Sequence[str], *, like: str | None = None) -> Figure:
    """Heatmap of each model's rank on the metrics of a subset (figures 9 to 11)."""
    data = standardise(table)
    columns = data.metric_columns(table.positions(benchmarks))
    oriented = table.oriented()[:, columns]
    ranks = stats.rankdata(-oriented, axis=0, nan_policy="omit")
    reference = _reference(table, like or table.benchmark_ids[table.positions(benchmarks)[0]])
    order = np.argsort([-_alike(reference, oriented[:, j]) for j in range(len(columns))], kind="stable")
    rows = np.argsort(np.nanmean(ranks, axis=1), kind="stable")
    picture = ranks[np.ix_(rows, order)]
    figure, axes = new_figure(3.4 + max(0.36, 2.4 / len(columns)) * len(columns), 2.2 + ROW * len(rows))
    image = axes.imshow(picture, aspect="auto", cmap="viridis_r", vmin=1, vmax=len(rows))
    small = len(columns) <= 32
    if small:
        for (i, j), rank in np.ndenumerate(picture):
            if not np.isnan(rank):
                axes.text(
                    j,
                    i,
                    f"{rank:g}",
                    ha="center",
                    va="center",
                    fontsize=6,
                    color="white" if rank > len(rows) / 2 else INK,
                )
    names = [shortened(table.metric_ids[columns[j]]) for j in order]
    axes.set_xticks(range(len(columns)), names, rotation=60, ha="right", rotation_mode="anchor", fontsize=8)
    axes.set_yticks(range(len(rows)), [shortened(table.models[i]) for i in rows], fontsize=8)
    figure.colorbar(
        image, ax=axes, label="rank, 1 the best", shrink=min(0.7, 5 / (2.2 + ROW * len(rows))), anchor=(0, 1)
    )
    return figure


def task_profile(table: ResultTable) -> tuple[list[str], np.ndarray]:
    """Tasks, and for each model its mean score on each: 0 the worst model's, 100 the best one's.

    Means are of standardised metrics, oriented so that higher is better. Benchmarks without a task are their own.
    """
    data = standardise(table)
    scores = np.where(data.mask & data.varies, data.values * data.signs, np.nan)
    task_of = [benchmark.task or benchmark.id for benchmark in table.benchmarks]
    tasks = list(dict.fromkeys(task_of))
    profile = np.full((len(table.models), len(tasks)), np.nan)
    for position, task in enumerate(tasks):
        columns = data.metric_columns([i for i, name in enumerate(task_of) if name == task])
        part = scores[:, columns]
        measured = ~np.isnan(part).all(axis=1)
        profile[measured, position] = np.nanmean(part[measured], axis=1)
    low, high = np.nanmin(profile, axis=0), np.nanmax(profile, axis=0)
    return tasks, (profile - low) / np.where(high > low, high - low, 1.0) * 100


def draw_radar(table: ResultTable, models: Sequence[str]) -> Figure:
    """Radar of some models' scores on each task (figures 12 to 15); see `task_profile` for the scale."""
    for model in models:
        if model not in table.models:
            raise EeveeError(f"unknown model {model!r}; the table has: {', '.join(table.models)}")
    tasks, profile = task_profile(table)
    if not models or len(tasks) < 3:
        raise EeveeError(f"{len(models)} models and {len(tasks)} tasks; a radar needs at least 1 and 3")
    figure, axes = new_figure(6.4, 5.2)
    axes.remove()
    axes = figure.add_subplot(projection="polar")
    angles = np.linspace(0, 2 * np.pi, len(tasks), endpoint=False)
    closed = np.append(angles, angles[0])
    for number, model in enumerate(models):
        row = profile[table.models.index(model)]
        style = ("-", "--", ":")[number // len(LINES) % 3]
        axes.plot(
            closed, np.append(row, row[0]), style, color=LINES[number % len(LINES)], linewidth=1.4, label=plain(model)
        )
    axes.set_xticks(angles, [""] * len(tasks))
    for angle, task in zip(angles, tasks, strict=True):
        side = "center" if abs(np.cos(angle)) < 0.2 else "left" if np.cos(angle) > 0 else "right"
        axes.text(angle, 108, plain(task), ha=side, va="center", fontsize=8, color=INK)
    axes.set_ylim(0, 100)
    axes.set_yticks([25, 50, 75, 100], ["25", "50", "75", "100"], fontsize=7, color="#6b7780")
    axes.grid(color=GRID)
    axes.spines["polar"].set_color(PALE)
    figure.legend(*axes.get_legend_handles_labels(), frameon=False, loc="outside lower center", ncols=4, fontsize=8)
    return figure


def draw_prediction(table: ResultTable, row: ModelPrediction) -> Figure:
    """A new model's given and predicted metrics, in standard deviations of the table's models, with intervals."""
    data = standardise(table)
    position = {key: j for j, key in enumerate(table.metric_ids)}
    keys = sorted(row.cells, key=lambda key: (not row.cells[key].given, key))
    figure, axes = new_figure(7, 1.2 + ROW * len(keys))
    cells = [row.cells[key] for key in table.metric_ids]
    ends = (
        data.encode(np.array([[c.value for c in cells], [c.low for c in cells], [c.high for c in cells]])) * data.signs
    )
    for y, key in enumerate(reversed(keys)):
        cell = row.cells[key]
        middle, low, high = ends[:, position[key]]
        colour = LINES[1] if cell.given else ACCENT
        axes.plot([low, high], [y, y], color=PALE, linewidth=3, zorder=1)
        axes.plot(middle, y, "s" if cell.given else "o", color=colour, markersize=5, zorder=2)
    axes.plot([], [], "s", color=LINES[1], label="given")
    axes.plot([], [], "o", color=ACCENT, label="predicted, with its interval")
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_yticks(range(len(keys)), [shortened(key) for key in reversed(keys)], fontsize=8)
    axes.set_ylim(-0.8, len(keys) - 0.2)
    axes.set_xlabel("standard deviations from the mean model, better to the right")
    figure.legend(*axes.get_legend_handles_labels(), frameon=False, loc="outside upper center", ncols=2, fontsize=8)
    axes.grid(axis="x", color=GRID)
    return figure


def leading_models(table: ResultTable, count: int = 4) -> list[str]:
    """The best models by all metrics and the worst one, for a first radar."""
    order = np.argsort(-overall_scores(table), kind="stable")
    chosen = [*order[:count], order[-1]]
    return [table.models[int(i)] for i in dict.fromkeys(int(i) for i in chosen)]


def _reference(table: ResultTable, like: str) -> np.ndarray:
    if like in table.metric_ids:
        return np.asarray(table.oriented()[:, table.metric_ids.index(like)])
    if like in table.benchmark_ids:
        return np.asarray(table.oriented()[:, table.columns[like][0]])
    raise EeveeError(f"unknown metric or benchmark {like!r} to sort by")


def _alike(a: np.ndarray, b: np.ndarray) -> float:
    """Spearman's correlation over what both have."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a constant column
        correlation = float(stats.spearmanr(a, b, nan_policy="omit").statistic)
    return correlation if np.isfinite(correlation) else -1.0


def _style(axes: Any) -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(PALE)
    axes.tick_params(colors=INK, labelsize=8, length=0)
    axes.set_axisbelow(True)
    axes.xaxis.label.set_color(INK)
    axes.yaxis.label.set_color(INK)
