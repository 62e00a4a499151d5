"""A compositional suite's table in a report: every average and subset with what a blind model gets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gate_runner.tasks.task import Details

_HEADS = ("", "measure", "questions", "score", "95 %", "chance", "best blind line", "better than blind", "published",
          "ties", "authors' ties")  # fmt: skip

_READING = (
    "A blind line never looks at a picture: a score that is not better than it says nothing about seeing. A tie is "
    "wrong; the last column has the score with ties as the authors count them, where that differs."
)


def tables(training: Mapping[str, Any], spec: str) -> Details:
    """The table of one result."""
    suite = training["suite"]
    notes = [
        *suite["notes"],
        _READING,
    ]
    return Details(notes, _HEADS, [_row(line, spec) for line in suite["lines"]], words=(1, 6, 7, 8))


def _row(line: Mapping[str, Any], spec: str) -> tuple[str, ...]:
    unit, places = (1, 2) if line["measure"] == "mean rank" else (100, 1)

    def number(value: float | None) -> str:
        return "" if value is None else f"{unit * value:.{places}f}"

    blind = max(line["blind"].items(), key=lambda line_score: line_score[1]["value"], default=None)
    better = line["better_than_blind"]
    gain = ""
    if better is not None:
        gain = f"{100 * better['value']:+.1f} ({100 * better['low']:+.1f}, {100 * better['high']:+.1f})"
        gain = f"{gain}, p {better['p']:.3f}".replace("-", "−")
    published = published_of(line["published"], spec)
    return (
        line["name"],
        line["measure"],
        f"{line['questions']:,}" if line["questions"] else "average",
        number(line["value"]),
        f"{number(line['low'])}–{number(line['high'])}",
        number(line["chance"]),
        "" if blind is None else f"{100 * blind[1]['value']:.1f} {blind[0]}",
        gain,
        "" if published is None else f"{100 * published[1]:.1f} {published[0]}",
        str(line["ties"]) if line["questions"] else "",
        number(line["authors_ties"]),
    )


def published_of(published: Mapping[str, float], spec: str) -> tuple[str, float] | None:
    """The score of the same model where one is published, or OpenAI's ViT-B/32, or any.

    Example:
        >>> published_of({"ViT-B-32/openai": 0.6, "ViT-L-14/openai": 0.7}, "open_clip:ViT-L-14/openai")
        ('ViT-L-14/openai', 0.7)
    """
    fitting = [entry for entry in published.items() if spec.endswith(entry[0])]
    usual = [entry for entry in published.items() if entry[0] == "ViT-B-32/openai"]
    return next(iter(fitting or usual or published.items()), None)
