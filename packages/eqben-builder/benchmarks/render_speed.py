"""How fast the micro world is drawn, against Pillow's polygons at four times the size, scaled down.

    python packages/eqben-builder/benchmarks/render_speed.py [--output FILE]

Both draw the same plain scenes on one thread, in turns; times are process time, the ratio is that of the medians.
Correctness comes first: coverage must sum to the analytic areas, and both pictures must agree.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import PIL
from PIL import Image, ImageDraw

from eqben_builder import micro
from eqben_builder.micro.attributes import RGB
from eqben_builder.micro.scene import AREA

SIZE, SUPERSAMPLED, SCENES, ROUNDS = 64, 4, 400, 7


def outline(item: micro.Item) -> list[tuple[float, float]]:
    """The item's outline in units of the image's side."""

    def ray(radius: float, degrees: float) -> tuple[float, float]:
        return radius * math.sin(math.radians(degrees)), -radius * math.cos(math.radians(degrees))

    side, wide, long, thin = math.sqrt(0.5), 0.62, 0.92, 0.3
    corners: dict[str, list[tuple[float, float]]] = {
        "circle": [ray(0.88, 6 * k) for k in range(60)],
        "ring": [ray(0.92, 6 * k) for k in range(60)],
        "square": [(-side, -side), (side, -side), (side, side), (-side, side)],
        "triangle": [ray(1, 120 * k) for k in range(3)],
        "diamond": [(0, -1), (wide, 0), (0, 1), (-wide, 0)],
        "star": [ray(0.45 if k % 2 else 1, 36 * k) for k in range(10)],
        "cross": [
            (x * sx, y * sy)
            for sx, sy, turn in ((-1, -1, 0), (1, -1, 1), (1, 1, 0), (-1, 1, 1))
            for x, y in [((long, thin), (thin, thin), (thin, long)), ((thin, long), (thin, thin), (long, thin))][turn]
        ],
    }
    lobe = 0.96 * math.sqrt(0.125)
    corners["heart"] = [(0.0, 0.96 * side), *((-lobe + 0.48 * x, -lobe + 0.48 * y) for x, y in arc(-135, 45))]
    corners["heart"] += [(lobe + 0.48 * x, -lobe + 0.48 * y) for x, y in arc(-45, 135)]
    cos, sin = math.cos(item.angle) * item.radius, math.sin(item.angle) * item.radius
    return [(item.x + x * cos - y * sin, item.y + x * sin + y * cos) for x, y in corners[item.shape]]


def arc(first: int, last: int) -> list[tuple[float, float]]:
    """Points on the unit circle, clockwise from "up", every six degrees."""
    return [(math.sin(math.radians(a)), -math.cos(math.radians(a))) for a in range(first, last + 1, 6)]


def pillow(scenes: list[micro.Scene]) -> np.ndarray[Any, Any]:
    """The peer: plain polygons, supersampled and box-filtered."""
    side = SIZE * SUPERSAMPLED
    pictures = np.empty((len(scenes), SIZE, SIZE, 3), dtype=np.uint8)
    for k, scene in enumerate(scenes):
        image = Image.new("RGB", (side, side), tuple(round(255 * value) for value in scene.background))
        for item in scene.items:
            colour = tuple(round(255 * value) for value in RGB[item.colour])
            points = [(x * side - 0.5, y * side - 0.5) for x, y in outline(item)]
            if item.shape != "ring":
                ImageDraw.Draw(image).polygon(points, fill=colour)
                continue
            mask = Image.new("L", (side, side), 0)
            ImageDraw.Draw(mask).polygon(points, fill=255)
            hole = [(item.x * side - 0.5 + (x - item.x * side + 0.5) * 52 / 92, y) for x, y in points]
            hole = [(x, item.y * side - 0.5 + (y - item.y * side + 0.5) * 52 / 92) for x, y in hole]
            ImageDraw.Draw(mask).polygon(hole, fill=0)
            image.paste(colour, mask=mask)
        pictures[k] = np.asarray(image.resize((SIZE, SIZE), Image.Resampling.BOX))
    return pictures


def check(scenes: list[micro.Scene]) -> str | None:
    """What is wrong, or None."""
    for scene in scenes[:50]:
        for item, mask in zip(scene.items, micro.render([scene], SIZE, coverage=True).coverage[0], strict=True):
            area = AREA[item.shape] * (item.radius * SIZE) ** 2
            if abs(float(mask.sum()) - area) > 1.5:
                return f"{item} covers {mask.sum():.2f} pixels, its area is {area:.2f}"
    gap = np.abs(micro.render(scenes, SIZE).images.astype(float) - pillow(scenes)).mean()
    return None if gap < 1.5 else f"pictures differ by {gap:.2f} of 255 on average"


def median_seconds(functions: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Median process time of each, taken in turns."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(ROUNDS):
        for name, function in functions.items():
            start = time.process_time()
            function()
            times[name].append(time.process_time() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="write the figures as JSON")
    output = parser.parse_args().output
    plain = [micro.scene_at(17, k, (1, 4), materials=("plain",)) for k in range(SCENES)]
    wrong = check(plain)
    if wrong:
        sys.exit(f"not measured, because {wrong}")
    mixed = [micro.scene_at(17, k, (1, 4)) for k in range(SCENES)]
    seconds = median_seconds(
        {
            "ours, plain": lambda: micro.render(plain, SIZE),
            "Pillow, plain": lambda: pillow(plain),
            "ours, all materials": lambda: micro.render(mixed, SIZE),
            "ours, all materials, with coverage": lambda: micro.render(mixed, SIZE, coverage=True),
            "sample_scene": lambda: [micro.scene_at(18, k, (1, 4)) for k in range(SCENES)],
            "caption": lambda: [micro.caption(scene, micro.generator_at(18, k)) for k, scene in enumerate(mixed)],
            **{
                f"minimal_pair, {kind}": lambda kind=kind: [
                    micro.minimal_pair(micro.generator_at(19, k), kind) for k in range(SCENES)
                ]
                for kind in micro.KINDS
            },
        }
    )
    info = Path("/proc/cpuinfo")
    names = [line for line in info.read_text().splitlines() if line.startswith("model name")] if info.exists() else []
    result = {
        "per_second": {name: round(SCENES / value) for name, value in seconds.items()},
        "pillow_over_ours": round(seconds["Pillow, plain"] / seconds["ours, plain"], 2),
        "setting": f"{SIZE} px, 1 to 4 items, median of {ROUNDS} rounds of {SCENES}, process time, one thread",
        "hardware": f"{os.cpu_count()} x {names[0].split(':')[1].strip() if names else platform.machine()}",
        "versions": {"python": platform.python_version(), "numpy": np.__version__, "pillow": PIL.__version__},
    }
    print(json.dumps(result, indent=1))
    if output:
        output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
