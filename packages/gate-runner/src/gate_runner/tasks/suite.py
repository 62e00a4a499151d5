"""Compositional suites: cosines of a dual encoder, nothing trained, and what a blind model gets beside every score."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from eqben_builder.scoring import Share
from eqben_builder.suites import Features, SuiteLine, SuiteTable, similarities, suite_table
from gate_data.data import Data, Split
from gate_data.ragged import Ragged
from gate_runner.errors import DataError
from gate_runner.plugins import own_model
from gate_runner.suites.questions import QuestionPictures, Questions
from gate_runner.tasks.drawing import shown
from gate_runner.tasks.features import captions_encoded, pooled
from gate_runner.tasks.job import Job, Outcome, Score
from gate_runner.tasks.task import Details, Drawing

_SHOWN = 3
"""Captions of a question that a report shows."""
_HEADS = ("", "measure", "questions", "score", "95 %", "chance", "best text-only baseline", "better than blind",
          "published", "ties", "authors' ties")  # fmt: skip

_READING = (
    "A text-only baseline never looks at an image: a score that is not better than it says nothing about seeing. "
    "A tie is wrong; the last column has the score with ties as the authors count them, where that differs."
)


def run(job: Job) -> Outcome:
    """Share of questions right by the main measure of their shape, and the suite's whole table.

    A choice among captions or images and a statement by its accuracy, two images with two captions by the group
    score, paraphrases where both beat the wrong caption; a tie is wrong. Outcomes are kept by image, since questions
    that share one are not independent. ``training["suite"]`` has every subset and published average with ties, chance,
    text-only baselines, the paired test against the best of them, and published scores.
    """
    test: Split[Any] = job.data.test
    questions: Questions = test.targets
    assert isinstance(test.images, QuestionPictures)
    features = _features(job, test.images, [text for row in questions.rows for text in row.captions])
    with job.timed("test"):
        scores = similarities(questions.rows, features)
        blind = job.settings.language_model
        table = suite_table(questions.data, scores, scorers=None if blind is None else _scorer(blind), seed=job.seed)
    overall = table.overall.score
    score = Score(job.benchmark.metrics[0], "higher", overall.value, overall.low, overall.high, overall.chance)
    averages = [_score_of(line) for line in table.averages]
    return Outcome((score, *averages), _by_picture(questions, table), {"steps": 0, "suite": as_mapping(table)})


def _scorer(spec: str) -> dict[str, Any]:
    """A model of the user's that reads captions alone, by its name; what goes wrong in it is said with that name."""
    model = own_model(spec)

    def scored(texts: Sequence[str]) -> Any:
        try:
            return model(texts)
        except Exception as error:
            raise DataError(f"setting language_model: {spec} raised {type(error).__name__}: {error}") from error

    return {spec: scored}


def share_right(outcomes: Any, weights: Float[np.ndarray, "r n"]) -> Float[np.ndarray, " r"]:
    """The share of right answers, of questions whose images are weighted."""
    right = outcomes.columns["right"]
    owner = np.repeat(np.arange(len(outcomes)), outcomes.lengths)
    sums = np.bincount(owner, right, minlength=len(outcomes))
    shares: np.ndarray = (weights @ sums) / (weights @ outcomes.lengths)
    return shares


def draw(data: Data[Any], training: Mapping[str, Any], index: int) -> Drawing:
    """The first question of an image: its images side by side, and its captions, the right ones first."""
    questions: Questions = data.test.targets
    places, lengths = questions.clusters()
    picture = int(places[int(lengths[:index].sum())])
    row = questions.rows[picture]
    captions = ", ".join(f"“{text}”" for text in row.captions[:_SHOWN])
    more = len(row.captions) - _SHOWN
    if row.label is not None:
        captions += " is true" if row.label else " is false"
    pictures = data.test.images[picture][: len(row.images)]
    return Drawing(shown(pictures), f"{row.subset}: {captions}{f' and {more} more' if more > 0 else ''}")


def _features(job: Job, pictures: QuestionPictures, captions: Sequence[str]) -> Features:
    """Unit features of each different image and caption; both are kept, so that a run that is broken off goes on."""
    different = pictures.different()
    images = pooled(job, Split(different, torch.zeros(len(different))), "test")
    texts = list(dict.fromkeys(captions))
    texts_rows = captions_encoded(job, texts)
    return Features(
        _unit(images[:][:, 0]),
        _unit(texts_rows[:]),
        {picture: row for row, (picture,) in enumerate(different.files)},
        {text: row for row, text in enumerate(texts)},
    )


def _unit(features: Tensor) -> Float[np.ndarray, "n d"]:
    return torch.nn.functional.normalize(features.float(), dim=-1).cpu().numpy()


def _by_picture(questions: Questions, table: SuiteTable) -> Ragged:
    """Right or wrong of every question, those that share an image as one sample."""
    places, lengths = questions.clusters()
    return Ragged({"question": places, "right": table.outcomes["right"].right[places]}, lengths)


def _score_of(line: SuiteLine) -> Score:
    """A published average, by its own name and measure."""
    lower = line.measure == "mean rank"
    name = f"{line.name}, {line.measure}"
    return Score(name, "lower" if lower else "higher", *line.score)


def as_mapping(table: SuiteTable) -> dict[str, Any]:
    """A suite's table for a result file: all questions, averages and subsets, in this order."""
    listed = [(table.overall, "all"), *((average, "average") for average in table.averages)]
    listed += [(average, "subset") for average in table.lines]
    return {
        "suite": table.suite,
        "notes": list(table.notes),
        "lines": [{"kind": kind, **_line(line)} for line, kind in listed],
    }


def _line(line: SuiteLine) -> dict[str, Any]:
    return {
        "name": line.name,
        "measure": line.measure,
        "questions": line.questions,
        "ties": line.ties,
        **_share(line.score),
        "authors_ties": line.authors,
        "blind": {name: _share(share) for name, share in line.blind.items()},
        "better_than_blind": None if line.better is None else _finite(line.better._asdict()),
        "published": dict(line.published),
    }


def _share(share: Share) -> dict[str, float | None]:
    return _finite(share._asdict())


def _finite(values: Mapping[str, float]) -> dict[str, float | None]:
    return {name: float(value) if math.isfinite(value) else None for name, value in values.items()}


def tables(training: Mapping[str, Any], spec: str) -> Details:
    """The table of one result."""
    suite = training["suite"]
    return Details(
        [*suite["notes"], _READING], _HEADS, [_row(line, spec) for line in suite["lines"]], words=(1, 6, 7, 8)
    )


def _row(line: Mapping[str, Any], spec: str) -> tuple[str, ...]:
    unit, places = (1, 2) if line["measure"] == "mean rank" else (100, 1)

    def number(value: float | None) -> str:
        return "" if value is None else f"{unit * value:.{places}f}"

    blind = max(line["blind"].items(), key=lambda line_score: line_score[1]["value"], default=None)
    better = line["better_than_blind"]
    gain = ""
    if better is not None:
        gain = f"{100 * better['value']:+.1f} ({100 * better['low']:+.1f}, {100 * better['high']:+.1f})"
        gain = f"{gain}, p {better['p']:.3f}".replace("-", "−")
    published = published_of(line["published"], spec)
    return (
        line["name"],
        line["measure"],
        f"{line['questions']:,}" if line["questions"] else "average",
        number(line["value"]),
        f"{number(line['low'])}–{number(line['high'])}",
        number(line["chance"]),
        "" if blind is None else f"{100 * blind[1]['value']:.1f} {blind[0]}",
        gain,
        "" if published is None else f"{100 * published[1]:.1f} {published[0]}",
        str(line["ties"]) if line["questions"] else "",
        number(line["authors_ties"]),
    )


def published_of(published: Mapping[str, float], spec: str) -> tuple[str, float] | None:
    """The score of the same model where one is published, or OpenAI's ViT-B/32, or any."""
    fitting = [entry for entry in published.items() if spec.endswith(entry[0])]
    usual = [entry for entry in published.items() if entry[0] == "ViT-B-32/openai"]
    return next(iter(fitting or usual or published.items()), None)
