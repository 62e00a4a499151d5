"""How clean a rendered scene is for its CPU time: samples, aiming at the sky or not, denoised or not.

    python packages/eqben-builder/benchmarks/render_quality.py [--scenes 3] [--output FILE]

The truth is the denoised mean of five renders of 32 samples with light that is aimed at the sky, which no other variant
shares its noise with. Variants take turns scene by scene; seconds are process time of the beauty pass alone, and PSNR
is that of the 8-bit pictures; medians over scenes. It stops when a variant's mean light is off by more than 1 %, which
would mean that light is lost and not noise.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

import numpy as np
from reporting import report

from eqben_builder.engines import mitsuba_engine
from eqben_builder.engines.denoise import Denoiser
from eqben_builder.kubric.pairs import ASPECTS, Choices, scene_pair
from eqben_builder.micro import generator_at

SIZE = 224
VARIANTS = {"aimed, 16": (1.0, 16), "not aimed, 16": (0.0, 16), "not aimed, 12": (0.0, 12), "not aimed, 8": (0.0, 8)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenes", type=int, default=3)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    engine = mitsuba_engine.MitsubaEngine()
    mi, denoiser = mitsuba_engine._mitsuba(), Denoiser(SIZE, SIZE)
    collected: dict[str, dict[str, list[float]]] = {
        name: {"seconds": [], "noisy": [], "denoised": []} for name in VARIANTS
    }
    for k in range(options.scenes):
        pair = scene_pair(generator_at(17, k), ASPECTS[k % 3], Choices(engine.shapes))
        assert pair is not None
        loaded = {weight: engine.loaded(pair.scene0, SIZE, sky_weight=weight) for weight in (1.0, 0.0)}
        guides = mitsuba_engine._guides(mi, loaded[1.0], "albedo:albedo,normal:sh_normal", 2, 1)
        many = [np.array(mi.render(loaded[1.0], spp=32, seed=100 + seed), dtype=np.float32) for seed in range(5)]
        truth = np.mean(many, axis=0, dtype=np.float32)
        clean = mitsuba_engine._bytes(denoiser(truth, guides[..., :3], guides[..., 3:6])).astype(float)
        for name, (weight, samples) in VARIANTS.items():
            start = time.process_time()
            noisy = np.array(mi.render(loaded[weight], spp=samples, seed=3), dtype=np.float32)
            collected[name]["seconds"].append(time.process_time() - start)
            if abs(float(noisy.mean() / truth.mean()) - 1) > 0.01:
                sys.exit(f"FAILED: {name} samples: mean light {noisy.mean():.4f}, expected {truth.mean():.4f}")
            denoised = denoiser(noisy, guides[..., :3], guides[..., 3:6])
            for kind, picture in (("noisy", noisy), ("denoised", denoised)):
                error = float(np.mean((mitsuba_engine._bytes(picture) - clean) ** 2))
                collected[name][kind].append(10 * float(np.log10(255**2 / error)))
    medians = {
        name: {kind: round(statistics.median(values), 3) for kind, values in columns.items()}
        for name, columns in collected.items()
    }
    result = {"scenes": options.scenes, "size": SIZE, "median": medians, "versions": engine.versions()}
    report(result, options.output)


if __name__ == "__main__":
    main()
