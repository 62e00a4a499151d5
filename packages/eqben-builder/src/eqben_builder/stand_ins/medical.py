"""Phantoms: a chest, an eye, a mole and a beating heart."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eqben_builder.micro import SHAPES, Item, generator_at, render, sample_scene
from eqben_builder.stand_ins.data import DrawnSet, DrawnSplit
from eqben_builder.stand_ins.drawing import (
    SIDE,
    Made,
    SplitName,
    Targets,
    as_pixels,
    as_values,
    capped,
    coordinates,
    data_of,
    in_turn,
    split_seed,
)

if TYPE_CHECKING:
    from jaxtyping import Float, Int64

CLASSES = ("background", "right ventricle", "myocardium", "left ventricle")
SLICES = 8
_CHAMBERS = {"triangle": 1, "ring": 2, "circle": 3}
"""Outline to class; every other shape is a vessel, and background."""


class Volume(NamedTuple):
    """Grey values in 0 to 1, and the class of every voxel."""

    grey: Float[np.ndarray, "slices s s"]
    labels: Int64[np.ndarray, "slices s s"]


def volume(rng: np.random.Generator) -> Volume:
    """One heart.

    The left ventricle is a disc, the myocardium a ring, the right ventricle a triangle, and up to two vessels have
    other outlines. Each has a brightness and a place of its own, which say nothing of what it is. All shrink towards
    the apex, where the right ventricle ends first; a bias field and Rician noise lie over all.
    """
    scene = sample_scene(rng, (3, 5), max_overlap=0.2)
    vessels = [shape for shape in SHAPES if shape not in _CHAMBERS]
    shapes = [*rng.permutation(list(_CHAMBERS)), *rng.choice(vessels, len(scene.items))]
    items = [
        replace(item, shape=str(shape), material="plain") for item, shape in zip(scene.items, shapes, strict=False)
    ]
    ends = rng.uniform(0.6, 0.9)
    rows, columns = coordinates()
    bias = 1 + rng.uniform(-0.3, 0.3) * (rows - 0.5) + rng.uniform(-0.3, 0.3) * (columns - 0.5)
    depths = np.linspace(0, 1, SLICES)
    slices = [
        [
            replace(item, scale=item.radius * float(np.sqrt(1 - 0.85 * depth**2)))
            for item in items
            if _reaches(item, depth, ends)
        ]
        for depth in depths
    ]
    drawn = render([replace(scene, items=tuple(shown)) for shown in slices], SIDE)
    grey = drawn.images.mean(axis=-1) / 255 * bias
    noise = 0.05 * rng.standard_normal((2, *grey.shape))
    magnitude = np.hypot(grey + noise[0], noise[1]).clip(0, 1).astype(np.float32)
    classes = [np.array([0, *(_CHAMBERS.get(item.shape, 0) for item in shown)]) for shown in slices]
    labels = [by_item[visible] for by_item, visible in zip(classes, drawn.visible, strict=True)]
    return Volume(magnitude, np.stack(labels).astype(np.int64))


def _reaches(item: Item, depth: float, ends: float) -> bool:
    """Whether an outline is there at a depth from 0 (base) to 1 (apex)."""
    return _CHAMBERS.get(item.shape) != 1 or depth < ends


def hearts(limit: int | None = None) -> DrawnSet:
    """Slices of phantom hearts with the classes of ACDC; a volume's slices stay in one split."""

    def split(name: SplitName, count: int) -> DrawnSplit:
        number = min(count, -(-capped(count * SLICES, limit) // SLICES))
        volumes = [volume(generator_at(split_seed("hearts", name), index)) for index in range(number)]
        grey = np.concatenate([heart.grey for heart in volumes])
        images = np.repeat(np.rint(grey * np.float32(255)).astype(np.uint8)[..., None], 3, axis=-1)
        labels = np.concatenate([heart.labels for heart in volumes])
        return DrawnSplit(images, labels, groups=np.repeat(np.arange(number, dtype=np.int64), SLICES))

    return DrawnSet(split("train", 70), split("validation", 12), split("test", 40), CLASSES)


_FINDINGS = ("large heart", "opacity", "fluid", "nodules", "line")
_GRADES = ("none", "mild", "moderate", "severe", "proliferative")
_SPOTS = ((0, 1), (2, 4), (5, 8), (9, 14), (15, 22))
_MOLES = ("even", "dark", "reddish", "ragged", "two colours", "ringed", "spotted")


def _one_of_several(classes: int) -> Targets:
    """Classes as labels, of which each image has one."""
    return lambda targets: np.eye(classes, dtype=np.float32)[targets]


def _blob(rows: np.ndarray, columns: np.ndarray, y: float, x: float, high: float, wide: float) -> np.ndarray:
    brightness: np.ndarray = np.exp(-(((rows - y) / high) ** 2 + ((columns - x) / wide) ** 2))
    return brightness


def chests(limit: int | None = None) -> DrawnSet:
    """Two lungs and a heart; each of five findings is there or not, whatever the others."""
    rows, columns = coordinates()

    def make(rng: np.random.Generator, _: int) -> Made:
        findings = rng.random(len(_FINDINGS)) < (0.35, 0.35, 0.3, 0.25, 0.25)
        grey = np.full(rows.shape, 0.6) + rng.uniform(-0.05, 0.05)
        for x in (0.3, 0.7):
            grey -= 0.45 * np.minimum(1, 1.6 * _blob(rows, columns, 0.48, x + rng.uniform(-0.02, 0.02), 0.3, 0.15))
        wide = rng.uniform(0.2, 0.24) if findings[0] else rng.uniform(0.1, 0.13)
        grey += 0.4 * np.minimum(1, 1.5 * _blob(rows, columns, 0.62, 0.54, 0.14, wide))
        side = float(rng.choice((0.3, 0.7)))
        if findings[1]:
            grey += 0.3 * _blob(rows, columns, rng.uniform(0.3, 0.5), side, 0.1, 0.09)
        if findings[2]:
            low = (rows > rng.uniform(0.68, 0.74)) & (np.abs(columns - side) < 0.17)
            grey = np.where(low, np.maximum(grey, 0.65), grey)
        if findings[3]:
            for _ in range(int(rng.integers(3, 6))):
                spot = float(rng.choice((0.3, 0.7))) + rng.uniform(-0.1, 0.1)
                grey += 0.35 * _blob(rows, columns, rng.uniform(0.25, 0.65), spot, 0.025, 0.025)
        if findings[4]:
            edge = np.abs(columns - side - 0.05 - 0.06 * (rows - 0.4)) < 0.012
            grey += 0.3 * (edge & (rows > 0.2) & (rows < 0.6))
        return Made(as_pixels(np.clip(grey, 0, 1)), findings.astype(float))

    return data_of("chests", limit, (700, 120, 400), make, _FINDINGS, noise=0.06, targets=as_values)


def retinas(limit: int | None = None) -> DrawnSet:
    """A retina with a bright disc and vessels; the more dark spots, the higher the grade."""
    rows, columns = coordinates()

    def look(rng: np.random.Generator, spots: tuple[int, int]) -> np.ndarray:
        inside = (rows - 0.5) ** 2 + (columns - 0.5) ** 2 < 0.22
        red = np.where(inside, 0.65 + 0.1 * _blob(rows, columns, 0.5, 0.5, 0.4, 0.4), 0.03)
        side = float(rng.choice((0.25, 0.75)))
        red += 0.3 * _blob(rows, columns, 0.5, side, 0.06, 0.06)
        for _ in range(4):
            bend, start = rng.uniform(-0.5, 0.5), rng.uniform(0.3, 0.7)
            vessel = np.abs(rows - start - bend * (columns - side) ** 2 * 2) < 0.01
            red -= 0.15 * (vessel & inside)
        low, high = spots
        for _ in range(int(rng.integers(low, high + 1))):
            angle, reach = rng.uniform(0, 2 * np.pi), 0.4 * np.sqrt(rng.random())
            red -= 0.5 * _blob(rows, columns, 0.5 + reach * np.sin(angle), 0.5 + reach * np.cos(angle), 0.02, 0.02)
        coloured = np.stack([red, 0.45 * red, 0.2 * red], axis=-1)
        return as_pixels(np.clip(coloured, 0, 1))

    targets = _one_of_several(len(_GRADES))
    return in_turn("retinas", limit, (600, 100, 300), _SPOTS, look, _GRADES, noise=0.04, targets=targets)


def moles(limit: int | None = None) -> DrawnSet:
    """Moles on skin of any tone, of seven kinds by colour, border and what is in them."""
    rows, columns = coordinates()

    def look(rng: np.random.Generator, kind: str) -> np.ndarray:
        y, x = rng.uniform(0.42, 0.58, 2)
        angle, distance = np.arctan2(rows - y, columns - x), np.hypot(rows - y, columns - x)
        border = rng.uniform(0.18, 0.27) * (1 + 0.08 * np.sin(2 * angle + rng.uniform(0, 6)))
        if kind == "ragged":
            border = border * (1 + 0.25 * np.sin(7 * angle + rng.uniform(0, 6)))
        inside = 1 / (1 + np.exp((distance - border) / 0.015))
        skin = np.array([0.85, 0.65, 0.55]) * rng.uniform(0.8, 1.1)
        tint = np.broadcast_to(np.array([0.45, 0.28, 0.2]), (*rows.shape, 3)).copy()
        if kind == "dark":
            tint *= 0.45
        elif kind == "reddish":
            tint = tint * 0 + np.array([0.65, 0.25, 0.25])
        elif kind == "two colours":
            tint[np.cos(angle - rng.uniform(0, 6)) > 0] *= 0.4
        elif kind == "ringed":
            tint[np.abs(distance - 0.75 * border) < 0.03] *= 0.4
        elif kind == "spotted":
            for _ in range(9):
                spot = rng.uniform(-0.14, 0.14, 2)
                tint *= (1 - 0.7 * _blob(rows, columns, y + spot[0], x + spot[1], 0.025, 0.025))[..., None]
        picture = skin * (1 - inside[..., None]) + tint * rng.uniform(0.85, 1.15) * inside[..., None]
        return as_pixels(np.clip(picture, 0, 1))

    return in_turn("moles", limit, (560, 105, 350), _MOLES, look, _MOLES, targets=_one_of_several(len(_MOLES)))
