"""The page ``docs/zero-shot-segmentation.md``: published rows and their settings; `data_pages` writes it."""

from __future__ import annotations

from gate_data.originals_by_name import ORIGINALS
from gate_runner.benchmarks import BENCHMARKS
from gate_runner.tasks.segmenting.presets import SETS
from gate_runner.tasks.segmenting.published import NAMES, presets_table, published_table
from vision_features.encoders.patch_features import VARIANTS

_START = """# Zero-shot segmentation: published figures and their settings

You can read here what a run of [zero-shot segmentation](how-to/segment-by-words.md) is compared with. This page is
written by `python website/data_pages.py` from the runner's own data.

"""
_FEATURES = """
## Patch features

| name | rest of the last block | source |
|---|---|---|
"""
_SETS = """
## The sets

| benchmark | published as | files under the data root |
|---|---|---|
"""


def segmentation_page() -> str:
    """Return published rows, presets by set, patch features and the sets' files."""
    parts = [_START, "## Published rows\n\n", _plain(published_table().as_markdown())]
    parts += ["\n## Presets\n\n", _plain(presets_table().as_markdown()), _FEATURES]
    for variant in VARIANTS.values():
        rest = "residual and MLP" if variant.whole else "none"
        parts.append(f"| `{variant.name}` | {rest} | {variant.source} |\n")
    parts.append(_SETS)
    for name in SETS:
        expected = BENCHMARKS[name].originals.expected
        assert name in ORIGINALS
        parts.append(f"| `{name}@zero-shot-segmentation` | {NAMES[name]} | {expected} |\n")
    return "".join(parts)


def _plain(table: str) -> str:
    """Return a table without its title, which is a heading here."""
    return table.partition("**\n\n")[2]
