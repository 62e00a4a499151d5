"""The Triton kernels against the dense matrix: on a GPU where there is one, else by Triton's interpreter.

Collected by `test_triton` in a process of its own, since Triton decides when it is imported whether it interprets.
"""

from __future__ import annotations

import importlib
import itertools

import pytest
import torch

from eqsim import ClipEqSimLoss, EqSimLoss, SigLipEqSimLoss
from eqsim.backends import shares
from eqsim.backends.dense import dense_parts
from eqsim.backends.tiled import tiled_parts
from eqsim.batch import Batch
from eqsim.features import unit_rows
from eqsim.settings import Settings

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SETTINGS = list(
    itertools.product(
        ("v1", "v2", "hybrid"),
        ("cosine", "logits", "softmax"),
        (None, "clip", "sigmoid"),
        (("text", "image"), ("text",), ("image",)),
        (0.0, 0.05),
    )
)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    passes = importlib.import_module("eqsim.backends.triton_passes")
    for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K"):
        monkeypatch.setattr(passes, name, 16)
    monkeypatch.setattr(shares, "STRIP_ELEMENTS", 600)


def leaves(n: int, d: int, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(n)
    image, text = torch.randn(2, n, d, generator=generator)
    numbers = [torch.tensor(value) for value in (2.0, -1.0)]
    return [value.to(DEVICE, dtype).requires_grad_() for value in (image, text, *numbers)]


def gradients(loss: torch.Tensor, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    computed = torch.autograd.grad(loss, inputs, allow_unused=True, retain_graph=True)
    return [torch.zeros_like(x) if grad is None else grad for grad, x in zip(computed, inputs, strict=True)]


@pytest.mark.parametrize(("n", "d"), [(1, 3), (7, 5), (20, 20), (37, 20)])
@pytest.mark.parametrize("contrast", [None, "clip", "sigmoid"])
def test_kernels_are_the_dense_matrix(n: int, d: int, contrast: str | None) -> None:
    for number, (mode, score, kind, sides, margin) in enumerate(SETTINGS):
        # Each size takes its own part of the settings; seven is prime to the number of choices of each. 20 is two
        # blocks and two strips; 37, with a block between two others, takes three pairs of mode and score.
        if kind != contrast or number % 7 != {1: 0, 7: 1, 20: 3, 37: 3}[n]:
            continue
        if n > 7 and (n == 37) is not ((mode, score) in (("v1", "cosine"), ("v2", "logits"), ("hybrid", "softmax"))):
            continue
        inputs = leaves(n, d)
        image, text, scale, bias = inputs
        settings = Settings(mode, score, sides, margin, margin / 2, contrast=contrast)
        rows = (unit_rows(image), unit_rows(text)) if score == "cosine" else (image / 2, text / 2)
        pairs = torch.tensor([(i, (i + 1) % n) for i in range(n if n > 1 else 0)], device=DEVICE).reshape(-1, 2).long()
        batch = Batch(
            settings, *rows, scale, bias if contrast == "sigmoid" else None, pairs if mode == "hybrid" else None
        )
        computed = []
        for parts in (dense_parts(batch), tiled_parts(batch, triton=True)):
            contrastive = 0.0 if parts.contrastive is None else parts.contrastive
            loss = 0.7 * parts.terms.total() + 1.3 * contrastive
            computed.append((loss, gradients(loss, inputs)))
        torch.testing.assert_close(computed[1][0], computed[0][0], rtol=1e-5, atol=1e-6)
        for ours, theirs in zip(computed[1][1], computed[0][1], strict=True):
            size = float(theirs.abs().max())
            torch.testing.assert_close(
                ours, theirs, rtol=0, atol=2e-5 * size + 1e-6, msg=lambda m, o=settings: f"{o} {m}"
            )


@pytest.mark.parametrize("score", ["cosine", "logits", "softmax"])
@pytest.mark.parametrize("mode", ["none", "relative", "hybrid"])
def test_known_pairs_are_those_of_the_dense_matrix(mode: str, score: str) -> None:
    pairs = torch.tensor([(i, i + 1) for i in range(0, 19, 2)] + [(1, 0)], device=DEVICE)
    computed = []
    for backend in ("dense", "triton"):
        inputs = leaves(20, 20, torch.float64)[:3]
        loss = ClipEqSimLoss(mode, score, pair_weight=0.5, backend=backend)(*inputs, close_pairs=pairs)
        computed.append([loss.detach(), *gradients(loss, inputs)])
    for theirs, ours in zip(*computed, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)


def test_the_same_bits_every_time() -> None:
    results = []
    for _ in range(2):
        inputs = leaves(37, 20)
        loss = ClipEqSimLoss("v2", "softmax", margin=1e-4, backend="triton")(*inputs[:3])
        results.append([loss, *gradients(loss, inputs)])
    for first, second in zip(*results, strict=True):
        assert torch.equal(first, second)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_products_with_float32_sums(dtype: torch.dtype) -> None:
    if dtype == torch.bfloat16 and DEVICE == "cpu":
        pytest.skip("Triton's interpreter multiplies bfloat16 wrongly: NumPy has no such type")
    inputs = leaves(20, 16, dtype)[:2]
    loss = EqSimLoss("v1", backend="triton")(*inputs)
    assert loss.dtype == torch.float32
    exact = EqSimLoss("v1", backend="dense")(*(rows.detach().double() for rows in inputs))
    assert abs(float(loss.detach()) - float(exact)) < torch.finfo(dtype).eps * float(exact)


@pytest.mark.parametrize("mode", ["v1", "v2", "hybrid"])
def test_margins_of_pairs_go_by_tiles(mode: str) -> None:
    computed = []
    for backend in ("dense", "triton"):
        inputs = leaves(37, 20, torch.float64)[:3]
        loss = EqSimLoss(mode, margin=0.05, margin_v1=0.02, margin_mode="pair", backend=backend)(*inputs)
        computed.append([loss.detach(), *gradients(loss, inputs)])
    for theirs, ours in zip(*computed, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)


def test_the_kernels_are_taken_by_name_alone() -> None:
    assert EqSimLoss("v1", "softmax", backend="triton").explain(4096, 64, "cuda").name == "triton"
    assert EqSimLoss("v1", "softmax").explain(4096, 64, "cuda").name == "tiled"


@pytest.mark.parametrize("score", ["cosine", "logits", "softmax"])
@pytest.mark.parametrize("factor", [1e-7, 1.0, 1e7])
def test_strips_of_float16_keep_gradients_of_any_size(factor: float, score: str) -> None:
    # A mean over a large batch, or a small weight, gives every score less than float16's least; a GradScaler more than
    # its most.
    image, text, scale, _ = leaves(20, 20)
    rows = [unit_rows(values).detach().half().float().requires_grad_() for values in (image, text)]
    gradient = []
    settings = Settings("v2", score, contrast="clip")
    for dtype, half in ((torch.float32, 2), (torch.float64, 0)):
        inputs = [values.detach().to(dtype).requires_grad_() for values in rows]
        batch = Batch(settings, *inputs, scale.detach().to(dtype), half=half)
        parts = tiled_parts(batch, triton=half > 0)
        gradient.append(gradients(factor * (parts.terms.total() + parts.contrastive), inputs))
    for ours, theirs in zip(*gradient, strict=True):
        assert float((ours - theirs).abs().max()) < 4e-3 * float(theirs.abs().max())


@pytest.mark.parametrize("negatives_of", [[], [0, 3, 3]], ids=["teacher", "negatives and teacher"])
@pytest.mark.parametrize("kind", [ClipEqSimLoss, SigLipEqSimLoss])
def test_negatives_and_a_teacher_are_those_of_the_dense_matrix(kind: type, negatives_of: list[int]) -> None:
    computed = []
    owners = torch.tensor(negatives_of, dtype=torch.int64, device=DEVICE)
    for backend in ("dense", "triton"):
        image, text, scale, bias = leaves(7, 5, torch.float64)
        further = (text.detach()[owners] * 0.7 - 0.1).requires_grad_()
        texts = torch.cat([text, further])
        frozen = (image.detach().sin(), texts.detach().cos(), 1.5)
        loss = kind("v2", keep_weight=0.4, hard_weight=0.3, backend=backend)
        value = loss(image, texts, scale, bias, negatives_of=owners if negatives_of else None, teacher=frozen)
        computed.append([value.detach(), *gradients(value, [image, text, further, scale])])
    for theirs, ours in zip(*computed, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)
