"""Official and honest numbers of prediction files, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from oven_retrieval.evaluation.files import Prediction, Reference, read_predictions, read_references
from oven_retrieval.evaluation.honest import Estimate, outcomes, scores, split_scores
from oven_retrieval.evaluation.official import official_scores, official_split

Split = tuple[list[Reference], list[Prediction]]


def read_splits(
    *, query: tuple[str | Path, str | Path] | None = None, entity: tuple[str | Path, str | Path] | None = None
) -> dict[str, Split]:
    """References and predictions of the query split, the entity split or both, for `evaluate_splits`.

    Args:
        query: (reference file, prediction file) of the query split.
        entity: likewise of the entity split.

    Raises:
        EntityFileError: file, line and field of a row that cannot be read.
        ValueError: no split is given.

    Example:
        >>> try:
        ...     read_splits()
        ... except ValueError as error:
        ...     print(error)
        query, entity: expected the files of at least one split, got none
    """
    split_files = {"query": query, "entity": entity}
    splits = {
        name: (read_references(files[0]), read_predictions(files[1]))
        for name, files in split_files.items()
        if files is not None
    }
    if not splits:
        raise ValueError("query, entity: expected the files of at least one split, got none")
    return splits


def evaluate_splits(
    splits: Mapping[str, Split], *, confidence: float = 0.95, resamples: int = 2000, seed: int = 0
) -> dict[str, Any]:
    """Score predictions of the query split, the entity split or both.

    Args:
        splits: from `read_splits`.
        confidence: of the intervals.
        resamples: of the bootstrap.
        seed: of the bootstrap.

    Returns:
        `official`: the published numbers, or `refused` with the reason where that script would fail; `honest`: every
        question counted once. All in percent; with both splits also their harmonic mean. `confidence` of the intervals.

    Raises:
        ValueError: a split without seen or unseen questions.

    Example:
        >>> from oven_retrieval.evaluation import Prediction, Reference
        >>> references = [Reference("a", "Q1", "val_seen"), Reference("b", "Q2", "val_unseen")]
        >>> answers = [Prediction("a", "Q1"), Prediction("b", "Q1")]
        >>> result = evaluate_splits({"entity": (references, answers)}, resamples=100)
        >>> result["official"]["entity"]
        {'seen': 100.0, 'unseen': 0.0}
    """
    options = {"confidence": confidence, "resamples": resamples, "seed": seed}
    marked = {name: outcomes(*split) for name, split in splits.items()}
    honest: dict[str, Any] = {
        name: asdict(split_scores(outcome, **options, label=f"{name} split"))  # type: ignore[arg-type]  # mixed types
        for name, outcome in marked.items()
    }
    official: dict[str, Any]
    try:
        official = {name: official_split(*split)._asdict() for name, split in splits.items()}
        if len(splits) == 2:
            overall = official_scores(*splits["query"], *splits["entity"])
            official |= {name: getattr(overall, name) for name in ("query_score", "entity_score", "final_score")}
    except ValueError as error:
        official = {"refused": str(error)}
    if len(splits) == 2:
        honest["final"] = scores(marked["query"], marked["entity"], **options).final  # type: ignore[arg-type]  # mixed types
    return {"official": official, "honest": honest, "confidence": confidence}


def report_lines(result: dict[str, Any]) -> list[str]:
    """The numbers of `evaluate_splits` as lines of text.

    Example:
        >>> from oven_retrieval.evaluation import SplitScores
        >>> value = Estimate(50.0, 40.0, 60.0)
        >>> split = asdict(SplitScores(value, value, value, 9, 1, 0, 0))
        >>> official = {"query": {"seen": 56.25, "unseen": 50.0}}
        >>> for line in report_lines({"official": official, "honest": {"query": split}}):
        ...     print(line)
        query   seen      50.00 [40.00, 60.00]   official 56.25
        query   unseen    50.00 [40.00, 60.00]   official 50.00
        query   harmonic  50.00 [40.00, 60.00]
        query   9 questions, 1 without an answer (which the official number skips), 0 duplicates, 0 to no question
    """
    official, lines = result["official"], []
    for name, split in result["honest"].items():
        if name == "final":
            lines.append(_line("both", "harmonic", split, official.get("final_score")))
            continue
        for kind in ("seen", "unseen"):
            lines.append(_line(name, kind, split[kind], official.get(name, {}).get(kind)))
        lines.append(_line(name, "harmonic", split["harmonic"], official.get(f"{name}_score")))
        lines.append(
            f"{name:7} {split['questions']} questions, {split['missing']} without an answer (which the official number "
            f"skips), {split['duplicates']} duplicates, {split['unknown']} to no question"
        )
    if "refused" in official:
        lines.append(f"official numbers: {official['refused']}")
    return lines


def _line(split: str, kind: str, estimate: Estimate, official: float | None) -> str:
    value, low, high = estimate
    beside = "" if official is None else f"   official {official:.2f}"
    return f"{split:7} {kind:9} {value:.2f} [{low:.2f}, {high:.2f}]{beside}"
