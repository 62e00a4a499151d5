"""Networks trained at once against a torch module for each candidate and split."""

from __future__ import annotations

import numpy as np
import pytest

from eevee import EeveeError, MlpScorer, load_table
from eevee.scorers.mlp import shuffled_splits
from eevee.tables.standard import standardise

from ._reference import module_scores
from ._tables import made_up

pytest.importorskip("torch")
draw_starts = pytest.importorskip("eevee.scorers.networks").draw_starts

CANDIDATES = [(0,), (1, 4, 5), (0, 2), (0, 1, 2, 3, 4, 5)]


@pytest.mark.parametrize("per_benchmark", [1, 2])
@pytest.mark.parametrize("chunk", [None, 1, 3])
def test_equal_to_a_module_for_each(per_benchmark, chunk):
    data = standardise(made_up(per_benchmark=per_benchmark))
    scorer = MlpScorer(epochs=15, hidden=17, splits=4, held_out=0.3, seed=5, chunk=chunk)
    scored = scorer.score(data, CANDIDATES)
    splits = shuffled_splits(data.groups, 4, 0.3, 5)
    starts = draw_starts(data.values.shape[1], 17, 4, 5)
    for candidate, (error, stderr) in zip(CANDIDATES, scored, strict=True):
        columns = data.metric_columns(candidate)
        each = module_scores(
            data.values[:, columns], data.values, splits, starts, columns, epochs=15, lr=0.01, weight_decay=0.01
        )
        assert error == pytest.approx(np.mean(each), abs=1e-6)
        ratio = splits.sum() / (~splits).sum()
        assert stderr == pytest.approx(np.std(each, ddof=1) * np.sqrt(1 / 4 + ratio), abs=1e-6)


def test_equal_to_the_module_on_the_paper_table_with_the_paper_settings():
    data = standardise(load_table("gate"))
    candidate = (1, 4, 8, 13, 17, 22, 27, 29)
    error = MlpScorer(splits=2).score(data, [candidate])[0, 0]
    splits, starts = shuffled_splits(data.groups, 2, 0.1, 0), draw_starts(30, 100, 2, 0)
    each = module_scores(
        data.values[:, candidate], data.values, splits, starts, list(candidate), epochs=20, lr=0.01, weight_decay=0.01
    )
    assert error == pytest.approx(np.mean(each), abs=1e-6)


def test_missing_targets_do_not_count():
    """Whatever a missing cell held, the score is the same; and the gap matters."""
    table = made_up(missing=0.3)
    data = standardise(table)
    full = standardise(made_up())
    scorer = MlpScorer(epochs=8, hidden=9, splits=3, held_out=0.3)
    scored = scorer.score(data, [(0, 2)])
    from dataclasses import replace

    noisy = np.where(data.mask, data.values, 0.0)
    noisy[:, 3] = np.where(data.mask[:, 3], data.values[:, 3], 7.0)
    again = scorer.score(replace(data, values=noisy), [(0, 2)])
    np.testing.assert_allclose(scored, again, atol=1e-6)
    assert abs(scored[0, 0] - scorer.score(full, [(0, 2)])[0, 0]) > 1e-4


def test_common_random_numbers():
    """A candidate's score does not depend on its company, and another seed gives another score."""
    data = standardise(made_up())
    scorer = MlpScorer(epochs=5, hidden=8, splits=2, held_out=0.3)
    alone = scorer.score(data, [(0, 2)])
    together = scorer.score(data, [(1,), (0, 2), (3, 4, 5)])[1:2]
    np.testing.assert_allclose(alone, together, atol=1e-6)
    assert MlpScorer(epochs=5, hidden=8, splits=2, held_out=0.3, seed=1).score(data, [(0, 2)])[0, 0] != alone[0, 0]


def test_twins_stay_on_one_side():
    groups = np.array([0, 0, 1, 2, 2, 2, 3, 4])
    for seed in range(20):
        for split in shuffled_splits(groups, 6, 0.3, seed):
            assert 0 < split.sum() < len(groups)
            for group in range(5):
                assert len(set(split[groups == group])) == 1


def test_groups_of_unequal_size_train_on_their_own_rows_only():
    """Splits of different sizes are padded; the filler rows must not be learnt from."""
    data = standardise(made_up(groups=("a", "a", "a", "b", "c", "d", "e", "f", "g")))
    scorer = MlpScorer(epochs=10, hidden=8, splits=5, held_out=0.2, seed=2)
    splits, starts = shuffled_splits(data.groups, 5, 0.2, 2), draw_starts(6, 8, 5, 2)
    assert len(set(splits.sum(1))) > 1
    each = module_scores(
        data.values[:, [0, 3]], data.values, splits, starts, [0, 3], epochs=10, lr=0.01, weight_decay=0.01
    )
    assert scorer.score(data, [(0, 3)])[0, 0] == pytest.approx(np.mean(each), abs=1e-6)


def test_outside_the_subset_more_columns_tell_more():
    data = standardise(made_up(models=15))
    scorer = MlpScorer(objective="unselected", splits=6, hidden=32, held_out=0.3)
    error_of_one, error_of_five = scorer.score(data, [(0,), (0, 1, 2, 3, 4)])[:, 0]
    assert error_of_five < error_of_one


def test_predict_learns():
    data = standardise(made_up(models=30))
    scorer = MlpScorer(epochs=60, hidden=32, splits=3)
    predicted = scorer.predict(data, (0, 1, 2, 3), data.values)
    assert ((predicted - data.values) ** 2).mean() < 0.3
    assert np.isfinite(scorer.predict(data, (0, 1), np.full((1, 6), np.nan))).all()


def test_same_seed_same_bytes():
    data = standardise(made_up())
    scorer = MlpScorer(epochs=5, hidden=8, splits=2, held_out=0.3)
    assert scorer.score(data, CANDIDATES).tobytes() == scorer.score(data, CANDIDATES).tobytes()


def test_automatic_chunk_grows_with_the_room():
    assert MlpScorer(splits=1).automatic_chunk(8, 30) > MlpScorer(splits=10).automatic_chunk(8, 30) >= 1
    assert MlpScorer().automatic_chunk(5000, 5000) == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": 0}, "epochs is 0"),
        ({"lr": 0.0}, "lr is 0.0"),
        ({"weight_decay": -1.0}, "weight_decay -1.0"),
        ({"held_out": 1.0}, "held_out is 1.0"),
        ({"chunk": 0}, "chunk is 0"),
        ({"objective": "no"}, "'no'; expected one of"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(EeveeError, match=message):
        MlpScorer(**settings)


def test_one_group_cannot_be_split():
    with pytest.raises(EeveeError, match="one group"):
        shuffled_splits([0, 0, 0], 2, 0.1, 0)
