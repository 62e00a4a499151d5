"""The 31 data sets of GATE, as metadata: what is true of each, and which of the paper's rows can stand beside ours."""

from __future__ import annotations

from gate_data.cards import classification, few_shot, language, medical, segmentation, video
from gate_data.cards.icinw import ICINW, IcinwSheet
from gate_data.cards.sheet import Hub, Sheet

SHEETS: dict[str, Sheet] = {
    sheet.id: sheet
    for group in (classification, few_shot, segmentation, medical, language, video)
    for sheet in group.SHEETS
}
"""Every data set by its benchmark's id, in the paper's order of groups."""

__all__ = ["ICINW", "SHEETS", "Hub", "IcinwSheet", "Sheet", "is_known"]


def is_known(name: str) -> bool:
    """Whether a data set has that id.

    Example:
        >>> is_known("cifar100"), is_known("my-cifar100")
        (True, False)
    """
    return name in SHEETS or name in ICINW
