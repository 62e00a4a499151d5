"""At which learning rates the head of a frozen encoder is tried, and for how many steps."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from gate_runner.settings import Settings

_TRIED = 1 / 4
"""Share of the steps after which the learning rates are compared; only the best one's training goes on."""


def factors(training: Mapping[str, Any], settings: Settings) -> tuple[float, ...]:
    """What the learning rate is multiplied with, one training for each; the rate as it is comes first.

    Args:
        training: the benchmark's numbers; ``rates`` are the factors.
        settings: a rate that they name is the only one, and so is that of an encoder that is trained itself.
    """
    said = settings.tune != "frozen" or "lr" in settings.recipe_fields
    return (1.0,) if said else tuple(training.get("rates", (1.0,)))


def compared_at(steps: int, validate_every: int) -> int:
    """The step at which the rates are compared: the first validated one after a quarter of all, or the last."""
    return min(steps, validate_every * math.ceil(_TRIED * steps / validate_every))


class Work(NamedTuple):
    """Steps and validations of all trainings of a head together."""

    steps: int
    validations: int


def work(steps: int, validate_every: int, rates: int) -> Work:
    """What it takes to try so many rates and to go on with the best.

    Args:
        steps: of one training.
        validate_every: steps between validations.
        rates: that are tried.
    """
    short = compared_at(steps, validate_every)
    one = 1 + math.ceil(steps / validate_every)
    return Work(steps + (rates - 1) * short, one + (rates - 1) * (1 + math.ceil(short / validate_every)))
