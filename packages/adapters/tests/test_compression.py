"""Codes keep what they say they keep, in as many bytes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA

from vision_adapters.compression import codec

ROWS = torch.randn(60, 12, generator=torch.Generator().manual_seed(0)) * torch.arange(1, 13) + 3
TESTED = torch.randn(20, 12, generator=torch.Generator().manual_seed(1)) * torch.arange(1, 13) + 3


def test_int8_is_within_half_a_step_and_clamps_what_training_did_not_show() -> None:
    int8 = codec("int8", ROWS)
    steps = (ROWS.amax(0) - ROWS.amin(0)) / 254
    assert bool(((int8.restored(ROWS) - ROWS).abs() <= steps / 2 * (1 + 1e-4)).all())
    far = int8.restored(ROWS.amax(0)[None] * 100)
    assert torch.allclose(far, ROWS.amax(0)[None], rtol=1e-5)
    assert len(torch.unique(int8.restored(ROWS)[:, 0].double())) <= 255


def test_pca_is_scikit_learns_and_the_first_dimensions_are_the_first() -> None:
    theirs = PCA(5).fit(ROWS.numpy()).transform(TESTED.numpy())
    ours = codec("pca5", ROWS).restored(TESTED).numpy()
    assert np.abs(ours) == pytest.approx(np.abs(theirs), abs=1e-3)
    assert torch.equal(codec("dims4", ROWS).restored(TESTED), TESTED[:, :4])
    assert torch.equal(codec("float16", ROWS).restored(TESTED), TESTED.half().float())


def test_one_bit_ranks_as_hamming_distance_does() -> None:
    binary = codec("binary", ROWS)
    bits, restored = binary.restored(ROWS), binary.restored(TESTED)
    hamming = ((ROWS.mean(0) < TESTED)[:, None] != (ROWS.mean(0) < ROWS)[None]).sum(-1)
    assert torch.equal(restored @ bits.T, (12 - 2 * hamming).float())


@pytest.mark.parametrize(
    ("code", "size"), [("float32", 48), ("float16", 24), ("int8", 12), ("binary", 2), ("dims4", 16), ("pca5", 20)]
)
def test_bytes(code: str, size: int) -> None:
    assert codec(code, ROWS).bytes == size


def test_what_there_is_not_is_said() -> None:
    with pytest.raises(ValueError, match="'int4' is unknown"):
        codec("int4", ROWS)
    with pytest.raises(ValueError, match="at most 12"):
        codec("dims13", ROWS)
