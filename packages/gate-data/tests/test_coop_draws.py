"""CoOp's draws come out as they were published, image by image and in order."""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path
from typing import Any

import pytest

from gate_data.coop import draw_shots
from gate_data.errors import UsageError

_FACTS: Any = json.loads((Path(__file__).parent / "coop_draws.json").read_text(encoding="utf-8"))["sets"]
_KEYS = [(name, *map(int, key.split("/"))) for name, facts in _FACTS.items() for key in facts["draws"]]


def _labels(runs: list[list[int]]) -> list[int]:
    """Labels of a list that has each class first in this order, and the rest of all classes behind, mixed."""
    counts = [(label, count) for first, last, count in runs for label in range(first, last + 1)]
    rest = [label for label, count in counts for _ in range(count - 1)]
    random.Random(5).shuffle(rest)
    return [label for label, _ in counts] + rest


def _places(labels: list[int]) -> list[str]:
    """Class and place in the class of each row: the mixed order of the list leaves these alone."""
    seen: dict[int, int] = {}
    places = []
    for label in labels:
        places.append(f"{label}:{seen.get(label, 0)}")
        seen[label] = seen.get(label, 0) + 1
    return places


def _digest(places: list[str], rows: tuple[int, ...]) -> str:
    return hashlib.sha256(" ".join(places[row] for row in rows).encode()).hexdigest()[:16]


def test_there_are_the_facts_of_ten_sets() -> None:
    assert len(_KEYS) == 9 * 5 * 3 + 5  # five of ImageNet's, which has a million labels


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long) if name == "coop-imagenet" else name for name in _FACTS]
)
def test_every_published_draw_comes_out(name: str) -> None:
    facts = _FACTS[name]
    train, validation = _labels(facts["train"]), _labels(facts["val"])
    places = _places(train), _places(validation)
    for key, (trained, validated) in facts["draws"].items():
        shots, seed = map(int, key.split("/"))
        drawn = draw_shots(train, validation, shots, seed)
        assert _digest(places[0], drawn.train) == trained, key
        assert _digest(places[1], drawn.validation) == validated, key
        assert drawn.short == ()


def test_validation_goes_on_where_training_left_the_generator() -> None:
    train = [0] * 9 + [1] * 9
    assert draw_shots(train, train, 2, 1).validation != draw_shots([0], train, 2, 1).validation
    assert len(draw_shots(train, train, 8, 1).validation) == 8  # four of each


def test_a_class_with_too_few_images_gives_them_all_and_moves_no_generator() -> None:
    drawn = draw_shots([0, 0, 0, 0, 1, 1, 2, 2, 2, 2], [], 3, 7)
    assert drawn.train[3:5] == (4, 5)
    assert drawn.short == (1,)
    without = draw_shots([0, 0, 0, 0, 2, 2, 2, 2], [], 3, 7)
    assert drawn.train[:3] + tuple(row - 2 for row in drawn.train[5:]) == without.train


def test_the_global_generator_stays_as_it_is() -> None:
    random.seed(3)
    before = random.getstate()
    draw_shots([0, 0, 1, 1], [0, 1], 1, 1)
    assert random.getstate() == before


@pytest.mark.parametrize(("shots", "seed", "message"), [(0, 1, "shots must be"), (1, -1, "seed must be at least 0")])
def test_odd_numbers_are_refused(shots: int, seed: int, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        draw_shots([0, 1], [], shots, seed)
