"""On a CUDA GPU: python on_a_gpu.py [--sizes 32768 65536]; bfloat16, D = 768. Without a GPU it says so and stops.

Correctness first (Triton and tiled against float64 at a small size), then time of loss and gradients by CUDA events and
the peak of allocated memory beyond the features, over open_clip's ClipLoss where that fits, over our own tiled
contrastive loss alone, and over the floor: 8 N^2 D flop at 788 TFLOP/s, 33.5 ms at N = 65,536.
"""

from __future__ import annotations

import argparse
import statistics
from typing import TYPE_CHECKING

import torch
from measure import save

from eqsim import ClipEqSimLoss, EqSimLoss

if TYPE_CHECKING:
    from collections.abc import Callable

DIM, SCALE, TERAFLOPS = 768, 100.0, 788.0


def batch(n: int, dtype: torch.dtype = torch.bfloat16) -> list[torch.Tensor]:
    generator = torch.Generator("cuda").manual_seed(0)
    image = torch.randn(n, DIM, generator=generator, device="cuda")
    text = image + 0.5 * torch.randn(n, DIM, generator=generator, device="cuda")
    rows = [torch.nn.functional.normalize(value, dim=1).to(dtype) for value in (image, text)]
    return [value.requires_grad_() for value in rows]


def contrastive_alone(backend: str) -> Callable[..., torch.Tensor]:
    loss = ClipEqSimLoss("v1", weight=0.0, close=None, backend=backend)

    def run(image: torch.Tensor, text: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        # An empty list leaves v1 without pairs: only the contrastive part is computed.
        nothing = torch.empty((0, 2), dtype=torch.int64, device=image.device)
        return loss(image, text, scale, close_pairs=nothing)

    return run


def candidates() -> dict[str, Callable[..., torch.Tensor]]:
    from open_clip.loss import ClipLoss

    return {
        "ClipLoss": ClipLoss(),
        "contrastive alone, triton": contrastive_alone("triton"),
        "contrastive alone, tiled": contrastive_alone("tiled"),
        "contrastive + EqSim, triton": ClipEqSimLoss("v2", backend="triton"),
        "contrastive + EqSim, tiled + gram": ClipEqSimLoss("v2", backend="gram"),
        "EqSim alone, gram": EqSimLoss("v2", backend="gram"),
    }


def step(loss: Callable[..., torch.Tensor], inputs: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    value = loss(*inputs, torch.tensor(SCALE, device="cuda"))
    return (value.detach(), *torch.autograd.grad(value, inputs))


def check() -> bool:
    narrow = batch(1500)
    wide = [rows.detach().double().requires_grad_() for rows in narrow]
    good = True
    for backend in ("triton", "tiled", "gram"):
        exact = step(ClipEqSimLoss("v2", backend="dense"), wide)
        ours = step(ClipEqSimLoss("v2", backend=backend), narrow)
        value = float((ours[0] - exact[0]).abs() / exact[0].abs())
        grads = max(float((a.double() - b).norm() / b.norm()) for a, b in zip(ours[1:], exact[1:], strict=True))
        fine = value < 5e-3 and grads < 2e-2
        good &= fine
        print(f"{'ok ' if fine else 'BAD'} {backend}: value {value:.1e}, gradients {grads:.1e}")
    return good


def measure(run: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        stop.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(stop))
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[32768, 65536])
    parser.add_argument("--repeats", type=int, default=5)
    settings = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("no CUDA device: nothing was measured")
    if not check():
        raise SystemExit("a backend is wrong: no speed is reported")
    rows = []
    for n in settings.sizes:
        inputs = batch(n)
        floor = 8 * n * n * DIM / (TERAFLOPS * 1e9)
        print(f"n = {n}: floor {floor:.1f} ms")
        for name, loss in candidates().items():
            try:
                step(loss, inputs)
                torch.cuda.reset_peak_memory_stats()
                before = torch.cuda.memory_allocated()
                milliseconds = measure(lambda loss=loss, inputs=inputs: step(loss, inputs), settings.repeats)
                peak = (torch.cuda.max_memory_allocated() - before) / 2**30
            except torch.cuda.OutOfMemoryError:
                print(f"  {name:<36} does not fit")
                rows.append({"n": n, "candidate": name, "fits": False})
                continue
            print(f"  {name:<36} {milliseconds:8.1f} ms, {milliseconds / floor:5.2f} x floor, peak {peak:.2f} GB")
            rows.append({"n": n, "candidate": name, "ms": milliseconds, "floor_ms": floor, "peak_gb": peak})
    save("on_a_gpu", {"d": DIM, "rows": rows})


if __name__ == "__main__":
    main()
