"""Time and peak memory over open_clip's ClipLoss, one thread, float32: python against_clip_loss.py [--sizes 4096 8192].

First every candidate is compared with the float64 dense loss at a small size; a speed is printed only if all agree.
Time is processor time of loss and gradients, medians of runs that alternate in one process; memory is the resident
memory that loss and gradients add, each candidate in a fresh process. ``--memory-repeats 3`` measures memory alone, so
often, also on a busy machine, and writes results/against_clip_loss_memory.json.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from measure import alternate, peak_megabytes, save
from open_clip.loss import ClipLoss

from eqsim import ClipEqSimLoss, EqSimLoss, TopK

DIM, SCALE = 512, 100.0
MEMORY = 1 << 28
#: candidate -> (time target, memory target) at each size, over ClipLoss; None where there is no target.
TARGETS: dict[str, dict[int, tuple[float | None, float | None]]] = {
    "EqSim alone, all pairs": {8192: (0.10, 0.10)},
    "contrastive + EqSim, all pairs": {4096: (0.80, None), 8192: (0.60, 0.15)},
    "contrastive + EqSim, all pairs, scores kept": {8192: (0.50, None)},
    "contrastive + EqSim + keep, squares": {8192: (0.62, None)},
    "contrastive + EqSim + keep, squares, scores kept": {8192: (0.50, None)},
    "contrastive + EqSim + keep, KL, scores kept": {8192: (0.62, None)},
    "contrastive + EqSim + PairLoss on n/4 pairs": {8192: (0.62, None)},
    "contrastive + softmax hybrid, pairs given": {8192: (1.2, 0.2)},
    "contrastive + softmax hybrid, top-k inside": {8192: (1.5, None)},
}


def batch(n: int, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    image = torch.nn.functional.normalize(torch.randn(n, DIM, generator=generator), dim=1)
    text = torch.nn.functional.normalize(image + 0.5 * torch.randn(n, DIM, generator=generator), dim=1)
    return [image.to(dtype).requires_grad_(), text.to(dtype).requires_grad_()]


def listed(n: int, k: int = 4) -> torch.Tensor:
    """As many given pairs as the top-k rule of the hybrid makes."""
    picked = torch.randint(1, n, (2 * n, k), generator=torch.Generator().manual_seed(1))
    own = torch.arange(n).repeat(2)[:, None]
    return torch.stack([own.expand_as(picked), (own + picked) % n], dim=-1).reshape(-1, 2)


def frozen(n: int) -> tuple[torch.Tensor, torch.Tensor, float]:
    """A teacher's features, near enough to the student's that its scores differ by some hundredths."""
    return (*(rows.detach() + 0.02 for rows in batch(n)), SCALE)


def candidates(n: int, backend: str = "auto") -> dict[str, tuple[object, dict[str, object]]]:
    pairs = {"close_pairs": listed(n)}
    teacher = {"teacher": frozen(n)}
    return {
        "ClipLoss": (ClipLoss(), {}),
        "EqSim alone, all pairs": (EqSimLoss("v2", backend=backend), {}),
        "contrastive + EqSim, all pairs": (ClipEqSimLoss("v2", backend=backend), {}),
        "contrastive + EqSim + PairLoss on n/4 pairs": (
            ClipEqSimLoss("hybrid", pair_weight=1.0, backend=backend),
            {"close_pairs": torch.arange(n // 4 * 2).view(-1, 2)},
        ),
        "contrastive + EqSim, all pairs, scores kept": (ClipEqSimLoss("v2", backend=backend, score_memory=MEMORY), {}),
        "contrastive + EqSim + keep, squares": (
            ClipEqSimLoss("v2", keep_weight=1.0, keep="squares", backend=backend),
            teacher,
        ),
        "contrastive + EqSim + keep, squares, scores kept": (
            ClipEqSimLoss("v2", keep_weight=1.0, keep="squares", backend=backend, score_memory=MEMORY),
            teacher,
        ),
        "contrastive + EqSim + keep, KL, scores kept": (
            ClipEqSimLoss("v2", keep_weight=1.0, backend=backend, score_memory=MEMORY),
            teacher,
        ),
        "contrastive + EqSim, by Gram": (ClipEqSimLoss("v2", backend="gram"), {}),
        "contrastive + softmax hybrid, pairs given": (ClipEqSimLoss("hybrid", "softmax", backend=backend), pairs),
        "contrastive + softmax hybrid, top-k inside": (
            ClipEqSimLoss("hybrid", "softmax", close=TopK(k=4), backend=backend),
            {},
        ),
    }


def step(loss: object, inputs: list[torch.Tensor], extra: dict[str, object]) -> tuple[torch.Tensor, ...]:
    value = loss(*inputs, torch.tensor(SCALE, dtype=inputs[0].dtype), **extra)
    return (value.detach(), *torch.autograd.grad(value, inputs))


def check() -> bool:
    """Compare each candidate at n = 700 with the dense float64 loss.

    The value must agree to 1e-6, the gradients to 4 times the error that the dense float32 loss makes.
    """
    good = True
    wide, narrow = batch(700, torch.float64), batch(700)
    dense = candidates(700, "dense")
    dense["contrastive + EqSim, by Gram"] = dense["contrastive + EqSim, all pairs"]

    def errors(computed: tuple[torch.Tensor, ...], truth: tuple[torch.Tensor, ...]) -> tuple[float, float]:
        value = float((computed[0] - truth[0]).abs() / truth[0].abs())
        return value, max(
            float((a - b).abs().max() / b.abs().max()) for a, b in zip(computed[1:], truth[1:], strict=True)
        )

    for name, (loss, extra) in candidates(700, "auto").items():
        truth = step(dense[name][0], wide, extra)
        own, plain = errors(step(loss, narrow, extra), truth), errors(step(dense[name][0], narrow, extra), truth)
        fine = own[0] < 1e-6 and own[1] <= 4 * plain[1]
        good &= fine
        print(
            f"{'ok ' if fine else 'BAD'} {name:<44} value {own[0]:.1e}, gradients {own[1]:.1e} (dense {plain[1]:.1e})"
        )
    return good


def memory_in_fresh_process(n: int, name: str) -> float:
    command = [sys.executable, "-W", "ignore", str(Path(__file__)), "--memory-of", name, "--sizes", str(n)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=900).stdout
    return float(printed.split()[-1])


def memory_alone(sizes: list[int], repeats: int) -> None:
    """Measure each candidate's peak memory over ClipLoss's so often, and write median, lowest and highest."""
    rows = []
    for n in sizes:
        names = candidates(n)
        measured = {name: [memory_in_fresh_process(n, name) for _ in range(repeats)] for name in names}
        base = statistics.median(measured["ClipLoss"])
        for name, values in measured.items():
            row = {"n": n, "candidate": name, "megabytes": sorted(values)}
            if name != "ClipLoss":
                shares = [value / base for value in sorted(values)]
                row |= {"memory": statistics.median(shares), "lowest": shares[0], "highest": shares[-1]}
            print(row, flush=True)
            rows.append(row)
    save("against_clip_loss_memory", {"d": DIM, "repeats": repeats, "rows": rows})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[4096, 8192])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", nargs="+", help="candidates, by how their names begin; no memory")
    parser.add_argument("--save-as", default="against_clip_loss_in_part", help="name of the results with --only")
    parser.add_argument("--memory-of", help="print the peak memory of one candidate (used by this script itself)")
    parser.add_argument("--memory-repeats", type=int, help="measure memory alone, so often")
    settings = parser.parse_args()
    torch.set_num_threads(1)
    if settings.memory_of:
        n = settings.sizes[0]
        loss, extra = candidates(n)[settings.memory_of]
        small, small_extra = batch(600), candidates(600)[settings.memory_of][1]
        step(loss, small, small_extra)  # lets libraries take their own working memory first
        inputs = batch(n)
        print(peak_megabytes(lambda: step(loss, inputs, extra)))
        return
    if not check():
        raise SystemExit("a candidate is wrong: no speed is reported")
    if settings.memory_repeats:
        memory_alone(settings.sizes, settings.memory_repeats)
        return
    rows = []
    for n in settings.sizes:
        inputs = batch(n)
        runs = {
            name: (lambda loss=loss, extra=extra, inputs=inputs: step(loss, inputs, extra))
            for name, (loss, extra) in candidates(n).items()
            if not settings.only or name.startswith(("ClipLoss", *settings.only))
        }
        seconds = alternate(runs, settings.repeats)
        memory = {name: float("nan") if settings.only else memory_in_fresh_process(n, name) for name in runs}
        print(f"n = {n}: ClipLoss {seconds['ClipLoss']:.2f} s, {memory['ClipLoss']:.0f} MB")
        for name in runs:
            if name == "ClipLoss":
                continue
            ratio, share = seconds[name] / seconds["ClipLoss"], memory[name] / memory["ClipLoss"]
            target = TARGETS.get(name, {}).get(n, (None, None))
            missed = [got for got, most in zip((ratio, share), target, strict=True) if most is not None and got > most]
            verdict = "" if target == (None, None) else ("  MISSED" if missed else "  met")
            print(
                f"  {name:<44} time {ratio:.3f}  memory {share:.3f} ({memory[name]:.0f} MB)  target {target}{verdict}"
            )
            rows.append(
                {"n": n, "candidate": name, "time": ratio, "memory": share, "target": target, "met": not missed}
            )
        rows.append({"n": n, "candidate": "ClipLoss", "seconds": seconds["ClipLoss"], "megabytes": memory["ClipLoss"]})
    name = settings.save_as if settings.only else "against_clip_loss"
    # What was not measured is left out: JSON has no NaN.
    rows = [{key: value for key, value in row.items() if value == value} for row in rows]
    save(name, {"d": DIM, "repeats": settings.repeats, "rows": rows})


if __name__ == "__main__":
    main()
