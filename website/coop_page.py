"""The page ``docs/coop.md``: published few-shot rows, and the sets of CoOp's protocol; `data_pages` writes it."""

from __future__ import annotations

from gate_data.coop import COOP
from gate_runner.tasks.coop.published import SEEN, backbones, base_to_new_table, few_shot_table

_START = """# CoOp's tables: published figures and the sets

You can read here what a run of [CoOp's protocol](how-to/coop-protocol.md) is compared with. This page is written by
`python website/data_pages.py` from the runner's own data; `gate-runner ls published --json` prints the rows.

"""
_SETS = """
## The sets

Folders, split files, sizes and templates are those of CoOp's repository (`KaiyangZhou/CoOp`, `DATASETS.md` and
`trainers/zsclip.py`). The files of splits are handed out there; nothing is downloaded for you. Sizes are images to
train on, to validate on and to test. A set whose sizes differ says so in every result.

| benchmark | under the data root | classes | sizes | template | terms |
|---|---|---:|---:|---|---|
"""


def coop_page() -> str:
    """Return published rows with what they were chosen with, below the finding, and the table of sets."""
    parts = [_START, SEEN, "\n"]
    for backbone in backbones():
        table = few_shot_table(backbone=backbone)
        parts += [
            f"\n## Mean of the eleven sets, CLIP {backbone}, by images per class\n\n",
            _plain(table.as_markdown()),
        ]
    parts += ["\n## Base-to-new, 16 images per class\n\n", _plain(base_to_new_table().as_markdown()), _SETS]
    for sheet in COOP.values():
        sizes = " / ".join(f"{size:,}" if size else "–" for size in sheet.sizes)
        cells = (f"`{sheet.id}`", sheet.files, f"{sheet.classes:,}", sizes, f"`{sheet.template}`", sheet.licence)
        parts.append(f"| {' | '.join(cells)} |\n")
    return "".join(parts)


def _plain(table: str) -> str:
    """Return a table without its title, which is a heading here."""
    return table.partition("**\n\n")[2]
