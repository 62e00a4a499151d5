"""A phantom heart in short-axis slices: a cavity inside a wall, a crescent beside it, changing from base to apex."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int64

from eqben_builder.micro import generator_at
from gate_data.data import Data, Split
from gate_data.request import DataRequest, SplitName
from gate_runner.micro.seeds import NOTE, split_seed

CLASSES = ("background", "right ventricle", "myocardium", "left ventricle")
SLICES = 8
_SIZE = 64


class Volume(NamedTuple):
    """Grey values in 0 to 1, and the class of every voxel."""

    grey: Float[np.ndarray, "slices s s"]
    labels: Int64[np.ndarray, "slices s s"]


def volume(rng: np.random.Generator) -> Volume:
    """One heart.

    The left ventricle is an ellipse inside a wall of uneven thickness, the right ventricle what remains of a second
    ellipse beside it; both shrink towards the apex, where the right one ends first. A body wall, a liver and lungs
    surround them, blood and liver have nearly one brightness, and a bias field and Rician noise lie over all.
    """
    rows, columns = (np.mgrid[:_SIZE, :_SIZE] + 0.5) / _SIZE
    centre = rng.uniform(0.42, 0.58, 2)
    drift = rng.uniform(-0.05, 0.05, 2)
    radius = rng.uniform(0.11, 0.16)
    wall = rng.uniform(0.04, 0.075)
    squeeze = rng.uniform(0.8, 1.2)
    side = rng.uniform(-0.5, 0.5) + (np.pi if rng.random() < 0.5 else 0.0)
    septum = rng.uniform(0, 2 * np.pi)
    blood, muscle, tissue = rng.uniform(0.6, 0.85), rng.uniform(0.25, 0.45), rng.uniform(0.3, 0.6)
    ends = rng.uniform(0.6, 0.9)
    grey = np.empty((SLICES, _SIZE, _SIZE), dtype=np.float32)
    labels = np.zeros((SLICES, _SIZE, _SIZE), dtype=np.int64)
    liver = _ellipse(rows, columns, rng.uniform(0.75, 1.0), rng.uniform(0.1, 0.9), 0.25, 0.35) < 1
    vessel = _ellipse(rows, columns, rng.uniform(0.15, 0.85), rng.uniform(0.15, 0.85), 0.05, 0.05) < 1
    lungs = np.abs(columns - 0.5) > rng.uniform(0.33, 0.42)
    bias = 1 + rng.uniform(-0.3, 0.3) * (rows - 0.5) + rng.uniform(-0.3, 0.3) * (columns - 0.5)
    for index in range(SLICES):
        depth = index / (SLICES - 1)
        shrink = np.sqrt(1 - 0.85 * depth**2)
        cy, cx = centre + drift * depth
        angle = np.arctan2(rows - cy, columns - cx)
        distance = np.sqrt(((rows - cy) * squeeze) ** 2 + ((columns - cx) / squeeze) ** 2)
        cavity = radius * shrink
        thickness = wall * (1 + 0.3 * np.cos(angle - septum))
        left = distance < cavity
        muscle_here = (distance < cavity + thickness) & ~left
        reach = cavity + wall
        right_y, right_x = cy + np.sin(side) * reach, cx + np.cos(side) * reach
        right = (_ellipse(rows, columns, right_y, right_x, 1.25 * reach, 0.95 * reach) < 1) & (depth < ends)
        right &= ~left & ~muscle_here
        picture = np.full((_SIZE, _SIZE), tissue)
        picture[lungs] = 0.08
        picture[liver | vessel] = blood * 0.9
        picture[right] = blood
        picture[muscle_here] = muscle
        picture[left] = blood
        labels[index][right], labels[index][muscle_here], labels[index][left] = 1, 2, 3
        real = picture * bias + 0.09 * rng.standard_normal(picture.shape)
        imaginary = 0.09 * rng.standard_normal(picture.shape)
        grey[index] = np.sqrt(real**2 + imaginary**2)
    return Volume(np.clip(grey, 0, 1), labels)


def acdc(request: DataRequest) -> Data:
    """Slices of phantom hearts with the classes of ACDC; a volume's slices stay in one split."""

    def split(name: SplitName, count: int) -> Split:
        wanted = min(count, -(-request.cap(count * SLICES) // SLICES))
        made = [volume(generator_at(split_seed("acdc", name), index)) for index in range(wanted)]
        grey = torch.from_numpy(np.concatenate([one.grey for one in made]))
        images = grey.mul(255).round().byte()[:, None].expand(-1, 3, -1, -1).contiguous()
        labels = torch.from_numpy(np.concatenate([one.labels for one in made]))
        return Split(images, labels, groups=torch.arange(wanted).repeat_interleave(SLICES))

    return Data(split("train", 70), split("validation", 12), split("test", 40), CLASSES, NOTE).limited(request.limit)


def _ellipse(
    rows: Float[np.ndarray, "s s"], columns: Float[np.ndarray, "s s"], y: float, x: float, high: float, wide: float
) -> Float[np.ndarray, "s s"]:
    """Below 1 inside the ellipse."""
    distance: Float[np.ndarray, "s s"] = ((rows - y) / high) ** 2 + ((columns - x) / wide) ** 2
    return distance
