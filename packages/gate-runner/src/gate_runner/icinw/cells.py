"""The grid's cells: which there are, which of them do not apply, and what each is called."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from gate_runner.errors import UsageError, unknown

FULL = -1
"""Shots: all training images."""
TUNES = ("frozen", "full")
INITS = ("random", "language")
PROJECTIONS = ("1p", "2p")
SOURCES = ("wiktionary", "wordnet", "gpt3")
CONTROLS = ("random-words", "other-classes")
KNOWLEDGE = ("none", *SOURCES, *CONTROLS, "auto")
ShortClasses = Literal["take", "skip"]
"""Where a class has fewer images than shots: all of them are taken, or the cell is skipped."""
SHORT_CLASSES: tuple[ShortClasses, ...] = ("take", "skip")


class Cell(NamedTuple):
    """One number of the table.

    Args:
        dataset: the benchmark's id.
        shots: images per class; 0 for zero-shot, -1 for all.
        tune: ``"frozen"``, a head on fixed features (or nothing trained, at 0 shots), or ``"full"``, the encoder too.
        init: ``"random"`` or ``"language"``.
        projection: ``"1p"``, one linear layer on the backbone's features, or ``"2p"``, on the projected ones.
        knowledge: in the class texts.
        seed: of the draw, the split and the training.
    """

    dataset: str
    shots: int
    tune: str
    init: str
    projection: str
    knowledge: str
    seed: int

    @property
    def name(self) -> str:
        """A file's stem, unique in the data set.

        Example:
            >>> Cell("digits", -1, "full", "language", "2p", "gpt3", 0).name
            'full-shot.full.language-2p.gpt3.seed0'
        """
        said = "full" if self.shots == FULL else str(self.shots)
        return f"{said}-shot.{self.tune}.{self.init}-{self.projection}.{self.knowledge}.seed{self.seed}"

    @property
    def start(self) -> str:
        """ELEVATER's name for how the head starts.

        Example:
            >>> Cell("digits", 5, "frozen", "language", "2p", "none", 0).start
            'Language-2P'
        """
        return f"{self.init.capitalize()}-{self.projection.upper()}"


@dataclass(frozen=True)
class Axes:
    """The axes of a grid, as the command line says them.

    Args:
        shots: numbers of images per class, -1 for all.
        tune: of `TUNES`.
        init: of `INITS`.
        projection: of `PROJECTIONS`.
        knowledge: of `KNOWLEDGE`.
        seeds: of draws.
        controls: whether frozen cells with real knowledge get the two controls beside it: as many random words, and
            what is known of another class.

    Raises:
        UsageError: a value that is none of these; the message shows the nearest.
    """

    shots: tuple[int, ...] = (0, 5, 20, 50, FULL)
    tune: tuple[str, ...] = ("frozen",)
    init: tuple[str, ...] = INITS
    projection: tuple[str, ...] = ("2p",)
    knowledge: tuple[str, ...] = ("none",)
    seeds: tuple[int, ...] = (0, 1, 2)
    controls: bool = True

    def __post_init__(self) -> None:
        """Check every value."""
        for option, known in (("tune", TUNES), ("init", INITS), ("projection", PROJECTIONS), ("knowledge", KNOWLEDGE)):
            values = getattr(self, option)
            if not values:
                raise UsageError(f"--{option} is empty; expected some of {', '.join(known)}")
            for value in values:
                if value not in known:
                    raise unknown(f"value of --{option}", value, known)
        if not self.shots or any(shots < FULL for shots in self.shots):
            raise UsageError(f"--shots must be numbers of at least 0, or full, not {self.shots}")

    @classmethod
    def of(cls, **said: str | Sequence[int] | bool | None) -> Axes:
        """From lists with commas; None for the default.

        Example:
            >>> Axes.of(shots="0,5,full", init="language").shots
            (0, 5, -1)
        """
        found: dict[str, object] = {}
        for option, value in said.items():
            if value is None:
                continue
            if not isinstance(value, str):
                found[option] = value if isinstance(value, bool) else tuple(dict.fromkeys(value))
                continue
            words = [word.strip() for word in value.split(",") if word.strip()]
            found[option] = tuple(dict.fromkeys(map(_shots, words) if option == "shots" else words))
        return cls(**found)  # type: ignore[arg-type]  # checked as it is made

    def knowledge_for(self, tune: str) -> tuple[str, ...]:
        """What class texts are made with, the choice among them last."""
        named = [one for one in KNOWLEDGE if one in self.knowledge and one != "auto"]
        if "auto" in self.knowledge and "none" not in named:
            named.insert(0, "none")
        if self.controls and tune == "frozen" and any(one in SOURCES for one in named):
            named += [one for one in CONTROLS if one not in named]
        return (*named, "auto") if "auto" in self.knowledge else tuple(named)

    def candidates(self) -> tuple[str, ...]:
        """What ``auto`` chooses among: texts without knowledge first, and the real sources."""
        return tuple(one for one in self.knowledge_for("full") if one == "none" or one in SOURCES)

    def cells(self, dataset: str) -> Iterator[Cell]:
        """The cells of one data set: zero-shot first, then by shots, seeds, and what is tuned.

        Zero-shot depends on the texts alone, so that it has one cell for each knowledge; all training images are the
        same for every seed, as in ELEVATER, so that they have the first seed's alone; a random start has no texts.
        """
        for shots in self.shots:
            seeds = self.seeds if shots > 0 else self.seeds[:1]
            for seed in seeds:
                for tune in ("frozen",) if shots == 0 else self.tune:
                    for init in ("language",) if shots == 0 else self.init:
                        for projection in ("2p",) if shots == 0 else self.projection:
                            for knowledge in ("none",) if init == "random" else self.knowledge_for(tune):
                                yield Cell(dataset, shots, tune, init, projection, knowledge, seed)

    def to_mapping(self) -> dict[str, object]:
        """JSON-ready values."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in vars(self).items()}


def _shots(word: str) -> int:
    if word == "full":
        return FULL
    if not word.isdecimal():
        raise UsageError(f"--shots {word!r} is no number; expected numbers and full, e.g. 0,5,20,50,full")
    return int(word)


def shots_said(shots: int) -> str:
    """Shots in words.

    Example:
        >>> [shots_said(one) for one in (0, 5, -1)]
        ['zero-shot', '5-shot', 'full-shot']
    """
    return {0: "zero-shot", FULL: "full-shot"}.get(shots, f"{shots}-shot")
