"""OVEN's published numbers, bit for bit, and honest ones beside them: every question counts once, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from oven_retrieval.evaluation.files import Prediction, Reference, read_predictions, read_references
from oven_retrieval.evaluation.intervals import (
    CONFIDENCE,
    Correct,
    Estimate,
    accuracy,
    accuracy_draws,
    quantiles,
)

if TYPE_CHECKING:
    from jaxtyping import Float64

_ZERO = 1e-12
_DRAWS = 2000
Split = tuple[list[Reference], list[Prediction]]


def harmonic_mean(*values: float) -> float:
    """Harmonic mean; a zero counts as 1e-12.

    HM = n / (1/a_1 + … + 1/a_n)

    Raises:
        ValueError: no value, or one below 0; shows them.

    Example:
        >>> round(harmonic_mean(12.6, 10.1), 1), harmonic_mean(0.0, 50.0) < 1e-11
        (11.2, True)

    Source: OVEN equation 1; the 1e-12 is the official evaluation's.
    """
    if not values or any(value < 0 for value in values):
        raise ValueError(f"values: expected numbers of at least 0, got {values}")
    return len(values) / sum(1.0 / (value if value != 0 else _ZERO) for value in values)


class OfficialSplit(NamedTuple):
    """Accuracies of one of the two splits in percent, rounded to 2 decimals."""

    seen: float
    unseen: float


def official_split(references: Sequence[Reference], predictions: Sequence[Prediction]) -> OfficialSplit:
    """Seen and unseen accuracy as the official evaluation counts them.

    It goes through the predictions: a question without one is not counted, one with two is counted twice. Where
    several `data_split`s are seen (or unseen), the one whose first prediction comes last counts.

    Source: the evaluation script that OVEN's authors released.
    """
    by_id = {reference.data_id: reference for reference in references}
    hits: dict[str, list[int]] = {}
    for prediction in predictions:
        reference = by_id.get(prediction.data_id)
        if reference is None:
            raise ValueError(f"data_id: {prediction.data_id!r} is predicted and not among the references")
        hits.setdefault(reference.data_split, []).append(int(reference.entity_id == prediction.entity_id))
    accuracy: dict[str, float] = {}
    for split, marks in hits.items():
        percent = round(sum(marks) / len(marks) * 100, 2)
        if "_seen" in split:
            accuracy["seen"] = percent
        elif "_unseen" in split:
            accuracy["unseen"] = percent
    missing = [kind for kind in ("seen", "unseen") if kind not in accuracy]
    if missing:
        raise ValueError(f"predictions: expected some for {' and '.join(missing)} questions, got none")
    return OfficialSplit(accuracy["seen"], accuracy["unseen"])


def official_means(query: OfficialSplit, entity: OfficialSplit) -> dict[str, float]:
    """The published harmonic means: of each split, and of both.

    Accuracies are rounded to 2 decimals before the harmonic means are taken, these are not before theirs, and all are
    at the end.
    """
    query_score, entity_score = harmonic_mean(*query), harmonic_mean(*entity)
    final = harmonic_mean(query_score, entity_score)
    return {
        "query_score": round(query_score, 2),
        "entity_score": round(entity_score, 2),
        "final_score": round(final, 2),
    }


@dataclass(frozen=True, slots=True)
class SplitScores:
    """Scores of one split in percent.

    And how the answers were: `questions` in all, `missing` answers, `duplicates`, `unknown` answers to no question;
    `entities` that they are about, `images` that they show (0 where no image is named).
    """

    seen: Estimate
    unseen: Estimate
    harmonic: Estimate
    questions: int
    missing: int
    duplicates: int
    unknown: int
    entities: int
    images: int


@dataclass(frozen=True, slots=True, eq=False)  # arrays have no single truth
class Outcomes:
    """Which questions were answered right, and the counts of `SplitScores`.

    `references` in the order of `correct`; `answers` the different entities that each question was answered with,
    none where there was no answer; `scores` the greatest score of each question's answers, NaN where there is none.
    """

    references: tuple[Reference, ...]
    correct: Correct
    missing: int
    duplicates: int
    unknown: int
    answers: tuple[tuple[str, ...], ...]
    scores: Float64[np.ndarray, " q"]


def outcomes(references: Sequence[Reference], predictions: Sequence[Prediction]) -> Outcomes:
    """Mark every question once.

    A question without an answer is wrong. A question with several is right only if all of them are: nobody gains by
    answering twice.

    Raises:
        ValueError: a data_id that occurs twice among the references.

    Example:
        >>> references = [Reference(str(i), f"Q{i}", "val_seen") for i in range(4)]
        >>> answers = [Prediction("0", "Q0"), Prediction("1", "Q1"), Prediction("1", "Q7"), Prediction("9", "Q9")]
        >>> marked = outcomes(references, answers)
        >>> marked.correct.tolist(), marked.missing, marked.duplicates, marked.unknown
        ([True, False, False, False], 2, 1, 1)
    """
    by_id: dict[str, Reference] = {}
    for reference in references:
        if reference.data_id in by_id:
            raise ValueError(f"data_id: {reference.data_id!r} occurs twice among the references")
        by_id[reference.data_id] = reference
    answers: dict[str, dict[str, None]] = {}
    best_scores: dict[str, float] = {}
    unknown = duplicates = 0
    for prediction in predictions:
        if prediction.data_id not in by_id:
            unknown += 1
            continue
        entity_ids = answers.setdefault(prediction.data_id, {})
        duplicates += bool(entity_ids)
        entity_ids[prediction.entity_id] = None
        if prediction.score is not None:
            best_scores[prediction.data_id] = max(
                prediction.score, best_scores.get(prediction.data_id, prediction.score)
            )
    ordered = tuple(by_id.values())
    correct = np.array(
        [{reference.entity_id} == set(answers.get(reference.data_id, ())) for reference in ordered], dtype=np.bool_
    )
    return Outcomes(
        ordered,
        correct,
        len(ordered) - len(answers),
        duplicates,
        unknown,
        tuple(tuple(answers.get(reference.data_id, ())) for reference in ordered),
        np.array([best_scores.get(reference.data_id, np.nan) for reference in ordered], dtype=np.float64),
    )


def split_scores(marked: Outcomes, label: str = "references", *, seed: int = 0) -> SplitScores:
    """Return seen, unseen and harmonic mean of one split, unrounded, with 95 % intervals.

    Accuracies have Wilson's interval, harmonic means one by 2,000 draws. Questions of one entity, or about one image,
    do not count as independent: of both ways to group them, the one that leaves the wider interval counts
    (`effective_size`).

    Args:
        marked: from `outcomes`.
        label: what the questions are called in an error.
        seed: of the draws.

    Raises:
        ValueError: no seen or no unseen question.

    Example:
        >>> references = [Reference("a", "Q1", "val_seen"), Reference("b", "Q2", "val_unseen")]
        >>> result = split_scores(outcomes(references, [Prediction("a", "Q1")]))
        >>> result.seen.value, result.unseen.value, result.missing
        (100.0, 0.0, 1)
    """
    return _split(marked, label, np.random.default_rng(seed))[0]


def _split(marked: Outcomes, label: str, rng: np.random.Generator) -> tuple[SplitScores, npt.NDArray[np.float64]]:
    """The scores of a split, and draws of its harmonic mean."""
    is_seen = np.array(["_seen" in reference.data_split for reference in marked.references], dtype=np.bool_)
    entities, images = ([getattr(r, field) for r in marked.references] for field in ("entity_id", "image_id"))
    estimates, draws = [], []
    for kind, chosen in (("seen", np.flatnonzero(is_seen)), ("unseen", np.flatnonzero(~is_seen))):
        if not len(chosen):
            raise ValueError(f"{label}: expected questions of {kind} entities, got none")
        clusters = [[labels[i] for i in chosen.tolist()] for labels in (entities, images)]
        estimates.append(accuracy(marked.correct[chosen], *clusters))
        draws.append(accuracy_draws(marked.correct[chosen], rng, _DRAWS, *clusters))
    harmonic = len(draws) / np.sum([1 / np.maximum(values, _ZERO) for values in draws], axis=0)
    mean = quantiles(harmonic_mean(*(estimate.value for estimate in estimates)), harmonic)
    counts = (len(marked.correct), marked.missing, marked.duplicates, marked.unknown)
    groups = (len(set(entities)), len({*images} - {""}))
    return SplitScores(estimates[0], estimates[1], mean, *counts, *groups), harmonic


def final_score(query: Outcomes, entity: Outcomes) -> Estimate:
    """Return the harmonic mean between both splits' harmonic means, which are drawn as independent.

    Errors as in `split_scores`.
    """
    rng = np.random.default_rng(0)
    query_scores, query_draws = _split(query, "query split", rng)
    entity_scores, entity_draws = _split(entity, "entity split", rng)
    value = harmonic_mean(query_scores.harmonic.value, entity_scores.harmonic.value)
    return quantiles(value, 2 / (1 / query_draws + 1 / entity_draws))


def read_splits(
    *,
    query: tuple[str | Path, str | Path] | None = None,
    entity: tuple[str | Path, str | Path] | None = None,
    human: tuple[str | Path, str | Path] | None = None,
) -> dict[str, Split]:
    """(Reference file, prediction file) of the query, the entity and the human split, read for `evaluate_splits`.

    Example:
        >>> import tempfile
        >>> reference, answers = Path(tempfile.mkdtemp()) / "val.jsonl", Path(tempfile.mkdtemp()) / "answers.jsonl"
        >>> _ = reference.write_text('{"data_id": "a", "entity_id": "Q1", "data_split": "val_seen"}', encoding="utf-8")
        >>> _ = answers.write_text('{"data_id": "a", "pred_entity_id": "Q1"}', encoding="utf-8")
        >>> read_splits(entity=(reference, answers))["entity"][1]
        [Prediction(data_id='a', entity_id='Q1', score=None)]
    """
    split_files = {"query": query, "entity": entity, "human": human}
    splits = {
        name: (read_references(files[0]), read_predictions(files[1]))
        for name, files in split_files.items()
        if files is not None
    }
    if not splits:
        raise ValueError("query, entity, human: expected the files of at least one split, got none")
    return splits


def evaluate_splits(splits: Mapping[str, Split]) -> dict[str, Any]:
    """Score predictions of the query split, the entity split, the human set, or several of them.

    Args:
        splits: from `read_splits`.

    Returns:
        `official`: the published numbers, or `refused` with the reason where that script would fail; `honest`: every
        question counted once. All in percent; with the query and the entity split also their harmonic mean; the human
        set (the paper's table 2) stands alone. `confidence` of the intervals.

    Raises:
        ValueError: a split without seen or unseen questions.

    Example:
        >>> references = [Reference("a", "Q1", "val_seen"), Reference("b", "Q2", "val_unseen")]
        >>> answers = [Prediction("a", "Q1"), Prediction("b", "Q1")]
        >>> result = evaluate_splits({"entity": (references, answers)})
        >>> result["official"]["entity"]
        {'seen': 100.0, 'unseen': 0.0}
    """
    marked = {name: outcomes(*split) for name, split in splits.items()}
    honest: dict[str, Any] = {name: asdict(split_scores(outcome, f"{name} split")) for name, outcome in marked.items()}
    official: dict[str, Any]
    try:
        published = {name: official_split(*split) for name, split in splits.items()}
        official = {name: scores._asdict() for name, scores in published.items()}
        if {"query", "entity"} <= published.keys():
            official |= official_means(published["query"], published["entity"])
        if "human" in published:
            official["human_score"] = round(harmonic_mean(*published["human"]), 2)
    except ValueError as error:
        official = {"refused": str(error)}
    if {"query", "entity"} <= marked.keys():
        honest["final"] = final_score(marked["query"], marked["entity"])
    return {"official": official, "honest": honest, "confidence": CONFIDENCE}


def report_lines(result: dict[str, Any]) -> list[str]:
    """The numbers of `evaluate_splits` as lines of text.

    Example:
        >>> references = [Reference("a", "Q1", "val_seen"), Reference("b", "Q2", "val_unseen")]
        >>> split = references, [Prediction("a", "Q1"), Prediction("b", "Q2")]
        >>> for line in report_lines(evaluate_splits({"query": split})):
        ...     print(line)
        query   seen      100.00 [20.65, 100.00]   official 100.00
        query   unseen    100.00 [20.65, 100.00]   official 100.00
        query   harmonic  100.00 [15.97, 100.00]
        query   2 questions of 2 entities, 0 without an answer (skipped by the official number), 0 duplicates, 0 unknown
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
            f"{name:7} {split['questions']} questions of {split['entities']} entities"
            + (f" and {split['images']} images" if split["images"] else "")
            + f", {split['missing']} without an answer (skipped by the official number), "
            f"{split['duplicates']} duplicates, {split['unknown']} unknown"
        )
    if "refused" in official:
        lines.append(f"official numbers: {official['refused']}")
    return lines


def _line(split: str, kind: str, estimate: Estimate, official: float | None) -> str:
    value, low, high = estimate
    beside = "" if official is None else f"   official {official:.2f}"
    return f"{split:7} {kind:9} {value:.2f} [{low:.2f}, {high:.2f}]{beside}"


def model_table(results: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The paper's tables 1 and 2: one line a model, with seen, unseen and harmonic mean of each split, and their mean.

    Args:
        results: name of a model -> what `evaluate_splits` gives, all for the same splits.

    Raises:
        ValueError: models with other splits than the first.

    Example:
        >>> references = [Reference("a", "Q1", "val_seen"), Reference("b", "Q2", "val_unseen")]
        >>> right = evaluate_splits({"human": (references, [Prediction("a", "Q1"), Prediction("b", "Q2")])})
        >>> wrong = evaluate_splits({"human": (references, [Prediction("a", "Q1"), Prediction("b", "Q1")])})
        >>> for line in model_table({"CLIP": wrong, "PaLI": right}):
        ...     print(line)
        model   human seen  human unseen     human HM
        CLIP         100.0          0.0          0.0
        PaLI         100.0        100.0        100.0
    """
    first = next(iter(results.values()))["honest"]
    for name, result in results.items():
        if result["honest"].keys() != first.keys():
            raise ValueError(f"{name}: expected the splits {', '.join(first)}, got {', '.join(result['honest'])}")
    heads, columns = [], []
    for split in first:
        if split == "final":
            heads.append("overall HM")
            columns.append([result["honest"]["final"][0] for result in results.values()])
            continue
        for kind, label in (("seen", "seen"), ("unseen", "unseen"), ("harmonic", "HM")):
            heads.append(f"{split} {label}")
            columns.append([result["honest"][split][kind][0] for result in results.values()])
    width = max(5, *map(len, results))
    lines = [f"{'model':{width}}" + "".join(f"  {head:>11}" if len(head) > 11 else f"{head:>13}" for head in heads)]
    for row, name in enumerate(results):
        lines.append(f"{name:{width}}" + "".join(f"{column[row]:>13.1f}" for column in columns))
    return lines
