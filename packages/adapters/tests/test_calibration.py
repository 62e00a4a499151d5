"""Temperatures: scikit-learn's, cross-fitted, of few labels, and what they do to the calibration error."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits

from paired_scores.metrics import evaluate
from vision_adapters import HeadClassifier
from vision_adapters.calibration import (
    Calibration,
    SoftmaxMap,
    calibrate,
    cross_fitted,
    fit_softmax_map,
    fit_temperature,
)
from vision_adapters.tuning import tune, tuning_data
from vision_adapters.tuning.anchored import OWN_SCALES, Candidate, _refit, _Space, _Trials


class Given(ClassifierMixin, BaseEstimator):
    """Scores that come as features."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> Given:
        self.classes_, self.n_features_in_ = np.unique(y), X.shape[1]
        return self

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        return X

    def predict(self, X: np.ndarray) -> np.ndarray:
        return X.argmax(1)


def sharpened(n: int, k: int, times: float, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores that are so many times too sharp, and labels."""
    generator = torch.Generator().manual_seed(seed)
    logits = 1.5 * torch.randn(n, k, generator=generator).double()
    labels = torch.multinomial(logits.softmax(1), 1, generator=generator).flatten()
    return times * logits, labels


@pytest.mark.parametrize(("n", "k", "times"), [(60, 3, 4.0), (300, 5, 0.2), (500, 10, 30.0)])
def test_a_temperature_is_scikit_learns(n: int, k: int, times: float) -> None:
    frozen = pytest.importorskip("sklearn.frozen").FrozenEstimator
    scores, labels = sharpened(n, k, times)
    X, y = scores.numpy(), labels.numpy()
    try:
        theirs = CalibratedClassifierCV(frozen(Given().fit(X, y)), method="temperature").fit(X, y)
    except ValueError:
        pytest.skip("this scikit-learn has no temperature")
    ours = Calibration(fit_temperature(scores, labels, prior=0), n, "unseen").probabilities(scores)
    np.testing.assert_allclose(ours.numpy(), theirs.predict_proba(X), atol=1e-4)


@pytest.mark.parametrize(("n", "k", "times"), [(1, 2, 1.0), (40, 4, 7.0)])
def test_a_temperature_has_the_least_log_loss(n: int, k: int, times: float) -> None:
    scores, labels = sharpened(n, k, times)
    best = fit_temperature(scores, labels)

    def loss(temperature: float) -> float:
        logs = (scores / temperature).log_softmax(1)
        own = -logs[torch.arange(n), labels].mean()
        return float(n / (n + 1) * own - 1 / (n + 1) * logs.topk(2).values.mean())

    grid = [math.exp(step / 200) for step in range(-2000, 2001)]
    assert loss(best) <= min(map(loss, grid)) + 1e-9


def test_few_labels_that_are_all_hit_do_not_ask_for_certainty() -> None:
    scores, labels = 10 * torch.eye(4), torch.arange(4)
    assert fit_temperature(scores, labels, prior=0) < 1e-3
    surest = float(Calibration(fit_temperature(scores, labels), 4, "unseen").probabilities(scores).max())
    assert surest == pytest.approx(0.8 + 0.2 / 2)


def test_classes_of_no_chance_do_not_weigh_in_the_prior() -> None:
    """Columns that nothing ever scores high leave the temperature as it is without them."""
    scores, labels = sharpened(60, 3, 1.0)
    wide = torch.cat([scores, scores.min(1, keepdim=True).values - 1000 * torch.ones(60, 7)], dim=1)
    assert fit_temperature(wide, labels) == pytest.approx(fit_temperature(scores, labels), rel=1e-6)


def test_a_temperature_of_a_head_with_its_own_scale_must_earn_its_place() -> None:
    scores, labels = sharpened(300, 5, 1.0)
    assert fit_softmax_map(scores, labels, own_scale=True) == SoftmaxMap()  # they are calibrated
    assert fit_softmax_map(scores, labels) == SoftmaxMap(fit_temperature(scores, labels))
    assert fit_softmax_map(4 * scores, labels, own_scale=True) == SoftmaxMap(fit_temperature(4 * scores, labels))


@pytest.mark.parametrize("wrong", [0.0, 0.01, 0.05])
def test_a_uniform_share_takes_labels_that_are_surely_wrong(wrong: float) -> None:
    """Scores half as sharp as they should be, but for a few that are sure of another class."""
    scores, labels = sharpened(4000, 10, 0.5)
    off = torch.rand(4000, generator=torch.Generator().manual_seed(1)) < wrong
    scores[off] = 60 * torch.eye(10)[(labels[off] + 1) % 10].double()
    fitted, alone = fit_softmax_map(scores[:1000], labels[:1000]), fit_temperature(scores[:1000], labels[:1000])
    errors = [
        evaluate("calibration_error", p, labels[1000:], resamples=0).value
        for p in (scores[1000:].softmax(1), (scores[1000:] / alone).softmax(1), fitted.probabilities(scores[1000:]))
    ]
    assert fitted.probabilities(scores).sum(1).numpy() == pytest.approx(1)
    if wrong == 0:
        assert fitted.uniform == 0
    else:
        assert fitted.uniform > 0.3 * wrong
        assert fitted.temperature == pytest.approx(0.5, rel=0.35)
        assert errors[1] > 0.1
        assert errors[2] < errors[1] / 2


def test_a_uniform_share_has_the_least_log_loss() -> None:
    scores, labels = sharpened(200, 4, 0.3)
    scores[::25] = 50 * torch.eye(4)[(labels[::25] + 1) % 4].double()
    fitted = fit_softmax_map(scores, labels)

    def loss(shown: SoftmaxMap) -> float:
        p = shown.probabilities(scores)
        best_two = p.topk(2).values
        return -float(p[torch.arange(200), labels].log().sum() + best_two.log().mean())

    shares = [10 ** (step / 20) for step in range(-80, -14)]
    grid = [SoftmaxMap(math.exp(step / 20), share) for step in range(-60, 60) for share in shares]
    assert fitted.uniform > 0
    assert loss(fitted) <= min(map(loss, grid)) + 0.5


def test_a_regression_that_is_chosen_by_its_hits_gets_the_scale_of_its_scores() -> None:
    """A strong penalty leaves scores from which all classes look alike."""
    x, y, _ = world(100, noise=2.0)
    data = tuning_data(x, y)
    unit = torch.nn.functional.normalize(data.features, dim=1)
    trials, weak = _Trials(data, unit), Candidate("regression", 0.3, 0.0)
    (_, scores), *_ = _Space(data, unit, raw=False, spread=True).path()
    trials.judge(weak, scores[trials.counted] / 4)
    chosen = trials.at_its_scale(weak)
    assert chosen.scale is not None
    assert 4 < chosen.scale < 100
    head, plain = _refit(data, unit, chosen)[0], _refit(data, unit, weak)[0]
    torch.testing.assert_close(head(x), chosen.scale * plain(x))
    once = _Trials(data, unit)
    once.judge(weak, chosen.scale * scores[once.counted] / 4)
    assert once.at_its_scale(weak) == weak
    assert trials.at_its_scale(Candidate("regression", 0.1, 0.0)) == Candidate("regression", 0.1, 0.0)


SHAPES = {
    "regression": {"strength": 0.1, "blend": 4.0},
    "around_texts": {"strength": 0.1, "blend": 4.0},
    "solved": {"strength": 0.1, "blend": 2.0},
    "discriminant": {"temperature": 0.3, "blend": 12.0},
    "class_means": {"temperature": 10.0},
    "cache": {"alpha": 3.0, "beta": 40.0, "blend": 100.0},
    "mean": {"strength": 0.1, "blend": 4.0, "temperature": 0.3, "regression": "solved", "discriminant_blend": 12.0},
}  # fmt: skip


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("with_texts", [True, False])
def test_every_kind_of_head_takes_a_factor(kind: str, with_texts: bool) -> None:
    """Only regressions without texts had one: a cache of digits was 43 points less sure than it was right."""
    x, y, texts = world(100, noise=2.0)
    data = tuning_data(x, y, class_embeddings=texts if with_texts else None)
    unit = torch.nn.functional.normalize(data.features, dim=1)
    shape = {name: 0.0 if "blend" in name and not with_texts else value for name, value in SHAPES[kind].items()}
    plain, trials = Candidate(kind, **shape), _Trials(data, unit)  # type: ignore[arg-type]
    scores = torch.nn.functional.one_hot(data.labels[trials.rows], data.classes).float()
    scores[::20] = scores[::20].flip(1)  # one in twenty is wrong
    trials.judge(plain, scores)
    chosen = trials.at_its_scale(plain)
    factor = min(OWN_SCALES, key=lambda each: float(torch.nn.functional.cross_entropy(each * scores, y[trials.rows])))
    assert factor > 2
    expected = factor * _refit(data, unit, plain)[0](x)
    torch.testing.assert_close(_refit(data, unit, chosen)[0](x), expected, rtol=1e-4, atol=1e-4)


def test_a_sharp_cache_of_digits_is_nearly_as_sure_as_it_is_right() -> None:
    x, y = load_digits(return_X_y=True)
    for seed in (202, 208):
        order = np.random.default_rng(seed).permutation(len(x))
        shown = np.concatenate([order[y[order] == label][:20] for label in range(10)])
        rest = torch.from_numpy(np.setdiff1d(order, shown))
        tuned = tune(tuning_data(torch.from_numpy(x[shown]).float(), torch.from_numpy(y[shown])))
        assert (tuned.best_params["kind"], tuned.best_params["beta"]) == ("cache", 80.0)
        scores, truth = tuned.scores(torch.from_numpy(x).float()[rest]), torch.from_numpy(y)[rest]
        assert float((scores.argmax(1) == truth).float().mean()) > 0.94
        assert evaluate("calibration_error", scores.softmax(1), truth, resamples=0).value < 0.12


def test_zero_shot_stays_exactly_what_the_texts_say() -> None:
    x, y, texts = world(100, noise=2.0)
    data = tuning_data(x, y, class_embeddings=texts)
    trials = _Trials(data, torch.nn.functional.normalize(data.features, dim=1))
    plain = Candidate("zero_shot", blend=9.0)
    trials.judge(plain, torch.nn.functional.one_hot(data.labels[trials.rows], data.classes).float())
    assert trials.at_its_scale(plain) == plain


def test_a_default_head_that_is_calibrated_stays_so() -> None:
    """Ten draws: its own scale is chosen by log-loss, and most temperatures that its few labels ask for are noise."""
    errors, fitted = [], []
    for seed in range(10):
        x, y, _ = world(1060, noise=2.0, seed=seed)
        data = tuning_data(x[:60], y[:60])
        tuned = tune(data)
        scores, seen = cross_fitted(data, "anchored", tuned=tuned)
        always, ours = fit_temperature(scores, seen), calibrate(data, tuned=tuned).temperature
        assert ours == fit_softmax_map(scores, seen, own_scale=True).temperature
        errors.append(
            [evaluate("calibration_error", (tuned.scores(x[60:]) / t).softmax(1), y[60:], resamples=0).value
             for t in (1.0, always, ours)]
        )  # fmt: skip
        fitted.append(ours)
    assert fitted.count(1.0) >= 5
    plain, always, ours = np.mean(errors, axis=0)
    assert ours <= max(plain, 0.03) + 1e-3


def test_scores_that_know_nothing_are_flattened() -> None:
    scores = torch.randn(400, 4, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(400) % 4
    flat = (scores / fit_temperature(scores.sort(1).values, torch.zeros(400))).softmax(1)
    assert float((flat - 0.25).abs().max()) < 1e-3
    assert fit_temperature(scores, labels) > 3


@pytest.mark.parametrize("times", [0.2, 5.0])
def test_the_error_is_halved_or_small(times: float) -> None:
    scores, labels = sharpened(6000, 8, times)
    fitted = fit_temperature(scores[:300], labels[:300])
    errors = [
        evaluate("calibration_error", (scores[300:] / t).softmax(1), labels[300:], resamples=0).value
        for t in (1.0, fitted)
    ]
    assert errors[0] > 0.1
    assert errors[1] < 0.03


def world(n: int, k: int = 5, d: int = 16, noise: float = 1.2, seed: int = 0) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(k, d, generator=generator)
    labels = torch.arange(n) % k
    images = centres[labels] + noise * torch.randn(n, d, generator=generator)
    return images, labels, centres + 0.5 * torch.randn(k, d, generator=generator)


def test_cross_fitted_scores_are_by_heads_that_did_not_see_them() -> None:
    x, y, texts = world(40)
    data = tuning_data(x, y, class_embeddings=texts, logit_scale=10.0)
    scores, labels = cross_fitted(data, "ss_text")
    fold = data.folds[0]
    alone = tune(tuning_data(x[fold.train], y[fold.train], class_embeddings=texts, logit_scale=10.0), "ss_text")
    torch.testing.assert_close(scores[: len(fold.validation)], alone.scores(x[fold.validation]))
    assert torch.equal(labels, y[data.validation_rows()])


@pytest.mark.parametrize("method", ["anchored", "proker", "logistic", "gda", "cross_modal", "ss_text+", "zero_shot"])
def test_a_head_is_calibrated_on_its_own_few_labels(method: str) -> None:
    """Over five draws: the error of unseen images is halved, or at most .06 with forty labels (.075 before, or more).

    The default's own scale is near the best, and forty labels show nothing better: its error does not grow.
    """
    errors = []
    for seed in range(5):
        x, y, texts = world(1040, seed=seed)
        data = tuning_data(x[:40], y[:40], class_embeddings=texts, logit_scale=50.0)
        tuned = tune(data, method)
        fitted, scores = calibrate(data, method, tuned=tuned), tuned.scores(x[40:])
        assert seed or fitted == calibrate(data, method)
        assert fitted.labels == 40
        assert fitted.how == ("unseen" if method == "zero_shot" else "cross-fitted")
        errors.append(
            [evaluate("calibration_error", p, y[40:], resamples=0).value
             for p in (scores.softmax(1), fitted.probabilities(scores))]
        )  # fmt: skip
    before, after = np.mean(errors, axis=0)
    assert after <= (before if method == "anchored" else max(before / 2, 0.06))
    assert after <= 0.07


def test_one_image_per_class_leaves_nothing_to_fit_on() -> None:
    x, y, texts = world(5)
    fitted = calibrate(tuning_data(x, y, class_embeddings=texts), "proker")
    assert fitted == (1.0, 0, "none", 0.0)
    assert str(fitted) == "probabilities are not calibrated: no label was left to fit a temperature on"


@pytest.mark.parametrize("method", ["lda", "elevater"])
def test_folds_that_are_too_few_for_a_method_do_not_count(method: str) -> None:
    """The head of all images exists; those of the folds, with one image of some class, do not."""
    x, y, texts = world(6, k=3)
    data = tuning_data(x, y, class_embeddings=texts)
    tuned = tune(data, method)
    assert calibrate(data, method, tuned=tuned).labels < 6


def test_a_class_of_one_image_does_not_count() -> None:
    x, y, texts = world(21)
    keep = (y != 4) | (torch.arange(21) == 4)
    fitted = calibrate(tuning_data(x[keep], y[keep], class_embeddings=texts), "ss_text+")
    assert fitted.labels == int(keep.sum()) - 1


def test_a_classifier_gives_calibrated_probabilities_and_says_on_how_many_labels() -> None:
    x, y, texts = world(1060, noise=2.0)
    names = np.array(list("abcde"))[y.numpy()]
    plain, calibrated = (
        HeadClassifier("ss_text", class_embeddings=texts.numpy(), calibration=how).fit(x[:60].numpy(), names[:60])
        for how in (None, "temperature")
    )
    assert plain.calibration_ is None
    assert str(calibrated.calibration_).startswith("probabilities rest on 60 labels (cross-fitted), temperature ")
    assert (plain.predict(x.numpy()) == calibrated.predict(x.numpy())).all()
    before, after = (
        evaluate("calibration_error", fitted.predict_proba(x[60:].numpy()), y[60:], resamples=0).value
        for fitted in (plain, calibrated)
    )
    assert after < before / 2
    with pytest.raises(ValueError, match="calibration must be 'temperature' or None, got 'isotonic'"):
        HeadClassifier(calibration="isotonic").fit(x.numpy(), names)


def test_bad_input_is_named() -> None:
    with pytest.raises(ValueError, match=r"expected \[n, k\] and \[n\], n > 0"):
        fit_temperature(torch.zeros(0, 3), torch.zeros(0))
    with pytest.raises(ValueError, match="row 1 holds NaN"):
        fit_temperature(torch.tensor([[0.0, 1.0], [math.nan, 0.0]]), torch.zeros(2))
    with pytest.raises(ValueError, match=r"lie in 0..1, got 0 to 2"):
        fit_temperature(torch.zeros(2, 2), torch.tensor([0, 2]))
    x, y, _ = world(20)
    with pytest.raises(ValueError, match="one label per sample, got several"):
        calibrate(tuning_data(x, torch.nn.functional.one_hot(y, 5)))


@pytest.mark.parametrize("prior", [-1.0, math.nan, math.inf])
def test_a_prior_of_less_than_no_label_is_refused(prior: float) -> None:
    with pytest.raises(ValueError, match="prior must be at least 0 and finite"):
        fit_temperature(torch.eye(3), torch.arange(3), prior=prior)
