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
SOURCES = ("wiktionary", "wordnet", "wordnet-path", "wordnet-definition", "gpt3")
"""What is known of classes: ``wordnet`` is path and definition, ``gpt3-N`` the first N texts, ``A+B`` both."""
CONTROLS = ("random-words", "other-classes")
KNOWLEDGE = ("none", *SOURCES, "gpt3-1", "gpt3-5", "wiktionary+gpt3", "wiktionary+gpt3-5", *CONTROLS, "auto")
"""Values of ``--knowledge``, with examples of those that have a number."""
PAPERS = ("wiktionary", "gpt3-5", "wiktionary+gpt3-5")
"""What ``auto`` chooses among besides no knowledge, where no source is named: ELEVATER's table 17."""
PROBES = (
    "anchored", "logistic", "elevater", "gda", "lp++", "clap", "tip_adapter", "lda", "ss_text", "ss_text+", "proker",
    "cross_modal", "gda_published", "clap_published", "ss_text_published", "ss_text+_published",
)  # fmt: skip
"""How heads on fixed features are fitted: names of ``vision_adapters.tuning.METHODS``."""
PROBES_WITHOUT_TEXTS = ("anchored", "logistic", "elevater", "lda")
"""Those that need no class texts; a random start is fitted by the first where another was asked for."""
_NAME = re.compile(r"(full|\d+)-shot\.([a-z]+)\.([a-z]+)-(1p|2p)\.([a-z0-9+-]+)")
_PARTS = {"wordnet": ("wordnet-path", "wordnet-definition")}
_COUNTED = re.compile(r"gpt3[-:]([1-9]\d?)")


def knowledge_in(text: str) -> str:
    """A value of ``--knowledge`` as results have it: ``gpt3:5`` is ``gpt3-5``, for a colon is not for file names."""
    if text in ("none", "auto", *CONTROLS):
        return text
    parts = []
    for part in text.split("+"):
        counted = _COUNTED.fullmatch(part)
        if counted is None and part not in SOURCES:
            raise unknown("value of --knowledge", text, KNOWLEDGE)
        parts.append(part if counted is None else f"gpt3-{counted[1]}")
    sources = [each for part in parts for each in _PARTS.get(part, ("gpt3" if part.startswith("gpt3") else part,))]
    if len(set(sources)) < len(sources):
        raise UsageError(f"--knowledge {text}: a source is named twice; expected, e.g., wiktionary+gpt3:5")
    return "+".join(sorted(parts, key=_place))


def is_real(knowledge: str) -> bool:
    """Whether class texts say what a source knows, rather than nothing, or a control's words."""
    return knowledge not in ("none", "auto", *CONTROLS)


def _place(part: str) -> tuple[int, str]:
    """Where a source stands: in the order of `SOURCES`, fewer texts first."""
    name, _, count = part.rpartition("-")
    counted = name == "gpt3" and count.isdecimal()
    return SOURCES.index("gpt3" if counted else part), count.zfill(3) if counted else "999"


def in_order_of_sources(knowledge: str) -> tuple[int, list[tuple[int, str]]]:
    """A key to sort kinds of knowledge by: none, single sources, several together, controls, the choice."""
    first = {"none": 0, "auto": 4, **dict.fromkeys(CONTROLS, 3)}
    if knowledge in first:
        return first[knowledge], []
    parts = knowledge.split("+")
    return 1 if len(parts) == 1 else 2, [_place(part) for part in parts]


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
        for value, choices in ((parts[2], TUNES), (parts[3], INITS)):
            if value not in choices:
                raise unknown(f"part of {name!r}:", value, choices)
        knowledge = knowledge_in(parts[5])
        return cls(FULL if parts[1] == "full" else int(parts[1]), parts[2], parts[3], parts[4], knowledge)


@dataclass(frozen=True)
class Axes:
    """The axes of a sweep.

    Args:
        shots: numbers of images per class, -1 for all.
        tune: of `TUNES`.
        init: of `INITS`.
        projection: of `PROJECTIONS`.
        knowledge: as `knowledge_in` reads it.
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
        object.__setattr__(self, "knowledge", tuple(dict.fromkeys(map(knowledge_in, self.knowledge))))
        for axis, choices in (
            ("tune", TUNES), ("init", INITS), ("projection", PROJECTIONS), ("knowledge", self.knowledge or KNOWLEDGE)
        ):  # fmt: skip
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
        named = [source for source in sorted(self.knowledge, key=in_order_of_sources) if source != "auto"]
        if "auto" in self.knowledge and "none" not in named:
            named.insert(0, "none")
        if self.controls and tune == "frozen" and any(map(is_real, named)):
            named += [control for control in CONTROLS if control not in named]
        return (*named, "auto") if "auto" in self.knowledge else tuple(named)

    def candidates(self) -> tuple[str, ...]:
        """What ``auto`` chooses among: texts without knowledge first, and the sources named, or the paper's."""
        named = [source for source in self.knowledge_for("full") if is_real(source)]
        return ("none", *(named or PAPERS))

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
