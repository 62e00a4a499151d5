"""The second world: a pool of Eq-Kubric pairs, made once: python experiments/eqsim_proof/floor.py FOLDER ENGINE.

Pictures of 64 pixels. "raster" draws flat silhouettes (20 processor seconds in all), "mitsuba" traces six paths a pixel
and denoises (8 minutes). Stopped, it continues with the next chunk.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from eqben_builder.building.builder import Made
from eqben_builder.engines.mitsuba_engine import MitsubaEngine
from eqben_builder.engines.raster_engine import SILHOUETTES, RasterEngine
from eqben_builder.kubric import ASPECTS, KubricBuilder
from eqben_builder.micro.attributes import PLURALS

SEED, CHUNK, CHUNKS = 40_000_000, 300, 16
KINDS = {"attribute": "attribute", "counting": "count", "location": "relation"}
"""The micro world's names of Kubric's aspects, of which a third of each chunk is."""
WORDS = SILHOUETTES | {f"{solid}s": PLURALS[flat] for solid, flat in SILHOUETTES.items()}
WORDS = WORDS | {"crosses": "crosses", "rubber": "plain", "metal": "shiny"}
"""What the raster engine draws in place of solids and materials, so that micro-clip has a word for it."""


def render_chunk(builder: KubricBuilder, chunk: int, path: Path) -> None:
    """Render the indices of a chunk; what its certificate refuses is left out."""
    makes = [builder.make(index) for index in range(chunk * CHUNK, (chunk + 1) * CHUNK)]
    pairs = [pair for pair in makes if isinstance(pair, Made)]
    images = np.stack([image for pair in pairs for image in pair.images])
    texts = np.array([text for pair in pairs for text in pair.captions])
    aspects = np.array([KINDS[pair.aspect] for pair in pairs])
    beside = path.with_suffix(".part.npz")
    np.savez(beside, images=images, texts=texts, kinds=aspects)
    beside.replace(path)


def pool(folder: Path) -> dict[str, tuple[np.ndarray, list[str]]]:
    """Pictures [2 p, 64, 64, 3] and captions of all pairs of each kind; rows 2k and 2k + 1 are a pair."""
    files = [folder / f"kubric-{chunk:02}.npz" for chunk in range(CHUNKS)]
    missing = [file.name for file in files if not file.exists()]
    if missing:
        raise SystemExit(f"{folder} lacks {missing[0]}: run floor.py {folder} first")
    chunks = [np.load(file) for file in files]
    images, texts, kinds = (np.concatenate([chunk[name] for chunk in chunks]) for name in ("images", "texts", "kinds"))
    drawn = {}
    for kind in KINDS.values():
        rows = np.flatnonzero(np.repeat(kinds == kind, 2))
        drawn[kind] = (
            images[rows],
            [re.sub(r"\w+", lambda m: WORDS.get(m[0], m[0]), str(text)) for text in texts[rows]],
        )
    return drawn


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    engine = {"raster": RasterEngine, "mitsuba": lambda: MitsubaEngine(samples=6)}[sys.argv[2]]()
    builder = KubricBuilder(aspects=ASPECTS, engine=engine, seed=SEED, size=64)
    for chunk in range(CHUNKS):
        path = folder / f"kubric-{chunk:02}.npz"
        if not path.exists():
            render_chunk(builder, chunk, path)
            print(path, flush=True)


if __name__ == "__main__":
    main()
