"""Sets of classes: slow definitions, coverage over many draws, Conf-OT, full conformal, and none of these."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from vision_adapters.conformal import (
    ConformalSets,
    Known,
    OpenWorld,
    conformal_quantile,
    coverage_of,
    full_conformal_sets,
    nonconformity,
    transport_to_labels,
)

from . import _reference as reference

KINDS = ["lac", "aps", "raps"]


def slow_nonconformity(row: list[float], label: int, kind: str, u: float) -> float:
    if kind == "lac":
        return 1 - row[label]
    order = sorted(range(len(row)), key=lambda c: (-row[c], c))
    rank = order.index(label)
    score = sum(row[c] for c in order[:rank]) + u * row[label]
    return score + (0.001 * max(0, rank + 1 - 1) if kind == "raps" else 0.0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("noisy", [False, True])
def test_nonconformity_is_its_slow_definition(kind: str, noisy: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    p = torch.randn(30, 6, generator=generator).double().softmax(1)
    p[3] = torch.tensor([0.2, 0.3, 0.2, 0.1, 0.1, 0.1])  # ties
    noise = torch.rand(30, generator=generator).double() if noisy else None
    scores = nonconformity(p, kind, noise=noise)
    expected = [
        [slow_nonconformity(row, c, kind, float(noise[i]) if noisy else 1.0) for c in range(6)]
        for i, row in enumerate(p.tolist())
    ]
    np.testing.assert_allclose(scores.numpy(), expected, atol=1e-12)


@pytest.mark.parametrize(("n", "coverage"), [(9, 0.9), (10, 0.9), (19, 0.95), (100, 0.9), (7, 0.5)])
def test_the_quantile_is_the_smallest_that_covers_a_new_score(n: int, coverage: float) -> None:
    scores = torch.randn(n, generator=torch.Generator().manual_seed(n))
    place = math.ceil((n + 1) * coverage - 1e-9)
    assert conformal_quantile(scores, coverage) == float(sorted(scores.tolist())[place - 1])
    assert conformal_quantile(scores[: int(1 / (1 - coverage)) - 2], coverage) == math.inf


def drawn(n: int, seed: int, k: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(k, (n,), generator=generator)
    return 2 * F.one_hot(labels, k) + 1.2 * torch.randn(n, k, generator=generator), labels


@pytest.mark.parametrize("kind", KINDS)
def test_coverage_over_a_hundred_draws(kind: str) -> None:
    results = []
    for seed in range(100):
        scores, labels = drawn(700, seed)
        noise = torch.rand(700, generator=torch.Generator().manual_seed(seed))
        p = (0.7 * scores).softmax(1)  # at any temperature
        sets = ConformalSets.fit(p[:200], labels[:200], kind, noise=noise[:200])
        results.append(coverage_of(sets.sets(p[200:], 0.9, noise=noise[200:]), labels[200:], 0.9))
    assert np.mean([row.covered for row in results]) == pytest.approx(0.9, abs=0.015)
    assert 1 < np.mean([row.size for row in results]) < 5
    assert all(row.low <= row.covered <= row.high for row in results)


def biased(n: int, seed: int, k: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    """Zero-shot scores with a bias by class, and frequent classes: what Conf-OT mends."""
    generator = torch.Generator().manual_seed(seed)
    frequency = torch.tensor([8.0, 6, 4, 2, 1, 1, 1, 1])
    labels = torch.multinomial(frequency, n, replacement=True, generator=generator)
    bias = torch.linspace(-3, 3, k)
    return 3 * F.one_hot(labels, k) + bias + 1.2 * torch.randn(n, k, generator=generator), labels


def test_conf_ot_keeps_coverage_with_smaller_sets() -> None:
    plain, moved = [], []
    for seed in range(100):
        scores, labels = biased(700, seed)
        before = scores.softmax(1)
        after = torch.cat(transport_to_labels(scores[:200], scores[200:], labels[:200]))
        for p, results in ((before, plain), (after, moved)):
            sets = ConformalSets.fit(p[:200], labels[:200])
            results.append(coverage_of(sets.sets(p[200:], 0.9), labels[200:], 0.9))
    assert np.mean([row.covered for row in moved]) == pytest.approx(0.9, abs=0.015)
    assert np.mean([row.size for row in moved]) < 0.9 * np.mean([row.size for row in plain])


def slow_full(x: np.ndarray, y: list[int], z: np.ndarray, texts: np.ndarray, scale: float, alpha: float) -> np.ndarray:
    """SS-Text by loops, fitted again for every new image and class."""
    chosen = np.zeros((len(z), len(texts)), dtype=bool)
    for i, row in enumerate(z):
        for c in range(len(texts)):
            rows, labels = np.vstack([x, row]), [*y, c]
            w = reference.ss_text_weights(rows.tolist(), labels, texts.tolist(), scale, False)
            w = w / np.linalg.norm(w, axis=1, keepdims=True)
            scores = [1 - reference.softmax(list(scale * w @ r))[label] for r, label in zip(rows, labels, strict=True)]
            worse = sum(score >= scores[-1] - 1e-12 for score in scores)
            chosen[i, c] = worse / len(scores) > alpha + 1e-12
    return chosen


def test_full_conformal_is_a_refit_for_every_image_and_class() -> None:
    generator = torch.Generator().manual_seed(0)
    texts, y = torch.randn(3, 5, generator=generator).double(), torch.arange(11) % 3
    x = texts[y] + torch.randn(11, 5, generator=generator).double()
    z = texts[torch.arange(7) % 3] + torch.randn(7, 5, generator=generator).double()
    unit = [np.array(reference.unit_rows(rows.tolist())) for rows in (x, z, texts)]
    for coverage in (0.5, 0.8):
        expected = slow_full(unit[0], y.tolist(), unit[1], unit[2], 6.0, 1 - coverage)
        sets = full_conformal_sets(x, y, z, texts, coverage, logit_scale=6.0)
        assert sets.tolist() == expected.tolist()


def test_full_conformal_covers_without_a_calibration_split() -> None:
    covered, sizes = [], []
    for seed in range(100):
        generator = torch.Generator().manual_seed(seed)
        texts = torch.randn(6, 16, generator=generator)
        y = torch.randint(6, (260,), generator=generator)
        x = texts[y] + 1.5 * torch.randn(260, 16, generator=generator)
        sets = full_conformal_sets(x[:60], y[:60], x[60:], texts, 0.9, logit_scale=10.0)
        result = coverage_of(sets, y[60:], 0.9)
        covered.append(result.covered)
        sizes.append(result.size)
    assert np.mean(covered) == pytest.approx(0.9, abs=0.015)
    assert np.mean(sizes) < 4


def test_a_coverage_of_one_or_few_labels_give_all_classes() -> None:
    scores, labels = drawn(60, 0)
    p = scores.softmax(1)
    assert bool(ConformalSets.fit(p, labels).sets(p, 1.0).all())
    few = ConformalSets.fit(p[:5], labels[:5])
    assert bool(few.sets(p, 0.9).all())
    assert str(few) == "lac on 5 labels: sets of all classes above a coverage of 83.33 %"
    assert bool(full_conformal_sets(scores, labels, scores, torch.eye(8), 1.0).all())


@pytest.mark.parametrize("kind", ["score", "probability", "energy"])
def test_none_of_these_keeps_known_images_and_finds_others(kind: str) -> None:
    retained, rejected = [], []
    for seed in range(100):
        scores, _ = drawn(400, seed)
        others = 1.2 * torch.randn(300, 8, generator=torch.Generator().manual_seed(seed + 1000))
        known = OpenWorld.fit(3 * scores[:150], kind)
        retained.append(1 - float(known.none_of_these(3 * scores[150:], 0.9).double().mean()))
        rejected.append(float(known.none_of_these(3 * others, 0.9).double().mean()))
    assert np.mean(retained) == pytest.approx(0.9, abs=0.015)
    assert np.mean(rejected) > 0.14  # one minus coverage, and more
    assert not bool(OpenWorld.fit(scores[:5]).none_of_these(others, 0.9).any())  # five cannot rule anything out


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32, torch.bool])
def test_labels_of_any_whole_type_are_classes(dtype: torch.dtype) -> None:
    """Bytes chose rows as a mask does, and 16 bits were refused without a reason."""
    generator = torch.Generator().manual_seed(0)
    probabilities = torch.rand(12, 2, generator=generator).softmax(1)
    labels = torch.arange(12) % 2
    narrow = labels.to(dtype)
    expected, fitted = (ConformalSets.fit(probabilities, rows).scores for rows in (labels, narrow))
    assert torch.equal(expected, fitted)
    sets = probabilities > 0.5
    assert coverage_of(sets, narrow, 0.9) == coverage_of(sets, labels, 0.9)
    texts, features = torch.eye(2), torch.randn(12, 2, generator=generator)
    for ours, theirs in zip(
        transport_to_labels(features, features, narrow), transport_to_labels(features, features, labels), strict=True
    ):
        assert torch.equal(ours, theirs)
    chosen, expected_sets = (full_conformal_sets(features, rows, features, texts, 0.8) for rows in (narrow, labels))
    assert torch.equal(chosen, expected_sets)


def test_labels_that_are_no_classes_of_sets_are_refused() -> None:
    with pytest.raises(ValueError, match=r"labels must lie in 0\.\.1, got \[0, -1\]"):
        coverage_of(torch.eye(2, dtype=torch.bool), torch.tensor([0, -1]), 0.9)
    with pytest.raises(ValueError, match=r"labels are torch.float32, expected whole numbers"):
        full_conformal_sets(torch.eye(2), torch.tensor([0.0, 1.0]), torch.eye(2), torch.eye(2), 0.9)
    with pytest.raises(ValueError, match=r"calibration has shape \(2, 2\), labels \(3,\)"):
        transport_to_labels(torch.eye(2), torch.eye(2), torch.tensor([0, 1, 1]))
    with pytest.raises(ValueError, match=r"sets have shape \(2, 2\), labels \(1,\)"):
        coverage_of(torch.eye(2, dtype=torch.bool), torch.tensor([0]), 0.9)


def test_bad_input_is_named() -> None:
    p, labels = torch.full((4, 2), 0.5), torch.tensor([0, 1, 0, 1])
    for coverage in (0.0, 1.5, -0.1):
        with pytest.raises(ValueError, match="coverage must be above 0 and at most 1"):
            ConformalSets.fit(p, labels).sets(p, coverage)
        with pytest.raises(ValueError, match="coverage must be above 0 and at most 1"):
            full_conformal_sets(p, labels, p, p[:2], coverage)
    with pytest.raises(ValueError, match=r"expected \[n, k\] and \[n\], n > 0"):
        ConformalSets.fit(p[:0], labels[:0])
    with pytest.raises(ValueError, match=r"labels must lie in 0..1, got \[0, 2"):
        ConformalSets.fit(p, torch.tensor([0, 2, 0, 1]))
    with pytest.raises(ValueError, match=r"expected probabilities, got 3\.0"):
        ConformalSets.fit(6 * p, labels)
    with pytest.raises(ValueError, match="kind must be one of"):
        ConformalSets.fit(p, labels, "nope")
    with pytest.raises(ValueError, match="kind must be one of"):
        OpenWorld.fit(p, "nope")
    with pytest.raises(ValueError, match="no scores of known images"):
        OpenWorld.fit(p[:0])


@pytest.mark.parametrize("kind", ["score", "probability", "energy"])
def test_scores_that_are_no_numbers_fit_no_class(kind: Known) -> None:
    scores = torch.tensor([[5.0, 0.0], [4.0, 1.0], [0.0, 6.0], [3.0, 1.0]])
    known = OpenWorld.fit(scores, kind)
    for value in (math.nan, math.inf):
        wrong = scores.clone()
        wrong[2, 0] = value
        with pytest.raises(ValueError, match="scores: row 2 holds NaN or infinity"):
            known.none_of_these(wrong, 0.7)
        with pytest.raises(ValueError, match="scores: row 2 holds NaN or infinity"):
            OpenWorld.fit(wrong, kind)


@pytest.mark.parametrize("place", range(3))
def test_full_conformal_refuses_nan_and_shapes_that_do_not_fit(place: int) -> None:
    # one NaN among the labelled images left the sets of all new ones empty
    rows = [torch.randn(12, 4, generator=torch.Generator().manual_seed(seed)) for seed in range(3)]
    labels = torch.arange(12) % 12
    rows[place][3, 1] = torch.nan
    with pytest.raises(ValueError, match=r"(features|class_embeddings): row 3 holds NaN or infinity"):
        full_conformal_sets(rows[0], labels, rows[1], rows[2], 0.9)
    rows = [torch.ones(12, 4 + (at == place)) for at in range(3)]
    with pytest.raises(ValueError, match=r"columns, features"):
        full_conformal_sets(rows[0], labels, rows[1], rows[2], 0.9)
    with pytest.raises(ValueError, match=r"labels \(5,\); expected \[n\]"):
        full_conformal_sets(rows[0], labels[:5], rows[0], rows[0], 0.9)


def test_probabilities_that_do_not_exclude_one_another_are_refused() -> None:
    """A sigmoid's were taken, and sets had another coverage than was requested."""
    fitted = ConformalSets.fit(torch.eye(3), torch.arange(3))
    for take in (lambda p: ConformalSets.fit(p, torch.zeros(len(p), dtype=torch.long)), lambda p: fitted.sets(p, 0.5)):
        with pytest.raises(ValueError, match=r"row 1: the probabilities of its 3 classes sum to 1\.5, expected 1"):
            take(torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.5]]))
        with pytest.raises(ValueError, match=r"probabilities are torch\.int64, expected floating-point"):
            take(torch.eye(3).long())
    half = torch.randn(50, 1000, generator=torch.Generator().manual_seed(0)).softmax(1).bfloat16()
    assert fitted.sets(half, 0.5).shape == (50, 1000)


def test_what_would_leave_every_set_empty_is_refused() -> None:
    """NaN is above no threshold and below none, and shares were taken for sets."""
    p, labels = torch.eye(3).repeat(4, 1), torch.arange(12) % 3
    with pytest.raises(ValueError, match="scores: row 1 is NaN"):
        conformal_quantile(torch.tensor([0.1, math.nan, 0.2]), 0.5)
    with pytest.raises(ValueError, match=r"sets are torch\.float32, expected truth values"):
        coverage_of(p, labels, 0.9)
    with pytest.raises(ValueError, match="coverage must be above 0 and at most 1, got 90"):
        coverage_of(p > 0.5, labels, 90)
    for scale in (math.nan, 0.0, math.inf):
        with pytest.raises(ValueError, match="logit_scale must be positive and finite"):
            full_conformal_sets(p, labels, p, torch.eye(3), 0.9, logit_scale=scale)
    for noise in (torch.full((12,), 1.5), torch.rand(11)):
        with pytest.raises(ValueError, match="expected 12 numbers in 0 to 1"):
            ConformalSets.fit(p, labels, "aps", noise=noise)
    for take in (ConformalSets("lac", torch.rand(9)).sets, nonconformity, lambda q, _: OpenWorld.fit(q)):
        with pytest.raises(ValueError, match=r"have shape \(3,\), expected \[n, k\]"):
            take(p[0], "lac" if take is nonconformity else 0.5)
