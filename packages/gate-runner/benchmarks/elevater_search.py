"""ELEVATER's search of learning rate and weight decay: from kept features, beside encoding anew in every run.

micro-clip, one made-up data set, 20 images per class by ELEVATER's rule, class texts. `kept` is what the runner does:
one pass of the encoder, then all configurations side by side. `anew` is a loop over configurations, each of which
encodes the images again and trains its own head, as a toolkit does that starts a process for each. Both are run, in
turn, and must pick the same. Processor seconds, one thread.

    python packages/gate-runner/benchmarks/elevater_search.py [--set icinw-textures] [--repeats 3]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

from gate_runner.benchmarks import BENCHMARKS, DataRequest
from knowledge_prompts import ClassPrompts, build_prompts, class_embeddings
from vision_adapters.fewshot import elevater_indices
from vision_adapters.tuning import Tuned, TuningData, tune, tuning_data
from vision_features.encoders import load_encoder

sys.path.insert(0, str(Path(__file__).parents[2] / "adapters" / "tests"))  # where the search run after run is
from _run_after_run import tune_run_after_run


def main() -> None:
    """Measure, print and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", default="icinw-textures")
    parser.add_argument("--shots", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "elevater_search.json")
    args = parser.parse_args()
    encoder = load_encoder("micro-clip", device="cpu")
    data = BENCHMARKS[args.set].load("micro", DataRequest(size=encoder.image_size))
    rows = torch.from_numpy(elevater_indices(data.train.targets, args.shots, 0).indices)
    images, labels = data.train.images[rows], data.train.targets[rows]
    prompts = build_prompts(ClassPrompts(args.set, ["a {}"], list(data.classes)))
    texts = class_embeddings(lambda words: encoder.encode_text(words).numpy(), prompts).weights

    def encoded() -> TuningData:
        features = torch.cat([encoder.encode_image(part).cpu() for part in images.split(64)])
        return tuning_data(
            features, labels, classes=len(data.classes), class_embeddings=torch.from_numpy(texts).float()
        )

    def from_cache() -> Tuned:
        return tune(encoded(), "elevater")

    def anew() -> Tuned:
        tuned = tune_run_after_run(encoded())
        for _ in tuned.candidates:  # the first pass was for the first run; the last of these is for the final one
            encoded()
        return tuned

    seconds: dict[str, list[float]] = {"kept": [], "anew": []}
    picks: dict[str, Any] = {}
    for _ in range(args.repeats):
        for name, make in (("kept", from_cache), ("anew", anew)):
            start = time.process_time()
            tuned = make()
            seconds[name].append(time.process_time() - start)
            picks[name] = tuned.best_params
        if picks["kept"] != picks["anew"]:
            raise SystemExit(f"not the same pick: {picks}")
    ratio = statistics.median(seconds["anew"]) / statistics.median(seconds["kept"])
    report = {
        "set": args.set,
        "images": len(images),
        "runs": len(tuned.candidates) + 1,
        "pick": picks["kept"],
        "processor_seconds": seconds,
        "ratio_of_medians": ratio,
        "load": os.getloadavg()[0],
        "versions": {name: version(name) for name in ("vision-adapters", "torch", "numpy")},
    }
    args.output.write_text(json.dumps(report, indent=2) + "\n")
    print(f"{len(images)} images, {report['runs']} runs: {ratio:.1f} times as fast from kept features; {picks['kept']}")


if __name__ == "__main__":
    main()
