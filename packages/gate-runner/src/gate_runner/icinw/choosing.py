"""Which knowledge to use, chosen on validation among cells that differ in nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from shutil import copyfile

from gate_runner.errors import DataError
from gate_runner.icinw.cells import Cell
from gate_runner.icinw.record import Record, cell_file, predictions_file, save


def choose(folder: Path, cell: Cell, candidates: Sequence[str]) -> Record:
    """Fill a cell of knowledge ``auto``: the numbers of the cell whose knowledge validates best.

    Args:
        folder: the run folder, in which the candidates' cells lie.
        cell: with knowledge ``auto``.
        candidates: kinds of knowledge, ``none`` first: the first among equals wins, so that knowledge must be better.

    Returns:
        The record that was written. Without labels nothing can be chosen, so that zero-shot cells are skipped; where
        a method validates nothing (one image per class), texts without knowledge are kept.

    Source:
        ELEVATER's supplement, section H: train with each source, compare the validation accuracy, test the best.
    """
    if cell.shots == 0:
        return save(folder, Record(cell, "skipped", "zero-shot has no labels to choose knowledge by"))
    found: dict[str, Record] = {}
    for name in candidates:
        try:
            record = Record.from_file(cell_file(folder, cell._replace(knowledge=name)))
        except DataError:
            continue
        if record.status == "ok":
            found[name] = record
    if not found:
        return save(folder, Record(cell, "skipped", "none of its candidates has a value"))
    if "none" not in found:
        return save(folder, Record(cell, "skipped", "the cell without knowledge has no value"))
    validated = {name: one.validation for name, one in found.items() if one.validation is not None}
    best = max(validated, key=lambda name: validated[name] or 0.0) if "none" in validated else "none"
    chosen = {"knowledge": best, **({} if validated else {"reason": "nothing could be validated"})}
    path = predictions_file(folder, cell._replace(knowledge=best))
    if path.exists():
        target = predictions_file(folder, cell)
        target.parent.mkdir(parents=True, exist_ok=True)
        copyfile(path, target)
    return save(folder, replace(found[best].moved(cell), chosen=chosen))
