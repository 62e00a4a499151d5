"""What drawn sets share: their seeds, noisy images of scenes, and three splits from a recipe for one sample."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from eqben_builder.micro import Scene, generator_at, render
from eqben_builder.stand_ins.data import DrawnSet, DrawnSplit

if TYPE_CHECKING:
    from jaxtyping import Float, Int8, Int64, UInt8

SplitName = Literal["train", "validation", "test"]
SPLITS: tuple[SplitName, ...] = ("train", "validation", "test")
SIDE = 64
"""Pixels of an image's side."""
IGNORED = -100
"""The class of pixels that are not scored."""

SEEDS = {
    "hearts": 1000,
    "shape_maps": 2000,
    "patterned_shapes": 3000,
    "count_questions": 4000,
    "birds": 5000,
    "coloured_shapes": 6000,
    "animal_counts": 7000,
    "combinations": 8000,
    "pairs": 10_000,
    "entities": 11_000,
    "plates": 12_000,
    "individuals": 13_000,
    "places": 14_000,
    "planes": 15_000,
    "surfaces": 16_000,
    "mushrooms": 17_000,
    "characters": 18_000,
    "flowers": 19_000,
    "streets": 20_000,
    "dark_things": 21_000,
    "things_and_stuff": 22_000,
    "rooms": 23_000,
    "things_alone": 24_000,
    "chests": 25_000,
    "retinas": 26_000,
    "moles": 27_000,
    "typed_questions": 28_000,
    "captioned_scenes": 29_000,
    "caption_choices": 30_000,
    "noisy_pairs": 31_000,
    "transformations": 32_000,
    "meetings": 33_000,
    "moving_outlines": 34_000,
    "compositional": 35_000,
    "colours_of_places": 36_000,
    "large_things": 37_000,
    "boxed_shapes": 60_000,
    "boxed_colours": 61_000,
    "boxed_lot": 62_000,
    "boxed_stars": 63_000,
    "makers": 50_000,
    "things": 51_000,
    "textures": 52_000,
    "counting": 53_000,
    "colours": 54_000,
    "shapes": 55_000,
}
"""First seed of each stand-in; its three splits use this one and the next two."""


def split_seed(name: str, split: SplitName) -> int:
    """The seed of one split of one set."""
    return SEEDS[name] + SPLITS.index(split)


def capped(count: int, limit: int | None) -> int:
    """How many of ``count`` samples are drawn under a limit."""
    if limit is not None and limit < 1:
        raise ValueError(f"limit = {limit!r}, expected at least 1, or None for all samples")
    return count if limit is None else min(count, limit)


_CHUNK = 256


class Drawn(NamedTuple):
    """Images, and for each pixel which item is the visible one (0 is background, i + 1 is item i)."""

    images: UInt8[np.ndarray, "n s s 3"]
    visible: Int8[np.ndarray, "n s s"]


def draw(scenes: Sequence[Scene], seed: int, *, noise: float = 0.0, numbers: Sequence[int] | None = None) -> Drawn:
    """Render scenes and add sensor noise."""
    images = np.empty((len(scenes), SIDE, SIDE, 3), dtype=np.uint8)
    visible = np.empty((len(scenes), SIDE, SIDE), dtype=np.int8)
    numbers = range(len(scenes)) if numbers is None else numbers
    for start in range(0, len(scenes), _CHUNK):
        part = scenes[start : start + _CHUNK]
        drawn = render(part, SIDE)
        pixels = drawn.images
        if noise > 0:
            pixels = np.stack(
                [with_noise(image, noise, generator_at(seed, numbers[start + i])) for i, image in enumerate(pixels)]
            )
        images[start : start + len(part)] = pixels
        visible[start : start + len(part)] = drawn.visible
    return Drawn(images, visible)


def with_noise(
    image: UInt8[np.ndarray, "*n s s 3"], noise: float, rng: np.random.Generator
) -> UInt8[np.ndarray, "*n s s 3"]:
    """Gaussian noise on every channel, and one change of brightness for the image (or clip)."""
    grain: Float[np.ndarray, ...] = rng.standard_normal(image.shape, dtype=np.float32)
    shift = 0.5 * noise * float(rng.standard_normal())
    noisy = image.astype(np.float32) + 255 * (noise * grain + shift)
    return np.clip(np.rint(noisy), 0, 255).astype(np.uint8)


def scenes_of(seed: int, count: int, make: Callable[[np.random.Generator, int], Scene]) -> list[Scene]:
    """Scene i from a generator of its own, so that a list of 10 begins like a list of 1,000."""
    return [make(generator_at(seed, index), index) for index in range(count)]


Look = Scene | NDArray[np.uint8]
"""A scene to render, or finished pixels ``[s, s, 3]``, of a clip ``[f, s, s, 3]``."""


class Made(NamedTuple):
    """One sample: what is seen, its target, and its texts."""

    look: Look
    target: object
    texts: tuple[str, ...] = ()


def as_classes(targets: list[Any]) -> Int64[np.ndarray, "n ..."]:
    """Targets that are numbers of classes, or maps of them."""
    return np.array(targets).astype(np.int64)


def as_values(targets: list[Any]) -> Float[np.ndarray, "n ..."]:
    """Targets that are quantities, or marks of labels."""
    return np.array(targets).astype(np.float32)


Targets = Callable[[list[Any]], Any]
Make = Callable[[np.random.Generator, int], Made]
K = TypeVar("K")


def data_of(
    name: str,
    limit: int | None,
    counts: tuple[int, int, int],
    make: Make,
    classes: Sequence[str],
    *,
    noise: float = 0.05,
    targets: Targets = as_classes,
) -> DrawnSet:
    """Three splits, sample i of each from a generator of its own, whatever the limit."""
    train, validation, test = (
        split_of(name, part, range(capped(count, limit)), make, noise=noise, targets=targets)
        for part, count in zip(SPLITS, counts, strict=True)
    )
    return DrawnSet(train, validation, test, tuple(classes))


def in_turn(
    name: str,
    limit: int | None,
    counts: tuple[int, int, int],
    kinds: Sequence[K],
    look: Callable[[np.random.Generator, K], Look],
    classes: Sequence[str],
    *,
    noise: float = 0.05,
    targets: Targets = as_classes,
) -> DrawnSet:
    """Three splits whose samples show the kinds in turn; a target is its kind's number."""

    def make(rng: np.random.Generator, index: int) -> Made:
        kind = index % len(kinds)
        return Made(look(rng, kinds[kind]), kind)

    return data_of(name, limit, counts, make, classes, noise=noise, targets=targets)


def split_of(
    name: str, part: SplitName, numbers: Sequence[int], make: Make, *, noise: float, targets: Targets = as_classes
) -> DrawnSplit:
    """The samples of these numbers of a split."""
    seed = split_seed(name, part)
    samples = [make(generator_at(seed, number), number) for number in numbers]
    looks = [sample.look for sample in samples]
    if isinstance(looks[0], Scene):
        images = draw([look for look in looks if isinstance(look, Scene)], seed, noise=noise, numbers=numbers).images
    else:
        noisy = [
            with_noise(look, noise, generator_at(seed, 500_000 + number)) if noise else look
            for number, look in zip(numbers, looks, strict=True)
            if isinstance(look, np.ndarray)
        ]
        images = np.stack(noisy)
    texts = tuple(text for sample in samples for text in sample.texts)
    return DrawnSplit(images, targets([sample.target for sample in samples]), texts or None)


Between = float | tuple[float, float, float]


def tint(rng: np.random.Generator, low: Between, high: Between) -> tuple[float, float, float]:
    """A colour whose channels lie between two values, or between those of two colours."""
    red, green, blue = rng.uniform(low, high, 3).tolist()
    return red, green, blue


def coordinates() -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the pixels' centres, from 0 to 1."""
    rows, columns = (np.mgrid[:SIDE, :SIDE] + 0.5) / SIDE
    return rows, columns


def as_pixels(values: np.ndarray) -> UInt8[np.ndarray, "s s 3"]:
    """Grey or coloured values from 0 to 1."""
    coloured = np.repeat(values[..., None], 3, axis=-1) if values.ndim == 2 else values
    rounded: UInt8[np.ndarray, "s s 3"] = np.clip(np.rint(coloured * 255), 0, 255).astype(np.uint8)
    return rounded


class Painted(NamedTuple):
    """A scene, pixels ``[s, s, 3]`` from 0 to 1 to be laid behind it, if any, and what its truth is made of."""

    scene: Scene
    behind: np.ndarray | None
    about: Any


def painted(
    name: str,
    limit: int | None,
    counts: tuple[int, int, int],
    paint: Callable[[np.random.Generator], Painted],
    truth: Callable[[Int64[np.ndarray, "s s"], Any], Any],
    targets: Targets,
    classes: Sequence[str],
) -> DrawnSet:
    """Three splits of such images; the truth of each is made of which item is visible where, and what is about it."""

    def make(rng: np.random.Generator, _: int) -> Made:
        scene, behind, about = paint(rng)
        drawn = render([scene], SIDE)
        visible, pixels = drawn.visible[0].astype(np.int64), drawn.images[0]
        if behind is not None:
            pixels = np.where(visible[..., None] == 0, np.rint(behind * 255), pixels).astype(np.uint8)
        return Made(with_noise(pixels, 0.06, rng), truth(visible, about))

    return data_of(name, limit, counts, make, classes, noise=0.0, targets=targets)
