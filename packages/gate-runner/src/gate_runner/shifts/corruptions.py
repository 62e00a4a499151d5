"""ImageNet-C's fifteen corruptions at five strengths, on images in 0 to 1 in memory.

Source: Hendrycks and Dietterich 2019, "Benchmarking Neural Network Robustness to Common Corruptions and
Perturbations", and the constants of its ``make_imagenet_c.py``. We differ in this: images are not saved as JPEG of
quality 85 afterwards; draws come from a generator of each image's own; frost is a drawn texture, since the published
one needs six photographs; the affine move of the elastic transform is interpolated exactly, not at 1/32 pixel.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable

import numpy as np
from PIL import Image
from scipy import ndimage

from gate_runner.shifts.filters import (
    Pixels,
    defocused,
    gaussian,
    luminance,
    motion_blurred,
    plasma,
    zoomed,
)

Corruption = Callable[[Pixels, int, np.random.Generator], Pixels]
"""From pixels in 0 to 1, a strength from 0 to 4 and a generator to pixels, which may leave 0 to 1."""


def gaussian_noise(image: Pixels, strength: int, rng: np.random.Generator) -> Pixels:
    """Add normal noise."""
    return image + rng.normal(0, (0.08, 0.12, 0.18, 0.26, 0.38)[strength], image.shape)


def shot_noise(image: Pixels, strength: int, rng: np.random.Generator) -> Pixels:
    """Draw photons, so many for white."""
    photons = (60, 25, 12, 5, 3)[strength]
    return rng.poisson(image * photons) / photons


def impulse_noise(image: Pixels, strength: int, rng: np.random.Generator) -> Pixels:
    """Set a share of the values to 0 or 1, either as often."""
    hit = rng.random(image.shape) < (0.03, 0.06, 0.09, 0.17, 0.27)[strength]
    return np.where(hit, (rng.random(image.shape) <= 0.5).astype(float), image)


def defocus_blur(image: Pixels, strength: int, rng: np.random.Generator) -> Pixels:
    """Blur with a disk."""
    return defocused(image, *((3, 0.1), (4, 0.5), (6, 0.5), (8, 0.5), (10, 0.5))[strength])


def glass_blur(image: Pixels, strength: int, rng: np.random.Generator) -> Pixels:
    """Blur, let each pixel take that of a near place, blur again.

    The published code means to exchange the two pixels; as it is written, the near one keeps its own.
    """
    sigma, reach, rounds = ((0.7, 1, 2), (0.9, 2, 1), (1.0, 2, 3), (1.1, 3, 2), (1.5, 4, 2))[strength]
    blurred = (gaussian(image, sigma) * 255).astype(np.uint8)
    height, width = blurred.shape[:2]
    places = list(range(height * width))
    rows, columns = range(height - reach, reach, -1), range(width - reach, reach, -1)
    for _ in range(rounds):
        moves = rng.integers(-reach, reach, (len(rows) * len(columns), 2))
        steps = iter((moves[:, 1] * width + moves[:, 0]).tolist())
        for row in rows:
            start = row * width
            for column in columns:
                places[start + column] = places[start + column + next(steps)]
    near = blurred.reshape(-1, blurred.shape[2])[places].reshape(blurred.shape)
    return gaussian(near / 255, sigma)


def motion_blur(image: Pixels, strength: int, rng: np.random.Generator) -> Pixels:
    """Blur along a line of a random direction."""
    radius, sigma = ((10, 3), (15, 5), (15, 8), (15, 12), (20, 15))[strength]
    return motion_blurred(image, radius, sigma, rng.uniform(-45, 45))


def zoom_blur(image: Pixels, strength: int, rng: np.random.Generator) -> Pixels:
    """Average the image and magnifications of its middle."""
    most, step = ((1.11, 0.01), (1.16, 0.01), (1.21, 0.02), (1.26, 0.02), (1.31, 0.03))[strength]
    factors = np.arange(1, most, step)
    total = image.copy()
    for factor in factors:
        total += zoomed(image, float(factor))
    return total / (len(factors) + 1)


def snow(image: Pixels, strength: int, rng: np.random.Generator) -> Pixels:
    """Whiten, and let streaks fall."""
    mean, spread, zoom, least, radius, sigma, share = (
        (0.1, 0.3, 3, 0.5, 10, 4, 0.8),
        (0.2, 0.3, 2, 0.5, 12, 4, 0.7),
        (0.55, 0.3, 4, 0.9, 12, 8, 0.7),
        (0.55, 0.3, 4.5, 0.85, 12, 8, 0.65),
        (0.55, 0.3, 2.5, 0.85, 12, 12, 0.55),
    )[strength]
    layer = zoomed(rng.normal(mean, spread, (*image.shape[:2], 1)), zoom)
    layer[layer < least] = 0
    flakes = np.floor(np.clip(layer, 0, 1) * 255)
    falling = np.rint(motion_blurred(flakes, int(radius), sigma, rng.uniform(-135, -45))) / 255
    whitened = share * image + (1 - share) * np.maximum(image, luminance(image) * 1.5 + 0.5)
    return np.asarray(whitened + falling + falling[::-1, ::-1])


def frost(image: Pixels, strength: int, rng: np.random.Generator) -> Pixels:
    """Lay ice over it: a drawn texture of bright ridges, in place of the published photographs."""
    keep, ice = ((1, 0.4), (0.8, 0.6), (0.7, 0.7), (0.65, 0.7), (0.6, 0.75))[strength]
    field = plasma(_side(image), 1.7, rng)[: image.shape[0], : image.shape[1], None]
    ridges = (1 - np.abs(2 * field - 1)) ** 3
    return np.asarray(keep * image + ice * ridges * np.array([0.85, 0.95, 1.0]))


def fog(image: Pixels, strength: int, rng: np.random.Generator) -> Pixels:
    """Add a fractal haze and keep the brightest value."""
    amount, decay = ((1.5, 2), (2, 2), (2.5, 1.7), (2.5, 1.5), (3, 1.4))[strength]
    most = float(image.max())
    haze = plasma(_side(image), decay, rng)[: image.shape[0], : image.shape[1], None]
    return np.asarray((image + amount * haze) * most / (most + amount))


def brightness(image: Pixels, strength: int, rng: np.random.Generator) -> Pixels:
    """Raise the value of HSV, hue and saturation unchanged."""
    value = image.max(axis=2, keepdims=True)
    raised = np.clip(value + (0.1, 0.2, 0.3, 0.4, 0.5)[strength], 0, 1)
    return np.asarray(np.where(value > 0, image * raised / np.where(value > 0, value, 1), raised))


def contrast(image: Pixels, strength: int, rng: np.random.Generator) -> Pixels:
    """Move every channel to its mean."""
    means = image.mean(axis=(0, 1), keepdims=True)
    return np.asarray((image - means) * (0.4, 0.3, 0.2, 0.1, 0.05)[strength] + means)


def elastic_transform(image: Pixels, strength: int, rng: np.random.Generator) -> Pixels:
    """Move three points at random, then every pixel by a smooth random field."""
    alpha, sigma, affine = (
        (488.0, 170.8, 24.4),
        (488.0, 19.52, 48.8),
        (12.2, 2.44, 4.88),
        (17.08, 2.44, 4.88),
        (29.28, 2.44, 4.88),
    )[strength]
    height, width = image.shape[:2]
    middle, size = np.array([height, width]) // 2, min(height, width) // 3
    before = np.array([middle + size, [middle[0] + size, middle[1] - size], middle - size], dtype=float)
    after = before + rng.uniform(-affine, affine, before.shape)
    matrix = np.linalg.solve(np.column_stack([after, np.ones(3)]), before)
    across, down = np.meshgrid(np.arange(width), np.arange(height))
    start = np.stack([across, down, np.ones_like(across)], axis=-1) @ matrix
    moved = [_at(image[..., channel], start[..., 1], start[..., 0], "mirror") for channel in range(image.shape[2])]
    right, below = (
        ndimage.gaussian_filter(rng.uniform(-1, 1, (height, width)), sigma, mode="reflect", truncate=3) * alpha
        for _ in range(2)
    )
    return np.stack([_at(channel, down + below, across + right, "reflect") for channel in moved], axis=-1)


def pixelate(image: Pixels, strength: int, rng: np.random.Generator) -> Pixels:
    """Average boxes of pixels."""
    share, picture = (0.6, 0.5, 0.4, 0.3, 0.25)[strength], _as_image(image)
    small = picture.resize((int(picture.width * share), int(picture.height * share)), Image.Resampling.BOX)
    return np.asarray(small.resize(picture.size, Image.Resampling.BOX)) / 255


def jpeg_compression(image: Pixels, strength: int, rng: np.random.Generator) -> Pixels:
    """Save as JPEG of low quality."""
    file = io.BytesIO()
    _as_image(image).save(file, "JPEG", quality=(25, 18, 15, 10, 7)[strength])
    return np.asarray(Image.open(file).convert("RGB")) / 255


def resolution(image: Pixels, strength: int, rng: np.random.Generator) -> Pixels:
    """Scale to 1/2, 1/3, 1/4, 1/6 or 1/8 of the side, and back."""
    picture, part = _as_image(image), (2, 3, 4, 6, 8)[strength]
    small = picture.resize((max(1, picture.width // part), max(1, picture.height // part)), Image.Resampling.BICUBIC)
    return np.asarray(small.resize(picture.size, Image.Resampling.BICUBIC)) / 255


def grey(image: Pixels, strength: int, rng: np.random.Generator) -> Pixels:
    """Leave the luminance alone."""
    return np.repeat(luminance(image), image.shape[2], axis=2)


CORRUPTIONS: dict[str, Corruption] = {
    function.__name__: function
    for function in (
        gaussian_noise, shot_noise, impulse_noise, defocus_blur, glass_blur, motion_blur, zoom_blur, snow, frost, fog,
        brightness, contrast, elastic_transform, pixelate, jpeg_compression,
    )
}  # fmt: skip
"""The fifteen of ImageNet-C, in its order."""


def _side(image: Pixels) -> int:
    """Return the side of a fractal: 256 as published, or the next power of 2 of a larger image."""
    return max(256, int(2 ** math.ceil(math.log2(max(image.shape[:2])))))


def _as_image(image: Pixels) -> Image.Image:
    return Image.fromarray(np.rint(image * 255).astype(np.uint8))


def _at(channel: np.ndarray, rows: np.ndarray, columns: np.ndarray, mode: str) -> np.ndarray:
    values: np.ndarray = ndimage.map_coordinates(channel, [rows, columns], order=1, mode=mode)
    return values
