"""The axes of a sweep over image classification, ELEVATER's grid: shots, what is tuned, the head's start, knowledge."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gate_runner.errors import UsageError, unknown

FULL = -1
"""Shots: all training images."""
TUNES = ("frozen", "full")
INITS = ("random", "language")
PROJECTIONS = ("1p", "2p")
SOURCES = ("wiktionary", "wordnet", "gpt3")
CONTROLS = ("random-words", "other-classes")
KNOWLEDGE = ("none", *SOURCES, *CONTROLS, "auto")
PROBES = ("anchored", "logistic", "elevater", "gda", "lp++", "clap", "tip_adapter", "lda")
"""How heads on fixed features are fitted: names of ``vision_adapters.tuning.METHODS``."""
PROBES_WITHOUT_TEXTS = ("anchored", "logistic", "elevater", "lda")
"""Those that need no class texts; a random start is fitted by the first where another was asked for."""
_NAME = re.compile(r"(full|\d+)-shot\.([a-z]+)\.([a-z]+)-(1p|2p)\.([a-z0-9-]+)")


class Variant(NamedTuple):
    """A point of a sweep.

    Args:
        shots: images per class; 0 for zero-shot, -1 for all.
        tune: ``"frozen"``, a head on fixed features (or nothing trained, at 0 shots), or ``"full"``, the encoder too.
        init: ``"random"`` or ``"language"``.
        projection: ``"1p"``, one linear layer on the backbone's features, or ``"2p"``, on the projected ones.
        knowledge: in the class texts.
    """

    shots: int
    tune: str
    init: str
    projection: str
    knowledge: str

    @property
    def name(self) -> str:
        """What stands behind ``@`` in a benchmark's id."""
        shots = "full" if self.shots == FULL else str(self.shots)
        return f"{shots}-shot.{self.tune}.{self.init}-{self.projection}.{self.knowledge}"

    @classmethod
    def parse(cls, name: str) -> Variant:
        """The variant of a name."""
        parts = _NAME.fullmatch(name)
        if parts is None:
            raise UsageError(f"{name!r} is no point of a sweep, such as '5-shot.frozen.language-2p.none'")
        for value, choices in ((parts[2], TUNES), (parts[3], INITS), (parts[5], KNOWLEDGE)):
            if value not in choices:
                raise unknown(f"part of {name!r}:", value, choices)
        return cls(FULL if parts[1] == "full" else int(parts[1]), parts[2], parts[3], parts[4], parts[5])


@dataclass(frozen=True)
class Axes:
    """The axes of a sweep.

    Args:
        shots: numbers of images per class, -1 for all.
        tune: of `TUNES`.
        init: of `INITS`.
        projection: of `PROJECTIONS`.
        knowledge: of `KNOWLEDGE`.
        seeds: of draws; ELEVATER's are 0, 1 and 2.
        controls: whether real knowledge gets two controls: as many random words, and what is known of another class.
    """

    shots: tuple[int, ...] = (0, 5, 20, 50, FULL)
    tune: tuple[str, ...] = ("frozen",)
    init: tuple[str, ...] = INITS
    projection: tuple[str, ...] = ("2p",)
    knowledge: tuple[str, ...] = ("none",)
    seeds: tuple[int, ...] = (0,)
    controls: bool = True

    def __post_init__(self) -> None:
        """Check every value."""
        for axis, choices in zip(
            ("tune", "init", "projection", "knowledge"), (TUNES, INITS, PROJECTIONS, KNOWLEDGE), strict=True
        ):
            values = getattr(self, axis)
            if not values:
                raise UsageError(f"--{axis} is empty; expected some of {', '.join(choices)}")
            for value in values:
                if value not in choices:
                    raise unknown(f"value of --{axis}", value, choices)
        if not self.shots or any(shots < FULL for shots in self.shots):
            raise UsageError(f"--shots must be numbers of at least 0, or full, not {self.shots}")

    def knowledge_for(self, tune: str) -> tuple[str, ...]:
        """What class texts are made with, the choice among them last; frozen variants have the controls beside it."""
        named = [source for source in KNOWLEDGE if source in self.knowledge and source != "auto"]
        if "auto" in self.knowledge and "none" not in named:
            named.insert(0, "none")
        if self.controls and tune == "frozen" and any(source in SOURCES for source in named):
            named += [control for control in CONTROLS if control not in named]
        return (*named, "auto") if "auto" in self.knowledge else tuple(named)

    def candidates(self) -> tuple[str, ...]:
        """What ``auto`` chooses among: texts without knowledge first, and the real sources."""
        return tuple(source for source in self.knowledge_for("full") if source == "none" or source in SOURCES)

    def units(self) -> Iterator[tuple[Variant, int]]:
        """Variants with their seeds: zero-shot first, then by shots, seeds, and what is tuned.

        Zero-shot depends on the texts alone, so that it has one unit for each knowledge; all training images are the
        same for every seed, as in ELEVATER, so that they have the first seed's alone; a random start has no texts.
        """
        for shots in self.shots:
            for seed in self.seeds if shots > 0 else self.seeds[:1]:
                for tune in ("frozen",) if shots == 0 else self.tune:
                    for init in ("language",) if shots == 0 else self.init:
                        for projection in ("2p",) if shots == 0 else self.projection:
                            for knowledge in ("none",) if init == "random" else self.knowledge_for(tune):
                                yield Variant(shots, tune, init, projection, knowledge), seed


def shots_in_words(shots: int) -> str:
    """Shots in words."""
    return {0: "zero-shot", FULL: "full-shot"}.get(shots, f"{shots}-shot")


def shots_of(words: Sequence[str]) -> tuple[int, ...]:
    """Numbers of shots from words, as `Settings.shots` holds them."""
    return tuple(FULL if word == "full" else int(word) for word in words)
