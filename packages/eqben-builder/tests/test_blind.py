from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from eqben_builder.micro import KINDS, generator_at, minimal_pair
from eqben_builder.scoring import blind_scores
from eqben_builder.scoring.blind import held_out_likelihoods


def test_the_caption_model_follows_its_formula_and_sums_to_one():
    texts = ["a red ball", "a red cube", "the ball"]
    queries = ["a red ball", "ball red", "nothing known"]
    queried = np.arange(6) >= 3
    likelihoods, _ = held_out_likelihoods([*texts, *queries], [~queried], queried.astype(np.intp))
    split = [["<s>", *text.split(), "</s>"] for text in texts]
    words = [word for tokens in split for word in tokens[1:]]
    pairs = [pair for tokens in split for pair in pairwise(tokens)]
    total = len(words) + len(set(words)) + 1

    def probability(first, second):
        unigram = (words.count(second) + 1) / total
        bigrams = [pair for pair in pairs if pair[0] == first]
        if not bigrams:
            return unigram
        return (
            max(bigrams.count((first, second)) - 0.75, 0) / len(bigrams)
            + 0.75 * len(set(bigrams)) / len(bigrams) * unigram
        )

    for text, likelihood in zip(queries, likelihoods[0, 3:], strict=True):
        expected = sum(math.log(probability(*pair)) for pair in pairwise(["<s>", *text.split(), "</s>"]))
        assert likelihood == pytest.approx(expected, rel=1e-12)
    for first in ("a", "red", "<s>", "unknown"):
        vocabulary = [*sorted(set(words)), "one word never seen"]
        assert sum(probability(first, word) for word in vocabulary) == pytest.approx(1.0)


def test_micro_pairs_do_not_leak_through_their_captions():
    minimal_pairs = [minimal_pair(generator_at(3, k), KINDS[k % 3]) for k in range(1500)]
    scores = blind_scores([(pair.caption0, pair.caption1) for pair in minimal_pairs])
    assert scores.leak < 0.03, scores  # about two standard errors; the benchmark asks more pairs
    assert scores.learnt is not None


def test_a_leak_is_found():
    rng = np.random.default_rng(0)
    nouns = ["ball", "cube", "cone", "star"]
    foils = [(f"there is a {noun}", f"there is not a {noun}") for noun in rng.choice(nouns, 200)]
    scores = blind_scores(foils)
    assert scores.learnt is not None
    assert scores.learnt.value == 1.0
    assert scores.leak == 0.5
    longer = blind_scores(foils, lambda captions: [float(len(text)) for text in captions])
    assert (longer.likelier.value, longer.learnt, longer.ties) == (0.0, None, 0)
    alike = blind_scores(foils, lambda captions: [0.0 for _ in captions])
    assert (alike.likelier.value, alike.ties) == (0.5, 200)


def test_wrong_blind_use_is_refused():
    with pytest.raises(ValueError, match="expected at least one pair"):
        blind_scores([])
    with pytest.raises(ValueError, match="folds = 5 for 1 pairs"):
        blind_scores([("a", "b")])
    with pytest.raises(ValueError, match="not finite"):
        blind_scores([("a", "b")], lambda captions: [math.nan])
