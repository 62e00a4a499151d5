"""Draw the README's contact sheet: every shape, colour and material, sampled scenes, and minimal pairs.

python packages/eqben-builder/benchmarks/contact_sheet.py [--output FILE]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from PIL import Image

from eqben_builder import micro

COLUMNS, SIZE, GAP = 10, 64, 2


def scenes() -> list[micro.Scene]:
    """Row by row: four of materials, two of sampled scenes, one of minimal pairs side by side for each kind."""
    sheet = []
    for m, material in enumerate(micro.MATERIALS):
        for c, colour in enumerate(micro.COLOURS):
            shape = micro.SHAPES[(c + m) % len(micro.SHAPES)]
            sheet.append(micro.Scene((micro.Item(shape, colour, "large", material, 0.5, 0.5, scale=0.36),)))
    sheet += [micro.scene_at(3, k, (2, 5), max_overlap=0.3) for k in range(2 * COLUMNS)]
    for kind in micro.KINDS:
        for k in range(COLUMNS // 2):
            pair = micro.minimal_pair(micro.generator_at(4, k), kind)
            sheet += [pair.scene0, pair.scene1]
    return sheet


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path(__file__).parents[1] / "contact_sheet.png")
    pictures = micro.render(scenes(), SIZE).images
    cell = SIZE + GAP
    rows = len(pictures) // COLUMNS
    page = np.full((rows * cell + GAP, COLUMNS * cell + GAP, 3), 255, dtype=np.uint8)
    for k, picture in enumerate(pictures):
        top, left = GAP + k // COLUMNS * cell, GAP + k % COLUMNS * cell
        page[top : top + SIZE, left : left + SIZE] = picture
    Image.fromarray(page).save(parser.parse_args().output, optimize=True)


if __name__ == "__main__":
    main()
