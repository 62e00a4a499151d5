"""The tuners as a scikit-learn classifier."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

from vision_adapters import HeadClassifier, HeldOut, transduce, tune, tuning_data
from vision_adapters.clusters import matched_clusters
from vision_adapters.error_slices import error_slices
from vision_adapters.fewshot import elevater_indices
from vision_adapters.neighbours import choose_neighbours, rank_gallery
from vision_adapters.training.retention import paired_change
from vision_adapters.tuning.discriminant import fit_discriminant
from vision_adapters.tuning.few_images import RidgeDiscriminant
from vision_adapters.tuning.methods import BALANCEABLE
from vision_adapters.tuning.unit_features import class_means

NAMES = np.array(["ant", "bee", "cow"])


def world(n: int = 60, d: int = 8, seed: int = 0) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    centres = 2 * np.random.default_rng(9).normal(size=(3, d))
    numbers = np.arange(n) % 3
    texts = dict(zip(NAMES.tolist(), centres + np.random.default_rng(8).normal(size=(3, d)), strict=True))
    return centres[numbers] + rng.normal(size=(n, d)), NAMES[numbers], texts


@pytest.mark.long
def test_it_keeps_scikit_learns_contract() -> None:
    """Every check passes, but the array API's, which is skipped unless SciPy's is switched on.

    A row that stands twice lies in two folds, and so does not count what a weight of 2 does: scikit-learn's own
    searches differ there, too.
    """
    why = "folds are drawn from rows, not from weights"
    refused = {"check_sample_weight_equivalence_on_dense_data": why}
    estimator = check_estimator(HeadClassifier(), on_skip=None, expected_failed_checks=refused)
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


def test_a_weight_of_no_class_falls_on_none() -> None:
    """Of the classes 1, 2 and 3 the weight of 0 fell on class 1."""
    X, y = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32), np.tile([1, 2, 3], 10)
    with pytest.raises(ValueError, match=r"class_weight names 0, which is no class; classes are \[1, 2, 3\]"):
        HeadClassifier(class_weight={0: 50, 1: 1, 2: 1, 3: 5}).fit(X, y)


def test_methods_that_take_no_class_weight_say_so() -> None:
    X, y = np.random.default_rng(0).normal(size=(20, 4)), np.arange(20) % 2
    with pytest.raises(ValueError, match="'elevater' takes no class_weight, expected one of anchored"):
        HeadClassifier("elevater", class_weight="balanced").fit(X, y)
    with pytest.raises(ValueError, match="class_weight must be 'balanced', a mapping or None, got 'even'"):
        HeadClassifier(class_weight="even").fit(X, y)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="class_weight takes one label per sample"):
        HeadClassifier(class_weight="balanced").fit(X, np.eye(2, dtype=int)[np.tile([0, 1], 10)])
    with pytest.raises(ValueError, match="class_weight names 'cow', which is no class"):
        HeadClassifier(class_weight={"cow": 2}).fit(X, y)


@pytest.mark.parametrize(
    ("method", "texted"),
    [
        (method, texted)
        for method in BALANCEABLE
        for texted in (True, False)
        if (method, texted) not in {("tip_adapter", False), ("logistic", True)}  # takes texts alone, and takes none
    ],
)
def test_a_sample_of_weight_0_is_not_there(method: str, texted: bool) -> None:
    """Rows with wrong labels and no weight change nothing, and no scale of the others does."""
    X, y, texts = world()
    keep = np.random.default_rng(3).random(len(X)) < 0.7
    wrong = np.where(keep, y, np.roll(NAMES, 1)[np.searchsorted(NAMES, y)])
    weights = np.random.default_rng(4).uniform(0.5, 2, len(X))
    texts = {name: text + 6 * np.random.default_rng(5).normal(size=8) for name, text in texts.items()}

    def fitted(X: Any, y: Any, weights: Any) -> Any:
        classifier = HeadClassifier(method, class_embeddings=texts if texted else None, logit_scale=10.0)
        return classifier.fit(X, y, sample_weight=weights).decision_function(world(50, seed=1)[0])

    alone = fitted(X[keep], y[keep], weights[keep])
    np.testing.assert_allclose(fitted(X, wrong, 7 * weights * keep), alone, rtol=1e-4, atol=1e-4)
    assert not np.allclose(fitted(X, wrong, None), alone, atol=0.1)
    assert not np.allclose(fitted(X[keep], y[keep], None), alone, atol=0.01)


def test_logistic_weighs_samples_as_scikit_learns_own() -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import normalize

    X, y, _ = world()
    weights = np.random.default_rng(4).uniform(0.1, 3, len(X))
    classifier = HeadClassifier("logistic", class_weight="balanced").fit(X, y, sample_weight=weights)
    peer = LogisticRegression(C=classifier.best_params_["C"], max_iter=500, class_weight="balanced")
    rows = normalize(X).astype(np.float32)
    peer.fit(rows, y, sample_weight=weights / weights.mean())
    np.testing.assert_allclose(classifier.decision_function(X), peer.decision_function(rows), rtol=1e-3, atol=1e-3)


def test_weighted_scatter_is_that_of_samples_that_stand_as_often() -> None:
    """Discriminants of integer weights are those of repeated rows, but for how many samples shrinkage counts."""
    generator = torch.Generator().manual_seed(0)
    unit = torch.nn.functional.normalize(torch.randn(40, 6, generator=generator), dim=1)
    member = torch.nn.functional.one_hot(torch.arange(40) % 3, 3).float()
    times = torch.randint(1, 4, (40,), generator=generator)
    repeated = unit.repeat_interleave(times, 0), member.repeat_interleave(times, 0)
    torch.testing.assert_close(class_means(unit, member, times.float()), class_means(*repeated))
    weighted = RidgeDiscriminant(unit, member, times.float())
    many = RidgeDiscriminant(*repeated)
    assert weighted.trace == pytest.approx(many.trace)
    for ours, theirs in zip(weighted.head(0.3), many.head(0.3), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
    for ours, theirs in zip(fit_discriminant(unit, member, times.float()), fit_discriminant(*repeated), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_weights_that_cannot_be_are_refused() -> None:
    X, y = np.random.default_rng(0).normal(size=(20, 4)), np.arange(20) % 2
    with pytest.raises(ValueError, match=r"'gda' takes no sample_weight, expected one of anchored"):
        HeadClassifier("gda", class_embeddings=np.eye(2, 4)).fit(X, y, sample_weight=np.arange(20) + 1.0)
    with pytest.raises(ValueError, match=r"sample_weight: row 3 is -1.0, expected a finite number of at least 0"):
        HeadClassifier().fit(X, y, sample_weight=np.where(np.arange(20) == 3, -1, 1))
    with pytest.raises(ValueError, match=r"sample_weight has shape \(3,\), expected \(20,\)"):
        HeadClassifier().fit(X, y, sample_weight=[1, 2, 3])
    with pytest.raises(ValueError, match="class 1 of 2 has no image of weight above 0"):
        HeadClassifier().fit(X, y, sample_weight=np.where(y == 1, 0, np.arange(20) + 1))
    with pytest.raises(ValueError, match="sample_weight is zero for every sample"):
        HeadClassifier().fit(X, y, sample_weight=np.zeros(20))


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


def _odd(values, form):
    pandas = pytest.importorskip("pandas")
    masked = np.zeros(np.shape(values), bool)
    masked.flat[3] = True
    return {
        "masked": lambda: np.ma.masked_array(values, masked),
        "missing": lambda: pandas.DataFrame(np.where(masked, None, values)),
        "frame": lambda: pandas.DataFrame(values, index=np.random.default_rng(0).permutation(len(values))),
        "big-endian": lambda: np.asarray(values).astype(">f8"),
        "unmasked": lambda: np.ma.masked_array(values),
    }[form]()


X, Y = np.eye(3, 6)[np.arange(48) % 3] + 0.3 * np.random.default_rng(0).normal(size=(48, 6)), np.arange(48) % 3
TAKES = {
    "X": lambda held: HeadClassifier("lda").fit(held, Y).decision_function(X),
    "X to predict": lambda held: HeadClassifier("lda").fit(X, Y).decision_function(held),
    "validation": lambda held: HeadClassifier("lda", validation=(held, Y)).fit(X, Y).decision_function(X),
    "class_embeddings": lambda held: HeadClassifier(class_embeddings=held[:3]).fit(X, Y).decision_function(X),
    "unlabelled": lambda held: transduce(held, np.eye(3, 6)).probabilities,
    "class_embeddings of transduce": lambda held: transduce(X, held[:3]).probabilities,
    "tuning_data": lambda held: tuning_data(held, Y).features,
}


@pytest.mark.parametrize("name", TAKES)
def test_masked_and_missing_values_are_refused_and_frames_are_read(name):
    # scikit-learn and torch take what is masked for a value, and torch no frame
    plain = np.asarray(TAKES[name](X))
    for form in ("frame", "big-endian", "unmasked"):
        np.testing.assert_allclose(np.asarray(TAKES[name](_odd(X, form))), plain, rtol=1e-4, atol=1e-4)
    with pytest.raises(ValueError, match=r"masked; leave its sample out, or fill it"):
        TAKES[name](_odd(X, "masked"))
    with pytest.raises(ValueError, match=r"NaN|expected numbers, got"):
        TAKES[name](_odd(X, "missing"))


def test_masked_labels_and_weights_are_refused():
    masked = np.ma.masked_array(Y, np.arange(48) == 5)
    for fit in (
        lambda: HeadClassifier("lda").fit(X, masked),
        lambda: HeadClassifier("logistic").fit(X, Y, np.ma.masked_array(np.ones(48), np.arange(48) == 5)),
        lambda: HeadClassifier("lda", validation=(X, masked)).fit(X, Y),
        lambda: tuning_data(X, masked),
        lambda: HeldOut(X, masked),
        lambda: elevater_indices(masked, 1, 0),
        lambda: matched_clusters(masked, Y),
        lambda: choose_neighbours(masked[:, None], X[:, :1], Y, 3),
        lambda: rank_gallery(X, X, masked, Y),
        lambda: error_slices(X, masked % 2),
        lambda: paired_change("accuracy", masked % 2, Y % 2),
    ):
        with pytest.raises(ValueError, match=r"the value at \[5(, 0)?\] is masked"):
            fit()


def test_features_that_are_too_small_for_a_length_are_refused() -> None:
    """Rows below 1e-12 were not brought to length 1, and probabilities were others."""
    x = np.random.default_rng(0).normal(size=(30, 6)).astype(np.float32)
    labels = np.arange(30) % 3
    x[np.arange(30), labels] += 3
    plain = HeadClassifier().fit(x, labels).predict_proba(x)
    np.testing.assert_allclose(HeadClassifier().fit(1e-6 * x, labels).predict_proba(1e-6 * x), plain, atol=1e-3)
    with pytest.raises(ValueError, match=r"features hold at most .*e-30, and lengths below 1e-10 are not divided by"):
        HeadClassifier().fit(1e-30 * x, labels)


def test_arrays_that_run_backwards_or_have_another_order_of_bytes_are_read_by_their_place() -> None:
    """torch takes no negative strides: `X[::-1]` was refused, and labels were said to be no integers."""
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], 12)
    features = rng.normal(size=(3, 8))[labels] * 3 + rng.normal(size=(36, 8))
    weights = rng.random(36) + 0.5
    expected_features = features.astype(np.float32)

    def fitted(features: Any, labels: Any, weights: Any) -> np.ndarray:
        given = HeadClassifier().fit(features, labels, sample_weight=weights)
        low = tune(tuning_data(features, labels, classes=3, sample_weight=weights), "anchored")
        with torch.no_grad():
            scores = low.head(torch.from_numpy(expected_features).float()).numpy()
        return np.hstack([given.predict_proba(expected_features[::-1])[::-1], scores])

    expected = fitted(features.astype(np.float32), labels, weights)
    for kind in (
        lambda a: a[::-1].copy()[::-1],
        lambda a: a.astype(a.dtype.newbyteorder(">")),
        lambda a: np.repeat(a, 2, 0)[::2],
    ):
        held = [kind(values) for values in (features.astype(np.float32), labels, weights)]
        np.testing.assert_allclose(fitted(*held), expected, atol=1e-5)


def test_a_label_that_is_none_is_named() -> None:
    with pytest.raises(ValueError, match=r"y is None at row 1; expected a class"):
        HeadClassifier().fit(np.eye(3), np.array(["a", None, "b"], dtype=object))
