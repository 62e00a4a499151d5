"""The page of a trade: what an encoder gained and what it lost, and the mixes of the two."""

from __future__ import annotations

from gate_runner.charts.markup import document, joined, note, rendered, table
from gate_runner.charts.plot import Dot, lines_chart, shortened
from gate_runner.comparison.contrasts import signed
from gate_runner.comparison.trade import Side, Trade
from gate_runner.reports.differences import gain_of, grouped
from gate_runner.reports.page import stand_ins_banner

_HEADINGS = {"better": "Gained", "worse": "Lost", "undecided": "Undecided: the test does not tell the two apart"}


def trade_page(trade: Trade) -> str:
    """Make one page of a trade: gains by kind, by benchmark in the order of verdict and size, and over mixes."""
    contrasts = [(side.kind, contrast) for side in trade.sides for contrast in side.contrasts]
    scales: dict[str, float] = {}
    for side in trade.sides:
        ends = (abs(end) for end in (side.gain, side.low, side.high))
        scales[_unit(side)] = max(scales.get(_unit(side), 0.0), *ends)
    means = [
        {
            "name": side.kind,
            "tag": f"{len(side.contrasts)} benchmark{'s' * (len(side.contrasts) > 1)}",
            "verdict": side.verdict,
            **gain_of(side.gain, side.low, side.high, scales[_unit(side)], side.verdict),
        }
        for side in trade.sides
    ]
    kinds = [side.kind for side in trade.sides]
    mixes = [[label, *(signed(gains[kind]) for kind in kinds)] for label, gains in trade.front]
    body = rendered(
        "trade.html",
        kinds=means,
        groups=grouped(contrasts, _HEADINGS),
        mixes=joined([_front(trade), table(["Encoder", *kinds], mixes)] if mixes else []),
        left_out=trade.left_out,
    )
    synthetic = sum("synthetic stand-in" in contrast.note for _, contrast in contrasts)
    title = f"{trade.after} against {trade.before}"
    return document(title, trade.sentence, body, banner=stand_ins_banner(synthetic, len(contrasts)))


def _unit(side: Side) -> str:
    """Of its gains; "" for all scores between 0 and 1."""
    return next((f"{contrast.unit} of {contrast.name}" for contrast in side.contrasts if contrast.unit), "")


def _front(trade: Trade) -> str:
    """Gains of the mixes in each kind over those in the first one, which is recognition where that is measured.

    Kinds in units of their own have no place on its axes, and stand in the table alone.
    """
    kinds = [side.kind for side in trade.sides if not _unit(side)]
    if not kinds:
        return ""
    first, *others = sorted(kinds, key=lambda kind: kind != "recognition")
    lines = [
        (kind, [Dot(gains[first], gains[kind], f"{label}: {signed(gains[first])}, {signed(gains[kind])}",
                    text=shortened(label, 18) if kind == others[0] else "") for label, gains in trade.front])
        for kind in others
    ]  # fmt: skip
    picture = lines_chart(
        f"Gains over gains in {first}", lines, f"mean gain in {first}", "mean gain", level=("no change", 0.0)
    )
    return joined([note(f"Mean gain in each kind over that in {first}, a point for each encoder."), picture])
