"""On a CUDA GPU: what the runner computes, waits for and holds there, next to the same on the CPU.

First scores. Benchmarks run on the CPU in float32, on the GPU in float32, and there as it is by default (bfloat16 where
the GPU has it); scores are compared by a paired test on the samples of the test split. A benchmark fails where the GPU
in float32 is apart at the 1 % level: another order of sums moves few samples, and no direction is favoured.

Then speed: seconds of each phase, images encoded a second, and the peaks of both memories. Last, a training of the
whole encoder: steps a second, and how often each waits for the GPU (`torch.cuda.set_sync_debug_mode`).

    python packages/gate-runner/benchmarks/on_a_gpu.py [small …] [--encoder micro-clip] [--steps 60] [--limit N]
    python packages/gate-runner/benchmarks/on_a_gpu.py --smoke

Without a GPU it says so and stops. With --smoke it takes the same steps on the CPU, on 60 images a split, prints no
speed and writes nothing: that shows that the script works, and says nothing about a GPU. `throughput.py --device cuda`
compares the encoding of JPEG files with a plain loop.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

import gate_runner
from gate_runner.runs.results import Result
from gate_runner.runs.stored import read_run
from paired_scores.paired import paired_test

ALPHA = 0.01
RESULT = Path(__file__).parent / "results" / "on_a_gpu.json"
SMOKE = ("digits", "acdc", "mini")
"""A linear head, a solved map and prototypes."""
TRAINED = "cifar100"


def scored(names: Sequence[str], folder: Path, options: argparse.Namespace, **how: Any) -> dict[str, Result]:
    """Results by name, with no features kept from before."""
    os.environ["GATE_RUNNER_CACHE"] = str(folder / "cache")
    done = gate_runner.run(
        names, encoder=options.encoder, output=folder / "run", limit=options.limit, isolate="none", show=False, **how
    )
    if done.failed:
        raise SystemExit("\n".join(f"{result.name} on {how['device']}: {result.reason}" for result in done.failed))
    return {result.name: result for result in done}


def apart(first: Path, second: Path, name: str) -> dict[str, float]:
    """The paired test of one benchmark between two run folders."""
    runs = [read_run(folder / "run") for folder in (first, second)]
    results = [run.named(name)[0] for run in runs]
    outcomes = [[run.outcomes(result)] for run, result in zip(runs, results, strict=True)]
    test = paired_test(results[0].scores[0].metric, *outcomes)
    return {"difference": test.difference, "low": test.low, "high": test.high, "p": test.p}


def cost(result: Result) -> dict[str, Any]:
    """Seconds by phase, images encoded a second, and peaks in GB."""
    peaks = {name: result.memory[name] / 1e9 for name in ("peak_bytes", "gpu_peak_bytes") if name in result.memory}
    seconds = {
        phase: round(value, 2) for phase, value in result.seconds.items() if phase in ("encode", "train", "test")
    }
    return {
        "seconds": seconds,
        "images_per_second": result.memory.get("images_per_second"),
        **{f"{name.removesuffix('_bytes')}_gb": round(value, 2) for name, value in peaks.items()},
    }


@contextlib.contextmanager
def waits(device: str) -> Iterator[list[str]]:
    """Collect the places at which the process waits for the GPU; none on the CPU."""
    places: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if device != "cpu":
            torch.cuda.set_sync_debug_mode("warn")
        try:
            yield places
        finally:
            if device != "cpu":
                torch.cuda.set_sync_debug_mode("default")
            places += [f"{row.filename}:{row.lineno}" for row in caught if "synchroniz" in str(row.message)]


def trained(device: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Steps a second of a whole encoder's training, and waits for each: a second, longer one takes away the start."""
    counts, seconds = [], []
    for number, steps in enumerate((options.steps, 2 * options.steps)):
        fields = {"steps": steps, "validate_every": steps, "head_start": "random"}
        with waits(device) as places:
            (result,) = scored(
                [TRAINED], folder / str(number), options, device=device, tune="full", recipe_fields=fields
            ).values()
        counts.append(places)
        seconds.append(result.seconds["train"])
    often = {place: counts[1].count(place) - counts[0].count(place) for place in dict.fromkeys(counts[1])}
    return {
        "steps_per_second": options.steps / max(seconds[1] - seconds[0], 1e-9),
        "waits_per_step": sum(often.values()) / options.steps,
        "where": {place.partition("site-packages/")[2] or place: count for place, count in often.items() if count > 0},
        "precision": result.training["recipe"]["precision"],
    }


def about(device: str) -> dict[str, Any]:
    """The machine, and by which kinds of products the GPU multiplies float32."""
    gpu = {} if device == "cpu" else {
        "gpu": torch.cuda.get_device_name(),
        "gpu_gb": round(torch.cuda.get_device_properties(0).total_memory / 1e9),
        "cuda": torch.version.cuda,
        "tf32": {"products": torch.backends.cuda.matmul.allow_tf32, "convolutions": torch.backends.cudnn.allow_tf32},
    }  # fmt: skip
    return {
        "hardware": {"machine": platform.machine(), "cores": os.cpu_count(), "load": os.getloadavg()[0], **gpu},
        "versions": {name: version(name) for name in ("gate-runner", "torch", "numpy")},
        "date": time.strftime("%Y-%m-%d"),
    }


def main() -> None:
    """Compare, measure, print, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=["small"], help="packs and benchmarks")
    parser.add_argument("--encoder", default="micro-clip")
    parser.add_argument("--limit", type=int, help="samples of each split")
    parser.add_argument("--steps", type=int, default=60, help="of the training that is measured")
    parser.add_argument("--smoke", action="store_true", help="take the steps on the CPU; prints no speed")
    parser.add_argument("--output", type=Path, default=RESULT)
    options = parser.parse_args()
    if options.smoke:
        options.names, options.limit, options.steps = SMOKE, 60, 2
    elif not torch.cuda.is_available():
        raise SystemExit("no CUDA device: nothing was measured (--smoke takes the steps on the CPU)")
    device = "cpu" if options.smoke else "cuda"
    ways = {
        "cpu": {"device": "cpu", "precision": "float32"},
        "gpu, float32": {"device": device, "precision": "float32"},
        "gpu": {"device": device, "precision": "auto"},
    }
    rows: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folders = {way: Path(temporary, str(number)) for number, way in enumerate(ways)}
        results = {way: scored(options.names, folders[way], options, **how) for way, how in ways.items()}
        for name, result in results["cpu"].items():
            score = result.scores[0]
            rows[name] = {"metric": score.metric, "samples_interval": [score.low, score.high]}
            for way, own in results.items():
                rows[name][way] = {"value": own[name].scores[0].value, **cost(own[name])}
                if way != "cpu":
                    rows[name][way]["apart"] = apart(folders["cpu"], folders[way], name)
            both = [f"{way} {rows[name][way]['apart']['difference']:+.4f}" for way in ways if way != "cpu"]
            print(f"{name:<20}{score.metric:<10}{score.value:.4f}  {'  '.join(both)}", flush=True)
        training = trained(device, Path(temporary, "training"), options)
    wrong = [name for name, row in rows.items() if row["gpu, float32"]["apart"]["p"] <= ALPHA]
    if options.smoke:
        if any(row[way]["apart"]["difference"] for row in rows.values() for way in ways if way != "cpu"):
            raise SystemExit("two runs on the CPU differ")
        print("smoke run on the CPU: all steps ran; no speed was measured, and nothing was written")
        return
    print(f"{training['steps_per_second']:.1f} steps a second, {training['waits_per_step']:.1f} waits for each")
    report = {"encoder": options.encoder, "rows": rows, "training": training, "apart": wrong, **about(device)}
    options.output.write_text(json.dumps(report, indent=2) + "\n")
    if wrong:
        raise SystemExit(f"the GPU's scores are apart from the CPU's: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
