"""The filters that several corruptions share, as their published definitions compute them, in NumPy and SciPy."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float
from scipy import ndimage

Pixels = Float[np.ndarray, "h w c"]


def gaussian(image: Pixels, sigma: float) -> Pixels:
    """Blur each channel; the border is repeated, the kernel ends at four standard deviations."""
    smooth: Pixels = ndimage.gaussian_filter(image, (sigma, sigma, 0), mode="nearest", truncate=4.0)
    return smooth


def disk(radius: int, blur: float) -> Float[np.ndarray, "k k"]:
    """Return a disk of sum 1, its edge smoothed by a Gaussian over 3 or 5 pixels."""
    reach, width = (8, 3) if radius <= 8 else (radius, 5)
    line = np.arange(-reach, reach + 1)
    kernel = ((line[:, None] ** 2 + line[None] ** 2) <= radius**2).astype(np.float64)
    offsets = np.arange(width) - width // 2
    weights = np.exp(-(offsets**2) / (2 * blur**2))
    weights /= weights.sum()
    kernel /= kernel.sum()
    for axis in (0, 1):
        kernel = ndimage.correlate1d(kernel, weights, axis, mode="mirror")
    return kernel


def defocused(image: Pixels, radius: int, blur: float) -> Pixels:
    """Correlate each channel with a disk; the border is mirrored."""
    blurred: Pixels = ndimage.correlate(image, disk(radius, blur)[..., None], mode="mirror")
    return blurred


def motion_blurred(image: Pixels, radius: int, sigma: float, angle: float) -> Pixels:
    """Average along one direction with a one-sided Gaussian, as ImageMagick's motion blur; the border is repeated.

    Args:
        image: any range.
        radius: the kernel has ``2 radius + 1`` taps.
        sigma: of the Gaussian, pixels.
        angle: degrees, clockwise from the right.
    """
    taps = np.arange(2 * radius + 1)
    weights = np.exp(-(taps**2) / (2.0 * sigma**2))
    weights /= weights.sum()
    across, down = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    height, width = image.shape[:2]
    rows, columns = np.arange(height), np.arange(width)
    moved = np.zeros(image.shape)
    for tap, weight in zip(taps, weights, strict=True):
        below, right = math.ceil(tap * down - 0.5), math.ceil(tap * across - 0.5)
        shown = image[np.clip(rows + below, 0, height - 1)][:, np.clip(columns + right, 0, width - 1)]
        moved += weight * shown
    return moved


def zoomed(image: Pixels, factor: float) -> Pixels:
    """Magnify the middle by linear interpolation, at the same size."""
    height, width = image.shape[:2]
    tall, wide = math.ceil(height / factor), math.ceil(width / factor)
    top, left = (height - tall) // 2, (width - wide) // 2
    larger = ndimage.zoom(image[top : top + tall, left : left + wide], (factor, factor, 1), order=1)
    top, left = (larger.shape[0] - height) // 2, (larger.shape[1] - width) // 2
    middle: Pixels = larger[top : top + height, left : left + width]
    return middle


def plasma(size: int, decay: float, rng: np.random.Generator) -> Float[np.ndarray, "s s"]:
    """Return a fractal height map in 0 to 1 by the diamond-square algorithm on a torus.

    Args:
        size: a power of 2.
        decay: by which the amplitude falls at each finer step.
        rng: what it draws from.
    """
    field = np.zeros((size, size))
    step, amplitude = size, 100.0

    def drawn(total: np.ndarray) -> np.ndarray:
        return total / 4 + amplitude * rng.uniform(-amplitude, amplitude, total.shape)

    while step >= 2:
        half = step // 2
        corners = field[::step, ::step]
        pairs = corners + np.roll(corners, -1, 0)
        field[half::step, half::step] = drawn(pairs + np.roll(pairs, -1, 1))
        middles, corners = field[half::step, half::step], field[::step, ::step]
        field[::step, half::step] = drawn(middles + np.roll(middles, 1, 0) + corners + np.roll(corners, -1, 1))
        field[half::step, ::step] = drawn(middles + np.roll(middles, 1, 1) + corners + np.roll(corners, -1, 0))
        step, amplitude = half, amplitude / decay
    field -= field.min()
    heights: np.ndarray = field / field.max()
    return heights


def luminance(image: Pixels) -> Float[np.ndarray, "h w 1"]:
    """Return the grey of RGB by ITU-R 601."""
    return np.asarray(image @ np.array([[0.299], [0.587], [0.114]]))
