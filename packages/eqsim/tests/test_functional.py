"""The score-matrix functions against the loops of `_reference`, values and gradients."""

from __future__ import annotations

import itertools

import pytest
import torch

from eqsim import Multinomial, TopK
from eqsim.backends.pair_scores import close_squares
from eqsim.close_pairs import select_from_features
from eqsim.functional import (
    eqsim_hybrid,
    eqsim_quad,
    eqsim_v1,
    eqsim_v2,
    equivariance_score,
    quad_terms,
    select_close_pairs,
)
from eqsim.settings import Settings

from . import _reference

SIZES = (1, 2, 3, 7, 13)
SIDES = (("text",), ("image",), ("text", "image"))
TOLERANCE = 1e-12


def scores_of(n: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64, requires_grad=True)


def pairs_of(n: int, seed: int = 1) -> torch.Tensor:
    """A list with duplicates and both orders of a pair."""
    if n == 1:
        return torch.empty((0, 2), dtype=torch.int64)
    everything = torch.tensor(_reference.all_pairs(n))
    picked = torch.randint(len(everything), (2 * n,), generator=torch.Generator().manual_seed(seed))
    pairs = everything[picked]
    return torch.cat([pairs, pairs[:1], pairs[:1].flip(1)])


def as_list(pairs: torch.Tensor) -> list[tuple[int, int]]:
    return [(int(i), int(j)) for i, j in pairs]


def assert_same(fast: torch.Tensor, slow: torch.Tensor, inputs: torch.Tensor) -> None:
    torch.testing.assert_close(fast, slow, rtol=TOLERANCE, atol=TOLERANCE)
    (grad_fast,) = torch.autograd.grad(fast, inputs, retain_graph=True)
    (grad_slow,) = torch.autograd.grad(slow, inputs, retain_graph=True)
    torch.testing.assert_close(grad_fast, grad_slow, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("margin_mode", ["mean", "pair"])
@pytest.mark.parametrize("margin", [0.0, 0.7, 1e3])
def test_v1_is_the_loop(n: int, margin_mode: str, margin: float) -> None:
    scores, pairs = scores_of(n), pairs_of(n)
    for listed_pairs in (None, pairs):
        listed = _reference.all_pairs(n) if listed_pairs is None else as_list(listed_pairs)
        fast = eqsim_v1(scores, listed_pairs, margin=margin, margin_mode=margin_mode)
        assert_same(fast, _reference.v1(scores, listed, margin, margin_mode), scores)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("margin_mode", ["mean", "pair"])
@pytest.mark.parametrize("margin", [0.0, 0.7, 6.0])
@pytest.mark.parametrize("sides", SIDES)
def test_v2_is_the_loop(n: int, margin_mode: str, margin: float, sides: tuple[str, ...]) -> None:
    scores, pairs = scores_of(n), pairs_of(n)
    for listed_pairs in (None, pairs):
        listed = _reference.all_pairs(n) if listed_pairs is None else as_list(listed_pairs)
        fast = eqsim_v2(scores, listed_pairs, sides=sides, margin=margin, margin_mode=margin_mode)
        assert_same(fast, _reference.v2(scores, listed, sides, margin, margin_mode), scores)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("margin_mode", ["mean", "pair"])
@pytest.mark.parametrize("reduction", ["mean", "reference"])
@pytest.mark.parametrize("sides", SIDES)
def test_hybrid_is_the_loop(n: int, margin_mode: str, reduction: str, sides: tuple[str, ...]) -> None:
    scores, pairs = scores_of(n), pairs_of(n)
    for margins in ((0.0, 0.0), (0.7, 0.4)):
        fast = eqsim_hybrid(
            scores,
            pairs,
            sides=sides,
            margin=margins[0],
            margin_v1=margins[1],
            margin_mode=margin_mode,
            distant_reduction=reduction,
        )
        assert_same(fast, _reference.hybrid(scores, as_list(pairs), sides, *margins, margin_mode, reduction), scores)


def test_hybrid_without_distant_pairs_keeps_v2_alone() -> None:
    scores = scores_of(4)
    pairs = torch.tensor(_reference.all_pairs(4))
    assert_same(eqsim_hybrid(scores, pairs), _reference.v2(scores, as_list(pairs)), scores)


def test_quadruples_are_v2_of_the_pairs_they_come_from() -> None:
    scores, pairs = scores_of(9), pairs_of(9)
    i, j = pairs[:, 0], pairs[:, 1]
    quad = scores[i, i], scores[i, j], scores[j, i], scores[j, j]
    assert_same(eqsim_quad(*quad, margin=0.3), eqsim_v2(scores, pairs, margin=0.3), scores)
    assert_same(quad_terms(Settings("v1"), *quad).total(), eqsim_v1(scores, pairs), scores)


@pytest.mark.parametrize("seed", range(4))
def test_invariances(seed: int) -> None:
    scores = scores_of(11, seed).detach()
    order = torch.randperm(11, generator=torch.Generator().manual_seed(seed))
    permuted = scores[order][:, order]
    for function in (eqsim_v1, eqsim_v2):
        torch.testing.assert_close(function(permuted), function(scores), rtol=TOLERANCE, atol=0)
        torch.testing.assert_close(function(scores.T), function(scores), rtol=TOLERANCE, atol=0)
        torch.testing.assert_close(function(scores + 3.0), function(scores), rtol=TOLERANCE, atol=0)
    text, image = eqsim_v2(scores.T, sides=("text",)), eqsim_v2(scores, sides=("image",))
    torch.testing.assert_close(text, image, rtol=TOLERANCE, atol=0)


def test_perfectly_equivariant_scores_cost_nothing() -> None:
    features = torch.randn(8, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    features = features / features.norm(dim=1, keepdim=True)
    scores = features @ features.T
    assert float(eqsim_v2(scores)) < 1e-28
    assert float(eqsim_hybrid(scores, torch.tensor([[0, 1]]))) < 1e-28
    assert float(equivariance_score(scores).max()) < 1e-14


def test_equivariance_score_is_twice_the_larger_deviation() -> None:
    scores = scores_of(6).detach()
    by_pair = equivariance_score(scores)
    expected = [
        2 * max(abs(scores[i, i] - scores[j, j]), abs(scores[i, j] - scores[j, i]))
        for i, j in itertools.combinations(range(6), 2)
    ]
    torch.testing.assert_close(by_pair, torch.stack(expected))


@pytest.mark.parametrize(
    ("close", "n", "count"),
    [(TopK(0.05), 101, 5), (TopK(0.5), 7, 3), (TopK(0.01), 5, 1), (TopK(1.0), 4, 3), (TopK(k=9), 4, 3)],
)
def test_a_share_is_of_the_others_and_at_least_one(close: TopK, n: int, count: int) -> None:
    assert close.count(n) == count
    assert len(select_close_pairs(scores_of(n).detach(), close)) == 2 * n * count


@pytest.mark.parametrize("n", [1, 2, 5, 16])
@pytest.mark.parametrize("close", [TopK(0.25), TopK(k=3), Multinomial(4)])
def test_selection_takes_distinct_others_in_both_directions(n: int, close: TopK | Multinomial) -> None:
    logits = 100 * scores_of(n).detach()
    pairs = select_close_pairs(logits, close, generator=torch.Generator().manual_seed(0))
    k = close.count(n)
    assert pairs.shape == (2 * n * k, 2)
    assert bool((pairs[:, 0] != pairs[:, 1]).all())
    for half, matrix in ((pairs[: n * k], logits), (pairs[n * k :], logits.T)):
        for i in range(n):
            chosen = [int(j) for a, j in half if a == i]
            assert len(set(chosen)) == k
            if isinstance(close, TopK):
                others = sorted((j for j in range(n) if j != i), key=lambda j: -float(matrix[i, j]))
                assert set(chosen) == set(others[:k])


def test_multinomial_draws_follow_the_softmax() -> None:
    logits = torch.tensor([[50.0, 1.0, 0.0, -1.0]] + [[0.0] * 4] * 3, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    first = torch.stack([select_close_pairs(logits, Multinomial(1), generator=generator)[0, 1] for _ in range(4000)])
    observed = torch.bincount(first, minlength=4)[1:] / 4000
    expected = logits[0, 1:].softmax(dim=0)
    assert float((observed - expected).abs().max()) < 4 * (0.25 / 4000) ** 0.5


def test_multinomial_without_replacement_has_the_sequential_distribution() -> None:
    logits = torch.tensor([[0.0, 2.0, 1.0, 0.0]] + [[0.0] * 4] * 3, dtype=torch.float64)
    generator = torch.Generator().manual_seed(1)
    draws = [select_close_pairs(logits, Multinomial(2), generator=generator)[:2, 1].sort().values for _ in range(4000)]
    share = sum(bool((draw == torch.tensor([1, 2])).all()) for draw in draws) / 4000
    p = logits[0, 1:].softmax(dim=0)
    expected = float(p[0] * p[1] / (1 - p[0]) + p[1] * p[0] / (1 - p[1]))
    assert abs(share - expected) < 4 * (0.25 / 4000) ** 0.5


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_multinomial_survives_half_precision_at_scale_100(dtype: torch.dtype) -> None:
    logits = (100 * torch.eye(12)).to(dtype)
    pairs = select_close_pairs(logits, Multinomial(4), generator=torch.Generator().manual_seed(0))
    assert pairs.shape == (96, 2)


def test_half_precision_scores_are_reduced_in_float32() -> None:
    scores = scores_of(40).detach().to(torch.float16)
    assert eqsim_v2(scores).dtype == torch.float32
    torch.testing.assert_close(eqsim_v2(scores), eqsim_v2(scores.float()), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("call", "shown"),
    [
        (lambda s: eqsim_v1(s[:, :3]), r"\(4, 3\)"),
        (lambda s: eqsim_v1(torch.zeros(0, 0)), r"\(0, 0\)"),
        (lambda s: eqsim_v1(s.long()), "torch.int64"),
        (lambda s: eqsim_v1(s, margin=-0.5), "-0.5"),
        (lambda s: eqsim_v1(s, margin=float("nan")), "nan"),
        (lambda s: eqsim_v1(s, margin_mode="median"), "median"),
        (lambda s: eqsim_v2(s, sides=("both",)), "both"),
        (lambda s: eqsim_v2(s, sides="text"), "'text'"),
        (lambda s: eqsim_v2(s, sides=()), r"\(\)"),
        (lambda s: eqsim_v2(s, torch.tensor([[0, 1], [1, 4]])), r"close_pairs\[1\] = \(1, 4\)"),
        (lambda s: eqsim_v2(s, torch.tensor([[0, -1]])), r"\(0, -1\)"),
        (lambda s: eqsim_hybrid(s, torch.tensor([[2, 2]])), r"\(2, 2\)"),
        (lambda s: eqsim_hybrid(s, torch.tensor([2, 3])), r"\(2,\)"),
        (lambda s: eqsim_hybrid(s, torch.tensor([[0.0, 1.0]])), "float32"),
        (lambda s: eqsim_hybrid(s, torch.tensor([[0, 1]]), distant_reduction="sum"), "sum"),
        (lambda s: eqsim_quad(s[0], s[0], s[0], s[0, :2]), r"\(2,\)"),
        (lambda s: select_close_pairs(s[:2], TopK(k=1)), r"\(2, 4\)"),
        (lambda s: TopK(), "exactly one"),
        (lambda s: TopK(0.1, 3), "exactly one"),
        (lambda s: TopK(1.5), "1.5"),
        (lambda s: TopK(k=0), "k=0"),
        (lambda s: Multinomial(0), "n=0"),
    ],
)
def test_bad_input_is_named(call: object, shown: str) -> None:
    with pytest.raises((ValueError, TypeError), match=shown):
        call(scores_of(4).detach())


def test_pairs_of_a_large_batch_stay_apart_in_int32() -> None:
    # In 32 bits 61,356 * 70,000 + 67,301 wraps to 20,005: that of (0, 20,005).
    pairs = torch.tensor([[0, 20_005], [61_356, 67_301], [20_005, 0]])
    n = 70_000
    assert (61_356 * n + 67_301) % 2**32 == 20_005
    for dtype in (torch.int64, torch.int32):
        total, number = close_squares(torch.tensor([1.0, 4.0, 1.0]), pairs.to(dtype), n)
        assert (float(total), int(number)) == (2 * (1 + 4), 4)


def test_a_temperature_draws_as_the_logits_of_that_scale_do() -> None:
    generator = torch.Generator().manual_seed(0)
    cosines = torch.nn.functional.normalize(torch.randn(9, 4, generator=generator), dim=1)
    cosines = cosines @ cosines.T
    drawn = [
        select_close_pairs(scores, rule, generator=torch.Generator().manual_seed(1))
        for scores, rule in ((cosines * 50.0, Multinomial(3)), (cosines, Multinomial(3, temperature=0.02)))
    ]
    assert torch.equal(*drawn)


def test_each_process_announces_as_many_close_pairs_as_it_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    own: list[torch.Tensor] = []
    announced: list[tuple[int, ...]] = []

    def gathered(local: torch.Tensor, counts: tuple[int, ...]) -> torch.Tensor:
        own.append(local)
        announced.append(counts)
        return local

    monkeypatch.setattr("eqsim.close_pairs.gather_rows", gathered)
    image, text = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0))
    for rank in (0, 1):
        select_from_features(image, text, 2.0, TopK(k=2), rank=rank, counts=(3, 2))
    assert announced == [(12, 8), (12, 8)]  # two of each image and two of each text
    assert [len(rows) for rows in own] == [12, 8]
    assert sorted(torch.cat(own).tolist()) == sorted(select_close_pairs(2 * image @ text.T, TopK(k=2)).tolist())
