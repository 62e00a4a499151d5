"""At which learning rates a head is tried, and for how many steps: successive halving."""

from __future__ import annotations

import math
from typing import NamedTuple

_COMPARED = (1 / 4, 1 / 2)
"""Shares of the steps after which the trainings are compared. On the stand-in of CLEVR-Math, whose validation has 300
samples, the best of three was not seen after a quarter (.370, .393, .400), but after a half (.467, .473, .443; in the
end .493, .503, .447 and on the test split .484, .528, .407)."""


class Rung(NamedTuple):
    """A stretch of steps that so many trainings take, before the better ones go on (successive halving)."""

    start: int
    stop: int
    trainings: int


def rungs(steps: int, validate_every: int, rates: int) -> list[Rung]:
    """Half of the trainings stop at the first validation after a quarter of the steps, all but one after a half."""
    if rates == 1 or steps == 0:
        return [Rung(0, steps, 1)]
    stops = [min(steps, validate_every * math.ceil(share * steps / validate_every)) for share in _COMPARED]
    going = (rates, math.ceil(rates / 2), 1)
    ends = zip((0, *stops), (*stops, steps), going, strict=True)
    return [Rung(start, stop, trainings) for start, stop, trainings in ends if stop > start or trainings == 1]


class Work(NamedTuple):
    """Steps and validations of all trainings of a head together."""

    steps: int
    validations: int


def work(steps: int, validate_every: int, rates: int) -> Work:
    """What it takes to try so many rates and to end with the best."""
    ladder = rungs(steps, validate_every, rates)
    return Work(
        sum(rung.trainings * (rung.stop - rung.start) for rung in ladder),
        ladder[0].trainings  # before the first step
        + sum(rung.trainings * math.ceil((rung.stop - rung.start) / validate_every) for rung in ladder),
    )
