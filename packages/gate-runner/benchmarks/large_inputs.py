"""How much memory training takes at the sizes of GATE's paper: maps from pictures of 1,024 px, and clips of 8 frames.

Writes a small data set in ADE20K's layout and one in UCF-101's, and runs the real command on each with an untrained
ViT-S/16, batch 1 and a few steps: heads alone on frozen features, and the whole encoder by GATE's recipe, plainly and
with blocks that are computed twice. Each case is a process of its own; the peak is what the kernel counted for it.

    python packages/gate-runner/benchmarks/large_inputs.py [--steps 2] [--output large_inputs.json]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import av
import numpy as np
from PIL import Image

COMMAND = [sys.executable, "-c", "from gate_runner.cli import main; main()", "run"]
MAPS, CLIPS = "timm:vit_small_patch16_224@1024/random", "timm:vit_small_patch16_224/random"
FULL = ["--tune", "full", "--recipe", "gate"]
CASES: dict[str, tuple[str, str, list[str]]] = {
    "maps of 1,024 px, frozen": ("ade20k", MAPS, []),
    "maps of 1,024 px, full": ("ade20k", MAPS, FULL),
    "maps of 1,024 px, full, blocks twice": ("ade20k", MAPS, [*FULL, "--setting", "checkpoint_blocks=true"]),
    "clips of 8 frames, frozen": ("ucf", CLIPS, []),
    "clips of 8 frames, full": ("ucf", CLIPS, FULL),
}
RNG = np.random.default_rng(0)


def write_maps(root: Path) -> None:
    """ADE20K's layout: 3 pictures to train on and 1 to score, of 1,280 x 1,024 pixels, with maps of their blocks."""
    for split, count in (("training", 3), ("validation", 1)):
        for index in range(count):
            label = RNG.integers(1, 151, (4, 5), dtype=np.uint8).repeat(256, axis=0).repeat(256, axis=1)
            picture = np.stack([label, 255 - label, label // 2], axis=2)
            for kind, ending, values in (("images", "jpg", picture), ("annotations", "png", label)):
                path = root / "ADEChallengeData2016" / kind / split / f"ADE_{split}_{index:08}.{ending}"
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(values).save(path)


def write_clips(root: Path) -> None:
    """UCF-101's layout: two classes of 2 clips to train on and 1 to score, of 2 s of 320 x 240 pixels."""
    lists: dict[str, list[str]] = {"trainlist01.txt": [], "testlist01.txt": []}
    for label, name in enumerate(("Left", "Right"), start=1):
        for group in range(1, 4):
            clip = f"{name}/v_{name}_g{group:02}_c01.avi"
            path = root / "ucf101" / "UCF-101" / clip
            path.parent.mkdir(parents=True, exist_ok=True)
            scene = RNG.integers(0, 256, (240, 320, 3), dtype=np.uint8)
            with av.open(str(path), "w") as container:
                stream = container.add_stream("mpeg4", rate=25)
                stream.width, stream.height, stream.pix_fmt = 320, 240, "yuv420p"
                for frame in range(50):
                    moved = np.roll(scene, 4 * frame * (1 if label == 1 else -1), axis=1)
                    container.mux(stream.encode(av.VideoFrame.from_ndarray(moved)))
                container.mux(stream.encode())
            lists["testlist01.txt" if group == 1 else "trainlist01.txt"].append(
                f"{clip} {label}" if group > 1 else clip
            )
    folder = root / "ucf101" / "ucfTrainTestlist"
    folder.mkdir()
    for part, lines in {**lists, "classInd.txt": ["1 Left", "2 Right"]}.items():
        (folder / part).write_text("".join(f"{line}\n" for line in lines))


def measured(case: str, root: Path, steps: int) -> dict[str, Any]:
    """Peak memory in GB, seconds and the trained weights of one run, which must have ended with a score."""
    benchmark, encoder, options = CASES[case]
    argv = [benchmark, "--encoder", encoder, "--data-root", str(root), "--isolate", "none", *options]
    fields = {"steps": steps, "batch_size": 1, "validate_every": steps, "lr": 1e-4}
    with tempfile.TemporaryDirectory() as folder:
        argv += [
            "--output",
            folder,
            "--setting",
            "batch_size=1",
            *(f"--set={name}={value}" for name, value in fields.items()),
        ]
        load, start = os.getloadavg()[0], time.perf_counter()
        process = subprocess.Popen([*COMMAND, *argv], stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = status
        stored = [json.loads(path.read_text()) for path in Path(folder, "results").glob("*.json")]
    if status or len(stored) != 1 or stored[0]["status"] != "ok":
        raise SystemExit(f"{case}: status {status}, {len(stored)} results")
    (result,) = stored
    if result["training"]["steps"] != steps:
        raise SystemExit(f"{case}: {result['training']['steps']} steps, expected {steps}")
    return {
        "command": " ".join(["run", *(word for word in argv if "/" not in word or word == encoder)]),
        "peak_gb": round(usage.ru_maxrss / 1e6, 2),
        "wall_s": round(wall, 1),
        "cpu_s": round(usage.ru_utime + usage.ru_stime, 1),
        "train_s": round(result["seconds"]["train"], 1),
        "load": round(load, 1),
    }


def main() -> None:
    """Print and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "cases", nargs="*", default=list(CASES), help="Beginnings of cases; all by default. The others' figures stay."
    )
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    collected: dict[str, Any] = {
        "machine": {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count()},
        "versions": {name: version(name) for name in ("gate-runner", "torch", "timm")},
        "threads": os.environ.get("OMP_NUM_THREADS", "all"),
        "steps": args.steps,
        "cases": {},
    }
    if args.output and args.output.is_file():  # cases that are not asked for stay as they were measured
        collected["cases"] = json.loads(args.output.read_text())["cases"]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write_maps(root)
        write_clips(root)
        for case in CASES:
            if not case.startswith(tuple(args.cases)):
                continue
            row = collected["cases"][case] = measured(case, root, args.steps)
            print(f"{case}: {row['peak_gb']} GB, {row['wall_s']} s ({row['cpu_s']} s of processor)", flush=True)
            if args.output:
                args.output.write_text(json.dumps(collected, indent=2) + "\n")


if __name__ == "__main__":
    main()
