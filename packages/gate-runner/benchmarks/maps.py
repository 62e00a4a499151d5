"""Memory and time of class maps that stay in their files: 512 px annotations of 150 classes, scaled to maps of 256 px.

For several numbers of maps, each in a process of its own: all are read once and kept on disk, their classes counted at
every pixel, and read again in batches of 8 as training does. Beside it, maps that are all held in memory.

python benchmarks/maps.py [--counts 1000 4000]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CLASSES, SIDE, FILES = 150, 512, 50


def run(count: int, text: str) -> dict[str, object]:
    import numpy as np
    import torch
    from PIL import Image

    from gate_data.data import Data, Split
    from gate_data.maps import Maps
    from gate_data.readers import ClassMap
    from gate_runner.benchmarks import BENCHMARKS
    from gate_runner.tasks import Job
    from gate_runner.tasks.training import targets_of
    from vision_adapters.rows.counting import log_frequencies
    from vision_features.encoders.encoder import Encoder
    from vision_features.features import FeatureCache

    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for number in range(FILES):
            coarse = rng.integers(0, CLASSES + 1, (16, 16), dtype=np.uint8)
            files.append(f"{folder}/{number}.png")
            Image.fromarray(coarse.repeat(SIDE // 16, 0).repeat(SIDE // 16, 1)).save(files[-1])
        kind = ClassMap({value: value - 1 for value in range(1, CLASSES + 1)}, ignored=(0,))

        def split(samples: int) -> Split[Maps]:
            named = tuple(files[index % FILES] for index in range(samples))
            return Split(torch.zeros(samples, 3, 8, 8, dtype=torch.uint8), Maps(named, 256, kind.read))

        data = Data(split(count), split(8), split(8), tuple(map(str, range(CLASSES))))
        encoder = Encoder("made-up", 8, lambda pixels: pixels.flatten(1).float())
        store = FeatureCache(Path(folder) / "kept", in_memory=0) if text == "disk" else FeatureCache(None)
        before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
        rows = targets_of(Job(encoder, BENCHMARKS["ade20k"], data, features=store))["train"]
        read = time.process_time()
        log_frequencies(rows, CLASSES)
        counted = time.process_time()
        for numbers in torch.randperm(count).split(8):
            rows[numbers]
        again = time.process_time()
    return {
        "maps": count, "kept": text, "read_cpu_seconds": read - start, "count_cpu_seconds": counted - read,
        "batches_cpu_seconds": again - counted, "megabytes_before": before / 1e3,
        "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--counts", type=int, nargs="+", default=[1000, 4000])
    parser.add_argument("--one", nargs=2)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(run(int(options.one[0]), options.one[1])))
        return
    rows = []
    for count in options.counts:
        for text in ("disk", "memory"):
            command = [sys.executable, "-W", "ignore", __file__, "--one", str(count), text]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            rows.append(json.loads(done.stdout.splitlines()[-1]))
            print(rows[-1], flush=True)
    result = {"hardware": platform.machine(), "cores": os.cpu_count(), "rows": rows}
    (Path(__file__).parent / "results" / "maps.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
