"""A contact sheet of pairs from a build folder.

    python packages/eqben-builder/benchmarks/kubric_sheet.py FOLDER OUTPUT [--rows 4] [--skip 0] [--side 160]

Takes the first `--rows` pairs of each aspect, one aspect for each column, with their captions beneath.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from PIL import Image, ImageDraw

from eqben_builder.building import read_records

GAP, LINE = 3, 13


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--rows", type=int, default=4)
    parser.add_argument("--skip", type=int, default=0, help="pairs of each aspect to leave out first")
    parser.add_argument("--side", type=int, default=160)
    options = parser.parse_args()
    records = list(read_records(options.folder))
    aspects = sorted({record.aspect for record in records})
    wide, high = 2 * options.side + 3 * GAP, options.side + 2 * LINE + 2 * GAP
    page = Image.new("RGB", (wide * len(aspects), high * options.rows), "white")
    draw = ImageDraw.Draw(page)
    for column, aspect in enumerate(aspects):
        chosen = [record for record in records if record.aspect == aspect][options.skip :][: options.rows]
        for row, record in enumerate(chosen):
            left, top = column * wide + GAP, row * high + GAP
            for side, stored in enumerate(record.pictures()):
                picture = Image.fromarray(stored.load()).resize((options.side,) * 2, Image.Resampling.LANCZOS)
                page.paste(picture, (left + side * (options.side + GAP), top))
            for line, caption in enumerate((record.caption0, record.caption1)):
                draw.text((left, top + options.side + line * LINE), caption, fill="black", font_size=10)
    page.save(options.output, quality=82, optimize=True)


if __name__ == "__main__":
    main()
