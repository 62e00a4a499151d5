"""The tuners as a scikit-learn classifier."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

from vision_adapters import HeadClassifier, HeldOut, tune, tuning_data
from vision_adapters.tuning.methods import BALANCEABLE

NAMES = np.array(["ant", "bee", "cow"])


def world(n: int = 60, d: int = 8, seed: int = 0) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    centres = 2 * np.random.default_rng(9).normal(size=(3, d))
    numbers = np.arange(n) % 3
    texts = dict(zip(NAMES.tolist(), centres + np.random.default_rng(8).normal(size=(3, d)), strict=True))
    return centres[numbers] + rng.normal(size=(n, d)), NAMES[numbers], texts


@pytest.mark.long
def test_it_keeps_scikit_learns_contract() -> None:
    """Every check passes, but the array API's, which is skipped unless SciPy's is switched on."""
    estimator = check_estimator(HeadClassifier(), on_skip=None)
    assert sum(each["status"] == "passed" for each in estimator) >= 50


def test_it_is_the_tuner_on_numbered_classes() -> None:
    X, y, texts = world()
    classifier = HeadClassifier(class_embeddings=texts, logit_scale=10.0, random_state=3).fit(X, y)
    rows = torch.from_numpy(np.stack([texts[name] for name in NAMES]))
    codes = torch.from_numpy(np.searchsorted(NAMES, y))
    tuned = tune(tuning_data(X, codes, class_embeddings=rows, logit_scale=10.0, seed=3))
    test, truth, _ = world(90, seed=1)
    scores = tuned.scores(torch.from_numpy(test))
    np.testing.assert_allclose(classifier.decision_function(test), scores.numpy(), rtol=1e-5, atol=1e-4)
    np.testing.assert_array_equal(classifier.predict(test), NAMES[scores.argmax(1).numpy()])
    np.testing.assert_allclose(classifier.predict_proba(test), scores.double().softmax(1).numpy(), atol=1e-5)
    test_set = HeldOut(test, np.searchsorted(NAMES, truth))
    assert classifier.score(test, truth) == pytest.approx(test_set.score(classifier.tuned_).value)
    assert classifier.best_params_ == tuned.best_params
    assert classifier.best_score_ == tuned.validation
    assert list(classifier.classes_) == NAMES.tolist()


def test_a_row_alone_has_the_scores_that_it_has_among_others() -> None:
    """In float32 its last digits depended on how many rows were scored with it."""
    X, y, texts = world()
    classifier = HeadClassifier(class_embeddings=texts).fit(X, y)
    alone = np.concatenate([classifier.decision_function(row[None]) for row in X])
    np.testing.assert_allclose(classifier.decision_function(X), alone, rtol=1e-12, atol=1e-12)


def test_embeddings_by_name_by_row_or_at_fit_are_one() -> None:
    X, y, texts = world()
    rows = np.stack([texts[name] for name in NAMES])
    ways = [
        HeadClassifier(class_embeddings=texts).fit(X, y), HeadClassifier(class_embeddings=rows).fit(X, y),
        HeadClassifier(class_embeddings=dict(reversed(texts.items()))).fit(torch.from_numpy(X), y),
    ]  # fmt: skip
    for other in ways[1:]:
        np.testing.assert_array_equal(ways[0].decision_function(X), other.decision_function(X))
    assert not np.array_equal(HeadClassifier().fit(X, y).decision_function(X), ways[0].decision_function(X))
    with pytest.raises(ValueError, match="class_embeddings lack the class 'cow'"):
        HeadClassifier(class_embeddings={"ant": rows[0], "bee": rows[1]}).fit(X, y)


def test_cv_results_are_those_of_a_grid_search() -> None:
    X, y, texts = world()
    classifier = HeadClassifier(class_embeddings=texts).fit(X, y)
    cv_results_ = classifier.cv_results_
    assert classifier.best_score_ in cv_results_["mean_test_score"]
    assert cv_results_["rank_test_score"].min() == 1
    assert (
        cv_results_["mean_test_score"][cv_results_["rank_test_score"] == 1][0] == cv_results_["mean_test_score"].max()
    )
    assert {"params", "param_kind", "param_strength", "param_blend"} <= cv_results_.keys()
    for row, params in enumerate(cv_results_["params"]):
        for name in ("strength", "blend", "temperature"):
            assert cv_results_[f"param_{name}"].mask[row] == (name not in params)


def test_it_goes_through_pipelines_searches_clones_and_pickles() -> None:
    X, y, texts = world()
    pipeline = make_pipeline(FunctionTransformer(), HeadClassifier(class_embeddings=texts))
    search = GridSearchCV(pipeline, {"headclassifier__method": ["zero_shot", "clap"]}, cv=3).fit(X, y)
    assert search.best_score_ > 0.8
    assert cross_val_score(HeadClassifier("lda", random_state=np.random.RandomState(0)), X, y, cv=3).min() > 0.6
    copied = clone(pipeline).fit(X, y)
    again = pickle.loads(pickle.dumps(copied))
    np.testing.assert_array_equal(copied.predict_proba(X), again.predict_proba(X))


def test_several_labels_and_the_brier_score() -> None:
    X, y, _ = world(90)
    both = (y[:, None] == NAMES).astype(int)
    both[::5, 0] = 1
    classifier = HeadClassifier(scoring="brier").fit(X, both)
    assert -0.15 < classifier.best_score_ < 0
    chance = classifier.predict_proba(X)
    assert chance.shape == (90, 3)
    np.testing.assert_array_equal(classifier.predict(X), (chance > 0.5).astype(int))
    assert classifier.score(X, both) > 0.6


def test_a_validation_pair_has_the_classes_names() -> None:
    X, y, _ = world()
    other, truth, _ = world(30, seed=2)
    assert HeadClassifier(validation=(other, truth)).fit(X, y).score(other, truth) > 0.8
    with pytest.raises(ValueError, match="validation has the class 'dog', which y lacks"):
        HeadClassifier(validation=(other, np.where(truth == "cow", "dog", truth))).fit(X, y)


@pytest.mark.parametrize("method", BALANCEABLE)
def test_rare_classes_count_the_same_where_weights_are_balanced(method: str) -> None:
    """Recall of a class that is one in ten rises, by about what scikit-learn's own regression shows."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 0, 0, 0, 0, 0, 0, 0, 0, 1], 60)
    texts = np.eye(2, 8)
    X = texts[y] + rng.normal(size=(len(y), 8))
    train = np.arange(len(y)) % 2 == 0
    plain, balanced = (
        HeadClassifier(method, class_embeddings=0.01 * texts, class_weight=weight).fit(X[train], y[train])
        for weight in (None, "balanced")
    )
    recalls = [float((each.predict(X[~train & (y == 1)]) == 1).mean()) for each in (plain, balanced)]
    assert recalls[1] > recalls[0] + 0.1


def test_methods_that_take_no_class_weight_say_so() -> None:
    X, y = np.random.default_rng(0).normal(size=(20, 4)), np.arange(20) % 2
    with pytest.raises(ValueError, match="'elevater' takes no class_weight, expected one of anchored"):
        HeadClassifier("elevater", class_weight="balanced").fit(X, y)
    with pytest.raises(ValueError, match="class_weight must be 'balanced', a mapping or None, got 'even'"):
        HeadClassifier(class_weight="even").fit(X, y)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="class_weight takes one label per sample"):
        HeadClassifier(class_weight="balanced").fit(X, np.eye(2, dtype=int)[np.tile([0, 1], 10)])
    with pytest.raises(ValueError, match="class 'cow' of 2 with weight 2, expected one above 0"):
        HeadClassifier(class_weight={"cow": 2}).fit(X, y)


def test_the_head_is_copied_once_and_again_when_its_weights_change(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = np.eye(4).repeat(6, 0), np.repeat(list("abcd"), 6)
    classifier = HeadClassifier().fit(X, y)
    copies = []

    class Counting:
        def deepcopy(self, head: torch.nn.Module) -> torch.nn.Module:
            copies.append(head)
            return copy.deepcopy(head)

    monkeypatch.setattr("vision_adapters.classifier.copy", Counting())
    first = classifier.decision_function(X)
    np.testing.assert_array_equal(classifier.decision_function(X), first)
    classifier.predict_proba(X)
    assert len(copies) == 1
    with torch.no_grad():
        next(classifier.head_.parameters()).mul_(2)
    assert not np.array_equal(classifier.decision_function(X), first)
    classifier.fit(X[:, ::-1].copy(), y)
    classifier.predict(X)
    assert len(copies) == 3


@pytest.mark.parametrize("factor", [1e16, 1e30, 1e39])
def test_features_whose_squares_do_not_fit_are_refused_at_both_doors(factor: float) -> None:
    X, y, _ = world()
    with pytest.raises(ValueError, match=r"row 0 holds (.*squares beyond 1e\+15|NaN or infinity)"):
        HeadClassifier().fit(factor * X, y)
    fitted = HeadClassifier().fit(X, y)
    with pytest.raises(ValueError, match=r"X: row 0 holds (.*squares beyond 1e\+15|NaN or infinity)"):
        fitted.predict(factor * X)


@pytest.mark.parametrize("factor", [1e-6, 1e4, 1e12])
def test_a_factor_on_all_features_changes_no_prediction(factor: float) -> None:
    X, y, _ = world()
    assert (HeadClassifier().fit(factor * X, y).predict(factor * X) == HeadClassifier().fit(X, y).predict(X)).all()
