from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_info, threadpool_limits

from paired_scores.metrics import METRICS
from vision_adapters.tuning import (
    METHODS,
    HeldOut,
    TuningData,
    make_folds,
    tune,
    tuning_data,
)
from vision_adapters.tuning.anchored import MEAN_TEMPERATURES, REGRESSIONS, Candidate, _refit, tune_anchored
from vision_adapters.tuning.discriminant import discriminant_head
from vision_adapters.tuning.elevater import DECAYS, RATES, _Problem
from vision_adapters.tuning.logistic import RidgeLogistic
from vision_adapters.tuning.unit_features import cosines, standardisation

from ._run_after_run import tune_run_after_run


def world(n: int = 120, d: int = 16, k: int = 5, seed: int = 0, noise: float = 1.5) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(k, d, generator=generator)
    labels = torch.arange(2 * n) % k
    images = centres[labels] + noise * torch.randn(2 * n, d, generator=generator)
    texts = centres + torch.randn(k, d, generator=generator)
    return images[:n], labels[:n], images[n:], labels[n:], texts


def objective(
    z: np.ndarray, y: np.ndarray, weights: np.ndarray, penalty: np.ndarray, anchor: np.ndarray, several: bool
) -> float:
    """The ridge objective by loops in float64."""
    total = 0.0
    for i in range(len(z)):
        scores = [anchor[i, c] + sum(weights[c, j] * z[i, j] for j in range(z.shape[1])) for c in range(len(weights))]
        if several:
            total += sum(math.log1p(math.exp(s)) - s * y[i, c] for c, s in enumerate(scores))
        else:
            high = max(scores)
            total += high + math.log(sum(math.exp(s - high) for s in scores))
            total -= sum(s * y[i, c] for c, s in enumerate(scores))
    return total / len(z) + 0.5 * float((penalty[:, None] * weights**2).sum())


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize(("n", "d", "k"), [(1, 1, 2), (9, 4, 3), (5, 11, 4), (40, 6, 2)])
@pytest.mark.parametrize("penalty", [1.0, 0.01])
def test_ridge_logistic_finds_the_minimum(several: bool, n: int, d: int, k: int, penalty: float) -> None:
    generator = torch.Generator().manual_seed(n)
    z, anchor = torch.randn(n, d, generator=generator).double(), torch.randn(n, k, generator=generator).double()
    labels = torch.arange(n) % k
    targets = torch.nn.functional.one_hot(labels, k).double()
    problem = RidgeLogistic(z, targets, several=several, anchor=anchor)
    penalties = torch.tensor([penalty], dtype=torch.float64)
    unrotated = problem.unrotated(problem.solve(penalties, steps=500, tolerance=1e-9))[0].numpy()
    args = (np.full(k, penalty), anchor.numpy(), several)
    least = objective(z.numpy(), targets.numpy(), unrotated, *args)
    own, gradient, _ = problem.evaluate(
        (torch.from_numpy(unrotated) @ problem.rotation)[None], penalties, torch.zeros(1).long()
    )
    assert float(own) == pytest.approx(least, rel=1e-9)
    assert float(gradient.norm()) < 1e-6
    moves = np.random.default_rng(0).normal(size=(30, *unrotated.shape)) * 1e-3
    assert all(objective(z.numpy(), targets.numpy(), unrotated + move, *args) > least for move in moves)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize(("n", "d"), [(30, 7), (12, 20)])
def test_penalties_and_folds_side_by_side_are_those_alone(several: bool, n: int, d: int) -> None:
    """Each fold's solution is that of a regression on its own rows, at each of its penalties."""
    generator = torch.Generator().manual_seed(n)
    z = torch.randn(n, d, generator=generator).double()
    labels = torch.arange(n) % 3
    targets = torch.nn.functional.one_hot(labels, 3).double()
    weights = torch.stack([(labels >= 0).double(), (torch.arange(n) % 4 > 0).double()])
    weights = weights * (1 + torch.rand(n, generator=generator))
    weights = weights / weights.sum(1, keepdim=True)
    together = RidgeLogistic(z, targets, several=several, weights=weights)
    penalties, folds = torch.tensor([1.0, 1.0, 0.05, 0.05]), torch.tensor([0, 1, 0, 1])
    solutions = together.unrotated(together.solve(penalties, folds, steps=500, tolerance=1e-9))
    for solution, penalty, fold in zip(solutions, penalties, folds, strict=True):
        rows = weights[fold] > 0
        alone = RidgeLogistic(z[rows], targets[rows], several=several, weights=weights[fold, rows][None])
        expected = alone.unrotated(alone.solve(penalty[None], steps=500, tolerance=1e-9))[0]
        torch.testing.assert_close(solution, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("several", [False, True])
def test_what_a_ridge_regression_leaves_out_is_refitted_without_it(several: bool) -> None:
    generator = torch.Generator().manual_seed(3)
    n, d, k, penalty = 12, 5, 3, 0.2
    z = torch.randn(n, d, generator=generator).double()
    targets = torch.nn.functional.one_hot(torch.arange(n) % k, k).double()
    problem = RidgeLogistic(z, targets, several=several)
    rows = torch.tensor([0, 5, 11])
    scores = problem.left_out(torch.tensor([penalty], dtype=torch.float64), rows)[0]
    prior, curvature = (0.5, 0.25) if several else (1 / k, (1 - 1 / k) / k)
    y = (targets - prior) / curvature
    for row, score in zip(rows.tolist(), scores, strict=True):
        others = torch.arange(n) != row
        gram = z[others].T @ z[others] + n * penalty / curvature * torch.eye(d).double()
        torch.testing.assert_close(score, z[row] @ torch.linalg.solve(gram, z[others].T @ y[others]), rtol=1e-9, atol=0)


@pytest.mark.parametrize("seed", range(3))
def test_lengths_that_tell_classes_apart_are_seen(seed: int) -> None:
    """Half the classes differ in length alone: the head is level with scikit-learn's on features as they come.

    A folder of tinted images was at .905 with features at length 1 alone, scikit-learn's regression at .985.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    generator = torch.Generator().manual_seed(seed)
    directions = torch.nn.functional.normalize(torch.randn(4, 12, generator=generator), dim=1)
    centres = torch.cat([directions, 3 * directions])
    labels = torch.arange(480) % 8
    features = centres[labels] + 0.4 * torch.randn(480, 12, generator=generator)
    train, test = slice(0, 240), slice(240, 480)
    tuned = tune(tuning_data(features[train], labels[train], seed=seed))
    regression = LogisticRegression(max_iter=1000)
    peer = make_pipeline(StandardScaler(), GridSearchCV(regression, {"C": np.logspace(-3, 3, 7)}, cv=5))
    peer.fit(features[train].numpy(), labels[train].numpy())
    ours = HeldOut(features[test], labels[test]).score(tuned, resamples=0).value
    assert tuned.best_params["lengths"] == "raw"
    assert ours >= peer.score(features[test].numpy(), labels[test].numpy()) - 0.01
    assert ours > 0.9
    unit = F.normalize(features, dim=1)
    assert "lengths" not in tune(tuning_data(unit[train], labels[train], seed=seed)).best_params


def test_the_strong_end_is_zero_shot_exactly() -> None:
    """Labels that no feature explains, texts that do: nothing may move."""
    x, y, test, _, texts = world(noise=0.3)
    texts = texts * 0 + torch.stack([x[y == c].mean(0) for c in range(5)])
    tuned = tune(tuning_data(x, y, class_embeddings=texts))
    zero_shot = tune(tuning_data(x, y, class_embeddings=texts), "zero_shot")
    rounding = 4 * 100.0 * torch.finfo(torch.float32).eps  # of products scaled by 100; torch 2.2 shows it
    torch.testing.assert_close(
        zero_shot.scores(test), 100 * F.normalize(test, dim=1) @ F.normalize(texts, dim=1).T, rtol=0, atol=rounding
    )
    assert tuned.candidates[0]["kind"] == "zero_shot"
    assert tuned.validation == tuned.candidates[0]["validation"] == 1.0


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n", [5, 10, 20, 120])
def test_validation_is_never_worse_than_zero_shot(seed: int, n: int) -> None:
    x, y, _, _, texts = world(n, seed=seed)
    tuned = tune(tuning_data(x, y, class_embeddings=texts, seed=seed))
    if n == 5:  # one image per class: nothing to validate on
        assert tuned.validation is None
        assert tuned.candidates == ()
        return
    assert tuned.validation >= tuned.candidates[0]["validation"]
    assert tuned.candidates[0]["kind"] == "zero_shot"
    assert {"zero_shot", "regression", "around_texts"} <= {candidate["kind"] for candidate in tuned.candidates}


@pytest.mark.parametrize(
    ("noise", "than"), [(0.3, "zero_shot"), (1.0, "zero_shot"), (1.0, "clap_published"), (3.0, "clap_published")]
)
def test_one_image_per_class_is_no_worse(noise: float, than: str) -> None:
    """Over twenty draws: the texts count by how well they do, the images by a fixed prior."""
    differences = []
    for seed in range(20):
        x, y, texts = (world(5, seed=seed, noise=noise)[part] for part in (0, 1, 4))
        many, truth = world(200, seed=seed, noise=noise)[:2]
        test_set, data = HeldOut(many[5:], truth[5:]), tuning_data(x, y, class_embeddings=texts)
        ours, theirs = (test_set.score(tune(data, method), resamples=0).value for method in ("anchored", than))
        differences.append(ours - theirs)
    assert np.mean(differences) >= -2 * np.std(differences) / math.sqrt(len(differences))


def test_texts_that_know_nothing_get_no_weight_with_one_image() -> None:
    x, y, _, _, texts = world(5, noise=0.3)
    tuned = tune(tuning_data(x, y, class_embeddings=texts.roll(1, 0)))
    assert tuned.best_params == {"kind": "around_texts", "strength": 0.3, "blend": 0.0}
    many, truth = world(200, noise=0.3)[:2]
    assert HeldOut(many[5:], truth[5:]).score(tuned).value > 0.9
    trusted = tune(tuning_data(x, y, class_embeddings=texts))
    assert trusted.best_params["blend"] > 10


@pytest.mark.parametrize("strength", [1.0, 0.01])
def test_the_fit_around_the_texts_is_a_minimum(strength: float) -> None:
    """The refitted head's scores less the texts' are a ridge solution around them: no small move is better."""
    x, y, _, _, texts = world(20, noise=1.0)
    data = tuning_data(x, y, class_embeddings=texts)
    unit = torch.nn.functional.normalize(data.features, dim=1)
    head, chosen = _refit(data, unit, Candidate("around_texts", strength))
    blend = chosen.blend
    standard = standardisation(unit)
    anchor = blend * cosines(data, unit)
    weights = (head.weight.detach() - blend * torch.nn.functional.normalize(texts, dim=1)) / standard.scale
    bias = head.bias.detach() + (weights * standard.scale) @ standard.centre
    rows = torch.cat([weights, bias[:, None]], dim=1).double().numpy()
    targets = torch.nn.functional.one_hot(y, 5).double().numpy()
    args = (np.full(5, strength / 5), anchor.double().numpy(), False)
    z = standard(unit).double().numpy()
    least = objective(z, targets, rows, *args)
    moves = np.random.default_rng(0).normal(size=(20, *rows.shape)) * 0.05
    assert all(objective(z, targets, rows + move, *args) > least for move in moves)


def test_rows_without_their_class_in_training_do_not_count() -> None:
    x, y, _, _, texts = world(7, k=5)  # classes 0 and 1 twice, the others once
    data = tuning_data(x, y, class_embeddings=texts)
    rows = data.validation_rows()
    assert [int(y[row]) in (0, 1) for row in rows] == data.valid_mask().tolist()
    assert data.has_validation  # four of seven
    assert not tuning_data(x[:5], y[:5], class_embeddings=texts).has_validation


@pytest.mark.parametrize("method", list(METHODS))
def test_every_method_learns_and_repeats(method: str) -> None:
    x, y, test, truth, texts = world()
    make = lambda: tune(tuning_data(x, y, class_embeddings=texts), method)  # noqa: E731 - a call to repeat
    first, second = make(), make()
    assert torch.equal(first.scores(test), second.scores(test))
    value = HeldOut(test, truth).score(first).value
    zero_shot = HeldOut(test, truth).score(tune(tuning_data(x, y, class_embeddings=texts), "zero_shot")).value
    assert value >= zero_shot
    assert method == "zero_shot" or value > 0.75
    assert first.scores(test).shape == (120, 5)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("method", ["anchored", "elevater", "logistic"])
def test_a_metric_of_which_less_is_better_is_tuned_for(method: str, several: bool) -> None:
    """The Brier score needs probabilities, and its best value is the least: the search once kept an erased head."""
    x, y, test, truth, texts = world(40)
    if several:
        y, truth = (F.one_hot(candidate, 5) for candidate in (y, truth))
    tuned = tune(tuning_data(x, y, class_embeddings=texts, metric="brier"), method)
    values = [candidate["validation"] for candidate in tuned.candidates]
    chance = METRICS["brier"].chance(truth.numpy(), 5)
    assert -chance < max(values) < 0
    assert tuned.validation is not None
    assert tuned.validation >= np.median(values)
    assert HeldOut(test, truth).score(tuned).value < 0.75 * chance


@pytest.mark.parametrize("metric", ["macro_f1", "quadratic_kappa"])
def test_grades_and_rare_classes_have_metrics_to_tune_for(metric: str) -> None:
    """Five grades along one direction: the metric that validates is the one of the held-out score."""
    generator = torch.Generator().manual_seed(0)
    grades = torch.arange(300) % 5
    x = torch.randn(300, 6, generator=generator)
    x[:, 0] += 2 * grades
    tuned = tune(tuning_data(x[:200], grades[:200], metric=metric))
    score = HeldOut(x[200:], grades[200:]).score(tuned, resamples=0)
    assert score.metric == metric
    assert tuned.validation == pytest.approx(score.value, abs=0.15)
    assert score.value > (0.8 if metric == "quadratic_kappa" else 0.5)


def test_a_search_that_validation_does_not_judge_keeps_its_start() -> None:
    """Labels without negatives have no ROC curve: the choice was the largest decay, which erases the texts."""
    x, y, *_, texts = world(40)
    both = F.one_hot(y, 5)
    always = torch.ones_like(both)
    data = tuning_data(x, both, class_embeddings=texts, validation=(x, always), metric="roc_auc")
    assert tune(data, "elevater").best_params == {"lr": RATES[0], "weight_decay": DECAYS[0]}


def test_metrics_that_scores_do_not_have_are_refused() -> None:
    x, y, *_ = world()
    with pytest.raises(ValueError, match="'mae' does not measure scores of one label per sample, expected accuracy"):
        tuning_data(x, y, metric="mae")
    with pytest.raises(ValueError, match="'accuracy' does not measure scores of several labels"):
        tuning_data(x, F.one_hot(y, 5), metric="accuracy")


@pytest.mark.parametrize("method", ["anchored", "gda", "lp++", "clap", "tip_adapter", "logistic"])
def test_one_image_per_class_is_enough_with_texts(method: str) -> None:
    x, y, test, truth, texts = world(5)
    tuned = tune(tuning_data(x, y, class_embeddings=texts), method)
    assert HeldOut(test, truth).score(tuned).value > 0.2


@pytest.mark.long
def test_several_labels() -> None:
    x, y, test, truth, texts = world(noise=0.5)
    both = (
        torch.nn.functional.one_hot(y, 5)
        | torch.nn.functional.one_hot((y + 1) % 5, 5) * (torch.arange(120) % 2)[:, None]
    )
    for method in ("anchored", "elevater", "zero_shot", "tip_adapter", "logistic"):
        tuned = tune(tuning_data(x, both, class_embeddings=texts), method)
        score = HeldOut(test, torch.nn.functional.one_hot(truth, 5)).score(tuned)
        assert score.metric == "map_11point"
        assert score.value > 0.7
    for method in ("gda", "lp++", "clap"):
        with pytest.raises(ValueError, match="one label per sample"):
            tune(tuning_data(x, both, class_embeddings=texts), method)


def test_without_texts_it_is_a_probe() -> None:
    x, y, test, truth, _ = world()
    for method in ("anchored", "elevater", "logistic"):
        assert HeldOut(test, truth).score(tune(tuning_data(x, y), method)).value > 0.8
    for method in ("zero_shot", "gda", "lp++", "clap", "tip_adapter"):
        with pytest.raises(ValueError, match="needs class_embeddings"):
            tune(tuning_data(x, y), method)


def test_one_image_per_class_without_texts() -> None:
    x, y, _, _, _ = world(5, noise=0.5)
    many, truth = world(200, noise=0.5)[:2]
    for method in ("anchored", "logistic"):
        tuned = tune(tuning_data(x, y), method)
        assert tuned.validation is None
        assert HeldOut(many[5:], truth[5:]).score(tuned).value > 0.8
    with pytest.raises(ValueError, match="class 0 has 1 image"):
        tune(tuning_data(x, y), "elevater")


def test_a_fold_with_one_class_alone() -> None:
    x, y = torch.tensor([[1.0, 0.1], [0.1, 1.0], [0.2, 1.1]]), torch.tensor([0, 1, 1])
    for method in ("anchored", "logistic"):
        assert HeldOut(x, y).score(tune(tuning_data(x, y), method)).value >= 2 / 3


def test_scipys_algebra_has_one_thread_while_scikit_learn_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own library's threads take several times as long as its products; NumPy's and torch's threads stay."""
    fit, within = LogisticRegression.fit, list[dict[str, int]]()

    def threads() -> dict[str, int]:
        return {pool["filepath"]: pool["num_threads"] for pool in threadpool_info()}

    def watched(self: LogisticRegression, *args: object, **options: object) -> object:
        within.append(threads())
        return fit(self, *args, **options)

    x, y, _, _, texts = world(40, k=2)
    monkeypatch.setattr(LogisticRegression, "fit", watched)
    with threadpool_limits(2):
        before = threads()
        tune(tuning_data(x, y, class_embeddings=texts), "logistic")
        assert threads() == before
    own = {name for name in before if "scipy.libs" in name or "scipy/.dylibs" in name}
    assert own or len([name for name in before if "blas" in name or "mkl" in name]) == 1
    assert within
    assert all(seen == {**before, **dict.fromkeys(own, 1)} for seen in within)


def test_the_path_goes_on_while_it_helps_and_no_further() -> None:
    """Many clean images want weak penalties, noisy ones strong ones: the second path ends earlier."""
    ends = {}
    for noise in (0.5, 12.0):
        x, y, _, _, _ = world(400, d=4, k=8, noise=noise)
        tuned = tune(tuning_data(x, y, validation="shuffled"))
        ends[noise] = min(candidate["strength"] for candidate in tuned.candidates if "strength" in candidate)
        best = min(
            (candidate for candidate in tuned.candidates if "strength" in candidate),
            key=lambda candidate: candidate["loss"],
        )
        assert best["strength"] >= ends[noise]
    assert ends[0.5] < 1e-3 < 0.01 < ends[12.0]


def test_two_classes() -> None:
    x, y, test, truth, texts = world(40, k=2)
    for method in METHODS:
        assert HeldOut(test, truth).score(tune(tuning_data(x, y, class_embeddings=texts), method)).value > 0.8


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.again)])
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.long
def test_the_batched_search_picks_what_run_after_run_picks(seed: int, several: bool) -> None:
    x, y, test, _, texts = world(84, 8, 3, seed=seed)  # 66 to train on: a last batch of two
    y = torch.nn.functional.one_hot(y, 3) if several else y
    data = tuning_data(x, y, class_embeddings=texts, validation="toolkit")
    fast, slow = tune(data, "elevater"), tune_run_after_run(data)
    assert fast.best_params == slow.best_params
    assert fast.validation == pytest.approx(slow.validation)
    assert [(a["lr"], a["weight_decay"]) for a in fast.candidates] == [
        (a["lr"], a["weight_decay"]) for a in slow.candidates
    ]
    np.testing.assert_allclose(
        [candidate["validation"] for candidate in fast.candidates],
        [candidate["validation"] for candidate in slow.candidates],
        atol=0.1,
    )
    torch.testing.assert_close(fast.scores(test), slow.scores(test))
    assert 42 <= len(fast.candidates) <= 90


def test_the_toolkits_split_takes_the_first_fifth_of_each_class() -> None:
    labels = torch.tensor([0] * 11 + [1] * 2 + [2] * 5)
    fold = make_folds(labels, "toolkit", 0)[0]
    assert fold.validation.tolist() == [0, 1, 2, 11, 13]
    assert sorted(fold.train.tolist() + fold.validation.tolist()) == list(range(18))
    several = torch.tensor([[1, 0], [1, 1], [0, 1], [1, 0], [0, 1], [1, 0]])
    assert make_folds(several, "toolkit", 0)[0].validation.tolist() == [0, 1]


def test_folds_cover_each_sample_once_and_spread_single_images() -> None:
    folds = make_folds(torch.arange(10), "folds", 0)
    assert len(folds) == 5
    assert sorted(torch.cat([fold.validation for fold in folds]).tolist()) == list(range(10))
    assert {len(fold.validation) for fold in folds} == {2}
    shuffled = make_folds(torch.arange(60) % 3, "shuffled", 1)[0]
    assert torch.bincount(torch.arange(60)[shuffled.validation] % 3).tolist() == [4, 4, 4]


def test_test_labels_are_out_of_reach() -> None:
    x, y, test, truth, texts = world()
    test_set = HeldOut(test, truth)
    for name in ("labels", "features", "truth", "y", "_labels", "__dict__", "_HeldOut__labels"):
        with pytest.raises(AttributeError):
            getattr(test_set, name)
    with pytest.raises(TypeError):
        vars(test_set)
    with pytest.raises(AttributeError):
        test_set.labels = truth
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy, len, iter, lambda h: h[0], torch.as_tensor):
        with pytest.raises((TypeError, RuntimeError, ValueError, AttributeError)):
            attempt(test_set)
    assert "tensor" not in repr(test_set)
    for call in (
        lambda: tuning_data(x, y, validation=(test_set, truth)),
        lambda: tuning_data(x, y, validation=(test, test_set)),
        lambda: tuning_data(test_set, y),
        lambda: tuning_data(x, test_set),
        lambda: tune(test_set),
        lambda: test_set.score(torch.nn.Linear(16, 5)),
        lambda: test_set.score(lambda features: features[:, :5]),
    ):
        with pytest.raises(TypeError):
            call()
    assert test_set.evaluation_log == ()
    data = tuning_data(x, y, class_embeddings=texts)
    assert {field for field in TuningData.__dataclass_fields__ if "test" in field} == set()
    test_set.score(tune(data))
    test_set.score(tune(data, "gda"), metric="mean_per_class")
    assert test_set.evaluation_log == (("anchored", "accuracy"), ("gda", "mean_per_class"))
    with pytest.raises(AttributeError):
        test_set.evaluation_log = ()


def test_the_callers_arrays_can_change_afterwards() -> None:
    x, y, test, truth, texts = world()
    test_set = HeldOut(test, truth)
    tuned = tune(tuning_data(x, y, class_embeddings=texts))
    before = test_set.score(tuned).value
    truth.zero_()
    test.zero_()
    assert test_set.score(tuned).value == before


@pytest.mark.parametrize("method", ["anchored", "elevater"])
def test_features_as_an_encoder_leaves_them(method: str) -> None:
    """In inference mode, with a gradient, in half precision: the fit is that of plain numbers."""
    x, y, test, _, texts = world(40)
    x, texts = x.half().float(), texts.half().float()
    plain = tune(tuning_data(x, y, class_embeddings=texts), method).scores(test)
    with torch.inference_mode():
        inferred, described = x * 1, texts * 1
    for features, embeddings in ((inferred, described), (x.clone().requires_grad_(), texts), (x.half(), texts)):
        scores = tune(tuning_data(features, y, class_embeddings=embeddings), method).scores(test)
        assert torch.equal(plain, scores)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_held_out_features_of_any_type(dtype: torch.dtype) -> None:
    """NumPy's default is float64, an encoder's on a GPU half precision: scoring ended in an error of matrix types."""
    x, y, test, truth, texts = world(40)
    data = tuning_data(x, y, class_embeddings=texts)
    test = test.to(dtype)
    for method in ("anchored", "tip_adapter"):
        tuned = tune(data, method)
        expected = HeldOut(test.float(), truth).score(tuned).value
        assert HeldOut(test, truth).score(tuned).value == expected
        assert torch.equal(tuned.scores(test), tuned.scores(test.float()))
    assert HeldOut(test.float().double().numpy(), truth.numpy()).score(tuned).value == expected


def bad() -> list[tuple[dict[str, object], str]]:
    x, y, _, _, texts = world()
    broken = x.clone()
    broken[7, 3] = float("nan")
    return [
        ({"features": broken}, "features: row 7 holds NaN"),
        ({"labels": y[:-1]}, r"shape \(119,\) for 120 rows"),
        (
            {"labels": torch.where(y == 2, 9, y), "class_embeddings": texts},
            r"9 at \[2\] is out of range, expected 0\.\.4",
        ),
        ({"labels": torch.where(y == 2, 3, y), "class_embeddings": texts}, "class 2 of 5 has no image"),
        ({"labels": y * 0}, "there is 1 class"),
        ({"labels": torch.where(y == 0, -1, y)}, "-1 at"),
        ({"class_embeddings": texts[:, :9]}, r"shape \(5, 9\), expected \(5, 16\)"),
        ({"validation": (x[y != 3], y[y != 3])}, "class 3 has no image in the validation set"),
        ({"validation": (x[:, :4], y)}, "validation features have 4 columns"),
        ({"validation": "some"}, "'some'"),
        (
            {"features": x[:5], "labels": y[:5], "validation": "shuffled"},
            "class 0 has 1 image: nothing is left to validate on",
        ),
        (
            {"features": x[:6], "labels": y[:6], "validation": "toolkit", "class_embeddings": texts},
            "class 1 has 1 image",
        ),
        ({"metric": "f1"}, "'f1' is unknown"),
        ({"logit_scale": 0.0}, "logit_scale must be positive and finite, got 0.0"),
        ({"logit_scale": math.inf}, "got inf"),
        ({"labels": y * 0 - 1}, r"-1 at \[0\] is out of range"),
        ({"labels": ["cat", "dog"] * 60}, "labels must be integers, got 'cat'"),
        ({"class_embeddings": texts * torch.tensor([1, 1, 0, 1, 1])[:, None]}, "row 2 is all 0"),
        ({"validation": (x, y + 3)}, r"validation labels: 5 at \[2\] is out of range"),
        ({"validation": (broken, y)}, "validation features: row 7 holds NaN"),
        ({"features": x.long()}, "must be a matrix of floats"),
    ]


@pytest.mark.parametrize(("change", "message"), bad())
def test_bad_input_is_named_at_the_door(change: dict[str, object], message: str) -> None:
    x, y, _, _, _ = world()
    call = {"features": x, "labels": y, **change}
    features, labels = call.pop("features"), call.pop("labels")
    with pytest.raises(ValueError, match=message):
        tuning_data(features, labels, **call)


def test_held_out_data_is_checked() -> None:
    with pytest.raises(ValueError, match="have 3 rows, labels 2"):
        HeldOut(torch.eye(3), torch.arange(2))
    with pytest.raises(ValueError, match="row 1 holds NaN"):
        HeldOut(torch.tensor([[1.0], [float("inf")]]), torch.arange(2))
    with pytest.raises(ValueError, match="unknown"):
        tune(tuning_data(*world()[:2]), "best")


def test_few_images_all_validate_and_many_leave_a_fifth_out() -> None:
    """Five folds up to 1,000 images, whatever is there of a class; one fifth beyond, where each class has five."""
    counts = {}
    for images in (60, 999, 1000):
        folds = make_folds(torch.arange(images) % 4, "auto", 0)
        counts[images] = (len(folds), sum(len(fold.validation) for fold in folds))
    assert counts == {60: (5, 60), 999: (5, 999), 1000: (1, 200)}
    rare = torch.cat([torch.zeros(1000, dtype=torch.long), torch.ones(3, dtype=torch.long)])
    assert len(make_folds(rare, "auto", 0)) == 5


def ring(n: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Two classes in four and four sectors by turns: no line parts them, neighbours do."""
    generator = torch.Generator().manual_seed(seed)
    angle = 2 * math.pi * torch.rand(n, generator=generator)
    return torch.stack([angle.cos(), angle.sin()], 1), (angle / (math.pi / 4)).long() % 2


def test_neighbours_are_a_candidate_and_their_head_gives_the_validated_scores() -> None:
    x, y = ring(400, 0)
    test, truth = ring(400, 1)
    data = tuning_data(x, y)
    tuned = tune(data)
    assert tuned.best_params["kind"] == "cache"
    assert HeldOut(test, truth).score(tuned).value > 0.9
    assert HeldOut(test, truth).score(tune_anchored(data, linear=True)).value < 0.7
    alpha, beta = tuned.best_params["alpha"], tuned.best_params["beta"]
    for row in range(5):
        total = [0.0, 0.0]
        for key, label in zip(x.double(), y.tolist(), strict=True):
            total[label] += math.exp(
                -beta * (1 - float(F.normalize(test[row].double(), dim=0) @ F.normalize(key, dim=0)))
            )
        of_folds = 0.8  # alpha was chosen on caches of four fifths of the images, whose sums are shorter
        expected = [of_folds * alpha * each for each in total]
        assert tuned.scores(test[row : row + 1])[0].tolist() == pytest.approx(expected, rel=1e-3)


def test_class_means_are_a_candidate_without_texts() -> None:
    x, y, test, _, texts = world(30, noise=1.0)
    tried = [candidate for candidate in tune(tuning_data(x, y)).candidates if candidate["kind"] == "class_means"]
    assert {candidate["temperature"] for candidate in tried} == set(MEAN_TEMPERATURES)
    with_texts = tune(tuning_data(x, y, class_embeddings=texts))
    assert not [candidate for candidate in with_texts.candidates if candidate["kind"] == "class_means"]
    data, unit = tuning_data(x, y), F.normalize(x, dim=1)
    head, _ = _refit(data, unit, Candidate("class_means", temperature=10.0))
    means = F.normalize(torch.stack([unit[y == label].mean(0) for label in range(5)]), dim=1)
    torch.testing.assert_close(head(test).detach(), 10 * F.normalize(test, dim=1) @ means.T, rtol=1e-4, atol=1e-4)


def test_a_solved_regression_is_scikit_learns() -> None:
    """At the same penalty, on balanced classes, where scikit-learn's free bias is near 0 too."""
    from sklearn.linear_model import LogisticRegression

    x, y, test, _, _ = world(200, d=12, k=4, noise=2.0)
    data, unit = tuning_data(x, y), F.normalize(x, dim=1)
    strength = 0.003
    head, _ = _refit(data, unit, Candidate("solved", strength, 0.0))
    scale = standardisation(unit, spread=False).scale[0]
    cost = float(scale**2) / (len(x) * strength / 4)
    theirs = LogisticRegression(C=cost, max_iter=2000, tol=1e-8).fit((unit - unit.mean(0)).numpy(), y.numpy())
    scores = theirs.decision_function((F.normalize(test, dim=1) - unit.mean(0)).numpy())
    ours = head(test).detach().numpy()
    assert np.corrcoef(ours.ravel(), scores.ravel())[0, 1] > 0.999
    assert (ours.argmax(1) == scores.argmax(1)).mean() > 0.97


def test_the_mean_of_a_regression_and_a_discriminant_is_a_candidate_and_its_head_gives_its_scores() -> None:
    for seed in range(4):
        x, y, test_x, _, _ = world(120, d=24, k=6, seed=seed, noise=2.0)
        data = tuning_data(x, y)
        tuned = tune(data)
        at_length_1 = [row for row in tuned.candidates if "lengths" not in row]
        [mean] = [row for row in at_length_1 if row["kind"] == "mean"]
        others = [row["loss"] for row in at_length_1 if row["kind"] in REGRESSIONS]
        assert mean["loss"] < min(others)
        unit = F.normalize(x, dim=1)
        regression, _ = _refit(data, unit, Candidate(mean["regression"], mean["strength"], mean["blend"]))
        discriminant = discriminant_head(data, unit, mean["temperature"], mean["discriminant_blend"])
        with torch.no_grad():
            expected = 0.5 * regression(test_x) + 0.5 * discriminant(test_x)
            params = {name: value for name, value in mean.items() if name not in ("validation", "loss")}
            assert torch.allclose(_refit(data, unit, Candidate(**params))[0](test_x), expected, atol=1e-3)


def test_scores_of_a_wrong_shape_raise_and_what_is_undefined_is_the_worst() -> None:
    x, y = torch.eye(3).repeat(6, 1), torch.arange(18) % 3
    data = tuning_data(x, y, metric="roc_auc")
    rows = torch.arange(18)
    assert data.score(torch.eye(3)[y], rows) == 1.0
    with pytest.raises(ValueError, match="target 2 of sample 2 is out of range"):
        data.score(torch.eye(3)[y][:, :2], rows)
    with pytest.raises(ValueError, match="same length"):
        data.score(torch.eye(3)[y][:5], rows)
    assert data.score(torch.full((18, 3), float("nan")), rows) == float("-inf")
    lonely = tuning_data(x, torch.nn.functional.one_hot(y, 3), metric="roc_auc")
    assert lonely.score(torch.eye(3)[y[:1]], rows[:1]) == float("-inf")


def test_elevaters_head_starts_at_random_or_at_the_texts() -> None:
    x, y, _, _, texts = world()
    rows = torch.arange(len(y))
    blind, again, read = (
        _Problem(tuning_data(x, y, class_embeddings=embeddings), rows, None).head()
        for embeddings in (None, None, texts)
    )
    assert torch.equal(blind.weight, again.weight)
    assert float(blind.weight.detach().std()) > 0.1 * x.shape[1] ** -0.5
    assert not torch.equal(blind.weight, read.weight)
    torch.testing.assert_close(read.weight.detach(), F.normalize(texts, dim=1))
