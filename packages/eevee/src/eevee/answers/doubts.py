"""What a reader of a selection must know, in plain words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eevee.tables.holdout import families_note

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eevee.answers.nested import CurvePoint, Nested
    from eevee.searching.evolution import Found
    from eevee.tables.table import ResultTable

FEW_MODELS = 50
LOUD = 0.2


def selection_warnings(
    table: ResultTable, result: Found, rival: Found, honest: Nested | None, curve: Sequence[CurvePoint]
) -> list[str]:
    """Warnings about a selection: too few models, a better rival, an optimistic, unstable or chance-like result."""
    lines = []
    groups = len(set(table.groups))
    if honest is not None and not honest.better_than_random:
        lines.append(
            f"no better than random: on held-out models the subset's error is {honest.unmeasured:.3f} and that of "
            f"random subsets {honest.unmeasured_random:.3f}, a difference within chance"
        )
    if honest is not None and honest.loud.share > LOUD:
        cell = honest.loud
        lines.append(
            f"one cell makes {cell.share:.0%} of the held-out error: {cell.metric} of {cell.model} ({cell.value:g}); "
            f"check it, or limit what outliers do with scaling winsor or rank"
        )
    if honest is not None and honest.holdout == "family" and (note := families_note(table)):
        lines.append(note)
    if groups < FEW_MODELS:
        lines.append(
            f"{groups} models (or groups of near-twins) are few: the error of a subset on a new model is "
            f"uncertain, and another pool of models would choose other benchmarks"
        )
    if rival.error < result.error * (1 - 1e-9):
        lines.append(f"{rival.error:.4f}, the other searcher's error, is lower than {result.error:.4f}")
    if honest is not None:
        if honest.optimism > 0.1:
            lines.append(
                f"the reported error is optimistic: held-out models have an error {honest.optimism:.0%} higher"
            )
        if honest.overlap < 0.7:
            lines.append(f"the chosen set is unstable: two folds share {honest.overlap:.0%} of their members")
    if len(curve) >= 2 and curve[-1].outer < 0.95 * curve[-2].outer:
        lines.append(
            f"more models would help: the held-out error still fell from {curve[-2].outer:.3f} with {curve[-2].models} "
            f"models to {curve[-1].outer:.3f} with {curve[-1].models}"
        )
    return lines
