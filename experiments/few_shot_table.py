"""Which head for few labelled images? Every tuning method on micro-clip's features of two real data sets.

    python experiments/few_shot_table.py
    python experiments/few_shot_table.py --data-root DATA    # Omniglot too, from DATA/omniglot/*.zip

scikit-learn's handwritten digits: drawn by ELEVATER's rule from the first 1,000, scored on the other 797; class texts
are "a photo of a zero" and so on. Omniglot: the 20 letters of the alphabet `ALPHABET`, 1 to 10 of a letter's 20
drawings for training and all that are left for testing; a letter has no name, so only methods that need no texts run.
Ten draws (seeds 0 to 9) per cell; the interval is Student's for the mean over draws, the test images being the same.
Each draw splits off its own validation, or has five folds, as `tuning_data` does by default. A method that cannot work
with so few images (ELEVATER's search with one per class has none to validate on) says why, and its cell stays empty.
Writes results/few_shot_table.json and results/few_shot_table.md after each cell; --resume keeps what they hold and runs
the cells that they lack.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import sklearn
import torch
from PIL import Image
from sklearn.datasets import load_digits

from vision_adapters.fewshot import elevater_indices
from vision_adapters.tuning import HeldOut, tune, tuning_data
from vision_features.encoders import load_encoder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from vision_features.encoders.encoder import Encoder

RESULTS = Path(__file__).with_name("results")
METHODS = ("zero_shot", "anchored", "logistic", "gda", "lp++", "clap", "tip_adapter", "elevater")
WITHOUT_TEXTS = ("anchored", "logistic", "elevater")
NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
ALPHABET = "Korean"
T_95 = {2: 12.706, 3: 4.303, 5: 2.776, 10: 2.262}


class Cached(NamedTuple):
    """Features once encoded; the pool is what shots are drawn from, and `test` is None where the rest is tested."""

    features: Tensor
    labels: Tensor
    pool: Tensor
    texts: Tensor | None
    rest_is_tested: bool


def encode(encoder: Encoder, images: Tensor) -> Tensor:
    return torch.cat([encoder.encode_image(batch) for batch in torch.split(images, 64)]).clone()


def digits(encoder: Encoder) -> Cached:
    pixels, labels = load_digits(return_X_y=True)
    grey = torch.from_numpy(np.rint(pixels * 255 / 16).astype(np.uint8)).reshape(-1, 1, 8, 8).expand(-1, 3, -1, -1)
    texts = encoder.encode_text([f"a photo of a {name}" for name in NAMES]).clone()
    return Cached(encode(encoder, grey), torch.from_numpy(labels).long(), torch.arange(1000), texts, False)


def omniglot(encoder: Encoder, root: Path) -> Cached:
    for path in sorted((root / "omniglot").glob("images_background*.zip")):
        with zipfile.ZipFile(path) as file:
            members = sorted(n for n in file.namelist() if f"/{ALPHABET}/" in n and n.endswith(".png"))
            if not members:
                continue
            letters = sorted({member.split("/")[2] for member in members})[:20]
            chosen = [member for member in members if member.split("/")[2] in letters]
            drawn = []
            for member in chosen:
                with file.open(member) as each:
                    drawn.append(np.asarray(Image.open(each).convert("L")))
        images = torch.from_numpy(np.stack(drawn))[:, None].expand(-1, 3, -1, -1)
        labels = torch.tensor([letters.index(member.split("/")[2]) for member in chosen])
        return Cached(encode(encoder, images), labels, torch.arange(len(labels)), None, True)
    raise SystemExit(f"{root}/omniglot has no zip file with the alphabet {ALPHABET}")


def accuracy(cached: Cached, method: str, shots: int, seed: int, scale: float) -> float:
    drawn = elevater_indices(cached.labels[cached.pool], shots, seed).indices
    chosen = cached.pool[torch.from_numpy(drawn)]
    tested = torch.ones(len(cached.labels), dtype=torch.bool)
    tested[chosen if cached.rest_is_tested else cached.pool] = False
    data = tuning_data(
        cached.features[chosen], cached.labels[chosen], class_embeddings=cached.texts, logit_scale=scale, seed=seed
    )
    test_set = HeldOut(cached.features[tested], cached.labels[tested])
    return test_set.score(tune(data, method), resamples=0).value


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Mean, and half the 95 % interval's length."""
    return statistics.fmean(values), T_95[len(values)] * statistics.stdev(values) / math.sqrt(len(values))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", type=Path, help="folder with omniglot/")
    parser.add_argument("--seeds", type=int, default=10, choices=T_95)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--resume", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    encoder = load_encoder("micro-clip")
    scale = encoder.logit_scale or 100.0
    sets = {"digits": (digits(encoder), (1, 2, 5, 20))}
    if arguments.data_root is not None:
        sets["omniglot"] = (omniglot(encoder, arguments.data_root), (1, 2, 5, 10))
    path = RESULTS / "few_shot_table.json"
    rows = json.loads(path.read_text())["rows"] if arguments.resume and path.exists() else []
    done = {(row["method"], row["data"], row["shots"]) for row in rows}
    for method in arguments.methods:
        for name, (cached, counts) in sets.items():
            if cached.texts is None and method not in WITHOUT_TEXTS:
                continue
            for shots in counts:
                if (method, name, shots) in done:
                    continue
                before = time.process_time()
                try:
                    values = [accuracy(cached, method, shots, seed, scale) for seed in range(arguments.seeds)]
                except ValueError as error:  # a method that needs more images per class than there are says so
                    print(f"{name} {shots:2} {method:12} - {error}", flush=True)
                    continue
                mean, half = interval(values)
                seconds = (time.process_time() - before) / len(values)
                rows.append({"data": name, "shots": shots, "method": method, "mean": mean, "half": half,
                             "values": values, "cpu_seconds": seconds})  # fmt: skip
                print(f"{name} {shots:2} {method:12} {mean:.3f} ± {half:.3f}  {seconds:.2f} s", flush=True)
                write(rows, arguments.seeds)


def processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def write(rows: list[dict[str, object]], seeds: int) -> None:
    """The figures, and the same as a table."""
    versions = {"torch": torch.__version__, "numpy": np.__version__, "scikit-learn": sklearn.__version__}
    record = {"encoder": "micro-clip", "seeds": seeds, "alphabet": ALPHABET,
             "machine": processor(), "threads": 1, "versions": versions, "rows": rows}  # fmt: skip
    (RESULTS / "few_shot_table.json").write_text(json.dumps(record, indent=1) + "\n")
    columns = sorted({(row["data"], row["shots"]) for row in rows})
    cells = {(row["method"], row["data"], row["shots"]): f"{row['mean']:.3f} ± {row['half']:.3f}" for row in rows}
    lines = ["| method | " + " | ".join(f"{data}, {shots} shot{'s' * (shots > 1)}" for data, shots in columns) + " |"]
    lines.append("|---" * (len(columns) + 1) + "|")
    for method in (each for each in METHODS if any(row["method"] == each for row in rows)):
        lines.append("| " + " | ".join([str(method), *(cells.get((method, *key), "-") for key in columns)]) + " |")
    (RESULTS / "few_shot_table.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
