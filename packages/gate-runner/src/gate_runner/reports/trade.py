"""The page of a trade: what an encoder gained and what it lost, and the mixes of the two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gate_runner.charts.markup import document, joined, note, rendered, table
from gate_runner.charts.plot import Dot, lines_chart, shortened
from gate_runner.comparison.contrasts import Contrast, signed
from gate_runner.comparison.trade import Trade
from gate_runner.reports.page import stand_ins_banner

_HEADINGS = {"better": "Gained", "worse": "Lost", "undecided": "Undecided: the test does not tell the two apart"}
_STYLES = {"better": "gained", "worse": "lost", "gained": "gained", "lost": "lost"}


def trade_page(trade: Trade) -> str:
    """Make one page of a trade: gains by kind, by benchmark in the order of verdict and size, and over mixes."""
    contrasts = [(side.kind, contrast) for side in trade.sides for contrast in side.contrasts]
    scales = _scales([contrast for _, contrast in contrasts])
    rows = {
        verdict: [
            _row(kind, contrast, scales)
            for kind, contrast in sorted(contrasts, key=lambda pair: -abs(pair[1].gain))
            if contrast.verdict == verdict
        ]
        for verdict in _HEADINGS
    }
    most = max((abs(end) for side in trade.sides for end in (side.gain, side.low, side.high)), default=0.0)
    means = [
        {
            "name": side.kind,
            "tag": f"{len(side.contrasts)} benchmark{'s' * (len(side.contrasts) > 1)}",
            "verdict": side.verdict,
            **_gain(side.gain, side.low, side.high, most, side.verdict),
        }
        for side in trade.sides
    ]
    kinds = [side.kind for side in trade.sides]
    mixes = [[label, *(signed(gains[kind]) for kind in kinds)] for label, gains in trade.front]
    body = rendered(
        "trade.html",
        kinds=means,
        groups=[(f"{heading} ({len(rows[verdict])})", rows[verdict]) for verdict, heading in _HEADINGS.items()],
        mixes=joined([_front(trade, kinds), table(["Encoder", *kinds], mixes)] if mixes else []),
        left_out=trade.left_out,
    )
    synthetic = sum("synthetic stand-in" in contrast.note for _, contrast in contrasts)
    title = f"{trade.after} against {trade.before}"
    return document(title, trade.sentence, body, banner=stand_ins_banner(synthetic, len(contrasts)))


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


def _ends(contrast: Contrast) -> tuple[float, float]:
    """The interval of the gain, also where a smaller value is better."""
    test = contrast.test
    return (test.low, test.high) if contrast.direction == "higher" else (-test.high, -test.low)


def _scale_of(contrast: Contrast) -> str:
    """One name for all metrics between 0 and 1, so that their bars can be held against one another."""
    inside = contrast.direction == "higher" and max(contrast.test.first, contrast.test.second) <= 1
    return "" if inside else contrast.metric


def _scales(contrasts: Sequence[Contrast]) -> dict[str, float]:
    """The largest distance from no change, by scale."""
    scales: dict[str, float] = {}
    for contrast in contrasts:
        name = _scale_of(contrast)
        scales[name] = max(scales.get(name, 0.0), *(abs(end) for end in (contrast.gain, *_ends(contrast))))
    return scales


def _row(kind: str, contrast: Contrast, scales: Mapping[str, float]) -> dict[str, Any]:
    name, _, variant = contrast.name.partition("@")
    chance = "" if contrast.chance is None else f", chance {contrast.chance:.3f}"
    return {
        "name": name,
        "tags": [f"{kind}: {contrast.metric}{chance}", *([variant] if variant else [])],
        "before": f"{contrast.test.first:.3f}",
        "after": f"{contrast.test.second:.3f}",
        "p": f"{contrast.p_adjusted:.3f}" if contrast.p_adjusted >= 0.001 else "< 0.001",
        **_gain(contrast.gain, *_ends(contrast), scales[_scale_of(contrast)], contrast.verdict),
    }


def _gain(gain: float, low: float, high: float, most: float, verdict: str) -> dict[str, Any]:
    """Figures of a gain, and where its bar lies from 0 to 100 around no change at 50."""
    first, value, last = (50 + 50 * end / (most or 1.0) for end in (low, gain, high))
    style = _STYLES.get(verdict, "undecided")
    return {
        "gain": signed(gain),
        "interval": f"{signed(low)} to {signed(high)}",
        "strip": {"low": first, "width": max(last - first, 0.8), "value": value, "style": style},
    }
