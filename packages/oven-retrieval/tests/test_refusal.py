"""Probabilities that mean what they say, thresholds that keep their word, and answers in another order."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from oven_retrieval import Entity, KnowledgeBase, build_kb, build_linker
from oven_retrieval.evaluation.curves import accuracy_by_popularity
from oven_retrieval.evidence import name_features
from oven_retrieval.ranking import Ranking
from oven_retrieval.refusal import (
    Calibration,
    auroc,
    calibrate_names,
    fit_calibration,
    risk_coverage,
    threshold_for,
)
from oven_retrieval.vectors import rerank
from oven_retrieval.vectors.store import check_vectors
from oven_retrieval.workspace import link_lines

from ._definition import RANK_BM25


def test_a_planted_model_is_found_and_its_probabilities_are_calibrated():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20_000, 3)) * [1, 5, 0.1] + [0, 2, 0]
    p = 1 / (1 + np.exp(-(x @ [1.5, -0.4, 0.0] + 0.3)))
    right = rng.random(len(x)) < p
    model = fit_calibration(x[:10_000], right[:10_000])
    probability = model.probability(x[10_000:])
    np.testing.assert_allclose(probability, p[10_000:], atol=0.04)
    for low in np.arange(0, 1, 0.2):
        some = (probability >= low) & (probability < low + 0.2)
        assert abs(probability[some].mean() - right[10_000:][some].mean()) < 0.04
    chosen = threshold_for(model.probability(x[:10_000]), right[:10_000], 0.9)
    assert abs(right[10_000:][probability >= chosen].mean() - 0.9) < 0.02


def test_the_curve_and_the_area_equal_their_definitions():
    rng = np.random.default_rng(1)
    score, right = rng.integers(0, 12, 300) / 12, rng.random(300) < 0.6
    curve = risk_coverage(score, right)
    for threshold, coverage, risk in zip(*curve, strict=True):
        answered = score >= threshold
        assert coverage == pytest.approx(answered.mean())
        assert risk == pytest.approx(1 - right[answered].mean())
    pairs = [(a > b) + 0.5 * (a == b) for a in score[right] for b in score[~right]]
    assert auroc(score, right) == pytest.approx(np.mean(pairs))
    chosen = threshold_for(score, right, float(1 - curve.risk[3]))
    assert right[score >= chosen].mean() >= 1 - curve.risk[3]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: threshold_for(np.array([0.9, 0.1]), np.array([False, True]), 0.9),
            "no threshold reaches 0.9 on these 2",
        ),
        (
            lambda: threshold_for(np.array([0.9]), np.array([True]), 1.5),
            "precision: expected above 0 and at most 1, got 1.5",
        ),
        (lambda: fit_calibration(np.ones((30, 1)), np.ones(30, bool)), "right and wrong ones, got 30 with 30 right"),
        (lambda: auroc([1.0], [True]), "queries of both kinds"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.fixture
def world(tmp_path):
    """Names of two made-up words; a third of the entities is not in here."""
    rng = np.random.default_rng(2)
    syllables = [a + b for a in "bdfgklmnprst" for b in "aeiou"]
    names = sorted({" ".join("".join(rng.choice(syllables, 3)) for _ in range(2)) for _ in range(600)})
    entities = [Entity(str(i), name) for i, name in enumerate(names) if i % 3]
    linker = build_linker(build_kb(entities, tmp_path / "kb"))
    # Some are asked with one word of theirs, which others may share.
    queries = [name if i % 4 else f"{name.split()[0]} {names[i - 1].split()[1]}" for i, name in enumerate(names)]
    return linker, queries, [str(i) if i % 3 else None for i in range(len(names))]


def test_names_that_are_not_in_here(world, tmp_path):
    linker, queries, ids = world
    model, report = calibrate_names(linker, queries, ids, 0.9)
    assert report.precision_low <= 0.9 <= report.precision_high  # 150 names: their share is not the wanted one exactly
    assert report.auroc > report.trivial_auroc + 0.04
    assert report.auroc > 0.9
    features = name_features(linker, queries)[1]
    assert (model.presence(features) >= model.probability(features)).all()
    # Half of the questions is asked by words of two entities, so that what is here and which it is differ.
    present = np.array([entity_id is not None for entity_id in ids])
    assert auroc(model.presence(features), present) > auroc(model.probability(features), present)
    model.write(tmp_path / "c.json")
    assert Calibration.read(tmp_path / "c.json") == model
    records = list(link_lines(linker, queries[:40], calibration=model))
    refused = [record for record in records if not record["entities"]]
    assert refused
    assert all("not in here" in r["problem"] or r["problem"].startswith("no name") for r in refused)
    answered = [(record, right) for record, right in zip(records, ids, strict=False) if record["entities"]]
    assert np.mean([record["entities"][0]["id"] == right for record, right in answered]) > 0.8
    assert all(record["probability"] >= model.threshold - 1e-4 for record, _ in answered)  # it is rounded
    assert all(0 <= record["not in here"] <= 1 - record["probability"] + 1e-4 for record, _ in answered)
    whole = json.loads((tmp_path / "c.json").read_text())
    for change in ({"weights": 3}, {"mean": [0.0]}, {"scale": [0.0] * 3}, {"bias": math.nan}, {"there": [1.0]}):
        (tmp_path / "c.json").write_text(json.dumps({**whole, **change}))
        with pytest.raises(ValueError, match=r"c.json: not a calibration"):
            Calibration.read(tmp_path / "c.json")
    with pytest.raises(ValueError, match=r"precision: no threshold reaches"):
        calibrate_names(
            linker, queries, [f"nobody{i}" if i % 50 else entity_id for i, entity_id in enumerate(ids)], 0.999
        )
    assert np.isnan(name_features(linker, ["qqq"])[1]).all()
    assert model.probability(name_features(linker, ["qqq"])[1]).tolist() == [0.0]
    with pytest.raises(ValueError, match=r"there: this calibration was fitted without"):
        fit_calibration(features, np.arange(len(features)) % 2 == 0).presence(features)
    with pytest.raises(ValueError, match=r"expected \[q, 3\], got .* earlier version"):
        Calibration((1.0,) * 3, 0.0, (0.0,) * 3, (1.0,) * 3).probability(features)
    if RANK_BM25:
        defined = name_features(build_linker(linker.kb, engine="rank_bm25"), queries[:60])[1]
        np.testing.assert_allclose(defined, features[:60], atol=1e-6)


def test_the_reported_precision_is_that_of_fresh_entities(monkeypatch):
    """Of 300 calibrations: the mean of what is reported and of what is true differ by chance alone.

    A threshold is chosen so that the names it is chosen on look good: their own precision would be too high.
    """
    rng = np.random.default_rng(0)

    def draw(count):
        x = rng.normal(size=(count, 1))
        return x, rng.random(count) < 1 / (1 + np.exp(-2 * x[:, 0] - 1))

    fresh, fresh_right = draw(50_000)
    reported, true, covered = [], [], []
    for _ in range(300):
        x, right = draw(400)
        links = SimpleNamespace(rows=np.arange(400)[:, None], kinds=np.zeros((400, 1), int))
        truth = np.where(right, np.arange(400), 1_000)
        linker = SimpleNamespace(kb=SimpleNamespace(rows=lambda ids, truth=truth: truth))
        monkeypatch.setattr("oven_retrieval.refusal.name_features", lambda *_, links=links, x=x: (links, x))
        model, report = calibrate_names(linker, [f"n{i}" for i in range(400)], [str(i) for i in range(400)], 0.9)
        answered = model.probability(fresh) >= model.threshold
        reported.append(report.precision)
        true.append(fresh_right[answered].mean())
        covered.append(report.precision_low <= true[-1] <= report.precision_high)
    difference = np.array(reported) - true
    assert abs(difference.mean()) < 3 * difference.std() / np.sqrt(len(difference))
    assert np.mean(covered) > 0.91  # of 95 %


def test_names_of_one_entity_are_on_one_side(world, monkeypatch):
    linker, queries, ids = world
    fitted = []
    real = fit_calibration
    monkeypatch.setattr(
        "oven_retrieval.refusal.fit_calibration",
        lambda *arguments: fitted.append(len(arguments[0])) or real(*arguments),
    )
    _, once = calibrate_names(linker, queries, ids, 0.8)
    _, twice = calibrate_names(linker, queries * 2, ids * 2, 0.8)
    assert fitted[1] == 2 * fitted[0]
    assert twice.queries == 2 * once.queries


def test_a_model_of_one_knowledge_base_serves_another(world, tmp_path):
    linker, queries, ids = world
    model, _ = calibrate_names(linker, queries, ids, 0.9)
    rng = np.random.default_rng(7)
    names = sorted({" ".join("".join(rng.choice(list("aeioubcd"), 5)) for _ in range(3)) for _ in range(900)})
    small = build_linker(build_kb((Entity(f"x{i}", n) for i, n in enumerate(names) if i % 2), tmp_path / "small"))
    features = name_features(small, names)[1]
    assert auroc(model.presence(features), np.arange(len(names)) % 2 == 1) > 0.9


def test_reranking_is_a_sort_by_the_user_s_function():
    rng = np.random.default_rng(4)
    ranking = Ranking(rng.permutation(60).reshape(6, 10), rng.random((6, 10)).astype(np.float32))
    ranking.rows[2, 7:] = -1
    taste = rng.integers(0, 5, 60).astype(float)
    again = rerank(ranking, lambda query, rows: taste[rows] + query, 4)
    for query in range(6):
        rows = [row for row in ranking.rows[query].tolist() if row >= 0]
        expected = sorted(rows, key=lambda row: -taste[row])[:4]
        assert again.rows[query].tolist() == expected
        assert again.scores[query].tolist() == [taste[row] + query for row in expected]
    with pytest.raises(ValueError, match=r"score: query 0: expected 10 numbers"):
        rerank(ranking, lambda query, rows: np.full(len(rows), np.nan))


def test_a_score_that_is_no_number_has_no_place() -> None:
    """NaN counted as the highest score."""
    with pytest.raises(ValueError, match=r"NaN at \[1\]"):
        auroc([0.1, math.nan, 0.3], [False, True, True])


@pytest.mark.parametrize("missing", [None, math.nan, "1", 2, np.ma.masked])
def test_whether_a_query_is_there_is_yes_or_no(missing):
    # NaN and any text were yes, and None was no
    labels = [True, False, True, missing]
    held = np.ma.masked_array([1, 0, 1, 0], [0, 0, 0, 1]) if missing is np.ma.masked else labels
    with pytest.raises(ValueError, match="there: "):
        auroc([0.1, 0.2, 0.3, 0.4], held)
    with pytest.raises(ValueError, match="correct: "):
        accuracy_by_popularity(held, [1, 2, 3, 4])
    assert auroc([0.1, 0.2, 0.3, 0.4], [1.0, 0, True, 0]) == 0.25


def test_masked_scores_and_vectors_are_refused():
    masked = np.ma.masked_array([[1.0, 0.0], [0.0, 1.0]], [[0, 0], [0, 1]])
    with pytest.raises(ValueError, match=r"score: the value at \[1\] is masked"):
        auroc(masked[:, 1], [True, False])
    with pytest.raises(ValueError, match=r"queries: the value at \[1, 1\] is masked"):
        check_vectors(masked, 2, "queries")
    with pytest.raises(ValueError, match="score: expected numbers"):
        auroc(["0.1", "0.2"], [True, False])


@pytest.mark.parametrize("popularity", [-1.0, -5.0])
def test_a_popularity_below_0_counts_as_none(popularity: float, tmp_path: Path) -> None:
    """Of -1, which many tables have for "unknown", a logarithm was taken: a math domain error."""
    names = ("wood duck", "goose", "goose")
    given = build_kb([Entity(f"Q{i}", name, popularity=popularity) for i, name in enumerate(names)], tmp_path / "below")
    none = build_kb([Entity(f"Q{i}", name) for i, name in enumerate(names)], tmp_path / "none")
    features = [name_features(build_linker(kb), ["goose", "duck"])[1] for kb in (given, none)]
    np.testing.assert_array_equal(*features)


def test_columns_with_an_index_of_their_own_are_taken_by_place():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    linker = build_linker(KnowledgeBase.from_names(["Wood duck", "Goose", "Swan"]))
    names = ["duck", "gose", "wood swan", "moon"]
    column = pd.Series(names, index=[3, 2, 1, 0])
    assert np.array_equal(name_features(linker, column)[1], name_features(linker, names)[1], equal_nan=True)
    probability, right = rng.random(40), rng.random(40) < 0.5
    order = rng.permutation(40)
    curve = risk_coverage(pd.Series(probability, index=order), right)
    assert all(
        np.array_equal(ours, theirs) for ours, theirs in zip(curve, risk_coverage(probability, right), strict=True)
    )
    right, entities = np.repeat(rng.random(10) < 0.5, 4), [f"Q{i // 4}" for i in range(40)]
    bins = accuracy_by_popularity(right, np.full(40, 5), pd.Series(entities, index=order))
    assert bins == accuracy_by_popularity(right, np.full(40, 5), entities)


@pytest.mark.parametrize("k", [-1, 0, 1.5, True])
def test_answers_are_not_reranked_to_a_number_that_is_none(k: int) -> None:
    neighbours = Ranking(np.array([[7, 3]]), np.array([[0.9, 0.8]], np.float32))
    with pytest.raises(ValueError, match="k: expected an integer of at least 1"):
        rerank(neighbours, lambda query, rows: -rows.astype(float), k)
