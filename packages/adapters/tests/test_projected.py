"""Features for heads of one projection and two, heads on standardised targets, and pooled features as a token."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from vision_adapters.heads import LinearHead, RelationalHead, seeded
from vision_adapters.heads.linear import Standardised
from vision_adapters.heads.sequences import PooledAsToken
from vision_adapters.tuning.projected import padded_texts, projected_features


def drawn() -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x, w = torch.randn(40, 9, generator=generator), torch.randn(9, 5, generator=generator)
    return x, w, nn.functional.normalize(torch.randn(3, 5, generator=generator), dim=1)


def test_one_projection_starts_where_two_do() -> None:
    """At zero steps, the merged head ranks classes as the texts do: the features were only turned."""
    x, w, texts = drawn()
    turned, turned_test = projected_features(x, x[:10], w, "1p", anchored=True)
    projected, _ = projected_features(x, x[:10], w, "2p", anchored=True)
    assert turned.shape == (40, 9)
    assert torch.allclose(turned[:10], turned_test, atol=1e-5)
    ours = (turned @ padded_texts(texts, w, "1p").T).argmax(1)
    assert torch.equal(ours, (projected @ texts.T).argmax(1))
    assert torch.equal(projected, x @ w)
    assert torch.linalg.matrix_rank(turned) == 9  # nothing of the backbone's features is lost
    ahead, behind = turned[:, :5].square().mean(), turned[:, 5:].square().mean()
    assert float(behind) == pytest.approx(float(ahead), rel=1e-5)


def test_features_stay_where_nothing_is_to_be_turned() -> None:
    x, w, texts = drawn()
    assert projected_features(x, x, None, "2p", anchored=True)[0] is x
    assert projected_features(x, x, w, "1p", anchored=False)[0] is x
    assert padded_texts(texts, w, "2p") is texts
    full = torch.linalg.qr(torch.randn(9, 9, generator=torch.Generator().manual_seed(1)))[0]
    assert torch.equal(projected_features(x, x, full, "1p", anchored=True)[0], x @ full)
    with pytest.raises(ValueError, match="heads must be '1p' or '2p', got '3p'"):
        projected_features(x, x, w, "3p", anchored=True)


def test_a_standardised_head_starts_at_the_mean_and_steps_in_the_spread() -> None:
    inner = seeded(lambda: LinearHead(4, 1), 0)
    head, x = Standardised(inner, torch.tensor(5.0), torch.tensor(2.0)), torch.randn(3, 4)
    assert torch.allclose(head(x), 5 + 2 * inner(x)[:, 0])
    assert {"mean", "spread"} <= set(head.state_dict())


def test_pooled_features_are_one_token() -> None:
    head = seeded(lambda: PooledAsToken(6, 4, 10, width=16), 0)
    relational = seeded(lambda: RelationalHead(6, 4, 10, width=16), 0)
    pooled, text, mask = torch.randn(2, 6), torch.randn(2, 5, 4), torch.ones(2, 5, dtype=torch.bool)
    assert torch.equal(head(pooled, text, mask), relational(pooled[:, None], text, mask))
