"""Images of results, each a matplotlib figure that the caller may save in any format."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np

from eevee.errors import EeveeError, MissingExtraError
from wary_files.text import printable_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from eevee.answers.leaderboard import Ranking
    from eevee.answers.nested import Nested
    from eevee.answers.pareto_front import ParetoFront

    Figure = Any

INK, ACCENT, PALE, GRID = "#22303c", "#1f6f8b", "#c9d6df", "#e8edf0"
ROW = 0.19  # inches that a label of 8 points needs
LONGEST = 34
CONTRAST = "#c8553d"


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
    """A name that fits beside an image: its beginning and its end."""
    name, half = printable_json(name), (LONGEST - 1) // 2
    return name if len(name) <= LONGEST else f"{name[:half]}…{name[-half:]}"


def render(figure: Figure, kind: str) -> bytes:
    """A figure as `png` or `svg` bytes, the same for the same figure."""
    import matplotlib.text

    if kind not in ("png", "svg"):
        raise EeveeError(f"format {kind!r}; expected png or svg")
    out = io.BytesIO()
    for text in figure.findobj(matplotlib.text.Text):
        text.set_parse_math(False)  # a name with dollar signs is no formula
        text.set_usetex(False)  # a matplotlibrc of the working folder could start LaTeX with its own preamble
    house: Any = {"svg.hashsalt": "eevee", "svg.fonttype": "path", "text.parse_math": False, "text.usetex": False}
    with matplotlib.rc_context(house):
        figure.savefig(out, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else {"Software": None})
    return out.getvalue()


def draw_bars(values: Mapping[str, float], label: str, *, digits: int = 3) -> Figure:
    """Horizontal bars, first entry on top: single predictiveness (figure 3), importance (figure 4)."""
    names, numbers = list(values), list(values.values())
    figure, axes = new_figure(7, 0.9 + max(ROW, 0.24 - 0.001 * len(names)) * len(names))
    places = np.arange(len(names))[::-1]
    axes.barh(places, numbers, color=[ACCENT if number >= 0 else CONTRAST for number in numbers], height=0.7)
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
    axes.plot(sizes, [min(errors[k]) for k in sizes], color=CONTRAST, linewidth=1, marker=".", label="lowest")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("k, number of benchmarks")
    axes.set_ylabel("error of the best candidates")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    axes.grid(axis="y", color=GRID)
    return figure


def draw_front(front: ParetoFront) -> Figure:
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
        edgecolors=CONTRAST,
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


def draw_places(board: Ranking) -> Figure:
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


def _style(axes: Any) -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(PALE)
    axes.tick_params(colors=INK, labelsize=8, length=0)
    axes.set_axisbelow(True)
    axes.xaxis.label.set_color(INK)
    axes.yaxis.label.set_color(INK)
