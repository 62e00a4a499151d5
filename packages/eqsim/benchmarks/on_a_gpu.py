"""On a CUDA GPU: python on_a_gpu.py [--sizes 32768 65536]; bfloat16, D = 768. Without a GPU it says so and stops.

With --smoke it runs the same steps on the CPU (n = 64, float32; dense, tiled and gram), prints no speed and writes
nothing: that shows that the script works, and says nothing about a GPU.

Correctness first (Triton and tiled against float64 at a small size), then time of loss and gradients by CUDA events and
the peak of allocated memory beyond the features, over open_clip's ClipLoss where that fits, over our own tiled
contrastive loss alone, and over the floor: 8 N^2 D flop at 788 TFLOP/s, 33.5 ms at N = 65,536.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from measure import save

from eqsim import ClipEqSimLoss, EqSimLoss

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Loss = Callable[..., torch.Tensor]

SCALE, TERAFLOPS = 100.0, 788.0
CHECK_SCALE = 5.0  # at 100 the contrastive loss of these pairs vanishes, and its relative error says nothing


@dataclass(frozen=True)
class Run:
    """Where and what: a GPU's run, or the smoke run on the CPU."""

    device: str
    dtype: torch.dtype
    dim: int
    sizes: tuple[int, ...]
    repeats: int
    check_size: int
    tiled: tuple[str, ...]  # backends of contrastive + EqSim and of the contrastive loss alone
    checked: tuple[str, ...]
    bounds: tuple[float, float]  # relative errors allowed: value, gradients


SMOKE = Run("cpu", torch.float32, 32, (64,), 2, 50, ("dense", "tiled"), ("dense", "tiled", "gram"), (1e-5, 1e-4))


def on_cuda(sizes: list[int], repeats: int) -> Run:
    backends = ("triton", "tiled")
    return Run("cuda", torch.bfloat16, 768, tuple(sizes), repeats, 1500, backends, (*backends, "gram"), (5e-3, 2e-2))


def unit(rows: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.normalize(rows, dim=1)


def batch(run: Run, n: int) -> list[torch.Tensor]:
    generator = torch.Generator(run.device).manual_seed(0)
    image = torch.randn(n, run.dim, generator=generator, device=run.device)
    text = image + 0.5 * torch.randn(n, run.dim, generator=generator, device=run.device)
    rows = [unit(value).to(run.dtype) for value in (image, text)]
    return [value.requires_grad_() for value in rows]


def contrastive_alone(backend: str) -> Loss:
    loss = ClipEqSimLoss("v1", weight=0.0, close=None, backend=backend)

    def run(image: torch.Tensor, text: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        # An empty list leaves v1 without pairs: only the contrastive part is computed.
        nothing = torch.empty((0, 2), dtype=torch.int64, device=image.device)
        return loss(image, text, scale, close_pairs=nothing)

    return run


def candidates(run: Run) -> dict[str, Loss]:
    from open_clip.loss import ClipLoss

    alone = {f"contrastive alone, {backend}": contrastive_alone(backend) for backend in run.tiled}
    both: dict[str, Loss] = {f"contrastive + EqSim, {name}": ClipEqSimLoss("v2", backend=name) for name in run.tiled}
    return (
        {"ClipLoss": ClipLoss()}
        | alone
        | both
        | {
            "contrastive + EqSim, tiled + gram": ClipEqSimLoss("v2", backend="gram"),
            "EqSim alone, gram": EqSimLoss("v2", backend="gram"),
        }
    )


def step(loss: Loss, inputs: list[torch.Tensor], scale: float = SCALE) -> tuple[torch.Tensor, ...]:
    value = loss(*inputs, torch.tensor(scale, device=inputs[0].device))
    return (value.detach(), *torch.autograd.grad(value, inputs))


def errors(computed: tuple[torch.Tensor, ...], exact: tuple[torch.Tensor, ...]) -> tuple[float, float]:
    value = float((computed[0] - exact[0]).abs() / exact[0].abs())
    return value, max(float((a.double() - b).norm() / b.norm()) for a, b in zip(computed[1:], exact[1:], strict=True))


def check(run: Run) -> bool:
    """Each backend, and the contrastive loss alone as it is timed here, against float64."""
    from open_clip.loss import ClipLoss

    narrow = batch(run, run.check_size)
    wide = [rows.detach().double().requires_grad_() for rows in narrow]
    exact = step(ClipEqSimLoss("v2", backend="dense"), wide, CHECK_SCALE)
    pairs = {name: (ClipEqSimLoss("v2", backend=name), exact) for name in run.checked}
    plain = ClipLoss()  # takes rows as they are, ours with the cosine score normalises them, which shows in gradients
    alone = step(lambda image, text, scale: plain(*map(unit, (image, text)), scale), wide, CHECK_SCALE)
    pairs |= {f"contrastive alone, {name}": (contrastive_alone(name), alone) for name in run.tiled}
    good = True
    for name, (loss, truth) in pairs.items():
        value, grads = errors(step(loss, narrow, CHECK_SCALE), truth)
        fine = value < run.bounds[0] and grads < run.bounds[1]
        good &= fine
        print(f"{'ok ' if fine else 'BAD'} {name}: value {value:.1e}, gradients {grads:.1e}")
    return good


@contextlib.contextmanager
def stopwatch(device: str) -> Iterator[list[float]]:
    """Append milliseconds: CUDA events on a GPU, the clock elsewhere."""
    milliseconds: list[float] = []
    if device == "cuda":
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        yield milliseconds
        stop.record()
        torch.cuda.synchronize()
        milliseconds.append(start.elapsed_time(stop))
    else:
        begin = time.perf_counter()
        yield milliseconds
        milliseconds.append(1e3 * (time.perf_counter() - begin))


def measure(run: Run, loss: Loss, inputs: list[torch.Tensor]) -> dict[str, Any]:
    """Median milliseconds of loss and gradients, and on a GPU the peak of allocated memory beyond the features."""
    step(loss, inputs)
    if run.device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    times = []
    for _ in range(run.repeats):
        with stopwatch(run.device) as milliseconds:
            step(loss, inputs)
        times += milliseconds
    collected: dict[str, Any] = {"ms": statistics.median(times)}
    if run.device == "cuda":
        collected["peak_gb"] = (torch.cuda.max_memory_allocated() - before) / 2**30
    return collected


def rows_of(run: Run) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for n in run.sizes:
        inputs = batch(run, n)
        floor = 8 * n * n * run.dim / (TERAFLOPS * 1e9)
        for name, loss in candidates(run).items():
            row: dict[str, Any] = {"n": n, "candidate": name, "fits": True, "floor_ms": floor}
            try:
                row |= measure(run, loss, inputs)
            except torch.OutOfMemoryError:
                row["fits"] = False
            rows.append(row)
            if run.device == "cuda":
                print(line(row))
    return rows


def line(row: dict[str, Any]) -> str:
    name = f"n = {row['n']:<6} {row['candidate']:<36}"
    if not row["fits"]:
        return f"{name} does not fit"
    over = row["ms"] / row["floor_ms"]
    return f"{name} {row['ms']:8.1f} ms, {over:5.2f} x floor, peak {row['peak_gb']:.2f} GB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[32768, 65536])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--smoke", action="store_true", help="run the steps on the CPU at a tiny size; prints no speed")
    settings = parser.parse_args()
    if not settings.smoke and not torch.cuda.is_available():
        raise SystemExit("no CUDA device: nothing was measured (--smoke tries the steps on the CPU)")
    run = SMOKE if settings.smoke else on_cuda(settings.sizes, settings.repeats)
    if not check(run):
        raise SystemExit("a backend is wrong: no speed is reported")
    rows = rows_of(run)
    if settings.smoke:
        print(f"smoke run on the CPU: {len(rows)} candidates ran; no speed was measured, and nothing was written")
        return
    save("on_a_gpu", {"d": run.dim, "rows": rows})


if __name__ == "__main__":
    main()
