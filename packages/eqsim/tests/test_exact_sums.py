"""The sums that the package's page gives, written as loops."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from eqsim import ClipEqSimLoss, EqSimLoss, PairLoss, TopK
from eqsim.functional import eqsim_hybrid, eqsim_v1, eqsim_v2

N = 9


def _scores() -> list[list[float]]:
    scores: list[list[float]] = torch.randn(N, N, generator=torch.Generator().manual_seed(3)).double().tolist()
    return scores


def _residuals(s: list[list[float]], i: int, j: int) -> tuple[float, float]:
    return s[i][i] - s[j][j], s[i][j] - s[j][i]


def test_means_over_all_pairs_divide_by_n_times_n_less_one() -> None:
    s = _scores()
    v1 = v2 = 0.0
    for i in range(N):
        for j in range(N):
            if i != j:
                d, a = _residuals(s, i, j)
                v1 += a * a
                v2 += (d - a) ** 2 + (d + a) ** 2
    matrix = torch.tensor(s, dtype=torch.float64)
    assert float(eqsim_v1(matrix)) == pytest.approx(v1 / (N * (N - 1)), rel=1e-12)
    assert float(eqsim_v2(matrix)) == pytest.approx(v2 / (N * (N - 1)), rel=1e-12)


def test_the_mirror_of_a_close_pair_is_not_distant() -> None:
    s, close = _scores(), [(0, 1), (0, 1), (3, 2), (5, 7)]
    listed = set(close) | {(j, i) for i, j in close}
    near = sum((d - a) ** 2 + (d + a) ** 2 for d, a in (_residuals(s, i, j) for i, j in close)) / len(close)
    rest = [(i, j) for i in range(N) for j in range(N) if i != j and (i, j) not in listed]
    far = sum(_residuals(s, i, j)[1] ** 2 for i, j in rest)
    matrix, pairs = torch.tensor(s, dtype=torch.float64), torch.tensor(close)
    assert float(eqsim_hybrid(matrix, pairs)) == pytest.approx(near + far / len(rest), rel=1e-12)
    by_square = eqsim_hybrid(matrix, pairs, distant_reduction="reference")
    assert float(by_square) == pytest.approx(near + far / N**2, rel=1e-12)


def test_top_k_names_images_then_texts_with_the_samples_own_index_first() -> None:
    generator = torch.Generator().manual_seed(4)
    image, text = torch.randn(N, 5, generator=generator), torch.randn(N, 5, generator=generator)
    s = (image @ text.T).tolist()
    rows = [[i, max((j for j in range(N) if j != i), key=lambda j: s[i][j])] for i in range(N)]
    rows += [[i, max((j for j in range(N) if j != i), key=lambda j: s[j][i])] for i in range(N)]
    assert TopK(k=1)(image, text).tolist() == rows


def test_the_first_example_is_pair_loss_of_scaled_cosines() -> None:
    generator = torch.Generator().manual_seed(5)
    image = torch.randn(N, 5, generator=generator).double()
    text = torch.randn(N, 5, generator=generator).double()
    pairs = torch.tensor([[0, 1], [4, 2]])
    logits = (7.0 * F.normalize(image) @ F.normalize(text).T).tolist()
    total = 0.0
    for i, j in pairs.tolist():
        for wrong, right in (((i, j), (i, i)), ((j, i), (i, i)), ((i, j), (j, j)), ((j, i), (j, j))):
            total += math.log1p(math.exp(logits[wrong[0]][wrong[1]] - logits[right[0]][right[1]]))
    expected = total / 4 / len(pairs)
    assert float(PairLoss()(image, text, 7.0, close_pairs=pairs)) == pytest.approx(expected, rel=1e-12)
    losses = ClipEqSimLoss("none", pair_weight=2.0)(image, text, 7.0, close_pairs=pairs, output_dict=True)
    assert set(losses) == {"contrastive_loss", "pair_loss"}
    assert float(losses["pair_loss"]) == pytest.approx(2.0 * expected, rel=1e-12)
    relative = ClipEqSimLoss("relative", weight=1.0)(image, text, 7.0, close_pairs=pairs, output_dict=True)
    assert float(relative["eqsim_loss"]) == pytest.approx(
        float(EqSimLoss("relative")(image, text, 7.0, close_pairs=pairs))
    )
