"""CPU time of patch features by each variant beside the encoder's own patch features, on the same images.

Both alternate in one process, on one thread; the ratio is of medians. A variant takes each patch through the end of the
tower. `proxyclip` is left out: a second encoder's cost is that encoder's.

    python packages/gate-runner/benchmarks/patch_features.py [--encoder open_clip:ViT-B-16/random] [--images 4]
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from importlib.metadata import version
from pathlib import Path

import torch

from vision_features import load_encoder
from vision_features.encoders.patch_features import VARIANTS
from vision_features.encoders.surgery import Surgery

RESULTS = Path(__file__).with_name("results") / "patch_features.json"
TARGET = 1.3
"""Times the encoder's own patch features, at most."""


def main() -> None:
    """Check that the untouched variant is the encoder's own, then time all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", default="open_clip:ViT-B-16/random")
    parser.add_argument("--images", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    encoder = load_encoder(arguments.encoder)
    surgery = Surgery(encoder)
    images = torch.randint(0, 256, (arguments.images, *encoder.shape), dtype=torch.uint8)
    if encoder.projection is not None:
        plain = surgery.encode(encoder.prepare(images), VARIANTS["class-token"]).tokens
        own = encoder.encode_patches(images).tokens @ encoder.projection.float()
        difference = float((plain - own).abs().max() / own.abs().max())
        assert difference < 1e-3, f"patches differ by {difference:.2g} from the encoder's own, projected"
    names = [name for name, variant in VARIANTS.items() if not variant.proxy]
    times: dict[str, list[float]] = {name: [] for name in ("own", *names)}
    for repeat in range(arguments.repeats + 1):
        for name in times:
            start = time.process_time()
            if name == "own":
                encoder.encode_patches(images)
            else:
                surgery.encode(encoder.prepare(images), VARIANTS[name])
            if repeat:
                times[name].append(time.process_time() - start)
    own_time = statistics.median(times["own"])
    ratios = {name: statistics.median(times[name]) / own_time for name in names}
    for name, ratio in ratios.items():
        print(f"{name}: {ratio:.2f} times the encoder's own patch features{'' if ratio <= TARGET else ' (too slow)'}")
    about = {
        "encoder": arguments.encoder,
        "images": arguments.images,
        "own_seconds": own_time,
        "ratios": ratios,
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
        "versions": {name: version(name) for name in ("torch", "open_clip_torch")},
    }
    RESULTS.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    if max(ratios.values()) > TARGET:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
