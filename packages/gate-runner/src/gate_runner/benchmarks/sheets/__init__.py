"""The 31 data sets of GATE, as metadata: what is true of each, and which of the paper's rows can stand beside ours."""

from __future__ import annotations

from gate_runner.benchmarks.sheets import classification, few_shot, language, medical, segmentation, video
from gate_runner.benchmarks.sheets.sheet import Hub, Sheet

SHEETS: dict[str, Sheet] = {
    sheet.id: sheet
    for group in (classification, few_shot, segmentation, medical, language, video)
    for sheet in group.SHEETS
}
"""Every data set by its benchmark's id, in the paper's order of groups."""

__all__ = ["SHEETS", "Hub", "Sheet"]
