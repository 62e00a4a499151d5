"""What stand-ins share: their seeds, noisy pictures of scenes, and three splits from a recipe for one sample."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int8, Int64, UInt8
from torch import Tensor

from eqben_builder.micro import Scene, generator_at, render
from gate_data.data import Data, Split
from gate_data.request import DataRequest, SplitName

SEEDS = {
    "acdc": 1000,
    "ade20k": 2000,
    "cifar100": 3000,
    "clevr-math": 4000,
    "cubirds": 5000,
    "imagenet1k": 6000,
    "iwildcam": 7000,
    "mini": 8000,
    "pairs": 10_000,
    "oven": 11_000,
    "food101": 12_000,
    "happy": 13_000,
    "places365": 14_000,
    "aircraft": 15_000,
    "dtextures": 16_000,
    "fungi": 17_000,
    "omniglot": 18_000,
    "vgg": 19_000,
    "cityscapes": 20_000,
    "coco-10k": 21_000,
    "coco-164k": 22_000,
    "nyu": 23_000,
    "pascal": 24_000,
    "chexpert": 25_000,
    "diabetic": 26_000,
    "ham10k": 27_000,
    "clevr": 28_000,
    "flickr30k": 29_000,
    "nycc": 30_000,
    "winoground": 31_000,
    "hmdb51": 32_000,
    "kinetics": 33_000,
    "ucf": 34_000,
    "compositional": 35_000,
    "colours-of-places": 36_000,
    "odinw-shapes": 60_000,
    "odinw-colours": 61_000,
    "odinw-lot": 62_000,
    "odinw-stars": 63_000,
    "icinw-makers": 50_000,
    "icinw-things": 51_000,
    "icinw-textures": 52_000,
    "icinw-counting": 53_000,
    "icinw-colours": 54_000,
    "icinw-shapes": 55_000,
}
"""First seed of each stand-in; its three splits use this one and the next two."""

NOTE = "synthetic stand-in"


def split_seed(benchmark: str, split: SplitName) -> int:
    """The seed of one split of one stand-in."""
    return SEEDS[benchmark] + ("train", "validation", "test").index(split)


_CHUNK = 256


class Pictures(NamedTuple):
    """Images, and for each pixel which item is the visible one (0 is background, i + 1 is item i)."""

    images: UInt8[Tensor, "n 3 s s"]
    visible: Int8[Tensor, "n s s"]


def draw(scenes: Sequence[Scene], seed: int, *, noise: float = 0.0, numbers: Sequence[int] | None = None) -> Pictures:
    """Render scenes and add sensor noise."""
    images = torch.empty(len(scenes), 3, SIDE, SIDE, dtype=torch.uint8)
    visible = torch.empty(len(scenes), SIDE, SIDE, dtype=torch.int8)
    numbers = range(len(scenes)) if numbers is None else numbers
    for start in range(0, len(scenes), _CHUNK):
        part = scenes[start : start + _CHUNK]
        drawn = render(part, SIDE)
        pixels = drawn.images
        if noise > 0:
            pixels = np.stack(
                [with_noise(image, noise, generator_at(seed, numbers[start + i])) for i, image in enumerate(pixels)]
            )
        images[start : start + len(part)] = torch.from_numpy(pixels).permute(0, 3, 1, 2)
        visible[start : start + len(part)] = torch.from_numpy(drawn.visible)
    return Pictures(images, visible)


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


SPLITS: tuple[SplitName, ...] = ("train", "validation", "test")
SIDE = 64


Look = Scene | UInt8[np.ndarray, "*f s s 3"]


class Made(NamedTuple):
    """One sample: a scene to render or finished pixels, its target, and its texts."""

    look: Look
    target: object
    texts: tuple[str, ...] = ()


def as_classes(targets: list[Any]) -> Int64[Tensor, "n ..."]:
    """Targets that are numbers of classes, or maps of them."""
    return torch.from_numpy(np.array(targets)).long()


def as_values(targets: list[Any]) -> Float[Tensor, "n ..."]:
    """Targets that are quantities, or marks of labels."""
    return torch.from_numpy(np.array(targets)).float()


Targets = Callable[[list[Any]], Any]
Make = Callable[[np.random.Generator, int], Made]
K = TypeVar("K")


def data_of(
    name: str,
    request: DataRequest,
    counts: tuple[int, int, int],
    make: Make,
    classes: Sequence[str],
    *,
    noise: float = 0.05,
    targets: Targets = as_classes,
) -> Data[Any]:
    """Three splits, sample i of each from a generator of its own, whatever the limit."""
    train, validation, test = (
        split_of(name, part, range(request.cap(count)), make, noise=noise, targets=targets)
        for part, count in zip(SPLITS, counts, strict=True)
    )
    return Data(train, validation, test, tuple(classes), NOTE)


def in_turn(
    name: str,
    request: DataRequest,
    counts: tuple[int, int, int],
    kinds: Sequence[K],
    look: Callable[[np.random.Generator, K], Look],
    classes: Sequence[str],
    *,
    noise: float = 0.05,
    targets: Targets = as_classes,
) -> Data[Any]:
    """Three splits whose samples show the kinds in turn; a target is its kind's number."""

    def make(rng: np.random.Generator, index: int) -> Made:
        kind = index % len(kinds)
        return Made(look(rng, kinds[kind]), kind)

    return data_of(name, request, counts, make, classes, noise=noise, targets=targets)


def split_of(
    name: str, part: SplitName, numbers: Sequence[int], make: Make, *, noise: float, targets: Targets = as_classes
) -> Split[Any]:
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
        images = torch.from_numpy(np.stack(noisy)).movedim(-1, -3).contiguous()
    texts = tuple(text for sample in samples for text in sample.texts)
    return Split(images, targets([sample.target for sample in samples]), texts or None)


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
    request: DataRequest,
    counts: tuple[int, int, int],
    paint: Callable[[np.random.Generator], Painted],
    truth: Callable[[Int64[np.ndarray, "s s"], Any], Any],
    targets: Targets,
    classes: Sequence[str],
) -> Data[Any]:
    """Three splits of such pictures; the truth of each is made of which item is visible where, and what is about it."""

    def make(rng: np.random.Generator, _: int) -> Made:
        scene, behind, about = paint(rng)
        drawn = render([scene], SIDE)
        visible, pixels = drawn.visible[0].astype(np.int64), drawn.images[0]
        if behind is not None:
            pixels = np.where(visible[..., None] == 0, np.rint(behind * 255), pixels).astype(np.uint8)
        return Made(with_noise(pixels, 0.06, rng), truth(visible, about))

    return data_of(name, request, counts, make, classes, noise=0.0, targets=targets)
