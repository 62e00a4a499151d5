"""Every backend against the dense one, which `test_loss` holds against the definition; and the choice between them."""

from __future__ import annotations

import itertools

import pytest
import torch

from eqsim import ClipEqSimLoss, EqSimLoss, SigLipEqSimLoss, TopK
from eqsim.backends import choose_backend, tiled
from eqsim.backends.dense import dense_parts
from eqsim.backends.gram import gram_pair_sums
from eqsim.backends.tiled import tiled_parts
from eqsim.batch import Batch, Size
from eqsim.features import unit_rows
from eqsim.settings import Settings

from . import _reference

SETTINGS = list(
    itertools.product(
        ("v1", "v2", "hybrid"),
        ("cosine", "logits", "softmax"),
        (None, "clip", "sigmoid"),
        (("text", "image"), ("text",), ("image",)),
        ((0.0, 0.0), (0.05, 0.02)),
        (False, True),
    )
)


def leaves(n: int, d: int, dtype: torch.dtype = torch.float64, spread: float = 1.0) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(n)
    image = torch.randn(n, d, generator=generator, dtype=torch.float64)
    text = image + spread * torch.randn(n, d, generator=generator, dtype=torch.float64)
    numbers = [torch.tensor(value, dtype=torch.float64) for value in (2.0, -1.0)]
    return [value.to(dtype).requires_grad_() for value in (image, text, *numbers)]


def neighbours(n: int) -> torch.Tensor:
    listed = [(i, (i + step) % n) for i in range(n) for step in (1, 2, 1) if (i + step) % n != i]
    return torch.tensor(listed, dtype=torch.int64).reshape(-1, 2)


def gradients(loss: torch.Tensor, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    computed = torch.autograd.grad(loss, inputs, allow_unused=True, retain_graph=True)
    return [torch.zeros_like(x) if grad is None else grad for grad, x in zip(computed, inputs, strict=True)]


@pytest.mark.parametrize(("n", "d", "tile"), [(1, 3, 4), (2, 3, 1), (7, 5, 3), (13, 4, 4)])
@pytest.mark.parametrize("contrast", [None, "clip", "sigmoid"])
def test_tiles_are_the_dense_matrix(n: int, d: int, tile: int, contrast: str | None) -> None:
    inputs = leaves(n, d)
    image, text, scale, bias = inputs
    # Each size takes its own third of the settings; together they take all.
    for mode, score, kind, sides, margins, listed in SETTINGS[{1: 0, 2: 1, 7: 2, 13: 1}[n] :: 3]:
        if kind != contrast or (mode == "hybrid" and not listed):
            continue
        settings = Settings(mode, score, sides, *margins, contrast=contrast)
        rows = (unit_rows(image), unit_rows(text)) if score == "cosine" else (image, text)
        pairs = neighbours(n) if listed else None
        offset = bias if contrast == "sigmoid" else None
        batch = Batch(settings, *rows, scale, offset, pairs)
        losses = []
        for parts in (dense_parts(batch), tiled_parts(batch, tile=tile)):
            contrastive = 0.0 if parts.contrastive is None else parts.contrastive
            losses.append(0.7 * parts.terms.total() + 1.3 * contrastive)
        torch.testing.assert_close(losses[1], losses[0], rtol=1e-11, atol=1e-12)
        for ours, theirs in zip(gradients(losses[1], inputs), gradients(losses[0], inputs), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-11, msg=lambda m, c=settings: f"{c}: {m}")


@pytest.mark.parametrize(("n", "d"), [(1, 3), (2, 3), (7, 5), (40, 6)])
@pytest.mark.parametrize("mode", ["v1", "v2", "hybrid"])
@pytest.mark.parametrize("score", ["cosine", "logits"])
def test_gram_is_the_dense_matrix(n: int, d: int, mode: str, score: str) -> None:
    for sides, margin in itertools.product(
        (("text", "image"), ("text",), ("image",)), (0.0, 0.01) if n > 2 else (0.0,)
    ):
        inputs = leaves(n, d)[:3]
        pairs = neighbours(n) if mode == "hybrid" else None
        losses = [
            EqSimLoss(mode, score, sides=sides, margin=margin, margin_v1=margin / 2, backend=backend)(
                *inputs, close_pairs=pairs
            )
            for backend in ("dense", "gram")
        ]
        torch.testing.assert_close(losses[1], losses[0], rtol=1e-10, atol=1e-12)
        for ours, theirs in zip(gradients(losses[1], inputs), gradients(losses[0], inputs), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)


def test_gram_sums_with_rows_of_zeros() -> None:
    image, text = (rows.detach() for rows in leaves(6, 4)[:2])
    image[2], text[4] = 0.0, 0.0
    sums = gram_pair_sums(image, text, None, unit=True, n=6, world_size=1)
    inverse = [torch.nan_to_num(1 / rows.norm(dim=1, keepdim=True), posinf=0.0) for rows in (image, text)]
    scores = (image * inverse[0]) @ (text * inverse[1]).T
    differences = scores.diagonal()[:, None] - scores.diagonal()[None]
    skew = scores - scores.T
    expected = [residual.square().sum() for residual in (skew, differences - skew, differences + skew)]
    torch.testing.assert_close(torch.stack(sums), torch.stack(expected))


@pytest.mark.parametrize(("kind", "contrast"), [(ClipEqSimLoss, "clip"), (SigLipEqSimLoss, "sigmoid")])
@pytest.mark.parametrize("score", ["cosine", "logits", "softmax"])
@pytest.mark.parametrize("n", [1, 6])
def test_contrastive_losses_are_the_definition(kind: type, contrast: str, score: str, n: int) -> None:
    inputs = leaves(n, 4)
    image, text, scale, bias = inputs
    pairs = neighbours(n)
    for backend in ("dense", "tiled"):
        named = kind(score=score, weight=0.5, backend=backend)(*inputs, close_pairs=pairs, output_dict=True)
        logits = _reference.score_matrix(image, text, "cosine" if score == "cosine" else "logits", scale)
        logits = logits * scale if score == "cosine" else logits
        slow = _reference.contrastive(logits) if contrast == "clip" else _reference.sigmoid(logits + bias)
        torch.testing.assert_close(named["contrastive_loss"], slow, rtol=1e-10, atol=1e-12)
        scores = _reference.score_matrix(image, text, score, scale)
        hybrid = 0.5 * _reference.hybrid(scores, [tuple(pair) for pair in pairs.tolist()])
        torch.testing.assert_close(named["eqsim_loss"], hybrid, rtol=1e-10, atol=1e-12)
        total = kind(score=score, weight=0.5, backend=backend)(*inputs, close_pairs=pairs)
        for ours, theirs in zip(gradients(total, inputs), gradients(slow + hybrid, inputs), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("mode", ["hybrid", "v2"])
def test_the_matrix_is_formed_where_more_than_a_quarter_of_its_pairs_is_listed(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    formed: list[int] = []

    def all_scores(batch: Batch, row_lse: torch.Tensor | None) -> torch.Tensor:
        formed.append(len(batch.image))
        return batch.image @ batch.text.mT

    monkeypatch.setattr(tiled, "_all_scores", all_scores)
    image, text = leaves(9, 4)[:2]
    every = torch.tensor([(i, j) for i in range(9) for j in range(9) if i != j])
    for count in (2, 18, 19, 72):
        formed.clear()
        EqSimLoss(mode, backend="tiled")(image, text, close_pairs=every[:count])
        assert formed == ([9] if mode == "hybrid" and 4 * count > 72 else [])


def test_large_batches_take_the_tiled_path_with_several_tiles() -> None:
    generator = torch.Generator().manual_seed(0)
    image, text = (torch.randn(1300, 16, generator=generator, requires_grad=True) for _ in range(2))
    loss = ClipEqSimLoss(score="softmax", close=TopK(k=2))
    assert loss.explain(1300, 16).name == "tiled"
    dense = ClipEqSimLoss(score="softmax", close=TopK(k=2), backend="dense")
    inputs = [image, text]
    wide = [rows.detach().double().requires_grad_() for rows in inputs]
    truth = dense(*wide, 5.0)
    exact = gradients(truth, wide)
    errors = []
    for value in (loss(*inputs, 5.0), dense(*inputs, 5.0)):
        computed = gradients(value, inputs)
        assert float((value - truth).detach().abs()) < 1e-6 * float(truth.detach())
        errors.append(max(float((ours - theirs).abs().max()) for ours, theirs in zip(computed, exact, strict=True)))
    assert errors[0] <= 4 * errors[1]


@pytest.mark.parametrize(
    ("settings", "n", "d", "device", "listed", "name"),
    [
        ({"mode": "v1"}, 64, 512, "cpu", False, "dense"),
        ({"mode": "v1"}, 8192, 512, "cpu", False, "gram"),
        ({"mode": "hybrid"}, 8192, 512, "cpu", True, "gram"),
        ({"mode": "v2"}, 8192, 512, "cpu", True, "tiled"),
        ({"mode": "v1"}, 900, 512, "cpu", False, "tiled"),
        ({"mode": "v1", "score": "softmax"}, 8192, 512, "cpu", False, "tiled"),
        ({"mode": "v1", "score": "softmax"}, 8192, 512, "cuda", False, "tiled"),
        ({"mode": "hybrid", "contrast": "clip"}, 1024, 512, "cuda", True, "tiled"),
        ({"mode": "v1"}, 8192, 512, "cuda", False, "gram"),
    ],
)
def test_auto_picks_by_size_and_says_why(
    settings: dict[str, object], n: int, d: int, device: str, listed: bool, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiled, "INSTALLED", True)  # as in every environment with torch's CUDA wheels
    choice = choose_backend(Settings(**settings), Size(n, d, device, listed))
    assert choice.name == name
    assert str(n) in choice.reason


@pytest.mark.parametrize(
    ("settings", "shown"),
    [
        ({"score": "softmax", "backend": "gram"}, "softmax.*'dense' and 'tiled' can"),
        ({"mode": "v1", "close": TopK(k=1), "backend": "gram"}, "list of close pairs"),
    ],
)
def test_a_backend_that_cannot_says_which_can(settings: dict[str, object], shown: str) -> None:
    with pytest.raises(ValueError, match=shown):
        EqSimLoss(**settings)


def test_triton_without_a_gpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(ValueError, match=r"backend='triton': .*'dense', 'gram' and 'tiled' can"):
        EqSimLoss("v1", backend="triton")(torch.ones(2, 2), torch.ones(2, 2))


@pytest.mark.parametrize("score", ["cosine", "logits", "softmax"])
@pytest.mark.parametrize("kind", [ClipEqSimLoss, SigLipEqSimLoss])
def test_a_scale_of_zero_has_the_dense_gradient(kind: type, score: str) -> None:
    computed = []
    for backend in ("dense", "tiled"):
        inputs = leaves(7, 5)
        with torch.no_grad():
            inputs[2].zero_()
        loss = kind("v1", score, backend=backend)(*inputs)
        computed.append(gradients(loss, inputs))
    torch.testing.assert_close(computed[1], computed[0], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("score", ["cosine", "logits", "softmax"])
@pytest.mark.parametrize("mode", ["v1", "v2", "hybrid"])
def test_margins_of_pairs_in_tiles_are_the_dense_matrix(mode: str, score: str) -> None:
    for sides, contrast, listed in itertools.product(
        (("text", "image"), ("text",)), (None, "clip", "sigmoid"), (False, True)
    ):
        settings = Settings(mode, score, sides, 0.05, 0.02, "pair", contrast=contrast)
        inputs = leaves(13, 4)
        image, text, scale, bias = inputs
        rows = (unit_rows(image), unit_rows(text)) if score == "cosine" else (image, text)
        pairs = neighbours(13)[:20] if listed or mode == "hybrid" else None
        batch = Batch(settings, *rows, scale, bias if contrast == "sigmoid" else None, pairs)
        losses = []
        for parts in (dense_parts(batch), tiled_parts(batch, tile=4)):
            losses.append(parts.terms.total() + (0.0 if parts.contrastive is None else parts.contrastive))
        torch.testing.assert_close(losses[1], losses[0], rtol=1e-11, atol=1e-12)
        for ours, theirs in zip(gradients(losses[1], inputs), gradients(losses[0], inputs), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-11)


def test_gram_refuses_margins_of_pairs_and_auto_goes_elsewhere() -> None:
    settings = {"margin": 0.1, "margin_mode": "pair"}
    with pytest.raises(ValueError, match="margin_mode='pair' needs every single pair; 'dense' and 'tiled' can"):
        EqSimLoss("v2", backend="gram", **settings)
    assert EqSimLoss("v2", **settings).explain(8192, 64).name == "tiled"
    assert EqSimLoss("v1", **settings).explain(8192, 64).name == "gram", "v1 has no margin here"
