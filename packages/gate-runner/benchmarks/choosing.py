"""What `choose` saves and whether it chooses as whole runs do: ten encoders, thousands of pictures, many draws.

python benchmarks/choosing.py [--pictures 5000] [--draws 20] [--readout last] [--only time]

Pictures are made (ten classes of shapes and textures). The encoders are cheap, so that it can be run anywhere:
micro-clip, two with random weights, thumbnails of four sizes, edges of two, colours. On the first draw, each from an
empty feature cache: time of `choose` with its rounds (its measuring of costs included) against ten whole runs. On
every draw: whether the encoder that it takes is the best of all whole runs, or one that a paired test (Holm) does not
tell from it; these draws share a feature cache.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

import gate_runner
from gate_data.own import guess, values_at, write_benchmark
from gate_runner.benchmarks import resolve
from gate_runner.choosing.choice import Choice, choose
from gate_runner.settings import Settings
from gate_runner.tasks.registry import find_task_type

RESULTS = Path(__file__).parent / "results" / "choosing.json"
CHEAP = """
import torch, torch.nn.functional as F
from torch import nn

class Thumb(nn.Module):
    image_size = 32
    def __init__(self, side, edges=False):
        super().__init__()
        self.side, self.edges = side, edges
    def forward(self, images):
        if self.edges:
            images = torch.cat([images.diff(dim=2)[..., :-1].abs(), images.diff(dim=3)[:, :, :-1].abs()], dim=1)
        return F.adaptive_avg_pool2d(images, self.side).flatten(1)

class Colours(nn.Module):
    image_size = 32
    def forward(self, images):
        return torch.cat([images.flatten(2).mean(2), images.flatten(2).std(2)], dim=1)

def thumb2(): return Thumb(2)
def thumb4(): return Thumb(4)
def thumb8(): return Thumb(8)
def thumb16(): return Thumb(16)
def edges4(): return Thumb(4, True)
def edges8(): return Thumb(8, True)
def colours(): return Colours()
"""
OWN = ("thumb2", "thumb4", "thumb8", "thumb16", "edges4", "edges8", "colours")


def make_pictures(folder: Path, count: int) -> list[tuple[Path, int]]:
    """Shapes of ten kinds at random places, sizes and colours, under noise."""
    rng, pictures = np.random.default_rng(0), []
    for number in range(count):
        label = number % 10
        image = Image.new("RGB", (32, 32), tuple(rng.integers(0, 120, 3).tolist()))
        draw, colour = ImageDraw.Draw(image), tuple(rng.integers(100, 256, 3).tolist())
        size = int(rng.integers(10, 18))
        x, y = (int(value) for value in rng.integers(1, 31 - size, 2))
        box = (x, y, x + size, y + size)
        if label % 5 == 0:
            draw.ellipse(box, fill=colour)
        elif label % 5 == 1:
            draw.rectangle(box, fill=colour)
        elif label % 5 == 2:
            draw.polygon([(x, y + size), (x + size, y + size), (x + size // 2, y)], fill=colour)
        elif label % 5 == 3:
            draw.line((x, y, x + size, y + size), fill=colour, width=4)
        else:
            draw.arc(box, 20, 340, fill=colour, width=3)
        pixels = np.asarray(image).astype(np.int16)
        if label >= 5:
            pixels[::3] //= 2
        path = folder / f"{number}.png"
        noise = rng.normal(0, 25, pixels.shape)
        Image.fromarray((pixels + noise).clip(0, 255).astype(np.uint8)).save(path)
        pictures.append((path, label))
    return pictures


def drawn(pool: list[tuple[Path, int]], count: int, seed: int, folder: Path) -> str:
    """A benchmark's file of so many of the pictures, in folders of classes."""
    for index in np.random.default_rng([7, seed]).permutation(len(pool))[:count]:
        path, label = pool[index]
        (folder / str(label)).mkdir(parents=True, exist_ok=True)
        (folder / str(label) / path.name).symlink_to(path)
    file = folder / "benchmark.toml"
    write_benchmark(values_at(guess(folder).values, folder, folder), file)
    return str(file)


def chosen(file: str, specs: list[str], output: Path, settings: Settings, first: int) -> Choice:
    """The choice among the encoders, without a probe."""
    (plain,) = resolve([file])
    return choose(find_task_type(plain.task).varied(plain, "knn"), specs, output, settings, first=first)


def timed(file: str, specs: list[str], root: Path, settings: Settings) -> dict[str, float]:
    """Seconds by the clock and of processor, workers' too, of the choice and of whole runs, both with nothing there."""
    (plain,) = resolve([file])
    benchmark = find_task_type(plain.task).varied(plain, "knn")
    chosen(file, specs[:2], root / "warm", settings.changed(limit=40), 300)  # imports are nobody's
    figures: dict[str, float] = {}
    for method in ("choose", "whole"):
        os.environ["GATE_RUNNER_CACHE"] = str(root / f"cache-{method}")
        clock, before = time.perf_counter(), sum(os.times()[:4])
        if method == "choose":
            choice = chosen(file, specs, root / "timed", settings, 300)
            figures["encoded_share"] = choice.pictures[0] / choice.pictures[1]
        else:
            for number, spec in enumerate(specs):
                output = root / "whole" / str(number)
                gate_runner.run([benchmark], encoder=spec, output=output, settings=settings, show=False)
        figures[f"{method}_seconds"] = time.perf_counter() - clock
        figures[f"{method}_cpu_seconds"] = sum(os.times()[:4]) - before
    for unit in ("seconds", "cpu_seconds"):
        figures[f"ratio_of_{unit}"] = figures[f"choose_{unit}"] / figures[f"whole_{unit}"]
    return figures


def judged(file: str, specs: list[str], root: Path, settings: Settings, pictures: int) -> dict[str, Any]:
    """Whether the rounds take the best of all whole runs, or one tied with it."""
    rounds = chosen(file, specs, root / "rounds", settings, 300)
    complete = chosen(file, specs, root / "all", settings, 10 * pictures)
    best = [candidate.encoder for candidate in complete.candidates if candidate.verdict in ("best", "tied")]
    winner = rounds.candidates[0].encoder
    share = rounds.pictures[0] / rounds.pictures[1]
    return {"chosen": winner, "tied_for_best": best, "agreed": winner in best, "encoded_share": share}


def main() -> None:
    """Measure, print, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=5000)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--readout", default="last")
    parser.add_argument(
        "--only", choices=["time", "draws"], help="measure these, and leave what the file has of the other"
    )
    options = parser.parse_args()
    root = Path(tempfile.mkdtemp())
    (root / "cheap.py").write_text(CHEAP, encoding="utf-8")
    sys.path.insert(0, str(root))
    (root / "pool").mkdir()
    pool = make_pictures(root / "pool", int(1.6 * options.pictures))
    specs = ["micro-clip", "micro-clip/random:1", "micro-clip/random:2", *(f"cheap:{name}" for name in OWN)]
    settings = Settings().changed(readout=options.readout, isolate="none")
    files = [drawn(pool, options.pictures, draw, root / f"draw{draw}") for draw in range(options.draws)]
    report: dict[str, Any] = {"pictures": options.pictures, "encoders": len(specs)}
    if RESULTS.exists():
        past = json.loads(RESULTS.read_text(encoding="utf-8"))
        report = past if all(past[name] == value for name, value in report.items()) else report

    def keep() -> None:
        RESULTS.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")

    if options.only != "draws":
        report["time"] = {**timed(files[0], specs, root, settings), "load": os.getloadavg()[0]}
        print(json.dumps(report["time"]), flush=True)
        keep()
    if options.only == "time":
        return
    os.environ["GATE_RUNNER_CACHE"] = str(root / "cache")
    report["draws"] = []
    for number, file in enumerate(files):
        report["draws"].append(judged(file, specs, root / f"judged{number}", settings, options.pictures))
        print(json.dumps(report["draws"][-1]), flush=True)
        report["agreed"] = sum(draw["agreed"] for draw in report["draws"])
        keep()
    print(f"the same winner, or one tied with it, in {report['agreed']} of {len(files)} draws")


if __name__ == "__main__":
    main()
