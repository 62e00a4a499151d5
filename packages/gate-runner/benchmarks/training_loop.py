"""What the runner adds to a training: `--tune full` against a plain PyTorch loop of the same model, data and recipe.

Both in this process, alternating. The plain loop makes the data, trains encoder and linear head by AdamW with warm-up,
cosine and clipping, validates as often, keeps the best five states, and scores their ensembles of 1, 3 and 5 on the
test split. The runner does the same, and checks, checkpoints, measures gradients by layer, bootstraps intervals, puts
the encoder back and writes its files. First the validations and ensembles of both must be equal. The ratio is of
medians of processor seconds; the clock's is printed beside it. The encoder's share is that of its forward passes and
of the backward passes (which go through the head, too) in the runner's time by the clock.

    python packages/gate-runner/benchmarks/training_loop.py [--benchmark cifar100] [--steps 40] [--repeats 3]
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import gate_runner
from gate_runner.benchmarks import BENCHMARKS, DataRequest
from vision_adapters.heads import LinearHead, seeded
from vision_adapters.training.schedule import parameter_groups
from vision_adapters.training.step import batch_indices
from vision_features.encoders import load_encoder
from vision_features.encoders.encoder import Encoder

BATCH, RATE, WARMUP, HEAD_SCALE, SPARE = 32, 1e-4, 10, 3.0, 5


class Plain(nn.Module):
    """Images to class scores."""

    def __init__(self, encoder: Encoder, module: nn.Module, width: int, classes: int) -> None:
        super().__init__()
        self.encoder, self.made = module, encoder
        self.head = seeded(lambda: LinearHead(width, classes), 0)

    def forward(self, images: Tensor) -> Tensor:
        """Scores of each class."""
        features = self.made.image(self.made.prepare(images))
        scores: Tensor = self.head((features - self.mean) / self.std)
        return scores


def plain(encoder: Encoder, name: str, limit: int, steps: int, every: int) -> dict[str, list[float]]:
    """Validation accuracies, and test accuracies of the ensembles."""
    data = BENCHMARKS[name].load("micro", DataRequest(limit=limit, size=encoder.image_size))
    train, validation, test = data.train, data.validation, data.test
    assert encoder.module is not None
    start = copy.deepcopy(encoder.module.state_dict())
    with torch.no_grad():
        few = torch.cat([encoder.image(encoder.prepare(part)) for part in train.images[:256].split(32)])
    model = Plain(encoder, encoder.module, few.shape[1], len(data.classes))
    model.mean, model.std = few.mean(0), few.std(0, correction=0).clamp_min(1e-6)  # type: ignore[assignment]
    encoder.module.requires_grad_(True)
    for part in (
        parameter for parameter, weight in encoder.module.named_parameters() if not parameter.startswith("visual.")
    ):
        encoder.module.get_parameter(part).requires_grad_(False)
    optimiser = torch.optim.AdamW(parameter_groups(model, 0.01, HEAD_SCALE), lr=RATE, betas=(0.9, 0.98), eps=1e-6)
    trained = [weight for weight in model.parameters() if weight.requires_grad]

    def scores(images: Tensor) -> Tensor:
        model.eval()
        with torch.inference_mode():
            return torch.cat([model(part) for part in images.split(128)])

    history: list[float] = []
    best: list[tuple[float, int, dict[str, Tensor]]] = []
    for step in range(steps + 1):
        if step:
            rows = batch_indices(len(train), BATCH, step, 0)
            rise = step / WARMUP if step <= WARMUP else 0.0
            fall = 0.5 * (1 + math.cos(math.pi * (step - 1 - WARMUP) / max(1, steps - WARMUP)))
            for group in optimiser.param_groups:
                group["lr"] = RATE * group["lr_scale"] * (rise or fall)
            model.train()
            optimiser.zero_grad(set_to_none=True)
            F.cross_entropy(model(train.images[rows]), train.targets[rows]).backward()
            nn.utils.clip_grad_norm_(trained, 1.0)
            optimiser.step()
        if step % every == 0 or step == steps:
            history.append(float((scores(validation.images).argmax(1) == validation.targets).double().mean()))
            state = {
                key: value.clone() for key, value in model.state_dict().items() if "visual." in key or "head" in key
            }
            best = sorted([*best, (-history[-1], step, state)], key=lambda entry: entry[:2])[:SPARE]
    total, ensembles = torch.zeros(()), []
    for number, (_, _, state) in enumerate(best, start=1):
        model.load_state_dict(state, strict=False)
        total = total + scores(test.images)
        if number in (1, 3, 5) or number == len(best):
            ensembles.append(float((total.argmax(1) == test.targets).double().mean()))
    encoder.module.load_state_dict(start)
    encoder.module.requires_grad_(False)
    return {"validation": history, "ensembles": ensembles}


class Watch:
    """Seconds inside a function, by the clock."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, timed."""

        def timed(*arguments: Any, **named: Any) -> Any:
            begin = time.perf_counter()
            try:
                return function(*arguments, **named)
            finally:
                self.seconds += time.perf_counter() - begin

        return timed


def ours(encoder: Encoder, name: str, limit: int, steps: int, every: int) -> tuple[dict[str, list[float]], float]:
    """The same, and the seconds inside of the encoder's passes."""
    watch, backward = Watch(), torch.autograd.backward
    fields = {"lr": RATE, "steps": steps, "batch_size": BATCH, "validate_every": every, "head_start": "random"}
    watched = replace(encoder, image=watch.around(encoder.image))
    torch.autograd.backward = watch.around(backward)
    try:
        with tempfile.TemporaryDirectory() as folder:
            done = gate_runner.run(f"micro/{name}", encoder=watched, output=folder, limit=limit, tune="full",
                                   recipe_fields=fields, device="cpu", show=False)  # fmt: skip
    finally:
        torch.autograd.backward = backward
    (result,) = done
    if result.status != "ok":
        raise SystemExit(result.reason)
    metric = result.scores[0].metric
    return {
        "validation": [row[metric] for row in result.training["validation"]],
        "ensembles": [row[metric] for row in result.training["ensembles"]],
    }, watch.seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--benchmark", default="cifar100", help="a stand-in with one class per image")
    parser.add_argument("--limit", type=int, default=320)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "training_loop.json")
    options = parser.parse_args()
    encoder = load_encoder("micro-clip")
    how = (options.benchmark, options.limit, options.steps, max(1, options.steps // 3))
    times: dict[str, list[tuple[float, float]]] = {"plain": [], "runner": []}
    shares = []
    for _ in range(options.repeats):
        cpu, clock = time.process_time(), time.perf_counter()
        expected = plain(encoder, *how)
        times["plain"].append((time.process_time() - cpu, time.perf_counter() - clock))
        cpu, clock = time.process_time(), time.perf_counter()
        accuracies, inside = ours(encoder, *how)
        times["runner"].append((time.process_time() - cpu, time.perf_counter() - clock))
        shares.append(inside / times["runner"][-1][1])
        if accuracies != expected:
            raise SystemExit(f"they differ, no figure is worth printing: {accuracies} and, plain, {expected}")
        print(
            {name: [f"{a:.1f} s ({b:.1f} s by the clock)" for a, b in rows] for name, rows in times.items()}, flush=True
        )
    cpu, clock = ({name: statistics.median(row[n] for row in rows) for name, rows in times.items()} for n in (0, 1))
    report = {
        **{key: value for key, value in vars(options).items() if key != "output"},
        "processor_seconds": cpu,
        "clock_seconds": clock,
        "ratio": cpu["runner"] / cpu["plain"],
        "ratio_by_the_clock": clock["runner"] / clock["plain"],
        "encoder_share_of_clock": statistics.median(shares),
        "hardware": {"machine": platform.machine(), "cores": os.cpu_count(), "load": os.getloadavg()[0]},
        "threads": torch.get_num_threads(),
        "versions": {name: version(name) for name in ("gate-runner", "torch", "numpy")},
    }
    print(json.dumps(report, indent=2))
    options.output.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
