"""Items: the two-parameter fit against its own gradient, the choice against known truth, run folders and refusals."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest

from eevee import EeveeError, Outcomes, choose_items, estimate, rank_outcomes, read_items, read_outcomes
from eevee.cli import main
from eevee.items.drawing import TRANSLATED, choose_anchors, corrected_mean, doubts, draw_items, leaned
from eevee.items.irt import fit_abilities, fit_irt, information, sigmoid
from eevee.items.selection import _estimates, _folds, _learn, _plain_error


def drawn(models=60, items=1500, seed=0):
    generator = np.random.default_rng(seed)
    able, slope = generator.normal(size=models), 2 * np.exp(generator.normal(0, 0.4, items))
    chance = sigmoid(slope * (able[:, None] - generator.normal(0, 1.2, items)))
    return able, slope, (generator.random(chance.shape) < chance).astype(float)


def outcomes(values, name="toy"):
    models, items = (tuple(f"{kind}{i}" for i in range(n)) for kind, n in zip("mi", values.shape, strict=True))
    return Outcomes(name, models, items, values)


def test_fit_recovers_what_drew_the_outcomes():
    able, slope, values = drawn(models=200)
    irt = fit_irt(values)
    assert np.corrcoef(irt.ability, able)[0, 1] > 0.99
    assert np.corrcoef(irt.slope, slope)[0, 1] > 0.6
    assert irt.ability.mean() == pytest.approx(0, abs=1e-9)
    gaps = values.copy()
    gaps[np.random.default_rng(1).random(values.shape) < 0.3] = np.nan
    assert np.corrcoef(fit_irt(gaps).ability, able)[0, 1] > 0.985


def test_ability_is_the_most_probable():
    """No ability on a fine grid has a higher posterior."""
    _, _, values = drawn(models=20, items=300)
    irt = fit_irt(values)
    abilities = fit_abilities(values, np.ones_like(values), irt.slope, irt.offset)
    grid = np.linspace(-4, 4, 2001)
    p = np.clip(irt.probability(grid), 1e-12, 1 - 1e-12)
    posterior = values @ np.log(p).T + (1 - values) @ np.log(1 - p).T - grid**2 / 2
    np.testing.assert_allclose(abilities, grid[posterior.argmax(1)], atol=5e-3)


def test_anchors_are_items_with_weights_that_sum_to_one():
    _, _, values = drawn(models=30, items=400)
    irt = fit_irt(values)
    for count in (2, 37, 400):
        chosen, weights = choose_anchors(irt, count, np.random.default_rng(0))
        assert len(set(chosen.tolist())) == len(chosen) == count
        assert weights.sum() == pytest.approx(1)
        assert list(chosen) == sorted(chosen)


def test_clusters_give_every_item_that_was_asked_for():
    """Five patterns of outcomes make five different curves: the other clusters run empty, and their seats are used."""
    values = np.tile(np.eye(5)[:, [0, 1, 2, 3, 4, 0, 0, 0]], 10)
    irt = fit_irt(values)
    chosen, weights = choose_anchors(irt, 33, np.random.default_rng(0))
    assert len(set(chosen.tolist())) == 33
    curves = irt.probability(np.linspace(-2, 2, 9))
    np.testing.assert_allclose(curves[:, chosen] @ weights, curves.mean(1), atol=1e-3)


@pytest.mark.parametrize("method", ["drawn", "clusters"])
def test_the_plain_mean_anchors_and_mixed_estimates_stand_beside_all(method):
    _, _, values = drawn(models=60, items=400)
    chosen = choose_items({"toy": outcomes(values[:40])}, count=40, method=method).benchmarks["toy"]
    assert set(chosen.errors) == {"plain mean", "drawn", "anchors", "gp-IRT"}
    assert chosen.error == chosen.errors["gp-IRT" if method == "clusters" else method] < chosen.errors["plain mean"]
    assert chosen.errors["gp-IRT"] < chosen.errors["anchors"]
    truth, ids = values[40:].mean(1), [int(key[1:]) for key in chosen.items]
    guess = [estimate(chosen, {f"i{j}": row[j] for j in ids}) for row in values[40:]]
    assert np.mean([g.low <= t <= g.high for g, t in zip(guess, truth, strict=True)]) > 0.8


@pytest.mark.long
def test_error_and_interval_hold_for_new_models():
    _, _, values = drawn(models=160, items=3000)
    chosen = choose_items({"toy": outcomes(values[:60])}, share=0.05).benchmarks["toy"]
    assert len(chosen.items) == 150
    assert chosen.error == chosen.errors["drawn"] < chosen.errors["plain mean"]
    truth, ids = values[60:].mean(1), [int(key[1:]) for key in chosen.items]
    guess = [estimate(chosen, {f"i{j}": row[j] for j in ids}) for row in values[60:]]
    error = np.sqrt(np.mean([(g.value - t) ** 2 for g, t in zip(guess, truth, strict=True)]))
    assert error == pytest.approx(chosen.error, rel=0.5)
    assert error < 0.85 * np.sqrt((truth * (1 - truth)).mean() / len(ids))  # what a plain mean of so many items has
    assert 0.8 < np.mean([g.low <= t <= g.high for g, t in zip(guess, truth, strict=True)]) < 0.99


def test_all_items_give_the_score_itself():
    _, _, values = drawn(models=20, items=60)
    chosen = choose_items({"toy": outcomes(values)}, share=1.0).benchmarks["toy"]
    whole = estimate(chosen, dict(zip(chosen.items, values[3], strict=True)))
    assert whole.value == pytest.approx(values[3].mean())
    assert whole.high - whole.low < 1e-9


@pytest.mark.parametrize("count", [1, 30, 299])
def test_drawn_items_come_as_often_as_their_chances_say(count):
    ease = np.repeat(np.linspace(0, 1, 100), 3)
    generator, times = np.random.default_rng(0), np.zeros(300)
    for _ in range(2000):
        items = draw_items(ease, count, generator)
        assert len(set(items.tolist())) == count
        assert abs(ease[items].mean() - 0.5) < 1.7 / count  # in step along the difficulty, nearly
        times[items] += 1
    chance = count / 300
    assert np.all(np.abs(times - 2000 * chance) <= 4.5 * np.sqrt(2000 * chance * (1 - chance)))


@pytest.mark.parametrize("wrong", [0.0, 0.4, 1.0])
def test_the_corrected_mean_holds_whatever_is_predicted(wrong):
    """Unbiased, covered nine times of ten, not above the plain mean: also where the opposite is predicted."""
    generator = np.random.default_rng(1)
    chance = sigmoid(2 * generator.normal(size=1000))
    outcome = (generator.random(1000) < chance).astype(float)
    predicted = (1 - wrong) * chance + wrong * (1 - chance)
    rows = np.array([generator.choice(1000, 60, replace=False) for _ in range(3000)])
    constant = np.full(3000, predicted.mean())
    value, low, high = corrected_mean(outcome[rows], predicted[rows], constant, 1000, 0.9)
    truth = outcome.mean()
    assert value.mean() == pytest.approx(truth, abs=4 * value.std() / np.sqrt(3000) + 1e-3)
    assert 0.88 < np.mean((low <= truth) & (truth <= high)) < 0.93
    assert value.std() < (1.02 if wrong else 0.85) * outcome[rows].mean(1).std()
    assert np.all((low >= 0) & (high <= 1) & (low <= value) & (value <= high))


def test_a_handful_of_solved_items_is_no_certainty():
    """Ten of 1,000 items, nine of ten solved: plain intervals are often a point; these cover."""
    generator = np.random.default_rng(2)
    outcome = np.repeat([0.0, 1.0], [100, 900])
    rows = np.array([generator.choice(1000, 10, replace=False) for _ in range(3000)])
    _, low, high = corrected_mean(outcome[rows], np.full(rows.shape, 0.9), np.full(3000, 0.9), 1000, 0.9)
    assert np.min(high - low) > 0.1
    nothing = corrected_mean(np.zeros((1, 10)), np.linspace(0.1, 0.9, 10)[None], np.full(1, 0.6), 1000, 0.9)
    assert nothing[1] == 0
    assert nothing[2] > 0.1
    assert 0.85 < np.mean((low <= 0.9) & (high >= 0.9)) < 0.98


def test_the_plain_means_error_is_that_of_draws():
    _, _, values = drawn(models=20, items=200)
    generator = np.random.default_rng(0)
    draws = [values[:, generator.choice(200, 30, replace=False)].mean(1) - values.mean(1) for _ in range(2000)]
    plain_error = _plain_error(outcomes(values), 30, np.arange(20))
    assert plain_error == pytest.approx(np.sqrt(np.mean(np.square(draws))), rel=0.02)


@pytest.mark.long
def test_a_drawn_estimate_holds_beyond_all_models_seen():
    """The frontier solves a third of the items that few solved before: the model alone misses it."""
    able, _, values = drawn(models=60, items=1200)
    earlier, new = np.split(values[np.argsort(able)], [40])
    new[:, np.random.default_rng(5).permutation(1200)[:400]] = 1
    truth = new.mean(1)
    irt, off, trusting, inside = fit_irt(earlier), [], [], []
    for seed in range(150):
        generator = np.random.default_rng(seed)
        items = _learn(outcomes(earlier), irt, 120, "drawn", 0.9, generator)
        columns = [int(key[1:]) for key in items.items]
        value, low, high = _estimates(items, new[:, columns])
        off.append(value - truth)
        inside.append((low <= truth) & (truth <= high))
        able = fit_abilities(new[:, columns], np.ones((len(new), 120)), irt.slope[columns], irt.offset[columns])
        likely = irt.probability(able)
        likely[:, columns] = new[:, columns]
        trusting.append(likely.mean(1) - truth)
    plain = np.sqrt((truth * (1 - truth)).mean() * (1 / 120 - 1 / 1200))
    assert np.sqrt(np.mean(np.square(off))) < 1.02 * plain
    assert np.sqrt(np.mean(np.square(trusting))) > 1.1 * plain
    assert 0.87 < np.mean(inside) < 0.95


def run_folder(path, spec, correct, digest="d", benchmark="micro/toy", test=None, items=None):
    (path / "results").mkdir(parents=True)
    (path / "samples").mkdir()
    (path / "manifest.json").write_text(json.dumps({"identity": {"encoder": {"spec": spec}}}))
    result = {
        "name": benchmark,
        "status": "ok",
        "scores": [{"value": 100 * correct.mean()}],
        "data": {"sha256": digest, "test": len(correct) if test is None else test},
        "settings": {"limit": None} | ({"items": items} if items else {}),
    }
    (path / "results" / "micro-toy.seed0.json").write_text(json.dumps(result))
    np.savez(path / "samples" / "micro-toy.seed0.npz", outcomes=correct)
    return str(path)


def test_outcomes_that_are_missing_or_of_another_result_are_named(tmp_path):
    _, _, values = drawn(models=6, items=60)
    folders = [run_folder(tmp_path / f"r{i}", f"enc{i}", row) for i, row in enumerate(values)]
    file, samples = tmp_path / "r0/results/micro-toy.seed0.json", tmp_path / "r0/samples/micro-toy.seed0.npz"
    digest = hashlib.sha256(f"{values[0].dtype.str} {values[0].shape}".encode() + values[0].tobytes()).hexdigest()
    file.write_text(json.dumps({**json.loads(file.read_text()), "samples_sha256": digest}))
    assert read_outcomes(folders)["micro/toy"].models[0] == "enc0"
    np.savez(samples, outcomes=values[0][::-1].copy())
    with pytest.raises(EeveeError, match=r"micro-toy\.seed0\.npz does not belong to micro-toy\.seed0\.json"):
        read_outcomes(folders)
    samples.unlink()
    with pytest.raises(EeveeError, match=r"micro-toy\.seed0\.npz is not there"):
        read_outcomes(folders)


def test_run_folders_to_a_file_of_items(tmp_path, capsys):
    _, _, values = drawn(models=8, items=100)
    folders = [run_folder(tmp_path / f"r{i}", f"enc{i % 7}", row) for i, row in enumerate(values)]
    outcomes = read_outcomes(folders)["micro/toy"]
    assert outcomes.unit == 100
    assert outcomes.models[:2] == ("enc0 (r0)", "enc1")
    np.testing.assert_array_equal(outcomes.values, values)
    file = tmp_path / "items.json"
    assert main(["items", "--outcomes", *folders, "--share", "0.2", "--json", str(file)]) == 0
    assert "20 of 100 items" in capsys.readouterr().out
    again = read_items(file).benchmarks["micro/toy"]
    assert again.items[0].startswith("test/")
    assert again == choose_items({"micro/toy": outcomes}, share=0.2).benchmarks["micro/toy"]
    episodes = [run_folder(tmp_path / f"e{i}", "few-shot", row, test=30) for i, row in enumerate(values)]
    with pytest.raises(EeveeError, match="no benchmark in common"):
        read_outcomes(episodes)
    chosen = run_folder(tmp_path / "chosen", "enc", values[0], items="3f")
    with pytest.raises(EeveeError, match="outcomes of chosen items alone"):
        read_outcomes([*folders, chosen])
    other = run_folder(tmp_path / "other", "encX", values[0], digest="other")
    with pytest.raises(EeveeError, match="run on other data"):
        read_outcomes([*folders, other])


def test_what_else_lies_among_runs_is_left_out_and_named(tmp_path, caplog):
    _, _, values = drawn(models=6, items=50)
    folders = [run_folder(tmp_path / f"r{i}", f"enc{i}", row) for i, row in enumerate(values)]
    (tmp_path / "tuned-captions").mkdir()
    (tmp_path / "report.html").write_text("a page")
    outcomes = read_outcomes(sorted(tmp_path.iterdir()))
    np.testing.assert_array_equal(outcomes["micro/toy"].values, values)
    assert [record.getMessage().split(" is ")[0] for record in caplog.records] == [
        f"left out: {tmp_path / 'report.html'}", f"left out: {tmp_path / 'tuned-captions'}"
    ]  # fmt: skip
    with pytest.raises(EeveeError, match=r"tuned-captions: holds no manifest\.json"):
        read_outcomes([tmp_path / "tuned-captions"])
    with pytest.raises(EeveeError, match="gone"):
        read_outcomes([*folders, tmp_path / "gone"])


def test_outcomes_of_which_lower_ones_are_better_rank_the_lowest_first(tmp_path):
    """A Brier score's worst model led the ranks."""
    generator = np.random.default_rng(0)
    folders = []
    for number, level in enumerate((0.05, 0.2, 0.3, 0.5, 0.7, 0.9)):
        values = np.clip(generator.normal(level, 0.05, 200), 0, 1)
        folders.append(run_folder(tmp_path / f"r{number}", f"enc{number}", values))
        file = tmp_path / f"r{number}" / "results" / "micro-toy.seed0.json"
        result = json.loads(file.read_text())
        result["scores"] = [{"metric": "brier", "direction": "lower", "value": values.mean()}]
        file.write_text(json.dumps(result))
    read = read_outcomes(folders)
    assert read["micro/toy"].direction == "lower"
    board = rank_outcomes(read)
    assert board.leaders == ("enc0",)
    assert board.places[-1].model == "enc5"
    assert board.places[0].score == pytest.approx(1 - read["micro/toy"].scores()[0])
    result["scores"][0] |= {"metric": "accuracy", "direction": "higher"}
    file.write_text(json.dumps(result))
    with pytest.raises(EeveeError, match=r"scored by accuracy \(higher is better\), and in .* by brier"):
        read_outcomes(folders)
    with pytest.raises(EeveeError, match="direction 'up'"):
        replace(read["micro/toy"], direction="up")


def test_the_unit_of_a_score_near_zero_is_that_which_fits_best(tmp_path):
    values = np.zeros((6, 2000))
    values[range(6), range(6)] = 1
    folders = []
    for number, row in enumerate(values):
        folders.append(run_folder(tmp_path / f"r{number}", f"enc{number}", row))
        file = tmp_path / f"r{number}" / "results" / "micro-toy.seed0.json"
        file.write_text(file.read_text().replace(str(100 * row.mean()), str(row.mean())))
    assert read_outcomes(folders)["micro/toy"].unit == 1


def test_archive(tmp_path):
    _, _, values = drawn(models=8, items=30)
    path = tmp_path / "o.npz"
    names = np.array([f"m{i}" for i in range(8)])
    np.savez(path, models=names, toy=values, **{"toy.items": np.array([f"img{j}" for j in range(30)])})
    assert read_outcomes([path])["toy"].items[3] == "img3"
    np.savez(path, toy=values)
    with pytest.raises(EeveeError, match="expected models and one for each benchmark"):
        read_outcomes([path])
    raw = path.read_bytes()
    encrypted = raw.replace(b"PK\x01\x02\x2d\x03\x2d\0\0\0", b"PK\x01\x02\x2d\x03\x2d\0\x01\0")
    assert encrypted != raw
    for content in (b"no", encrypted):
        path.write_bytes(content)
        with pytest.raises(EeveeError, match="not an archive"):
            read_outcomes([path])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"values": np.ones((8, 30))}, "all outcomes are 1; there is nothing to tell"),
        ({"values": np.full((8, 30), 2.0)}, "outcome 2; expected a number from 0 to 1"),
        ({"values": np.zeros((8, 29))}, r"shape \(8, 29\); expected \(8, 30\)"),
        ({"models": ("a",) * 8}, "model 'a' appears twice"),
        ({"models": tuple("abc"), "values": np.zeros((3, 30))}, "3 models; expected at least 5"),
        ({"unit": 0}, "unit 0; expected a finite number above 0"),
        ({"unit": -100.0}, "unit -100.0; expected a finite number above 0"),
        ({"unit": float("nan")}, "unit nan; expected a finite number above 0"),
        ({"unit": True}, "unit: True; expected a number"),
    ],
)
def test_outcomes_refuse(change, message):
    with pytest.raises(EeveeError, match=message):
        replace(outcomes(drawn(models=8, items=30)[2]), **change)


def test_choice_refuses(tmp_path):
    toy = {"toy": outcomes(drawn(models=8, items=30)[2])}
    for settings, message in (
        ({"share": 0.0}, "share is 0.0"),
        ({"level": 1.0}, "level is 1.0"),
        ({"method": "best"}, "method 'best'"),
        ({"count": 31}, "31 items are to be chosen of 30"),
    ):
        with pytest.raises(EeveeError, match=message):
            choose_items(toy, **settings)
    with pytest.raises(EeveeError, match="no outcomes"):
        choose_items({})
    chosen = choose_items(toy, share=0.2).benchmarks["toy"]
    with pytest.raises(EeveeError, match=r"of the \d chosen items are missing"):
        estimate(chosen, {})
    with pytest.raises(EeveeError, match="1 were not chosen"):
        estimate(chosen, {**dict.fromkeys(chosen.items, 1.0), "x": 1.0})
    with pytest.raises(EeveeError, match="outside 0 to 1"):
        estimate(chosen, dict.fromkeys(chosen.items, 3.0))
    path = tmp_path / "x.json"
    for text in ("{}", "[", "[]", '{"result": "ItemChoice"}'):
        path.write_text(text)
        with pytest.raises(EeveeError, match="not a result of `eevee items`"):
            read_items(path)


def test_sharp_items_are_fitted_sharp():
    """The priors of slopes and offsets are those of all items: with fixed ones of mean 1 slopes of 3 come out as 2."""
    generator = np.random.default_rng(0)
    ability, hard = generator.normal(size=80), generator.normal(size=600)
    ability = (ability - ability.mean()) / ability.std()
    right = generator.random((80, 600)) < sigmoid(3 * (ability[:, None] - hard))
    fitted = fit_irt(right.astype(float))
    assert np.mean(fitted.slope) == pytest.approx(3, rel=0.1)
    assert np.corrcoef(fitted.offset, -3 * hard)[0, 1] > 0.95


def test_an_estimate_leans_on_the_model_where_it_is_right_and_only_so_far():
    value, deviation, model = np.full(4, 0.5), np.full(4, 0.02), np.array([0.51, 0.9, 0.51, 0.51])
    slope, error = np.array([1.0, 1.0, 0.5, 1.0]), np.full(4, 0.05)
    doubt = doubts(slope, error, np.array([0.0, 0.0, 0.0, 3.0]), np.array([20.0, 20.0, 20.0, 2.0]))
    near, far, other, unknown = leaned(value, deviation, model, doubt)
    assert near == pytest.approx(0.51)
    assert far == pytest.approx(0.5 + TRANSLATED * 0.02)
    assert abs(other - 0.5) < 0.001
    assert abs(unknown - 0.5) < 0.001


@pytest.mark.long
def test_leaning_gains_where_models_are_alike_and_costs_little_beyond():
    generator = np.random.default_rng(3)
    slope, hard = 2 * np.exp(generator.normal(0, 0.4, 1500)), generator.normal(0, 1.2, 1500)
    chance = sigmoid(slope * (generator.normal(size=(60, 1)) - hard))
    irt = fit_irt((generator.random(chance.shape) < chance).astype(float))
    ease = irt.probability(irt.ability).mean(0)
    off = {}
    for kind, ability in (
        ("alike", generator.normal(size=(400, 1))),
        ("better", generator.uniform(2.5, 3.5, (400, 1))),
    ):
        chance = sigmoid(slope * (ability - hard))
        values = (generator.random(chance.shape) < chance).astype(float)
        for row in values:
            items = draw_items(ease, 75, generator)
            outcomes, mask = row[None, items], np.ones((1, 75))
            able = fit_abilities(outcomes, mask, irt.slope[items], irt.offset[items])
            abilities = able, information(able, mask, irt.slope[items], irt.offset[items])
            predicted = irt.probability(able)
            plain, *ends = corrected_mean(outcomes, predicted[:, items], predicted.mean(1), 1500, 0.9)
            leaning, *same = corrected_mean(outcomes, predicted[:, items], predicted.mean(1), 1500, 0.9, abilities)
            assert ends == same
            off.setdefault(kind, []).append((leaning[0] - row.mean(), plain[0] - row.mean()))
    alike, better = (np.sqrt(np.mean(np.square(off[kind]), axis=0)) for kind in ("alike", "better"))
    assert alike[0] < 0.98 * alike[1]
    assert better[0] < 1.06 * better[1]


def test_the_frontier_of_errors_is_where_they_are_low():
    bench = outcomes(drawn(models=20, items=60)[2])
    errors = replace(bench, values=1 - bench.values, direction="lower")
    for ours, theirs in zip(_folds(errors, "frontier", 0), _folds(bench, "frontier", 0), strict=True):
        assert [part.tolist() for part in ours] == [part.tolist() for part in theirs]
    best = int(errors.scores().argmin())
    assert best in _folds(errors, "frontier", 0)[-1][1]
