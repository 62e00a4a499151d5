"""Published accuracies of CoOp's protocol, with their sources and what they were chosen with; without torch."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from gate_runner.charts.table import Table
from gate_runner.errors import unknown

SHOTS = (0, 1, 2, 4, 8, 16)
"""Numbers of images of each class in the published table; 0 is class texts alone."""
SEEN = (
    "CLIP has seen images like those of most of the eleven sets: after it is made to forget them, thirteen few-shot "
    "methods lose 55 % on average (Kravets et al., Rethinking Few Shot CLIP Benchmarks, ICCV 2025). These figures say "
    "little about sets that an encoder has not seen."
)
"""What is to be read above these tables."""
_CHOSEN = (
    "Chosen with: the labels, besides the shots, by which hyper-parameters were chosen; not known if nobody here read "
    "the authors' code."
)
_VIEWS = (
    "A run has one view of each training image unless its row says otherwise; Tip-Adapter, APE and GDA have ten "
    "augmented views."
)
_HARMONIC = (
    "Papers print two harmonic means: of the mean accuracies on base and new classes, or the mean over sets of each "
    "set's own. A published row has the one that it prints."
)


@cache
def published() -> dict[str, list[dict[str, Any]]]:
    """Return the published rows by protocol: ``few-shot`` and ``base-to-new``.

    Example:
        >>> published()["few-shot"][1]["method"], published()["few-shot"][1]["shots"]["16"]
        ('CoOp', 73.45)
    """
    return tomllib.loads((files("gate_runner.tasks.coop") / "published.toml").read_text(encoding="utf-8"))


def backbones() -> tuple[str, ...]:
    """Return the encoders of the published rows.

    Example:
        >>> backbones()
        ('RN50', 'ViT-B/16')
    """
    return tuple(dict.fromkeys(row["backbone"] for row in published()["few-shot"]))


def few_shot_table(own: Sequence[Sequence[str]] = (), backbone: str = "", title: str = "") -> Table:
    """Return the mean over the eleven sets by images per class: a run's own rows first, then the published ones.

    Args:
        own: rows of a run: method, encoder, a text for each of `SHOTS`, the labels it was chosen with, its source.
        backbone: of the published rows; all of them by default.
        title: of the table.
    """
    rows = [tuple(row) for row in own]
    for row in _of(backbone, "few-shot"):
        values = [f"{row['shots'][str(shots)]:.2f}" if str(shots) in row["shots"] else "" for shots in SHOTS]
        rows.append((row["method"], f"CLIP {row['backbone']}", *values, row["chosen_with"], row["source"]))
    return Table(
        "coop-few-shot",
        title or "CoOp's few-shot table: mean accuracy over the eleven sets in percent, by images per class",
        ("Method", "Encoder", *(str(shots) for shots in SHOTS), "Chosen with", "Source"),
        tuple(tuple(row) for row in rows),
        f"{_CHOSEN} {_VIEWS} 0 images are class texts alone.",
        (1, 8, 9),
    )


def base_to_new_table(own: Sequence[Sequence[str]] = (), backbone: str = "") -> Table:
    """Return base-to-new accuracies over the eleven sets with both harmonic means, a run's own rows first.

    Args:
        own: rows of a run: method, encoder, base, new, both harmonic means, the labels it was chosen with, source.
        backbone: of the published rows; all of them by default.
    """
    rows = [tuple(row) for row in own]
    for row in _of(backbone, "base-to-new"):
        harmonic = f"{row['harmonic']:.2f}"
        means = (harmonic, "") if row["harmonic_is"] == "of means" else ("", harmonic)
        base, new = (f"{row[name]:.2f}" for name in ("base", "new"))
        encoder = f"CLIP {row['backbone']}"
        rows.append((row["method"], encoder, base, new, *means, row["chosen_with"], row["source"]))
    return Table(
        "coop-base-to-new",
        "CoOp's base-to-new table: mean accuracy over the eleven sets in percent",
        ("Method", "Encoder", "Base", "New", "Harmonic of means", "Mean of harmonics", "Chosen with", "Source"),
        tuple(tuple(row) for row in rows),
        f"{_HARMONIC} {_CHOSEN}",
        (1, 6, 7),
    )


def _of(backbone: str, protocol: str) -> list[dict[str, Any]]:
    if backbone and backbone not in backbones():
        raise unknown("backbone", backbone, backbones())
    return [row for row in published()[protocol] if not backbone or row["backbone"] == backbone]


def backbone_of(encoder: str) -> str:
    """Return the published backbone that an encoder's spec names, or nothing.

    Example:
        >>> backbone_of("open_clip:ViT-B-16/openai"), backbone_of("micro-clip")
        ('ViT-B/16', '')
    """
    plain = encoder.lower().replace("-", "").replace("/", "").replace("_", "")
    return next((name for name in backbones() if name.lower().replace("-", "").replace("/", "") in plain), "")
