"""Minimal pairs of scene graphs, whatever stands in them: what a caption can say, one difference, and the check."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from itertools import permutations
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

NUMBERS: tuple[str, ...] = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_TRIES = 200
_OTHER_SIDE = {"added": "removed", "removed": "added"}


class Graph(Protocol):
    """A scene graph: items, and relations between them by their indices."""

    @property
    def items(self) -> Sequence[Any]:
        """What stands in the scene."""

    def relations(self) -> Iterable[tuple[int, str, int]]:
        """Subject, relation and object."""


class Statement(Protocol):
    """What a caption says."""

    def holds(self, scene: Any) -> bool:
        """Whether it is true of a scene graph."""


@dataclass(frozen=True)
class NounPhrase:
    """(field, value) pairs that an item can match."""

    named: tuple[tuple[str, str], ...] = ()

    def matches(self, item: object) -> bool:
        """Whether the item has every value that the phrase names."""
        return all(getattr(item, field) == value for field, value in self.named)


P = TypeVar("P", bound=NounPhrase)
S = TypeVar("S")


@dataclass(frozen=True)
class Existence(Generic[P]):
    """There are distinct items, one for each phrase."""

    phrases: tuple[P, ...]

    def holds(self, scene: Graph) -> bool:
        """Whether distinct items of the scene match the phrases."""
        return any(
            all(phrase.matches(item) for phrase, item in zip(self.phrases, chosen, strict=True))
            for chosen in permutations(scene.items, len(self.phrases))
        )


@dataclass(frozen=True)
class Relationship(Generic[P]):
    """Some item that matches `subject` stands in `relation` to some item that matches `object`."""

    subject: P
    relation: str
    object: P

    def holds(self, scene: Graph) -> bool:
        """Whether the graph has such a relation."""
        return any(
            relation == self.relation and self.subject.matches(scene.items[i]) and self.object.matches(scene.items[j])
            for i, relation, j in scene.relations()
        )


@dataclass(frozen=True)
class Number(Generic[P]):
    """Exactly `number` items match the phrase."""

    number: int
    phrase: P

    def holds(self, scene: Graph) -> bool:
        """Whether that many items match."""
        return sum(map(self.phrase.matches, scene.items)) == self.number


class Difference(NamedTuple):
    """One difference between two scenes.

    kind: An aspect of the pair's world, such as "attribute"; "other", or "background", for what no pair may change.
    field: The attribute; "added" or "removed"; of an exchange the axis ("horizontal", "vertical", "depth"), or on a
        floor the relation in the first scene.
    items: Indices of the items concerned (into the larger scene, for a count).
    """

    kind: str
    field: str
    items: tuple[int, ...]


class Relation(NamedTuple):
    """`items[subject]` stands in `relation` to `items[object]`."""

    subject: int
    relation: str
    object: int


def dominant(dx: float, dy: float, names: Sequence[str], gap: float, dominance: float) -> str | None:
    """One of the names (dx above and below 0, then dy), or None where no axis is long enough and by far the longer."""
    if abs(dx) >= gap and abs(dx) >= dominance * abs(dy):
        return names[0] if dx > 0 else names[1]
    if abs(dy) >= gap and abs(dy) >= dominance * abs(dx):
        return names[2] if dy > 0 else names[3]
    return None


def between_all(items: Sequence[S], relation: Callable[[S, S], str | None]) -> list[Relation]:
    """The relations between ordered pairs of items."""
    named = ((i, relation(a, b), j) for i, a in enumerate(items) for j, b in enumerate(items) if i != j)
    return [Relation(i, name, j) for i, name, j in named if name is not None]


def read_fields(kind: Callable[..., S], row: object, where: str, optional: Collection[str] = ()) -> S:
    """A record of a scene graph from JSON; a `ValueError` names what is missing, unknown or wrong."""
    if not isinstance(row, dict):
        raise ValueError(f"scene graph: {where} should be an object, found {row!r}")
    names = {field.name for field in fields(kind)}  # type: ignore[arg-type]  # a class of data
    missing, unknown = sorted(names - {*optional, *row}), sorted(set(row) - names)
    if missing or unknown:
        raise ValueError(f"scene graph: {where}: missing fields {missing}, unknown fields {unknown}")
    try:
        return kind(**row)
    except (TypeError, ValueError) as error:
        raise ValueError(f"scene graph: {where}: {error}") from error


def read_items(
    graph: object, name: str, kind: Callable[..., S], optional: Collection[str] = ()
) -> tuple[dict[str, Any], tuple[S, ...]]:
    """A scene graph as an object, and the items in it."""
    if not isinstance(graph, dict) or not isinstance(graph.get(name), list):
        raise ValueError(f"scene graph: field {name!r} should be a list")
    items = (read_fields(kind, row, f"{name}[{index}]", optional) for index, row in enumerate(graph[name]))
    return graph, tuple(items)


def check_relations(graph: dict[str, Any], scene: Graph) -> None:
    """Refuse relations that are not those that follow from where the items are; a graph may come without any."""
    if graph.get("relations") is None:
        return
    follow = {tuple(relation) for relation in scene.relations()}
    try:
        wrong = follow ^ {(row["subject"], row["relation"], row["object"]) for row in graph["relations"]}
    except (TypeError, KeyError):
        raise ValueError("scene graph: field 'relations' should list subjects, relations and objects") from None
    if wrong:
        named = min(map(str, wrong))
        raise ValueError(f"scene graph: field 'relations' is not what follows from the places: {named}")


def count_difference(kind: str, first: Sequence[object], second: Sequence[object], nouns: str) -> Difference:
    """Of two scenes' items of different number: one added or removed, or else something that no pair may change."""
    more, less, field = (second, first, "added") if len(second) > len(first) else (first, second, "removed")
    for k in range(len(more)):
        if (*more[:k], *more[k + 1 :]) == (*less,):
            return Difference(kind, field, (k,))
    return Difference("other", f"{len(first)} {nouns} against {len(second)}", ())


@dataclass(frozen=True)
class Pair(Generic[S]):
    """Two scenes, a caption for each, and the one thing that differs: `kind` and, where it is known, `field`.

    Example:
        >>> from eqben_builder.micro import Item, Scene, certify
        >>> scenes = [Scene((Item("star", colour, "large", "plain", 0.5, 0.5),)) for colour in ("red", "blue")]
        >>> certify(Pair(*scenes, "a red star", "a blue star", "attribute", "colour")).field
        'colour'
    """

    scene0: S
    scene1: S
    caption0: str
    caption1: str
    kind: str
    field: str = ""

    @property
    def captions(self) -> tuple[str, str]:
        """Of the first scene, and of the second."""
        return self.caption0, self.caption1

    def turned(self) -> Pair[S]:
        """The same pair, second scene first."""
        field = _OTHER_SIDE.get(self.field, self.field)
        return replace(self, scene0=self.scene1, scene1=self.scene0, caption0=self.caption1, caption1=self.caption0,
                       field=field)  # fmt: skip


def one_difference(pair: Pair[S], differences: Sequence[Difference], parse: Callable[[str], Statement]) -> Difference:
    """The one difference, which the pair names; a `ValueError` unless each caption fits its own scene alone."""
    if len(differences) != 1:
        raise ValueError(f"the scenes differ in {len(differences)} things, expected one: {tuple(differences)}")
    (difference,) = differences
    if difference.kind != pair.kind or (pair.field and difference.field != pair.field):
        raise ValueError(f"the pair says {_named(pair)}, its scenes differ in {_named(difference)}")
    for text, own, opposite in ((pair.caption0, pair.scene0, pair.scene1), (pair.caption1, pair.scene1, pair.scene0)):
        statement = parse(text)
        if not statement.holds(own):
            raise ValueError(f"caption {text!r} is false of its own scene")
        if statement.holds(opposite):
            raise ValueError(f"caption {text!r} is true of the other scene too")
    return difference


def _named(change: Pair[Any] | Difference) -> str:
    return f"{change.kind} {change.field!r}" if change.field else change.kind


def generator_at(seed: int, index: int) -> np.random.Generator:
    """The generator that belongs to one index of one seed: no state is shared between indices.

    Example:
        >>> generator_at(3, 17).random() == generator_at(3, 17).random() != generator_at(3, 18).random()
        True
    """
    return np.random.default_rng(np.random.SeedSequence([seed, index]))


def draw_pair(
    rng: np.random.Generator, make: Callable[[], Pair[S] | None], check: Callable[[Pair[S]], object]
) -> Pair[S] | None:
    """The first of 200 draws that passes the check, either scene first, so that no answer hides in the order."""
    for _ in range(_TRIES):
        pair = make()
        if pair is None:
            continue
        if rng.random() < 0.5:
            pair = pair.turned()
        try:
            check(pair)
        except ValueError:
            continue
        return pair
    return None
