"""Seconds until the first item of 4,000 synthetic JPEG files: `gate_data.load` and torchvision's `ImageFolder`.

Also the memory of 1.3 million paths. Rule, written before the first run: at most 1.2 times ImageFolder's CPU time by
ratio of medians, and at most 120 MB.
"""

from __future__ import annotations

import io
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torchvision
from PIL import Image, ImageFilter
from torchvision import transforms

import gate_data

FILES, CLASSES, REPEATS = 4000, 10, 31
PATHS = """
import gc, psutil
from gate_data.pictures import Pictures
memory = lambda: (gc.collect(), psutil.Process().memory_full_info().uss)[1]
import torch
before = memory()
names = (f"/data/imagenet/train/n{i // 1300:08d}/n{i // 1300:08d}_{i}.JPEG" for i in range(1_300_000))
pictures = Pictures.of(list(names), 224)
print((memory() - before) / 1e6)
"""


def made(folder: Path, parts: tuple[str, ...]) -> None:
    """4,000 JPEG files of 500 x 375, of 20 different contents."""
    generator, contents = np.random.default_rng(0), []
    for _ in range(20):
        noise = Image.fromarray(generator.integers(0, 255, (375, 500, 3), dtype=np.uint8))
        file = io.BytesIO()
        noise.filter(ImageFilter.GaussianBlur(1)).save(file, "JPEG", quality=90)
        contents.append(file.getvalue())
    for number in range(FILES):
        name = f"class{number // len(parts) % CLASSES}/{number:05}.jpg"
        path = folder / parts[number % len(parts)] / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(contents[number % 20])


def measured(folder: Path, parts: tuple[str, ...]) -> dict[str, object]:
    usual = transforms.Compose(
        [
            transforms.Resize(224, transforms.InterpolationMode.BICUBIC),
            transforms.CenterCrop(224),
            transforms.PILToTensor(),
        ]
    )

    def theirs() -> object:
        listed = [torchvision.datasets.ImageFolder(folder / part, usual) for part in parts]
        return listed[0][0]

    def ours() -> object:
        return gate_data.load(folder).train[0]

    splits = gate_data.load(folder)
    listed = [torchvision.datasets.ImageFolder(folder / part) for part in parts]
    names = {path for data in listed for path, _ in data.samples}
    assert names == {path for split in splits for (path,) in split.split.images.files}, "other files"
    assert list(splits.classes) == listed[0].classes
    seconds: dict[str, list[float]] = {"gate_data": [], "ImageFolder": []}
    for _ in range(REPEATS):
        for name, run in (("gate_data", ours), ("ImageFolder", theirs)):
            start = time.process_time()
            run()
            seconds[name].append(time.process_time() - start)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    ratio = medians["gate_data"] / medians["ImageFolder"]
    return {**{f"{name}_ms": round(1e3 * value, 1) for name, value in medians.items()}, "ratio": round(ratio, 2)}


def main() -> None:
    result: dict[str, object] = {
        "machine": platform.processor() or platform.machine(),
        "load": round(os.getloadavg()[0], 1),
        "versions": {name: version(name) for name in ("gate-data", "torch", "torchvision", "numpy", "pillow")},
        "files": FILES,
    }
    for name, parts in (("train and test", ("train", "test")), ("classes alone", ("",))):
        with tempfile.TemporaryDirectory() as folder:
            made(Path(folder), parts)
            result[name] = measured(Path(folder), parts)
    words = [sys.executable, "-c", PATHS]
    memory = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    result["megabytes of 1,300,000 paths"] = round(float(memory), 1)
    print(json.dumps(result, indent=1))
    path = Path(__file__).parent / "results" / "first_item.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
