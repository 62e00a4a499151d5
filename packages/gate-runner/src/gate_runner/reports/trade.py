"""What trained encoders gained and forgot, and the mixes with their start between the two."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from gate_runner.charts.markup import document, note, table
from gate_runner.charts.svg import chart, element, label, points
from gate_runner.comparison.contrast import Contrast
from gate_runner.comparison.trade import Trade
from gate_runner.reports.contents import Contents
from gate_runner.runs.results import Result

_WIDTH, _HEIGHT = 260.0, 190.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 46.0, 244.0, 14.0, 150.0


def gain_and_loss(contents: Contents) -> str:
    """Zero-shot scores before and after each training, and a curve for each mix; empty where none were asked for."""
    rows, figures = [], []
    for name, result in _results(contents):
        found = [("gained", result.name, result.training.get("gained")), *_kept(result)]
        rows += [_row(name, result, what, on, said) for what, on, said in found if said]
        mixed = result.training.get("wise_ft")
        if mixed and all(row.get("zero_shot") for row in mixed["curve"]):
            caption = f"{name}: {result.name} seed {result.seed}"
            figures.append(f"<figure><figcaption>{escape(caption)}</figcaption>{_curve(result, mixed)}</figure>")
    if not rows:
        return ""
    said = (
        "Class prompts before a training, and after it: of the trained benchmark itself against the trained encoder "
        "with its head, of the others against their prompts again. The change is paired, with its 95 % interval."
    )
    names = ["Run", "Trained on", "Scored on", "before", "after", "change", "95 % CI"]
    drawn = ""
    if figures:
        drawn = note(
            "Mixes of the weights before and after (WiSE-FT): validation on the trained benchmark over the mean "
            "zero-shot score of the others; the open point is the start, the large one the mix that was tested."
        )
        drawn += f'<div class="grid">{"".join(figures)}</div>'
    return note(said) + table(names, rows, words=[0, 1, 2]) + drawn


def _results(contents: Contents) -> Iterator[tuple[str, Result]]:
    for run in contents.runs:
        for result in run.results:
            yield run.label, result


def _kept(result: Result) -> list[tuple[str, str, Mapping[str, Any]]]:
    return [("kept", str(row["benchmark"]), row) for row in result.training.get("zero_shot", ())]


def _row(name: str, result: Result, what: str, on: str, said: Mapping[str, Any]) -> list[str]:
    shown = on if what == "kept" else f"{on} (itself)"
    change = f"{said['change']:+.3f}".replace("-", "−")
    between = f"{said['low']:+.3f} to {said['high']:+.3f}".replace("-", "−")
    trained = f"{result.name} seed {result.seed}"
    return [name, trained, shown, f"{said['before']:.3f}", f"{said['after']:.3f}", change, between]


def _curve(result: Result, mixed: Mapping[str, Any]) -> str:
    """Validation over what was kept, a point per share."""
    found = [(_mean(row["zero_shot"]), float(row["validation"]), float(row["share"])) for row in mixed["curve"]]
    x, y = ([point[axis] for point in found] for axis in (0, 1))

    def place(kept: float, value: float) -> tuple[float, float]:
        wide, high = (max(x) - min(x)) or 1.0, (max(y) - min(y)) or 1.0
        return _LEFT + (_RIGHT - _LEFT) * (kept - min(x)) / wide, _BOTTOM - (_BOTTOM - _TOP) * (value - min(y)) / high

    body = [element("line", x1=_LEFT, y1=_BOTTOM, x2=_RIGHT, y2=_BOTTOM, class_="ring")]
    for value, at in ((min(y), _BOTTOM), (max(y), _TOP)):
        body.append(label(f"{value:.2f}", _LEFT - 6, at + 4, text_anchor="end", class_="axis"))
    for value, at in ((min(x), _LEFT), (max(x), _RIGHT)):
        body.append(label(f"{value:.2f}", at, _BOTTOM + 16, text_anchor="middle", class_="axis"))
    middle = (_LEFT + _RIGHT) / 2
    body.append(label("zero-shot on the others", middle, _BOTTOM + 32, text_anchor="middle", class_="axis"))
    body.append(element("polyline", points=points([place(a, b) for a, b, _ in found]), class_="line c0"))
    for kept, value, share in found:
        across, down = place(kept, value)
        tested = share == float(mixed["share"])
        hint = element("title", f"share {share:g}: {value:.3f}, others {kept:.3f}")
        inside = None if share == 0 and not tested else "fill:currentColor"
        size = 5.0 if tested else 3.0
        body.append(element("circle", hint, cx=across, cy=down, r=size, class_="line c0", style=inside))
    said = ", ".join(f"share {share:g}: {value:.3f} and {kept:.3f}" for kept, value, share in found)
    title = f"{result.name}: validation over zero-shot on other benchmarks, by share of the trained weights"
    return chart(title, said, _WIDTH, _HEIGHT, body, class_="curve")


def trade_page(found: Trade) -> str:
    """One page of a trade: what was gained on the left, what was lost on the right, and the front over mixes.

    Example:
        >>> from gate_runner.comparison import Trade
        >>> "b is not told from a" in trade_page(Trade("a", "b", (), (), "b is not told from a.", ()))
        True
    """
    means = table(
        ["Kind", "benchmarks", "mean gain", "95 % CI", "verdict"],
        [
            [side.kind, str(len(side.contrasts)), *_gain(side.gain, side.low, side.high), side.verdict]
            for side in found.sides
        ],
        words=[4],
    )
    contrasts = [(side.kind, one) for side in found.sides for one in side.contrasts]
    halves = []
    for heading, better in (("Gained", True), ("Lost", False)):
        mine = sorted((pair for pair in contrasts if (pair[1].gain > 0) is better and pair[1].gain), key=_by_size)
        rows = [_gained(kind, one) for kind, one in mine]
        heads = ["Benchmark", "Kind", "before", "after", "gain", "95 % CI", "chance", "holds"]
        shown = table(heads, rows, words=[1, 7]) if rows else note("Nothing.")
        halves.append(f"<section><h2>{heading}</h2>{shown}</section>")
    same = [one.name for _, one in contrasts if not one.gain]
    parts = [means, f'<div class="grid">{"".join(halves)}</div>']
    if same:
        parts.append(note(f"No change at all: {', '.join(same)}."))
    if found.front:
        kinds = [side.kind for side in found.sides]
        rows = [[label, *(f"{gains[kind]:+.3f}".replace("-", "−") for kind in kinds)] for label, gains in found.front]
        parts.append("<h2>Mixes between the two</h2>" + table(["Encoder", *kinds], rows))
    parts += [note(f"Not compared: {name}, {reason} in {run}.") for run, name, reason in found.left_out]
    parts.append(
        note(
            "Differences are paired by item, with bootstrap intervals; a benchmark's holds by a paired permutation "
            "test after Holm's correction over all of them. A mean's interval takes benchmarks as independent. Chance "
            "is what answers without the picture score; it is the same for both."
        )
    )
    return document(f"{found.after} against {found.before}", found.sentence, "".join(parts))


def _by_size(pair: tuple[str, Contrast]) -> float:
    return -abs(pair[1].gain)


def _gain(gain: float, low: float, high: float) -> tuple[str, str]:
    return f"{gain:+.3f}".replace("-", "−"), f"{low:+.3f} to {high:+.3f}".replace("-", "−")


def _gained(kind: str, one: Contrast) -> list[str]:
    ends = (one.test.low, one.test.high) if one.direction == "higher" else (-one.test.high, -one.test.low)
    chance = "" if one.chance is None else f"{one.chance:.3f}"
    holds = "" if one.verdict == "undecided" else one.verdict
    name = f"{one.name} ({one.metric})"
    return [name, kind, f"{one.test.first:.3f}", f"{one.test.second:.3f}", *_gain(one.gain, *ends), chance, holds]


def _mean(values: Mapping[str, float]) -> float:
    return sum(values.values()) / len(values)
