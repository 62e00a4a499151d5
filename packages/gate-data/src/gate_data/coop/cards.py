"""What is known of CoOp's data sets: where their files lie, their published sizes, one template each; without torch."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import Any


@dataclass(frozen=True)
class CoopSheet:
    """A data set of CoOp's protocol.

    Args:
        id: the benchmark's.
        title: the name in tables.
        folders: what the folder of its files may be called under the data root.
        split: the file of its splits, or empty if the data set has lists of its own.
        images: the folder that the split's paths start from, inside its folder.
        files: what has to be under the data root, in words.
        classes: the published number of classes.
        sizes: the published numbers of images to train on, to validate on and to test.
        template: the prompt of a class, in which ``{}`` stands for its name.
        licence: of the data.
        citation: of the data.
        site: where to get it.

    Example:
        >>> COOP["coop-dtd"].sizes, COOP["coop-dtd"].template
        ((2820, 1128, 1692), '{} texture.')
    """

    id: str
    title: str
    folders: tuple[str, ...]
    split: str
    images: str
    files: str
    classes: int
    sizes: tuple[int, int, int]
    template: str
    licence: str
    citation: str
    site: str

    def differs(self, sizes: tuple[int, int, int], classes: int) -> str:
        """Return in words how sizes differ from the published ones; empty if they do not."""
        remarks = []
        if sizes != self.sizes:
            ours, published = (" / ".join(f"{size:,}" for size in counts) for counts in (sizes, self.sizes))
            remarks.append(f"{ours} images to train on, validate on and test; published {published}")
        if classes != self.classes:
            remarks.append(f"{classes:,} classes; published {self.classes:,}")
        return "; ".join(remarks)


def _read() -> dict[str, CoopSheet]:
    content = tomllib.loads((files("gate_data.coop") / "sets.toml").read_text(encoding="utf-8"))
    return {name: _sheet(name, row) for name, row in content.items()}


def _sheet(name: str, row: dict[str, Any]) -> CoopSheet:
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}
    return CoopSheet(id=name, **values)


COOP: dict[str, CoopSheet] = _read()
"""The sheets by id: the eleven of the few-shot table first, then ImageNet's four shifted test sets."""
DOMAINS = ("coop-imagenet-v2", "coop-imagenet-sketch", "coop-imagenet-a", "coop-imagenet-r")
"""Test sets alone, for heads that are trained on ImageNet."""
ELEVEN = tuple(name for name in COOP if name not in DOMAINS)
"""The data sets of the few-shot table."""
