"""Float32 and half precision against float64, at scale 100, near convergence, with duplicates; compiled, too."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from eqsim import ClipEqSimLoss, CyclicLoss, EqSimLoss, SigLipEqSimLoss
from eqsim.backends import compute_parts, tiled, tiles
from eqsim.batch import Batch

N, DIM = 300, 24


def batch(spread: float, n: int = N, seed: int = 0) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    image = torch.nn.functional.normalize(torch.randn(n, DIM, generator=generator), dim=1)
    text = torch.nn.functional.normalize(image + spread * torch.randn(n, DIM, generator=generator), dim=1)
    return [image.requires_grad_(), text.requires_grad_()]


def run(loss: torch.nn.Module, inputs: list[torch.Tensor], *scale: float | torch.Tensor) -> tuple[torch.Tensor, ...]:
    value = loss(*inputs, *scale)
    return value.detach(), *torch.autograd.grad(value, inputs)


def errors(computed: tuple[torch.Tensor, ...], truth: tuple[torch.Tensor, ...]) -> tuple[float, float]:
    value = float((computed[0] - truth[0]).abs() / truth[0].abs())
    grads = max(float((a - b).norm() / b.norm()) for a, b in zip(computed[1:], truth[1:], strict=True))
    return value, grads


@pytest.mark.parametrize("spread", [1.0, 1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("mode", ["v1", "v2"])
@pytest.mark.parametrize("backend", ["gram", "tiled"])
def test_near_convergence_no_worse_than_four_times_the_dense_error(spread: float, mode: str, backend: str) -> None:
    inputs = batch(spread)
    wide = [rows.detach().double().requires_grad_() for rows in inputs]
    truth = run(EqSimLoss(mode, backend="dense"), wide)
    ours = errors(run(EqSimLoss(mode, backend=backend), inputs), truth)
    dense = errors(run(EqSimLoss(mode, backend="dense"), inputs), truth)
    rounding = 8 * torch.finfo(torch.float32).eps
    assert ours[0] <= 4 * dense[0] + rounding
    assert ours[1] <= 4 * dense[1] + rounding


@pytest.mark.parametrize("score", ["cosine", "logits", "softmax"])
@pytest.mark.parametrize("backend", ["dense", "tiled"])
@pytest.mark.parametrize("kind", [ClipEqSimLoss, SigLipEqSimLoss])
def test_float32_loss_at_scale_100(kind: type, score: str, backend: str) -> None:
    inputs = batch(0.7)
    wide = [rows.detach().double().requires_grad_() for rows in inputs]
    computed = errors(run(kind("v2", score, backend=backend), inputs, 100.0), run(kind("v2", score), wide, 100.0))
    assert computed[0] < 1e-6
    assert computed[1] < 2e-5


@pytest.mark.parametrize("scale", [100.0, -100.0, 1.0])
def test_tiles_share_an_exponential_only_where_no_digits_are_lost(
    scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    common = torch.nn.functional.normalize(torch.arange(1.0, DIM + 1), dim=0)
    image, text = (torch.nn.functional.normalize(rows.detach() + common, dim=1) for rows in batch(0.3, 200))
    # Three images on the other side: of their rows every logit is far below those of the others.
    image[[5, 70, 199]] *= -1
    inputs = [image.requires_grad_(), text.requires_grad_()]
    calls, factor = {"long": 0, "both": 0}, torch.tensor(scale, dtype=torch.float64)
    monkeypatch.setattr(tiled, "TILE", 64)
    for name, function in (("absorb", "long"), ("_absorb_both", "both")):
        whole = getattr(tiles, name)

        def counted(*args: object, whole: Callable[..., object] = whole, function: str = function) -> object:
            calls[function] += 1
            return whole(*args)

        monkeypatch.setattr(tiles, name, counted)
    computed = run(ClipEqSimLoss("v2", backend="tiled"), inputs, factor)
    wide = [rows.detach().double().requires_grad_() for rows in inputs]
    dense = ClipEqSimLoss("v2", backend="dense")
    truth = run(dense, wide, factor)
    for ours, theirs in zip(errors(computed, truth), errors(run(dense, inputs, factor), truth), strict=True):
        assert ours <= 4 * theirs + 8 * torch.finfo(torch.float32).eps
    assert calls["both"] == 4 + 2 * 6
    # Each tile that is taken the long way is so for its rows and for its columns.
    assert (0 < calls["long"] < 2 * calls["both"]) if abs(scale) == 100 else calls["long"] == 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("backend", ["dense", "tiled", "gram"])
def test_half_precision_features_are_summed_in_float32(dtype: torch.dtype, backend: str) -> None:
    inputs = [rows.detach().to(dtype).requires_grad_() for rows in batch(0.5)]
    wide = [rows.detach().double().requires_grad_() for rows in inputs]
    value, *grads = run(ClipEqSimLoss("v2", backend=backend), inputs, 100.0)
    exact = run(ClipEqSimLoss("v2", backend="dense"), wide, 100.0)
    assert value.dtype == torch.float32
    assert float((value - exact[0]).abs()) < 1e-5 * float(exact[0])
    for ours, theirs in zip(grads, exact[1:], strict=True):
        assert ours.dtype == dtype
        assert float((ours.double() - theirs).norm() / theirs.norm()) < 2 * torch.finfo(dtype).eps


@pytest.mark.parametrize("backend", ["dense", "tiled", "gram"])
def test_autocast_does_not_reach_inside(backend: str) -> None:
    inputs = batch(0.5)
    loss = ClipEqSimLoss("v2", backend=backend)
    plain = run(loss, inputs, 100.0)
    with torch.autocast("cpu", torch.bfloat16):
        value = loss(*inputs, 100.0)
    cast = value.detach(), *torch.autograd.grad(value, inputs)
    for ours, theirs in zip(cast, plain, strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("backend", ["dense", "tiled", "gram"])
def test_duplicates_in_the_batch(backend: str) -> None:
    image, text = (torch.cat([rows.detach(), rows.detach()]).requires_grad_() for rows in batch(0.5, 20))
    value, *grads = run(ClipEqSimLoss("hybrid", backend=backend), [image, text], 100.0)
    assert all(bool(torch.isfinite(x).all()) for x in (value, *grads))
    _, *grads = run(ClipEqSimLoss("v2", backend=backend), [image, text], 100.0)
    torch.testing.assert_close(grads[0][:20], grads[0][20:], rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("backend", ["dense", "tiled", "gram"])
def test_invariances(seed: int, backend: str) -> None:
    image, text = (rows.detach().double() for rows in batch(0.5, 50, seed))
    loss = EqSimLoss("v2", backend=backend)
    order = torch.randperm(50, generator=torch.Generator().manual_seed(seed))
    torch.testing.assert_close(loss(image[order], text[order]), loss(image, text), rtol=1e-10, atol=0)
    torch.testing.assert_close(loss(text, image), loss(image, text), rtol=1e-10, atol=0)


COMPILED = [
    EqSimLoss("v2", backend="dense"),
    EqSimLoss("v1", backend="gram"),
    ClipEqSimLoss("hybrid", "softmax", backend="tiled"),
]


@pytest.mark.parametrize("loss", COMPILED, ids=lambda loss: loss.settings.backend)
@pytest.mark.long
def test_compiles_without_a_graph_break(loss: torch.nn.Module) -> None:
    inputs, scale = batch(0.5, 40), torch.tensor(10.0)
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    for ours, theirs in zip(run(compiled, inputs, scale), run(loss, inputs, scale), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-7)


INDUCTOR = [
    pytest.mark.again,  # seconds of C++; what torch.compile traces is what aot_eager is given
    pytest.mark.skipif(shutil.which(os.environ.get("CXX", "g++")) is None, reason="inductor needs a C++ compiler"),
    pytest.mark.skipif(
        torch.__version__.startswith("2.6.") and find_spec("setuptools") is None,
        reason="torch 2.6's inductor imports setuptools and does not bring it",
    ),
]


@pytest.mark.parametrize("compiler", ["aot_eager", pytest.param("inductor", marks=INDUCTOR)])
@pytest.mark.long
def test_contrast_eqsim_and_pairs_compile_in_one_pass(
    compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # what another processor compiled into the cache that all share is NaN here, or ends the process
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    inputs, pairs = batch(0.5, 40), torch.arange(20).view(-1, 2)
    loss = ClipEqSimLoss("hybrid", pair_weight=1.0, backend="tiled")  # dense and gram were seen to do so, too
    compiled = torch.compile(loss, fullgraph=True, backend=compiler)
    computed = []
    for function in (compiled, loss):
        value = function(*inputs, torch.tensor(10.0), close_pairs=pairs)
        computed.append([value.detach(), *torch.autograd.grad(value, inputs)])
    for ours, theirs in zip(*computed, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-7)


class _Counter(torch.utils._python_dispatch.TorchDispatchMode):
    """Counts operations, and refuses those that wait for the device."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: object, types: object, args: tuple = (), kwargs: dict | None = None) -> object:
        self.count += 1
        name = str(func)
        assert not any(word in name for word in ("_local_scalar_dense", "nonzero", "unique", "masked_select")), name
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("backend", ["dense", "gram"])
@pytest.mark.parametrize("mode", ["v1", "v2", "hybrid"])
def test_operations_do_not_grow_with_the_batch_nor_wait_for_the_device(mode: str, backend: str) -> None:
    loss = ClipEqSimLoss(mode, backend=backend) if backend == "dense" else EqSimLoss(mode, backend=backend)
    counts = []
    for n in (10, 40, 80, 160):  # with 10, four neighbours of each leave few distant pairs: another way
        inputs = batch(0.5, n)
        with _Counter() as counter:
            run(loss, inputs, 10.0)
        counts.append(counter.count)
    assert counts[1] == counts[2] == counts[3]


def all_functions(n: int, d: int) -> dict[str, Callable[..., torch.Tensor]]:
    """Losses that between them pass every autograd function of the package."""
    generator = torch.Generator().manual_seed(1)
    teacher = (*torch.randn(2, n, 3, generator=generator), 2.0)
    pairs = torch.tensor([(i, (i + 1) % n) for i in range(n)])
    return {
        "cyclic": lambda *x: CyclicLoss()(*x[:2]),
        "gram": lambda *x: EqSimLoss("v2", backend="gram", sides=("text",))(*x[:2]),
        "gram logits": lambda *x: EqSimLoss("v1", "logits", backend="gram")(*x),
        "gram, clip": lambda *x: ClipEqSimLoss("v1", backend="gram")(*x),
        "tiled": lambda *x: ClipEqSimLoss("hybrid", pair_weight=0.5, backend="tiled")(*x, close_pairs=pairs),
        "tiled softmax": lambda *x: ClipEqSimLoss("v2", "softmax", backend="tiled")(*x),
        "sigmoid": lambda *x: SigLipEqSimLoss("v1", backend="tiled")(*x, -3.0),
        "kl": lambda *x: ClipEqSimLoss("v1", keep_weight=1.0, backend="tiled")(*x, teacher=teacher),
        "squares": lambda *x: EqSimLoss("v1", keep_weight=1.0, keep="squares", backend="tiled")(*x, teacher=teacher),
    }


@pytest.mark.parametrize("name", all_functions(8, 4))
def test_backward_inside_autocast_is_as_precise_as_outside(name: str) -> None:
    n, d = 40, 16
    gradients = []
    for inside in (False, True):
        generator = torch.Generator().manual_seed(0)
        inputs = [rows.requires_grad_() for rows in torch.randn(2, n, d, generator=generator).unbind(0)]
        inputs.append(torch.tensor(5.0, requires_grad=True))
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=inside):
            all_functions(n, d)[name](*inputs).backward()
        gradients.append([torch.zeros(()) if leaf.grad is None else leaf.grad for leaf in inputs])
    for within, without in zip(*gradients[::-1], strict=True):
        torch.testing.assert_close(within, without, rtol=1e-5, atol=1e-6 * float(without.abs().max()))


@pytest.mark.parametrize("score", ["cosine", "logits", "softmax"])
@pytest.mark.parametrize("distant", [0, 2, 40, 1780, 3540, 5340, 7080])
def test_hybrid_is_accurate_whatever_the_share_of_distant_pairs(distant: int, score: str) -> None:
    """Of 7,140 pairs; float32 against float64 by the dense matrix, the distant term by itself and the gradients."""
    n, d = 120, 16
    generator = torch.Generator().manual_seed(distant)
    image, text = torch.randn(2, n, d, generator=generator).unbind(0)
    both = torch.triu_indices(n, n, 1).T
    close = both[torch.randperm(len(both), generator=generator)[: len(both) - distant]]
    settings = {"mode": "hybrid", "score": score, "distant_reduction": "mean"}
    results = {}
    for backend, dtype in (
        ("exact", torch.float64),
        ("dense", torch.float32),
        ("tiled", torch.float32),
        ("gram", torch.float32),
    ):
        if backend == "gram" and score == "softmax":
            continue
        inputs = [rows.to(dtype).requires_grad_() for rows in (image, text)]
        loss = EqSimLoss(**settings, backend="dense" if backend == "exact" else backend)
        batch = Batch.of(loss.settings, *inputs, 3.0 / d**0.5, None, close)
        with torch.no_grad():
            v1 = compute_parts(batch).terms.v1
        value = loss(*inputs, 3.0 / d**0.5, close_pairs=close)
        results[backend] = (float(v1), torch.cat(torch.autograd.grad(value, inputs)).double())
    v1, gradient = results.pop("exact")
    for backend, (own, own_gradient) in results.items():
        if distant == 0:
            assert own == 0.0, backend
        assert abs(own - v1) <= 3e-6 * v1, backend
        assert float((own_gradient - gradient).norm()) <= 3e-6 * float(gradient.norm()), backend


def test_a_tile_of_an_accelerator_is_summed_in_one_launch() -> None:
    tile = torch.empty(tiles.ACCELERATOR_TILE, tiles.ACCELERATOR_TILE, device="meta")  # any device but the CPU
    with _Counter() as counter:
        tiles._square_sum(tile)
    assert counter.count <= 3


def rounded_to_tf32(values: torch.Tensor) -> torch.Tensor:
    """Float32 with ten bits of mantissa, to nearest, as tensor cores read it."""
    bits = values.detach().contiguous().view(torch.int32)
    return ((bits + 0x1000) & ~0x1FFF).view(torch.float32)


@pytest.mark.parametrize("spread", [1.0, 0.3, 0.1])
@pytest.mark.parametrize("mode", ["v1", "v2"])
@pytest.mark.parametrize("backend", ["tiled", "gram"])
def test_tf32_products_cost_digits_of_the_gradient_and_no_more(
    backend: str, mode: str, spread: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TF32 rounds the operands of each matrix product: here by hand, since a CPU multiplies in float32."""
    generator = torch.Generator().manual_seed(0)
    image = torch.nn.functional.normalize(torch.randn(300, 512, generator=generator), dim=1)
    noise = torch.randn(300, 512, generator=generator) / 512**0.5
    inputs = [image, torch.nn.functional.normalize(image + spread * noise, dim=1)]
    wide = run(EqSimLoss(mode, backend="dense"), [rows.double().requires_grad_() for rows in inputs])
    products = 0
    plain_mm, plain_addmm = torch.mm, torch.Tensor.addmm_

    def mm(first: torch.Tensor, second: torch.Tensor, **options: object) -> torch.Tensor:
        nonlocal products
        products += 1
        return plain_mm(rounded_to_tf32(first), rounded_to_tf32(second), **options)

    def addmm(self: torch.Tensor, first: torch.Tensor, second: torch.Tensor, **options: object) -> torch.Tensor:
        nonlocal products
        products += 1
        return plain_addmm(self, rounded_to_tf32(first), rounded_to_tf32(second), **options)

    monkeypatch.setattr(torch, "mm", mm)
    monkeypatch.setattr(torch.Tensor, "addmm_", addmm)
    value, *gradient = run(EqSimLoss(mode, backend=backend), [rows.requires_grad_() for rows in inputs])
    assert products >= 4
    assert abs(float(value) - float(wide[0])) < 3e-5 * float(wide[0])
    off, exact = (torch.cat([part.double() for part in parts]) for parts in (gradient, wide[1:]))
    error = float((off - exact).norm() / exact.norm())
    assert 1e-5 < error < (4e-3 if backend == "tiled" else 6e-4)
