"""Prompts of Eq-SD: an object, a scene or an attribute changes, each drawn from what suits the object."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

ASPECTS: tuple[str, ...] = ("object", "scene", "attribute")


class Kin(NamedTuple):
    """Objects that may stand for one another, and the scenes and attributes that suit all of them."""

    objects: tuple[str, ...]
    scenes: tuple[str, ...]
    attributes: tuple[str, ...]


#: The first entry's objects and scenes are the paper's own example (appendix B.5); the others follow its rule.
KINDRED: dict[str, Kin] = {
    "large animals": Kin(
        ("horse", "cattle", "elephant", "goat", "deer", "camel", "zebra"),
        ("standing on the grass", "in the desert", "near the river", "in the zoo"),
        ("with a saddle", "with a bell", "with a red scarf", "with a flower wreath"),
    ),
    "pets": Kin(
        ("dog", "cat", "rabbit", "hamster"),
        ("sitting on the sofa", "in the garden", "on the beach", "in the snow"),
        ("with sunglasses", "with a hat", "with a bow tie", "with a red scarf"),
    ),
    "birds": Kin(
        ("parrot", "owl", "eagle", "crow", "pigeon"),
        ("sitting on a branch", "on the roof", "in the snow", "near the lake"),
        ("with a hat", "with a bow tie", "with a golden crown"),
    ),
    "vehicles": Kin(
        ("car", "bus", "truck", "van", "tractor"),
        ("on the street", "in the desert", "on the beach", "in the snow"),
        ("with white stripes", "with a ladder on the roof", "with a flag"),
    ),
    "boats": Kin(
        ("ship", "boat", "canoe", "yacht"),
        ("on the lake", "in the harbour", "on the stormy sea", "at sunset"),
        ("with a red sail", "with a flag", "with a lantern"),
    ),
    "sweets": Kin(
        ("cake", "pie", "muffin", "donut"),
        ("on a wooden table", "on a white plate", "in a paper box", "on a picnic blanket"),
        ("with strawberries", "with candles", "with chocolate sauce", "with nuts"),
    ),
    "furniture": Kin(
        ("chair", "sofa", "bed", "bench"),
        ("in the living room", "in the garden", "in an empty hall", "on the beach"),
        ("with a striped cushion", "with a blue blanket", "with a sleeping cat"),
    ),
}


class PromptPair(NamedTuple):
    """Two prompts that differ in one part.

    aspect: One of `ASPECTS`.
    kin: Key of `KINDRED`.
    prompts: Source and target; they are the captions too.
    values: What stands in the changed place in each.

    Example:
        >>> import numpy as np
        >>> pair = prompt_pair(np.random.default_rng(1), "object")
        >>> pair.prompts[0].replace(pair.values[0], pair.values[1]) == pair.prompts[1]
        True
    """

    aspect: str
    kin: str
    prompts: tuple[str, str]
    values: tuple[str, str]


def _two(rng: np.random.Generator, values: Sequence[str]) -> tuple[str, str]:
    first, second = rng.permutation(len(values))[:2]
    return values[int(first)], values[int(second)]


def prompt_pair(rng: np.random.Generator, aspect: str) -> PromptPair:
    """Draw two prompts that differ in an object, a scene or an attribute.

    Args:
        rng: The only source of randomness.
        aspect: One of `ASPECTS`.

    Raises:
        ValueError: An unknown aspect.

    Example:
        >>> import numpy as np
        >>> pair = prompt_pair(np.random.default_rng(0), "object")
        >>> len(pair.prompts[0].split()) == len(pair.prompts[1].split())
        True

    Source:
        Section 5.3, appendix B.5. The paper changes a scene or an attribute by adding it to the first caption ("in the
        winter"), which leaves that caption true of the second picture as well. Here one scene or attribute takes the
        place of another, so that each caption is false of the other picture.
    """
    if aspect not in ASPECTS:
        raise ValueError(f"aspect {aspect!r} is not one of {', '.join(ASPECTS)}")
    names = list(KINDRED)
    name = names[int(rng.random() * len(names))]
    kin = KINDRED[name]
    thing = kin.objects[int(rng.random() * len(kin.objects))]
    scene = kin.scenes[int(rng.random() * len(kin.scenes))]
    if aspect == "object":
        values = _two(rng, kin.objects)
        texts = [f"{_a(value)} {scene}" for value in values]
    elif aspect == "scene":
        values = _two(rng, kin.scenes)
        texts = [f"{_a(thing)} {value}" for value in values]
    else:
        values = _two(rng, kin.attributes)
        texts = [f"{_a(thing)} {value}" for value in values]
    return PromptPair(aspect, name, (f"a photo of {texts[0]}", f"a photo of {texts[1]}"), values)


def _a(noun: str) -> str:
    # One article for both objects of a pair: "the" never changes with the noun.
    return f"the {noun}"
