"""Pictures a second of the frozen path against a plain DataLoader loop with the same model, on a CPU or a GPU.

Both read the same JPEG files (made, 500 x 375 pixels) by the same transform, timm's own; checks first that the features
agree. The loop pins memory, copies without blocking and computes in the same precision, with as many worker processes
as there are cores. Beside it the encoder alone, as `choose` counts it (pictures that are decoded already), against the
loop of timm's ``benchmark.py``, which its package does not contain. Nothing here was run on a GPU yet.

    python packages/gate-runner/benchmarks/throughput.py [--model resnet18 ...] [--device auto] [--images 256]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from real_size import write_images
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder

from gate_data.pictures import Pictures
from vision_features.encoders import load_encoder
from vision_features.encoders.loading import device_for
from vision_features.encoders.probe import agrees, rate
from vision_features.features import FeatureCache, encode_pictures


def ours(encoder: Any, files: list[Path], batch: int) -> tuple[float, torch.Tensor]:
    """Pictures a second with an empty cache, and the features."""
    with tempfile.TemporaryDirectory() as folder:
        cache = FeatureCache(Path(folder) / "encoder")
        start = time.perf_counter()
        pictures = Pictures.of(files, side=encoder.image_size)
        rows = encode_pictures(cache, encoder, pictures, "pooled", "test", batch, transform=encoder.transform)[:]
        return len(files) / (time.perf_counter() - start), rows


def loop(encoder: Any, folder: Path, batch: int, workers: int) -> tuple[float, torch.Tensor]:
    """The same with torch's loader."""
    from timm.data import create_transform, resolve_model_data_config

    library: Any = create_transform(**resolve_model_data_config(encoder.module), is_training=False)
    data = ImageFolder(folder, library)
    gpu = encoder.device.type == "cuda"
    half = torch.autocast(encoder.device.type, torch.bfloat16, enabled=encoder.precision == "bfloat16")
    start, rows = time.perf_counter(), []
    with torch.inference_mode(), half:
        for images, _ in DataLoader(data, batch, num_workers=workers, pin_memory=gpu):
            rows.append(encoder.image(images.to(encoder.device, non_blocking=True)).float().cpu())
    return len(data) / (time.perf_counter() - start), torch.cat(rows)


def model_alone(encoder: Any, batch: int, calls: int) -> float:
    """Pictures a second as timm's ``benchmark.py --bench inference`` counts them: a batch of noise, over and over."""
    noise = torch.randn(batch, 3, encoder.image_size, encoder.image_size, device=encoder.device)
    half = torch.autocast(encoder.device.type, torch.bfloat16, enabled=encoder.precision == "bfloat16")
    with torch.inference_mode(), half:
        for number in range(calls + 1):
            if number == 1:  # the first is warm-up
                start = time.perf_counter()
            encoder.image(noise)
        if encoder.device.type == "cuda":
            torch.cuda.synchronize()
    return calls * batch / (time.perf_counter() - start)


def measured(model: str, options: argparse.Namespace) -> dict[str, Any]:
    """One model: ours beside the loop, and the encoder alone beside timm's count, alternating; medians."""
    encoder = load_encoder(f"timm:{model}/random", device=device_for(options.device))
    cores, rows = len(os.sched_getaffinity(0)), []
    with tempfile.TemporaryDirectory() as temporary:
        write_images(Path(temporary), 4 * options.images // 3)  # a quarter each to validate and to test
        folder = Path(temporary) / "train"
        files = [Path(name) for name, _ in ImageFolder(folder).samples][: options.images]
        few = Pictures.of(files[:32], side=encoder.image_size)[:]
        encoder.precision = "bfloat16" if encoder.device.type == "cuda" and agrees(encoder, few) else "float32"
        for _ in range(options.repeats):
            mine, features = ours(encoder, files, options.batch)
            theirs, expected = loop(encoder, folder, options.batch, cores)
            apart = float((features - expected[: len(features)]).norm() / expected[: len(features)].norm())
            if apart > (2e-2 if encoder.precision == "bfloat16" else 1e-4):
                raise SystemExit(f"the features differ by {apart:.2g}: no figure is worth printing")
            calls = max(2, options.images // options.batch)
            alone = {"encoder": rate(encoder, options.batch), "timm": model_alone(encoder, options.batch, calls)}
            rows.append({"ours": mine, "loop": theirs, **alone})
            print(model, json.dumps(rows[-1]), flush=True)
    figures = {name: statistics.median(row[name] for row in rows) for name in ("ours", "loop", "encoder", "timm")}
    return {
        "device": str(encoder.device),
        "precision": encoder.precision,
        "images_per_second": figures,
        "to_loop": statistics.median(row["ours"] / row["loop"] for row in rows),
        "to_timm": statistics.median(row["encoder"] / row["timm"] for row in rows),
        "one_image_seconds": 1 / rate(encoder, 1),
        "rows": rows,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", nargs="+", default=["resnet18", "mobilenetv3_large_100", "vit_tiny_patch16_224"])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--images", type=int, default=256)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "throughput.json")
    options = parser.parse_args()
    report: dict[str, Any] = {
        "models": {model: measured(model, options) for model in options.model},
        "hardware": {"machine": platform.machine(), "cores": os.cpu_count(), "load": os.getloadavg()[0]},
        "threads": torch.get_num_threads(),
        "versions": {name: version(name) for name in ("gate-runner", "torch", "timm", "pillow")},
    }
    for model, row in report["models"].items():
        print(f"{model}: {row['to_loop']:.2f} of the loop's pictures a second, {row['to_timm']:.2f} of timm's count")
    options.output.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
