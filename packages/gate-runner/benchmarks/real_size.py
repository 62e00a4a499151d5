"""A run at real size against a plain loop over torchvision's ImageFolder and a DataLoader, and scikit-learn.

2,400 JPEG files of 500 x 375 pixels in 20 classes are made; an encoder of one's own waits 2 ms an image without using
the processor, as an accelerator would, and gives 32 numbers. The plain script decodes with two worker processes,
encodes, and fits ``LogisticRegression`` at 15 strengths. Both run in fresh processes, alternating; figures are medians.

What is compared: seconds of encoding against those of the loop; three seeds against one; a finished run again, and the
pictures that it opens (as the audit hook of Python sees them); the probe; the whole command against the script.

    python packages/gate-runner/benchmarks/real_size.py [--repeats 5] [--images 2400] [--folder FOLDER]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

CLASSES, WIDTH, HEIGHT, SECONDS = 20, 500, 375, 0.002
RUN = [sys.executable, "-c", "from gate_runner.cli import main; main()", "run"]
TARGETS = {
    "encoding": 1.1,
    "three_seeds": 1.2,
    "again_seconds": 2.0,
    "pictures_opened_again": 0,
    "probe_seconds": 0.3,
    "whole": 1.3,
}
"""At most; ratios where no unit is said."""

ENCODER = f"""
import time
import torch

class Waiting(torch.nn.Module):
    image_size = 224

    def __init__(self):
        super().__init__()
        self.project = torch.nn.Linear(3 * 16, 32, bias=False)
        torch.nn.init.normal_(self.project.weight, generator=torch.Generator().manual_seed(0))

    def forward(self, images):
        time.sleep({SECONDS} * len(images))
        return self.project(torch.nn.functional.adaptive_avg_pool2d(images, 4).flatten(1))

def waiting():
    return Waiting()
"""

LOOP = """
import json, sys, time
begin = time.perf_counter()
import torch, numpy as np
from torchvision import transforms
from torchvision.datasets import ImageFolder
from waiting import waiting
model = waiting().eval()
prepare = transforms.Compose([
    transforms.Resize(224, transforms.InterpolationMode.BICUBIC), transforms.CenterCrop(224), transforms.ToTensor(),
    transforms.Normalize((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)),
])
start, parts = time.perf_counter(), {}
for name in ("train", "val", "test"):
    data = ImageFolder(f"{sys.argv[1]}/{name}", prepare)
    rows = []
    with torch.inference_mode():
        for images, _ in torch.utils.data.DataLoader(data, batch_size=128, num_workers=2):
            rows.append(model(images))
    parts[name] = torch.cat(rows).numpy(), np.array(data.targets)
encoded = time.perf_counter()
import warnings
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
warnings.simplefilter("ignore")
scale = StandardScaler().fit(parts["train"][0])
x, held, test = (scale.transform(parts[name][0]) for name in ("train", "val", "test"))
best = (-1, 0)
for strength in np.logspace(-6, 2, 15):
    head = LogisticRegression(C=strength, max_iter=1000).fit(x, parts["train"][1])
    best = max(best, (head.score(held, parts["val"][1]), head.score(test, parts["test"][1])))
print(json.dumps({"encode": encoded - start, "probe": time.perf_counter() - encoded, "accuracy": best[1]}))
"""

WATCHED = """
import sys
opened = set()
def hook(event, arguments):
    if event == "open" and str(arguments[0]).endswith(".jpg"):
        opened.add(str(arguments[0]))
sys.addaudithook(hook)
from gate_runner.cli import main
try:
    main(["run", *sys.argv[1:], "--isolate", "none"])
finally:
    print("OPENED", len(opened))
"""


def write_pictures(folder: Path, images: int) -> None:
    """Class folders of JPEG files with smooth noise whose colours tell the classes apart, faintly."""
    rng = np.random.default_rng(0)
    tints = rng.uniform(-25, 25, (CLASSES, 3))
    for number in range(images):
        label, rank = number % CLASSES, number // CLASSES
        part = ("train", "val", "test", "train")[rank % 4]
        coarse = rng.uniform(0, 255, (HEIGHT // 10, WIDTH // 10, 3)) * 0.6 + 50 + tints[label]
        picture = Image.fromarray(coarse.clip(0, 255).astype(np.uint8)).resize(
            (WIDTH, HEIGHT), Image.Resampling.BICUBIC
        )
        fine = np.asarray(picture, np.int16) + rng.integers(-12, 13, (HEIGHT, WIDTH, 3))
        path = folder / part / f"class{label:02d}" / f"{number:05d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(fine.clip(0, 255).astype(np.uint8)).save(path, quality=90)
    (folder / "waiting.py").write_text(ENCODER)


class Bench:
    """Commands on one folder, each in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.work = folder, Path(tempfile.mkdtemp())

    def timed(self, command: list[str], cache: str = "cache") -> tuple[float, str]:
        """Seconds by the clock, and what it printed."""
        paths = [str(self.folder), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "GATE_RUNNER_CACHE": str(self.work / cache)}
        start, before = time.perf_counter(), sum(os.times()[2:4])
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=self.work, check=False)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}: {done.stdout[-2000:]}")
        self.cpu = sum(os.times()[2:4]) - before
        return time.perf_counter() - start, done.stdout

    def loop(self) -> dict[str, float]:
        """The plain script."""
        seconds, printed = self.timed([sys.executable, "-c", LOOP, str(self.folder)])
        return {"whole": seconds, **json.loads(printed.splitlines()[-1])}

    def run(self, seeds: str = "0") -> dict[str, Any]:
        """A run with nothing there, and the same command again."""
        for name in ("cache", "run"):
            shutil.rmtree(self.work / name, ignore_errors=True)
        self.arguments = ["--data", str(self.folder), "--encoder", "waiting:waiting"]
        self.arguments += [
            "--output",
            str(self.work / "run"),
            *(part for seed in seeds.split(",") for part in ("--seed", seed)),
        ]
        seconds, _ = self.timed([*RUN, *self.arguments])
        results = [json.loads(path.read_text()) for path in sorted((self.work / "run" / "results").glob("*.json"))]
        return {
            "whole": seconds,
            "encode": sum(result["seconds"].get("encode", 0.0) for result in results),
            "probe": results[0]["seconds"]["train"],
            "accuracy": results[0]["scores"][0]["value"],
            "phases": results[0]["seconds"],
        }

    def again(self) -> tuple[float, float, int]:
        """The last command once more: by the clock and of processor, and then how many pictures it opens."""
        seconds, _ = self.timed([*RUN, *self.arguments])
        cpu = self.cpu
        _, printed = self.timed([sys.executable, "-c", WATCHED, *self.arguments])
        return seconds, cpu, int(printed.rpartition("OPENED")[2])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--images", type=int, default=2400)
    parser.add_argument("--folder", type=Path, help="where the pictures lie, or are made and stay")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "real_size.json")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp()) / "pictures"
    if not (folder / "waiting.py").is_file():
        write_pictures(folder, options.images)
    bench, rows = Bench(folder.absolute()), []
    bench.run()  # writes the benchmark's file, and warms the disk's cache for both
    for _ in range(options.repeats):
        loop, single = bench.loop(), bench.run()
        again, again_cpu, opened = bench.again()
        three = bench.run("0,1,2")
        rows.append(
            {"loop": loop, "one": single, "again": again, "again_cpu": again_cpu, "opened": opened, "three": three}
        )
        print(json.dumps(rows[-1]), flush=True)

    def median(read: Any) -> float:
        return statistics.median(read(row) for row in rows)

    figures = {
        "encoding": median(lambda row: row["one"]["encode"] / row["loop"]["encode"]),
        "three_seeds": median(lambda row: row["three"]["whole"] / row["one"]["whole"]),
        "again_seconds": median(lambda row: row["again"]),
        "again_cpu_seconds": median(lambda row: row["again_cpu"]),
        "pictures_opened_again": median(lambda row: row["opened"]),
        "probe_seconds": median(lambda row: row["one"]["probe"]),
        "whole": median(lambda row: row["one"]["whole"] / row["loop"]["whole"]),
    }
    report = {
        "figures": figures,
        "targets": TARGETS,
        "reached": {name: figures[name] <= most for name, most in TARGETS.items()},
        "seconds": {
            "loop": median(lambda row: row["loop"]["whole"]),
            "loop_encoding": median(lambda row: row["loop"]["encode"]),
            "run": median(lambda row: row["one"]["whole"]),
            "run_encoding": median(lambda row: row["one"]["encode"]),
        },
        "rows": rows,
        "hardware": {"machine": platform.machine(), "cores": os.cpu_count(), "load": os.getloadavg()[0]},
        "threads": os.environ.get("OMP_NUM_THREADS"),
        "versions": {name: version(name) for name in ("gate-runner", "torch", "torchvision", "pillow", "scikit-learn")},
    }
    print(json.dumps({name: report[name] for name in ("figures", "targets", "reached", "seconds")}, indent=2))
    options.output.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
