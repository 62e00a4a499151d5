"""Near copies planted at 1 % of 5,000 images: how many are found, how many groups are wrong, and images a second.

Images have the falling spectrum of photographs, with shapes in front; they are synthetic, 128 to 320 pixels wide, and
stored as JPEG files of quality 90. Of 50 of them `gate_data.near_planted.plant` makes a copy, ten with each change:
JPEG of quality 70, 5 % of both sides cut off at a random corner, half the size, mirrored, and 30 % brighter or darker.
Recall is the share of planted copies that are in a group with their original, precision the share of pairs within
groups that were planted. They are found by the hash; by each --encoder SPEC's features, whose threshold comes from
other copies, as `likeness_by` plants them; and by both, as a run does. With --cifar FOLDER the same is done with 100
copies of the files below a folder. The rate is that of reading and hashing files, measured on 10,000; the time for
100,000 images adds the comparison of as many sketches: 20,000 are timed, it grows with the square. Minutes are of CPU
time, since the wall clock of a shared machine tells of its other work.

    python packages/gate-runner/benchmarks/near_copies.py [--cifar FOLDER] [--encoder SPEC ...]
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import platform
import tempfile
import time
from collections import Counter, defaultdict
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from gate_data.near import Likeness, copies_by_likeness, copies_by_pixels, groups_of, near_copies, sketch_of
from gate_data.near_planted import plant
from gate_data.readers.decode import decode
from gate_data.remembered import remember_in
from vision_features.encoders import load_encoder
from vision_features.near_likeness import likeness_by

RESULTS = Path(__file__).parent / "results" / "near_copies.json"
IMAGES, TIMED, LARGE = 5_000, 20_000, 100_000


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


def planted(files: list[str], count: int, encoders: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Plant copies of some of the files, and say what of them is found by the hash, by features and by both."""
    with tempfile.TemporaryDirectory() as folder:
        copies = plant(files, Path(folder), count, seed=1)  # `likeness_by` plants others, by seed 0
        every = files + [copy.file for copy in copies]
        sketches = np.stack([sketch_of(decode(file, 128)) for file in every])
        assert (sketches.std(axis=(1, 2)) > 4).all(), "a flat image, which is not compared"
        likenesses = {spec: likeness_by(encoder)(every) for spec, encoder in encoders.items()}
    truth = {(copy.original, len(files) + number): copy.change for number, copy in enumerate(copies)}
    pixels = sketches.astype(np.float32)

    def row(pairs: Any) -> dict[str, Any]:
        """Of the pairs that a way finds: ``pairs(n)`` gives those among the first n images."""
        joined = _connected(pairs(len(every))) - _connected(pairs(len(files)))
        hits = joined & set(truth)
        return {
            "images": len(every),
            "planted": count,
            "recall": len(hits) / count,
            "precision": len(hits) / max(1, len(joined)),
            "missed": dict(Counter(truth[pair] for pair in set(truth) - hits)),
        }

    by_hash = functools.cache(lambda n: copies_by_pixels(pixels[:n]))
    rows = {"hash": row(by_hash)}
    for spec, alike in likenesses.items():
        by_features = functools.partial(_by_features, pixels, alike)
        rows[f"features of {spec}"] = row(by_features)
        rows[f"hash and features of {spec}"] = row(
            lambda n, by_features=by_features: np.concatenate([by_hash(n), by_features(n)])
        )
    return rows


def _by_features(pixels: np.ndarray, alike: Likeness, n: int) -> np.ndarray:
    return copies_by_likeness(pixels[:n], Likeness(alike.features[:n], alike.threshold))


def _connected(pairs: np.ndarray) -> set[tuple[int, int]]:
    """All pairs of images that a chain of pairs joins."""
    size = int(pairs.max(initial=-1)) + 1
    joined = connected_components(coo_array((np.ones(len(pairs)), pairs.T), shape=(size, size)), directed=False)[1]
    members: dict[int, list[int]] = defaultdict(list)
    for at in np.unique(pairs):
        members[joined[at]].append(int(at))
    return {pair for group in members.values() for pair in combinations(group, 2)}


def synthetic(folder: Path, count: int) -> tuple[list[str], bool]:
    """Files of drawn images, and whether they had to be drawn."""
    files = [f"{folder}/{number:05}.jpg" for number in range(count)]
    if all(map(os.path.exists, files)):
        return files, False
    rng = np.random.default_rng(0)
    for file in files:
        drawn(rng).save(file, quality=90)
    return files, True


def rate(files: list[str]) -> dict[str, float]:
    """Images that are read and hashed, of files in the system's cache: a second, and a second of one core."""
    start, begun = time.perf_counter(), time.process_time()
    near_copies(files)
    seconds, processor = time.perf_counter() - start, time.process_time() - begun
    return {
        "images": len(files),
        "images_per_second": len(files) / seconds,
        "images_per_CPU_second": len(files) / processor,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cifar", type=Path, help="a folder of image files of another kind")
    parser.add_argument("--encoder", nargs="*", default=[], help="specs of encoders whose features are measured, too")
    parser.add_argument("--folder", type=Path, help="of synthetic images: with those of an earlier run, its rows stay")
    parser.add_argument("--images", type=int, default=IMAGES)
    arguments = parser.parse_args()
    remember_in(None)
    encoders = {spec: load_encoder(spec, device="cpu") for spec in arguments.encoder}
    with tempfile.TemporaryDirectory() as temporary:
        files, are_new = synthetic(arguments.folder or Path(temporary), 2 * arguments.images)
        result: dict[str, Any] = {} if are_new else json.loads(RESULTS.read_text())
        if are_new or "reading_and_hashing" not in result:
            result = {"reading_and_hashing": rate(files)}
        print(result["reading_and_hashing"], flush=True)
        sets = {"synthetic": (files[: arguments.images], arguments.images // 100)}
        if arguments.cifar:
            sets["CIFAR-10, files"] = sorted(map(str, arguments.cifar.rglob("*.jpg"))), 100
        for name, (listed, count) in sets.items():
            result[name] = {**result.get(name, {}), **planted(listed, count, encoders)}
            print(name, json.dumps(result[name]), flush=True)
            RESULTS.write_text(json.dumps(result, indent=1) + "\n")
    rng = np.random.default_rng(0)
    sketches = rng.integers(0, 255, (TIMED, 8, 8), np.uint8).repeat(4, 1).repeat(4, 2)
    begun = time.process_time()
    groups_of(sketches)
    comparing = (time.process_time() - begun) * (LARGE / TIMED) ** 2
    reading = LARGE / result["reading_and_hashing"]["images_per_CPU_second"] / 2
    result["minutes_for_100,000_images"] = {"reading, on two cores": reading / 60, "comparing, on one": comparing / 60}
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
