"""Retrieval between images and texts, against loops and the mean over all orders of what is equal."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
import torch
from torch import Tensor

from vision_adapters.losses import grouped_cross_entropy, symmetric_cross_entropy
from vision_adapters.retrieval import (
    chance_of_rank,
    chance_of_recall,
    first_right,
    gallery_chances,
    gallery_outcomes,
    recalls,
)


def joint_recalls(joint: Tensor) -> dict[str, np.ndarray]:
    return recalls(joint[:, 0], joint[:, 1:])


@pytest.mark.parametrize("texts", [1, 5])
def test_chance_of_a_recall_is_what_random_vectors_have(texts: int) -> None:
    """Of several captions any finds the image: chance was that of one, so that random vectors lay far above it."""
    generator = torch.Generator().manual_seed(0)
    drawn_recalls = [joint_recalls(torch.randn(12, 1 + texts, 8, generator=generator)) for _ in range(200)]
    for k in (1, 5, 10):
        mean = float(np.mean([drawn[f"i2t_r@{k}"] for drawn in drawn_recalls]))
        assert chance_of_recall(12 * texts, texts, k) == pytest.approx(mean, abs=0.03)


def test_recalls_and_galleries_agree_with_loops() -> None:
    generator = torch.Generator().manual_seed(3)
    joint = torch.randn(9, 4, 5, generator=generator)
    values = joint_recalls(joint)
    for k in (1, 5, 10):
        for image in range(9):
            scores = sorted(
                ((float(joint[image, 0] @ joint[owner, 1 + text]), owner) for owner in range(9) for text in range(3)),
                reverse=True,
            )
            assert values[f"i2t_r@{k}"][image] == float(any(owner == image for _, owner in scores[:k]))
        for image in range(9):
            right = 0
            for text in range(3):
                scores = sorted(
                    ((float(joint[other, 0] @ joint[image, 1 + text]), other) for other in range(9)), reverse=True
                )
                right += any(other == image for _, other in scores[:k])
            assert values[f"t2i_r@{k}"][image] == pytest.approx(right / 3)
    pairs = joint[:, :2]
    galleries = gallery_outcomes(pairs[:, 0], pairs[:, 1:], np.arange(9))
    scores = pairs[:, 0] @ pairs[:, 1].T
    assert galleries["image_to_text"].tolist() == [float(scores[i].argmax() == i) for i in range(9)]
    assert galleries["text_to_image"].tolist() == [float(scores[:, i].argmax() == i) for i in range(9)]


def test_equal_scores_share_the_places_of_recalls() -> None:
    """A constant encoder knows nothing; others are the mean over all orders of what is equal."""
    constant = joint_recalls(torch.ones(12, 6, 4))
    for k in (1, 5, 10):
        expected = 1 - math.comb(55, k) / math.comb(60, k)  # of 60 texts 5 are the image's
        assert constant[f"i2t_r@{k}"] == pytest.approx(np.full(12, expected))
        assert constant[f"t2i_r@{k}"] == pytest.approx(np.full(12, min(1.0, k / 12)))
    generator = torch.Generator().manual_seed(1)
    joint = torch.randint(0, 2, (3, 3, 2), generator=generator).double()
    values, orders = joint_recalls(joint), list(permutations(range(6)))
    texts = joint[:, 1:].reshape(6, 2)
    for image in range(3):
        scores = (texts @ joint[image, 0]).tolist()
        first = [sorted(order, key=lambda text: -scores[text])[0] for order in orders]  # sorting keeps an order of ties
        assert values["i2t_r@1"][image] == pytest.approx(np.mean([text // 2 == image for text in first]))


def test_rows_that_stand_in_no_gallery_are_not_scored() -> None:
    generator = torch.Generator().manual_seed(0)
    images, texts = torch.randn(6, 4, generator=generator), torch.randn(6, 1, 4, generator=generator)
    outcomes = gallery_outcomes(images, texts, np.array([0, 2, 4]))
    assert all(np.isnan(values).tolist() == [False, True] * 3 for values in outcomes.values())


def test_chance_in_galleries_is_what_random_vectors_have() -> None:
    generator = torch.Generator().manual_seed(0)
    drawn = [
        gallery_outcomes(
            torch.randn(70, 8, generator=generator), torch.randn(70, 2, 8, generator=generator), np.arange(70)
        )
        for _ in range(60)
    ]
    for name, chance in gallery_chances(70).items():
        assert chance == pytest.approx(np.mean([values[name] for values in drawn]), abs=0.01)


def test_two_directions_make_the_symmetric_loss() -> None:
    generator = torch.Generator().manual_seed(2)
    scores, owners = torch.randn(7, 7, generator=generator), torch.tensor([0, 1, 1, 2, 3, 3, 3])
    both = (grouped_cross_entropy(scores, owners) + grouped_cross_entropy(scores.T, owners)) / 2
    assert float(both) == pytest.approx(float(symmetric_cross_entropy(scores, owners)), rel=1e-6)
    assert float(grouped_cross_entropy(scores, owners)) != pytest.approx(float(both), rel=1e-3)
    with pytest.raises(ValueError, match=r"expected logits \[n, n\] and groups \[n\], got \(7, 7\) and \(6,\)"):
        grouped_cross_entropy(scores, owners[:6])


def test_shapes_that_do_not_belong_together_are_refused() -> None:
    with pytest.raises(ValueError, match=r"images have shape \(3, 4\), texts \(2, 1, 4\)"):
        recalls(torch.zeros(3, 4), torch.zeros(2, 1, 4))
    with pytest.raises(ValueError, match=r"expected \[n, d\] and \[n, t, d\]"):
        gallery_outcomes(torch.zeros(3, 4), torch.zeros(3, 4), np.arange(3))
    with pytest.raises(ValueError, match=r"ks \[0\]: expected numbers of at least 1"):
        recalls(torch.zeros(3, 4), torch.zeros(3, 1, 4), (0,))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_features_without_a_rank_are_refused(value: float) -> None:
    """Nothing is better than NaN, so that its image was found at once: a recall of 1."""
    images, texts = torch.eye(6), torch.eye(6)[:, None].repeat(1, 2, 1)
    for side in (images, texts):
        side[3] = value
        for take in (recalls, lambda a, b: gallery_outcomes(a, b, np.arange(6))):
            with pytest.raises(ValueError, match=r"(images|texts): row 3 holds NaN or infinity"):
                take(images, texts)
        side[3] = 1.0


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.float64])
def test_features_of_every_type_are_ranked(kind: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    images, texts = torch.randn(10, 4, generator=generator).to(kind), torch.randn(10, 2, 4, generator=generator)
    expected = gallery_outcomes(images.float(), texts.to(kind).float(), np.arange(10)), recalls(images.float(), texts)
    measured = gallery_outcomes(images, texts.to(kind).requires_grad_(), np.arange(10)), recalls(images, texts)
    for ours, theirs in zip(measured, expected, strict=True):
        assert {name: values.tolist() for name, values in ours.items()} == {
            name: values.tolist() for name, values in theirs.items()
        }


def test_a_gallery_without_images_is_refused() -> None:
    with pytest.raises(ValueError, match="no row stands in a gallery"):
        gallery_outcomes(torch.eye(3), torch.eye(3)[:, None], np.arange(0))


def benchmark_recall(scores: Tensor, positive: Tensor, k: int) -> float:
    """CLIP_benchmark's recall: the share of queries with at least one positive among the k highest scores."""
    best = torch.topk(scores, k, dim=1).indices
    return float(positive.gather(1, best).any(dim=1).float().mean())


@pytest.mark.parametrize("seed", range(3))
def test_recall_is_clip_benchmarks_where_images_have_several_captions(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    owner = torch.repeat_interleave(torch.arange(40), torch.randint(1, 6, (40,), generator=generator))
    images = torch.randn(40, 16, generator=generator)
    texts = images[owner] + 2.5 * torch.randn(len(owner), 16, generator=generator)
    images, texts = (torch.nn.functional.normalize(side, dim=-1) for side in (images, texts))
    positive = owner[:, None] == torch.arange(40)
    by_image = first_right(images, texts, [positive[:, image].nonzero()[:, 0].tolist() for image in range(40)])
    by_text = first_right(texts, images, [[int(image)] for image in owner])
    for column, k in enumerate((1, 5, 10)):
        recall = by_image.recall[:, column].mean(), by_text.recall[:, column].mean()
        expected = (
            benchmark_recall(images @ texts.T, positive.T, k),
            benchmark_recall(texts @ images.T, positive, k),
        )
        assert recall == pytest.approx(expected, abs=1e-7)
        assert 0.1 < recall[0] < 1
    scores = (images @ texts.T).argsort(dim=1, descending=True)
    ranks = [1 + [bool(hit) for hit in positive[row, image]].index(True) for image, row in enumerate(scores)]
    assert by_image.rank.tolist() == ranks


def test_equal_scores_share_places_and_ranks() -> None:
    """The mean over all orders of five answers, of which scores tie."""
    values = torch.tensor([2.0, 1.0, 1.0, 1.0, 0.0])
    ranked = first_right(torch.ones(1, 1), values[:, None], [[2, 3]], (1, 2, 3))
    ranks = []
    for order in permutations(range(5)):
        placed = sorted(order, key=lambda answer: -float(values[answer]))
        ranks.append(1 + min(placed.index(2), placed.index(3)))
    assert ranked.rank[0] == pytest.approx(np.mean(ranks))
    assert ranked.recall[0].tolist() == pytest.approx([np.mean([rank <= k for rank in ranks]) for k in (1, 2, 3)])


def test_equal_answers_have_equal_scores() -> None:
    """A product of matrices may sum equal columns in another order; equal rows then lie one before the other."""
    generator = torch.Generator().manual_seed(0)
    queries, answer = torch.randn(5, 512, generator=generator), torch.randn(1, 512, generator=generator)
    ranked = first_right(queries, answer.repeat(7, 1), [[6]] * 5, (1,))
    assert ranked.recall == pytest.approx(1 / 7)
    assert ranked.rank == pytest.approx(4)
    images = torch.randn(7, 512, generator=generator)
    assert recalls(images, answer.repeat(7, 1)[:, None], (1,))["i2t_r@1"] == pytest.approx(1 / 7)
    assert recalls(answer.repeat(7, 1), images[:, None], (1,))["t2i_r@1"] == pytest.approx(1 / 7)


def test_the_rank_of_chance_is_that_of_random_orders() -> None:
    rng = np.random.default_rng(0)
    own = [1, 2, 5] * 40
    ranks = [1 + min(rng.permutation(50)[:size]) for _ in range(60) for size in own]
    assert chance_of_rank(50, own) == pytest.approx(np.median(ranks), abs=1)


@pytest.mark.parametrize(
    ("right", "message"),
    [
        ([[0], []], r"query 1 has right answers \[\], expected rows 0 to 2"),
        ([[0], [3]], r"query 1 has right answers \[3\]"),
        ([[0]], "1 lists of right answers for 2 queries"),
    ],
)
def test_right_answers_that_are_not_there_are_refused(right: list[list[int]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        first_right(torch.eye(3)[:2], torch.eye(3), right)
    with pytest.raises(ValueError, match="answers: row 2 holds NaN"):
        first_right(torch.eye(3), torch.eye(3).index_fill(0, torch.tensor([2]), math.nan), [[0]] * 3)
