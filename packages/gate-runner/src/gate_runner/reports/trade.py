"""What trained encoders gained and forgot, and the mixes with their start between the two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gate_runner.charts.markup import document, joined, note, piece, rendered, table
from gate_runner.charts.plot import Dot, Line, plot
from gate_runner.comparison.contrasts import Contrast
from gate_runner.comparison.trade import Trade
from gate_runner.reports.contents import Contents
from gate_runner.reports.scores import signed
from gate_runner.runs.results import Result


def gain_and_loss(contents: Contents) -> str:
    """Zero-shot scores before and after each training, and a curve for each mix; empty where none were asked for."""
    rows, figures = [], []
    for run in contents.runs:
        for result in run.results:
            trained = f"{result.name} seed {result.seed}"
            if gained := result.training.get("gained"):
                rows.append([run.label, trained, f"{result.name} (itself)", *_change(gained)])
            for forgotten in result.training.get("zero_shot", ()):
                rows.append([run.label, trained, str(forgotten["benchmark"]), *_change(forgotten)])
            mixed = result.training.get("wise_ft")
            if mixed and all(row.get("zero_shot") for row in mixed["curve"]):
                figures.append((f"{run.label}: {trained}", "", _curve(result, mixed)))
    if not rows:
        return ""
    explained = (
        "Class prompts before a training, and after it: of the trained benchmark itself against the trained encoder "
        "with its head, of the others against their prompts again. The change is paired, with its 95 % interval."
    )
    mixes = (
        "Mixes of the weights before and after (WiSE-FT): validation on the trained benchmark over the mean "
        "zero-shot score of the others; the open point is the start, the large one the mix that was tested."
    )
    heads = ["Run", "Trained on", "Scored on", "before", "after", "change", "95 % CI"]
    drawn = [note(mixes), piece("panels", figures)] if figures else []
    return joined([note(explained), table(heads, rows, words=[0, 1, 2]), *drawn])


def _change(row: Mapping[str, Any]) -> list[str]:
    between = f"{signed(row['low'])} to {signed(row['high'])}"
    return [f"{row['before']:.3f}", f"{row['after']:.3f}", signed(row["change"]), between]


def _curve(result: Result, mixed: Mapping[str, Any]) -> str:
    """Validation over what was kept, a point per share."""
    dots = []
    for row in mixed["curve"]:
        kept_score = sum(row["zero_shot"].values()) / len(row["zero_shot"])
        share, validation = float(row["share"]), float(row["validation"])
        tested = share == float(mixed["share"])
        hint = f"share {share:g}: {validation:.3f}, others {kept_score:.3f}"
        dots.append(Dot(kept_score, validation, hint, 5.0 if tested else 3.0, tested or share != 0))
    x, y = [dot.x for dot in dots], [dot.y for dot in dots]
    return plot(
        f"{result.name}: validation over zero-shot on other benchmarks, by share of the trained weights",
        "; ".join(dot.hint for dot in dots),
        [Line("shares", [(dot.x, dot.y, 0.0) for dot in dots])],
        dots,
        across=[(value, f"{value:.2f}") for value in (min(x), max(x))],
        up=[(value, f"{value:.2f}") for value in (min(y), max(y))],
        below="zero-shot on the others",
        height=190.0,
    )


def trade_page(trade: Trade) -> str:
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
            for side in trade.sides
        ],
        words=[4],
    )
    contrasts = [(side.kind, contrast) for side in trade.sides for contrast in side.contrasts]
    by_size = sorted(contrasts, key=lambda pair: -abs(pair[1].gain))
    heads = ["Benchmark", "Kind", "before", "after", "gain", "95 % CI", "chance", "holds"]
    halves = []
    for heading, sign in (("Gained", 1), ("Lost", -1)):
        rows = [_row(kind, contrast) for kind, contrast in by_size if sign * contrast.gain > 0]
        halves.append((heading, table(heads, rows, words=[1, 7]) if rows else note("Nothing.")))
    kinds = [side.kind for side in trade.sides]
    mixes = [[label, *(signed(gains[kind]) for kind in kinds)] for label, gains in trade.front]
    body = rendered(
        "trade.html",
        means=means,
        halves=halves,
        same=", ".join(contrast.name for _, contrast in contrasts if not contrast.gain),
        mixes=table(["Encoder", *kinds], mixes) if mixes else "",
        left_out=trade.left_out,
    )
    return document(f"{trade.after} against {trade.before}", trade.sentence, body)


def _gain(gain: float, low: float, high: float) -> tuple[str, str]:
    return signed(gain), f"{signed(low)} to {signed(high)}"


def _row(kind: str, contrast: Contrast) -> list[str]:
    test = contrast.test
    ends = (test.low, test.high) if contrast.direction == "higher" else (-test.high, -test.low)
    return [
        f"{contrast.name} ({contrast.metric})",
        kind,
        f"{test.first:.3f}",
        f"{test.second:.3f}",
        *_gain(contrast.gain, *ends),
        "" if contrast.chance is None else f"{contrast.chance:.3f}",
        "" if contrast.verdict == "undecided" else contrast.verdict,
    ]
