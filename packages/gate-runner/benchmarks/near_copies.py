"""Near copies planted at 1 % of 5,000 images: how many are found, how many groups are wrong, and images a second.

Images have the falling spectrum of photographs, with shapes in front; they are synthetic, 128 to 320 pixels wide, and
stored as JPEG files of quality 90. Of 50 of them a copy is planted, ten with each change: JPEG of quality 70, 5 % of
both sides cut off at a random corner, half the size, mirrored, and 30 % brighter or darker. Recall is the share of
planted copies that are in a group with their original, precision the share of pairs within groups that were planted.
With --cifar FOLDER the same is done with the files below a folder. The rate is that of reading and hashing files;
the time for 100,000 images adds the comparison of as many sketches: 20,000 are timed, it grows with the square.

    python packages/gate-runner/benchmarks/near_copies.py [--cifar FOLDER]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageEnhance

from gate_data.near import groups_of, near_copies
from gate_data.remembered import remember_in

RESULTS = Path(__file__).parent / "results" / "near_copies.json"
IMAGES, PLANTED, TIMED, LARGE = 5_000, 50, 20_000, 100_000


def drawn(rng: np.random.Generator) -> Image.Image:
    """An image with the falling spectrum of photographs, and up to five shapes."""
    high, wide = (int(side) for side in rng.integers(128, 320, 2))
    squared = np.fft.fftfreq(high)[:, None] ** 2 + np.fft.rfftfreq(wide)[None] ** 2
    squared[0, 0] = 1
    phases = np.exp(2j * np.pi * rng.random((3, *squared.shape)))
    waves = np.fft.irfft2(squared ** -rng.uniform(0.45, 0.65) * phases, s=(high, wide)).transpose(1, 2, 0)
    waves = (waves - waves.mean(axis=(0, 1))) / waves.std(axis=(0, 1))
    pixels = waves * rng.uniform(25, 60) + rng.uniform(80, 170, 3)
    image = Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
    canvas = ImageDraw.Draw(image)
    for _ in range(rng.integers(0, 6)):
        x, y, w, h = rng.random(4) * (wide, high, wide / 2, high / 2)
        colour = tuple(int(value) for value in rng.integers(0, 255, 3))
        (canvas.ellipse if rng.random() < 0.5 else canvas.rectangle)((x, y, x + w, y + h), fill=colour)
    return image


def cropped(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    """The image without 5 % of both sides."""
    wide, high = image.size
    across, down = round(0.05 * wide), round(0.05 * high)
    left, top = int(rng.integers(0, across + 1)), int(rng.integers(0, down + 1))
    return image.crop((left, top, left + wide - across, top + high - down))


CHANGES: dict[str, Callable[[Image.Image, np.random.Generator], Image.Image]] = {
    "jpeg 70": lambda image, rng: image,
    "crop 5 %": cropped,
    "half size": lambda image, rng: image.resize((image.width // 2, image.height // 2)),
    "mirrored": lambda image, rng: image.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
    "brightness": lambda image, rng: ImageEnhance.Brightness(image).enhance(rng.choice([0.7, 1.3])),
}


def planted(files: list[str], folder: Path, count: int) -> dict[str, Any]:
    """Plant copies of some of the files, and say what of them is found."""
    rng = np.random.default_rng(1)
    already = {pair for group in near_copies(files).groups for pair in _pairs(group)}
    originals = rng.choice(len(files), count, replace=False)
    every, truth = list(files), {}
    for number, original in enumerate(originals):
        name = list(CHANGES)[number % len(CHANGES)]
        with Image.open(files[original]) as image:
            changed = CHANGES[name](image.convert("RGB"), rng)
        path = folder / f"copy{number}.jpg"
        changed.save(path, quality=70 if name == "jpeg 70" else 90)
        truth[int(original), len(every)] = name
        every.append(str(path))
    start = time.perf_counter()
    groups = near_copies(every).groups
    seconds = time.perf_counter() - start
    pairs = {pair for group in groups for pair in _pairs(group)} - already
    hits = pairs & set(truth)
    return {
        "images": len(every),
        "planted": count,
        "recall": len(hits) / count,
        "precision": len(hits) / max(1, len(pairs)),
        "missed": dict(Counter(truth[pair] for pair in set(truth) - hits)),
        "pairs_before": len(already),
        "images_per_second": len(every) / seconds,
    }


def _pairs(group: tuple[int, ...]) -> list[tuple[int, int]]:
    return [(first, second) for at, first in enumerate(group) for second in group[at + 1 :]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cifar", type=Path, help="a folder of image files of another kind")
    parser.add_argument("--images", type=int, default=IMAGES)
    arguments = parser.parse_args()
    remember_in(None)
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        files = [f"{folder}/{number:05}.jpg" for number in range(arguments.images)]
        for file in files:
            drawn(rng).save(file, quality=90)
        result: dict[str, Any] = {"synthetic": planted(files, Path(folder), arguments.images // 100)}
    print(result, flush=True)
    if arguments.cifar:
        with tempfile.TemporaryDirectory() as folder:
            files = sorted(map(str, arguments.cifar.rglob("*.jpg")))
            result["CIFAR-10, files"] = planted(files, Path(folder), PLANTED)
        print(result["CIFAR-10, files"], flush=True)
    sketches = rng.integers(0, 255, (TIMED, 8, 8), np.uint8).repeat(4, 1).repeat(4, 2)
    start = time.perf_counter()
    groups_of(sketches)
    comparing = (time.perf_counter() - start) * (LARGE / TIMED) ** 2
    reading = LARGE / result["synthetic"]["images_per_second"]
    result["minutes_for_100,000_images"] = {"reading": reading / 60, "comparing": comparing / 60}
    result["machine"] = {
        "processor": platform.processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
    print(json.dumps(result, indent=1))
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
