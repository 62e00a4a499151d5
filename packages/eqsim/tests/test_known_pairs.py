"""`PairLoss` and the relative form: the definition, in every backend; the algebra, and what happens at its edges."""

from __future__ import annotations

import itertools

import pytest
import torch

from eqsim import ClipEqSimLoss, EqSimLoss, PairLoss, SigLipEqSimLoss, TopK, diagnose
from eqsim.functional import eqsim_relative, eqsim_v2, pair_loss
from eqsim.residuals import pair_differences

from . import _reference

BACKENDS = ("dense", "tiled")
EPSILON = 0.03


def leaves(n: int, d: int = 5, spread: float = 1.0, near: float = 1.0) -> list[torch.Tensor]:
    """Images, texts and a scale; `spread` between image and text, `near` between the samples 2k and 2k + 1."""
    generator = torch.Generator().manual_seed(n)
    image, text = torch.randn(2, n, d, generator=generator, dtype=torch.float64)
    image[1::2] = image[0 : 2 * (n // 2) : 2] + near * image[1::2]
    text = image + spread * text
    return [x.requires_grad_() for x in (image, text, torch.tensor(7.0, dtype=torch.float64))]


def couples(n: int) -> torch.Tensor:
    """Neighbours in both orders, one of them twice."""
    listed = [(i, i + 1) for i in range(0, n - 1, 2)] + [(1, 0), (0, 1), (0, n - 1)]
    return torch.tensor(listed)


def gradients(loss: torch.Tensor, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    grads = torch.autograd.grad(loss, inputs, allow_unused=True, retain_graph=True)
    return [torch.zeros_like(x) if grad is None else grad for grad, x in zip(grads, inputs, strict=True)]


def assert_same(ours: torch.Tensor, theirs: torch.Tensor, inputs: list[torch.Tensor]) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)
    for mine, slow in zip(gradients(ours, inputs), gradients(theirs, inputs), strict=True):
        torch.testing.assert_close(mine, slow, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("score", ["cosine", "logits"])
def test_pair_loss_is_the_definition(backend: str, score: str) -> None:
    for n in (2, 3, 8):
        inputs = leaves(n)
        pairs = couples(n)
        logits = _reference.score_matrix(*inputs[:2], score, inputs[2]) * (inputs[2] if score == "cosine" else 1.0)
        slow = 0.7 * _reference.pair_loss(logits, pairs.tolist())
        assert_same(PairLoss(0.7, score, backend=backend)(*inputs, close_pairs=pairs), slow, inputs)
        assert_same(PairLoss(0.7, score, backend=backend)(*inputs, close_pairs=pairs.flip(1)), slow, inputs)
        assert_same(0.7 * pair_loss(logits, pairs), slow, inputs)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("score", ["cosine", "logits", "softmax"])
def test_relative_is_the_definition(backend: str, score: str) -> None:
    for n in (2, 3, 8):
        inputs = leaves(n)
        pairs = couples(n)
        scores = _reference.score_matrix(*inputs[:2], score, inputs[2])
        slow = 0.7 * _reference.relative(scores, pairs.tolist(), EPSILON)
        loss = EqSimLoss("relative", score, weight=0.7, backend=backend, epsilon=EPSILON)
        assert_same(loss(*inputs, close_pairs=pairs), slow, inputs)
        assert_same(0.7 * eqsim_relative(scores, pairs, epsilon=EPSILON), slow, inputs)


@pytest.mark.parametrize("kind", [ClipEqSimLoss, SigLipEqSimLoss])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("mode", ["none", "v1", "v2", "hybrid", "relative"])
def test_all_in_one_pass_is_the_sum(kind: type, backend: str, mode: str) -> None:
    inputs = leaves(9)
    pairs = couples(9)
    named = kind(mode, weight=0.5, pair_weight=2.0, backend=backend)(*inputs, -1.0, close_pairs=pairs, output_dict=True)
    eqsim = set() if mode == "none" else {"eqsim_loss"}
    assert set(named) == {"contrastive_loss", "pair_loss"} | eqsim
    assert_same(named["pair_loss"], PairLoss(2.0)(*inputs, close_pairs=pairs), inputs)
    alone = kind("v1", weight=0.0)(*inputs, -1.0)
    assert_same(named["contrastive_loss"], alone, inputs)
    if eqsim:
        assert_same(named["eqsim_loss"], EqSimLoss(mode, weight=0.5)(*inputs, close_pairs=pairs), inputs)
    whole = kind(mode, weight=0.5, pair_weight=2.0, backend=backend)(*inputs, -1.0, close_pairs=pairs)
    assert_same(whole, torch.stack(list(named.values())).sum(), inputs)


def test_gram_takes_the_pair_loss_along() -> None:
    inputs, pairs = leaves(40), couples(40)
    losses = [ClipEqSimLoss(pair_weight=1.0, backend=name)(*inputs, close_pairs=pairs) for name in ("gram", "dense")]
    assert_same(*losses, inputs)


def test_gradcheck() -> None:
    inputs, pairs = leaves(6, near=0.5), couples(6)
    for backend in BACKENDS:
        for loss in (PairLoss(backend=backend), EqSimLoss("relative", "logits", backend=backend)):
            assert torch.autograd.gradcheck(lambda *tensors, f=loss: f(*tensors, close_pairs=pairs), inputs)


def test_a_pair_is_right_exactly_when_m_exceeds_half_of_d_and_a() -> None:
    scores = torch.randn(400, 400, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    pairs = torch.arange(400).view(-1, 2)
    s_ii, s_ij, s_ji, s_jj = (scores[i, j] for i, j in itertools.product(pairs.T, pairs.T))
    right = (s_ii > s_ij) & (s_ii > s_ji) & (s_jj > s_ij) & (s_jj > s_ji)
    d, a, twice_m = pair_differences(scores, pairs)
    assert torch.equal(right, twice_m > d.abs() + a.abs())
    assert torch.equal(right, torch.minimum(s_ii, s_jj) > torch.maximum(s_ij, s_ji))
    assert 20 < int(right.sum()) < 180
    ratio = (d.abs() + a.abs()) / twice_m
    for pair, value in zip(pairs[twice_m > 0], ratio[twice_m > 0], strict=True):
        loss = eqsim_relative(scores, pair[None], epsilon=1e-12)
        assert float(loss) == pytest.approx(float(torch.log1p(value)))


def test_relative_does_not_change_with_the_scale_and_v2_does() -> None:
    scores = _reference.score_matrix(*leaves(8, spread=0.5)[:2], "cosine").detach()
    pairs = couples(8)[pair_differences(scores, couples(8)).twice_m > 0]
    assert len(pairs) > 3
    shrunk = 0.1 * scores
    torch.testing.assert_close(
        eqsim_relative(shrunk, pairs, epsilon=1e-9), eqsim_relative(scores, pairs, epsilon=1e-9), rtol=1e-6, atol=0
    )
    torch.testing.assert_close(
        eqsim_relative(shrunk, pairs, epsilon=1e-3), eqsim_relative(scores, pairs, epsilon=1e-2), rtol=1e-9, atol=0
    )
    assert float(eqsim_v2(shrunk, pairs)) == pytest.approx(0.01 * float(eqsim_v2(scores, pairs)))


def matrix_of(d: float, a: float, m: float) -> torch.Tensor:
    """A pair's scores with these differences."""
    text_0, text_1, image_0 = m + (d - a) / 2, m - (d - a) / 2, m + (d + a) / 2
    return torch.tensor([[1.0, 1.0 - text_0], [1.0 - image_0, 1.0 - image_0 + text_1]], dtype=torch.float64)


@pytest.mark.parametrize("m", [0.3, 1e-3, 1e-6, -1e-6, -0.3])
def test_gradients_of_the_relative_form_near_m_of_zero(m: float) -> None:
    e, pairs = 0.01, torch.tensor([[0, 1]])
    scores = matrix_of(0.2, -0.1, m).requires_grad_()
    values = [float(x) for x in pair_differences(scores.detach(), pairs)]
    assert values == pytest.approx([0.2, -0.1, 2 * m])
    eqsim_relative(scores, pairs, epsilon=e).backward()
    reach, twice = 0.3, 2 * max(m, 0.0)
    of_m = -(reach + e) / ((twice + e) * (reach + twice + 2 * e)) if m > 0 else 0.0
    of_reach = 1 / (reach + twice + 2 * e)
    # s_ii has d and 2 M at +1; s_ij has a at +1 and 2 M at -1; d > 0 and a < 0.
    expected = [[of_m + of_reach, -of_m - of_reach], [-of_m + of_reach, of_m - of_reach]]
    torch.testing.assert_close(scores.grad, torch.tensor(expected, dtype=torch.float64))
    assert abs(of_m) <= 1 / e


def test_the_pair_loss_still_pulls_where_the_relative_form_does_not() -> None:
    scores, pairs = matrix_of(0.0, 0.0, -0.2).requires_grad_(), torch.tensor([[0, 1]])
    for loss, pulls in ((pair_loss(10 * scores, pairs), True), (eqsim_relative(scores, pairs), False)):
        (grad,) = torch.autograd.grad(loss, scores)
        assert bool((grad != 0).all()) is pulls
        assert bool(torch.isfinite(grad).all())


def test_perfect_scores_are_finite() -> None:
    eye = torch.eye(4, requires_grad=True)
    for backend in BACKENDS:
        for loss in (PairLoss(backend=backend), EqSimLoss("relative", backend=backend)):
            value = loss(eye, eye.detach(), 100.0, close_pairs=torch.tensor([[0, 1], [2, 3]]))
            (grad,) = torch.autograd.grad(value, eye)
            assert float(value.detach()) < 0.01
            assert bool(torch.isfinite(grad).all())


@pytest.mark.parametrize("near", [1.0, 1e-2, 1e-4])
@pytest.mark.parametrize("spread", [1.0, 1e-2, 1e-4])
@pytest.mark.parametrize("mode", ["relative", "pair"])
def test_float32_near_convergence_and_for_nearly_equal_pairs(near: float, spread: float, mode: str) -> None:
    wide = leaves(40, 24, spread, near)
    wide = [torch.nn.functional.normalize(x.detach().float(), dim=1).requires_grad_() for x in wide[:2]]
    pairs = couples(40)[:20]
    exact = [x.detach().double().requires_grad_() for x in wide]
    outcomes = {}
    for name, backend, inputs in (("truth", "dense", exact), ("dense", "dense", wide), ("tiled", "tiled", wide)):
        loss = PairLoss(backend=backend) if mode == "pair" else EqSimLoss(mode, backend=backend, epsilon=1e-6)
        value = loss(*inputs, 100.0, close_pairs=pairs)
        outcomes[name] = [value.detach(), *torch.autograd.grad(value, inputs)]
    errors = {
        name: [float((a - b).norm() / b.norm()) for a, b in zip(outcomes[name], outcomes["truth"], strict=True)]
        for name in BACKENDS
    }
    for ours, theirs in zip(errors["tiled"][1:], errors["dense"][1:], strict=True):
        assert ours <= 4 * theirs + 8 * torch.finfo(torch.float32).eps
    # A unit row of float32 is off by 6e-8 in length, which d and a see in full: that is what e has to stay above.
    assert errors["tiled"][0] < (2e-7 / (near * spread) if mode == "relative" else 2e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_nothing_listed_is_nothing(backend: str) -> None:
    inputs = leaves(4)
    none = torch.empty((0, 2), dtype=torch.int64)
    for loss in (PairLoss(backend=backend), EqSimLoss("relative", backend=backend)):
        value = loss(*inputs, close_pairs=none)
        assert float(value.detach()) == 0.0
        assert all(float(grad.abs().max()) == 0.0 for grad in gradients(value, inputs))


def test_a_rule_finds_neighbours_where_it_was_asked_for() -> None:
    inputs = leaves(8)
    loss = PairLoss(close=TopK(k=1))(*inputs)
    assert float(loss.detach()) > 0
    with pytest.raises(ValueError, match=r"close_pairs is None: pair_weight=1\.0 needs the pairs"):
        PairLoss()(*inputs)
    with pytest.raises(ValueError, match=r"close_pairs is None: pair_weight=0\.5"):
        ClipEqSimLoss("hybrid", pair_weight=0.5)(*inputs)
    with pytest.raises(ValueError, match="close_pairs is None: mode='relative'"):
        EqSimLoss("relative")(*inputs)


@pytest.mark.parametrize(
    ("make", "shown"),
    [
        (lambda: PairLoss(0.0), "weight=0.0: expected a finite number > 0"),
        (lambda: PairLoss(float("nan")), "weight=nan"),
        (lambda: PairLoss(score="softmax"), "score='softmax': expected one of 'cosine', 'logits'"),
        (lambda: EqSimLoss(pair_weight=-1.0), "pair_weight=-1.0: expected a finite number >= 0"),
        (lambda: EqSimLoss("relative", epsilon=0.0), "epsilon=0.0: expected a finite number > 0"),
        (lambda: EqSimLoss("relative", backend="gram"), "mode='relative' over a list.*'dense' and 'tiled' can"),
        (lambda: PairLoss(backend="gram"), "mode='none' over a list.*'dense' and 'tiled' can"),
        (lambda: eqsim_relative(torch.eye(2), torch.tensor([[0, 1]]), epsilon=-1), "epsilon=-1"),
        (lambda: pair_loss(torch.eye(2), torch.tensor([[0, 2]])), r"close_pairs\[0\] = \(0, 2\)"),
        (lambda: PairLoss()(*leaves(3)[:2], close_pairs=couples(3)), "logit_scale is None: PairLoss needs it"),
    ],
)
def test_errors_at_the_door(make: object, shown: str) -> None:
    with pytest.raises(ValueError, match=shown):
        make()


def test_diagnose_reports_m_d_and_a_of_the_listed_pairs() -> None:
    image, text, scale = (x.detach() for x in leaves(8, near=0.4))
    pairs = torch.arange(8).view(-1, 2)
    diagnosis = diagnose(ClipEqSimLoss("relative", pair_weight=1.0), image, text, scale, close_pairs=pairs)
    assert set(diagnosis.gradient_share) == {"contrastive", "relative", "pair"}
    scores = _reference.score_matrix(image, text, "cosine")
    d, a, twice_m = pair_differences(scores, pairs)
    for name, values in (("M", twice_m / 2), ("|d|", d.abs()), ("|a|", a.abs())):
        assert diagnosis.quantiles[name][2] in [pytest.approx(float(x)) for x in values]
        assert diagnosis.quantiles[name] == sorted(diagnosis.quantiles[name])
    assert diagnosis.right == float((twice_m > d.abs() + a.abs()).double().mean())
    assert "(|d| + |a|) / 2M" in str(diagnosis)
    assert "pairs that are right" in str(diagnosis)
    everything = diagnose(EqSimLoss("v1"), image, text)
    assert everything.quantiles["M"][4] >= diagnosis.quantiles["M"][4] - 1e-9
