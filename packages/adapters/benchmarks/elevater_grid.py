"""ELEVATER's grid of 42 recipes trained side by side, against one fine-tuning by the recipe that it chooses.

    python packages/adapters/benchmarks/elevater_grid.py [--samples 2000] [--classes 100] [--hidden 256] [--repeats 5]

Of features, a hidden layer and a head behind batch normalisation are trained: 10 epochs of each point of the grid on
80 % of the samples, and 50 epochs of one point on all. The grid's scores are compared with those run after run first.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vision_adapters.heads import LinearHead, seeded
from vision_adapters.training import Recipe, fit
from vision_adapters.training.checkpoint import changing_state
from vision_adapters.training.side_by_side import Trial, grid_scores
from vision_adapters.tuning.elevater import COARSE, DECAYS, RATES

TRIALS = [Trial(rate, DECAYS[at]) for rate in RATES for at in COARSE]


def seconds(work: Callable[[], object]) -> float:
    """CPU seconds of a call."""
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> None:
    """Compare, measure in turn, and write the ratio of medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("samples", 2000), ("dim", 512), ("hidden", 256), ("classes", 100), ("repeats", 5)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("results") / "elevater_grid.json")
    args = parser.parse_args()
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(args.classes, args.dim, generator=generator)
    y = torch.arange(args.samples) % args.classes
    x = centres[y] + 4 * torch.randn(args.samples, args.dim, generator=generator)
    cut = args.samples * 4 // 5

    def module() -> nn.Module:
        layers = [nn.Linear(args.dim, args.hidden), nn.ReLU()] if args.hidden else []
        return seeded(lambda: nn.Sequential(*layers, LinearHead(args.hidden or args.dim, args.classes,
                                                                features="batchnorm")), 0)  # fmt: skip

    def recipe(count: int, trial: Trial, epochs: int) -> Recipe:
        epoch = max(1, count // 64)
        return Recipe(lr=trial.lr, weight_decay=trial.weight_decay, steps=epochs * epoch, batch_size=64,
                      validate_every=epoch, optimiser="sgd", schedule="constant")  # fmt: skip

    def accuracy(scores: Tensor) -> float:
        return float((scores.argmax(1) == y[cut:]).float().mean())

    def grid(kind: torch.dtype = torch.float32, **how: int) -> dict[Trial, float]:
        return grid_scores(module().to(kind), x[:cut].to(kind), y[:cut], TRIALS, loss=F.cross_entropy,
                           recipe=recipe(cut, Trial(1.0, 0.0), 10), held=x[cut:].to(kind), score=accuracy, worst=-1.0,
                           seed=0, **how)  # fmt: skip

    batched, alone = grid(torch.float64), grid(torch.float64, budget=1)  # in float32, rounding grows at high rates
    furthest = max(abs(batched[trial] - alone[trial]) for trial in TRIALS)
    chosen, other = (
        max(TRIALS, key=lambda trial: (scores[trial], -trial.lr, -trial.weight_decay)) for scores in (batched, alone)
    )
    apart = sum(abs(batched[trial] - alone[trial]) > 0.005 for trial in TRIALS)
    if chosen != other or apart > 3:
        raise SystemExit(
            f"{apart} scores differ from those run after run, by up to {furthest:.3f}; no speed is printed"
        )

    def single() -> None:
        network = module()
        fit(network, (x,), y, loss=F.cross_entropy, recipe=recipe(len(y), chosen, 50), validate=lambda _: 0.0,
            direction="higher", seed=0, choose="last")  # fmt: skip

    times: dict[str, list[float]] = {"grid": [], "run after run": [], "one fine-tuning": []}
    for _ in range(args.repeats):
        times["grid"].append(seconds(grid))
        times["one fine-tuning"].append(seconds(single))
    times["run after run"].append(seconds(lambda: grid(budget=1)))
    medians = {name: statistics.median(values) for name, values in times.items()}
    weights = sum(value.numel() for value in changing_state(module()).values())
    result = {
        "samples": args.samples, "dim": args.dim, "hidden": args.hidden, "classes": args.classes, "weights": weights,
        "trials": len(TRIALS), "chosen": chosen._asdict(), "trials_apart": apart, "furthest_score": furthest,
        "cpu_seconds": medians, "grid_by_one_fine_tuning": medians["grid"] / medians["one fine-tuning"],
        "run_after_run_by_one_fine_tuning": medians["run after run"] / medians["one fine-tuning"],
        "threads": torch.get_num_threads(), "torch": torch.__version__, "machine": platform.processor() or "unknown",
    }  # fmt: skip
    print(json.dumps(result, indent=1))
    args.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
