from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from eqben_builder.duplicates import PairHashes, near_duplicates, perceptual_hash
from eqben_builder.micro import render, scene_at


def bits_apart(first, second):
    return (first ^ second).bit_count()


def reference_hash(picture):
    """The definition, in float64 and loops."""
    grey = np.asarray(Image.fromarray(picture).convert("L").resize((32, 32), Image.Resampling.BOX), dtype=np.float64)
    n = np.arange(32)
    low = np.empty((8, 8))
    for v in range(8):
        for u in range(8):
            wave = np.outer(np.cos(np.pi * v * (2 * n + 1) / 64), np.cos(np.pi * u * (2 * n + 1) / 64))
            low[v, u] = (grey * wave).sum()
    bits = (low > np.median(low)).ravel()
    return sum(1 << (63 - k) for k, bit in enumerate(bits) if bit)


def pictures(n, size=96):
    return render([scene_at(5, k, (2, 6)) for k in range(n)], size).images


def test_the_hash_is_its_definition():
    for picture in pictures(40):
        assert bits_apart(perceptual_hash(picture), reference_hash(picture)) <= 1


def test_small_changes_move_few_bits_and_other_scenes_move_many():
    rng = np.random.default_rng(0)
    drawn = pictures(40)
    hashes = [perceptual_hash(picture) for picture in drawn]
    for picture, value in zip(drawn, hashes, strict=True):
        noisy = np.clip(picture + rng.integers(-6, 7, picture.shape), 0, 255).astype(np.uint8)
        assert bits_apart(perceptual_hash(noisy), value) <= 6
    apart = [bits_apart(a, b) for i, a in enumerate(hashes) for b in hashes[:i]]
    assert np.median(apart) > 18


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("bits", [0, 2, 6])
def test_near_duplicates_are_those_of_the_loop(bits, counted, monkeypatch):
    if not counted:
        monkeypatch.delattr(np, "bitwise_count", raising=False)
    rng = np.random.default_rng(1)
    base = [int(value) for value in rng.integers(0, 1 << 63, 12, dtype=np.uint64)]
    pairs = []
    for _ in range(150):
        first, second = (base[int(k)] for k in rng.integers(0, 12, 2))
        for _ in range(int(rng.integers(0, 9))):
            first ^= 1 << int(rng.integers(0, 64))
        pairs.append((first, second))

    def close(x, y):
        return bits_apart(x, y) <= bits

    expected = []
    for j, (a, b) in enumerate(pairs):
        for i, (c, d) in enumerate(pairs[:j]):
            if (close(a, c) and close(b, d)) or (close(a, d) and close(b, c)):
                expected.append((i, j))
                break
    assert near_duplicates(pairs, bits) == expected
    assert expected or bits == 0


def test_one_picture_alike_is_not_enough_and_a_pair_is_not_compared_with_itself():
    hashes = PairHashes(3)
    hashes.add(0, 0)
    assert hashes.alike(0, (1 << 40) - 1) is None
    assert hashes.alike(1, 2) == 0


def test_more_pairs_than_the_first_reservation_are_kept():
    hashes = PairHashes(0)
    for value in range(2500):
        hashes.add(value << 20, value << 40)
    assert len(hashes) == 2500
    assert hashes.alike(2400 << 20, 2400 << 40) == 2400


def test_what_is_no_picture_and_a_distance_out_of_range_are_refused():
    with pytest.raises(ValueError, match=r"found float64 \[4, 4, 3\]"):
        perceptual_hash(np.zeros((4, 4, 3)))
    with pytest.raises(ValueError, match="bits = 64"):
        PairHashes(64)
