"""Which units of CoOp's protocol a run computes, and what their names say; without torch."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from gate_runner.errors import UsageError, unknown
from gate_runner.settings.axes import PROBES

if TYPE_CHECKING:
    from gate_runner.benchmark import Benchmark
    from gate_runner.settings import Settings

ZERO_SHOT, PROJECTION = "zero_shot", "prolip"
CONTEXT, CLASS_CONTEXT = "coop", "coop_csc"
"""CoOp itself: a context that all classes share, or one of each class's own."""
LOW_RANK, TWO_STAGE = "clip_lora", "two_stage"
TOWERS = (LOW_RANK, TWO_STAGE)
"""Methods that train the encoder's towers, on the images and not on their features."""
METHODS = (ZERO_SHOT, *PROBES, PROJECTION, CONTEXT, CLASS_CONTEXT, *TOWERS)
"""Values of ``methods``: names of ``vision_adapters.tuning.METHODS``, and what fits more than a head."""
CARRIED = (ZERO_SHOT, PROJECTION, CONTEXT, *TOWERS)
"""Methods that score classes which they were not trained on."""
USUAL = {
    "few-shot": (ZERO_SHOT, "logistic", "tip_adapter", "anchored"),
    "base-to-new": (ZERO_SHOT, "anchored", PROJECTION),
    "cross": (ZERO_SHOT, PROJECTION),
    "domain": (ZERO_SHOT, "anchored", PROJECTION),
}
"""Methods of a protocol if none is named."""
SHOTS = {"few-shot": (1, 2, 4, 8, 16), "base-to-new": (16,), "cross": (16,), "domain": (16,)}
"""Published numbers of shots by protocol, taken if none are named."""
SEEDS = (1, 2, 3)
"""Published seeds, taken where no other seed than 0 is named."""
_NAME = re.compile(r"(\d+)-shot\.(few-shot|base-to-new|cross|domain)\.([a-z0-9_+]+)")


class Point(NamedTuple):
    """A unit of the protocol: images of each class (0 for texts alone), the protocol, and the method."""

    shots: int
    protocol: str
    method: str

    @property
    def name(self) -> str:
        """What is behind ``@`` in the benchmark's name."""
        return f"{self.shots}-shot.{self.protocol}.{self.method}"

    @classmethod
    def parse(cls, name: str) -> Point:
        """Return the unit of a name.

        Raises:
            UsageError: it is not a unit's; the message shows one.
        """
        parts = _NAME.fullmatch(name)
        if parts is None:
            raise UsageError(f"{name!r} is not a unit of CoOp's protocol, such as '16-shot.few-shot.tip_adapter'")
        if parts[3] not in METHODS:
            raise unknown("method", parts[3], METHODS)
        point = cls(int(parts[1]), parts[2], parts[3])
        if (point.shots == 0) != (point.method == ZERO_SHOT):
            raise UsageError(f"{name!r}: {ZERO_SHOT} has 0 shots, every other method at least 1")
        return point


def units(settings: Settings) -> Sequence[tuple[str, int]]:
    """Return names of units with their seeds: texts alone once, then each method by shots and seed.

    Methods of one draw follow each other, so that they share what was encoded.
    """
    _check(settings)
    protocol = settings.protocol
    methods = settings.methods or USUAL[protocol]
    for method in methods:
        if method not in METHODS:
            raise unknown("value of setting methods:", method, METHODS)
        if method in TOWERS and settings.views != 1:
            raise UsageError(f"method {method} trains on the images themselves: setting views does not apply")
        if method not in (ZERO_SHOT, *PROBES) and settings.choose_on == "validation":
            raise UsageError(f"method {method} has fixed settings: choose_on=validation does not apply")
    if settings.protocol == "cross" and (others := [method for method in methods if method not in CARRIED]):
        raise UsageError(
            f"method {others[0]} learns scores of ImageNet's classes, of which nothing carries over to other sets: "
            f"--protocol cross takes {', '.join(CARRIED)}"
        )
    if "full" in settings.shots:
        raise UsageError("--shots full is not of CoOp's protocol: give numbers, such as 1,2,4,8,16")
    shots = [int(number) for number in settings.shots] or list(SHOTS[protocol])
    seeds = SEEDS if settings.seeds == (0,) else settings.seeds
    return list(_listed(protocol, methods, shots, seeds))


def _listed(
    protocol: str, methods: Sequence[str], shots: Sequence[int], seeds: Sequence[int]
) -> Iterator[tuple[str, int]]:
    if ZERO_SHOT in methods or 0 in shots:
        yield Point(0, protocol, ZERO_SHOT).name, seeds[0]
    for number in shots:
        for seed in seeds if number else ():
            for method in methods:
                if method != ZERO_SHOT:
                    yield Point(number, protocol, method).name, seed


def _check(settings: Settings) -> None:
    """Refuse settings that the protocol does not have."""
    if settings.tune != "frozen":
        raise UsageError(f"--tune {settings.tune}: CoOp's protocol has heads on frozen encoders here")
    if settings.items is not None:
        raise UsageError("--items does not apply to CoOp's protocol, whose test sets are scored whole")


def of_coop(benchmark: Benchmark, text: str) -> Benchmark:
    """Return one of the sets as a unit of the protocol, whose id is ``ID@POINT``.

    Raises:
        UsageError: the set is not one of the protocol's.
    """
    from gate_data.coop.protocols import check_protocol

    point = Point.parse(text)
    check_protocol(benchmark.id, point.protocol)
    base_to_new = point.protocol == "base-to-new"
    return replace(
        benchmark,
        id=f"{benchmark.id}@{point.name}",
        title=f"{benchmark.title}, {point.protocol}, {point.shots} shots, {point.method}",
        metrics=("harmonic", "base", "new") if base_to_new else ("acc@1",),
        training={**benchmark.training, "coop": point._asdict()},
        cost=0.2,
    )


def members(name: str, protocol: str) -> str:
    """Return the pack that a protocol tests: ImageNet and its four shifted sets for ``domain``, else the eleven."""
    return "coop-domain" if name == "coop" and protocol == "domain" else name
