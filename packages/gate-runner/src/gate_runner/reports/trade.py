"""The page of a trade: what an encoder gained and what it lost, and the mixes of the two."""

from __future__ import annotations

from collections.abc import Sequence

from gate_runner.charts.markup import document, joined, note, rendered, table
from gate_runner.charts.plot import Dot, lines_chart, shortened
from gate_runner.comparison.contrasts import Contrast, signed
from gate_runner.comparison.trade import Trade


def trade_page(trade: Trade) -> str:
    """One page of a trade: what was gained on the left, what was lost on the right, and the front over mixes."""
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
    drawn = [_front(trade, kinds), table(["Encoder", *kinds], mixes)] if mixes else []
    body = rendered(
        "trade.html",
        means=means,
        halves=halves,
        same=", ".join(contrast.name for _, contrast in contrasts if not contrast.gain),
        mixes=joined(drawn),
        left_out=trade.left_out,
    )
    return document(f"{trade.after} against {trade.before}", trade.sentence, body)


def _front(trade: Trade, kinds: Sequence[str]) -> str:
    """Gains of the mixes in each kind over those in the first one, which is recognition where that is measured."""
    first, *others = sorted(kinds, key=lambda kind: kind != "recognition")
    lines = [
        (kind, [Dot(gains[first], gains[kind], f"{label}: {signed(gains[first])}, {signed(gains[kind])}",
                    text=shortened(label, 18) if kind == others[0] else "") for label, gains in trade.front])
        for kind in others
    ]  # fmt: skip
    picture = lines_chart(f"Gains over gains in {first}", lines, f"mean gain in {first}", level=("no change", 0.0))
    return joined([note(f"Mean gain in each kind over that in {first}, a point for each encoder."), picture])


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
