"""Which row of the paper's tables a benchmark answers to, and whether the two can stand side by side."""

from __future__ import annotations

from typing import NamedTuple

from gate_data.cards import SHEETS


class PaperRow(NamedTuple):
    """A data set of the paper's tables, as one of our benchmarks sees it."""

    benchmark: str  # its id in the tables
    comparable: bool  # whether its scores can stand beside the benchmark's
    reason: str  # why not, or what still differs


_OTHERS = {
    "chestxray14": PaperRow("chexpert", True, "the same images, five findings and official test as the paper's rows"),
    "omniglot-gate": PaperRow(
        "omniglot", False, "they split characters whatever the alphabet, here alphabets are apart"
    ),
}
_EPISODES = "ways, classes and shots are drawn as theirs are, but no image is shot and query at once"


def paper_row(benchmark: str, source: str) -> PaperRow | None:
    """The row of the paper's tables that a benchmark's results answer to."""
    if source == "file":
        return None
    if benchmark in _OTHERS:
        return _OTHERS[benchmark]
    base = benchmark.removesuffix("-gate")
    if base not in SHEETS:
        return None
    if base != benchmark:
        return PaperRow(base, True, _EPISODES)
    return PaperRow(base, SHEETS[base].comparable, SHEETS[base].reason)
